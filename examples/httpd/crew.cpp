#include "crew.hpp"

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>

namespace httpd {

Crew::Crew(baton::Proactor& proactor, std::uint32_t count) : proactor_(proactor), begin_(count) {
  others_.reserve(count - 1);
  try {
    while (others_.size() + 1 < count) others_.emplace_back([this] { wait_and_drive(); });
  } catch (const std::system_error& error) {
    const std::size_t started = others_.size() + 1;
    for (std::size_t missing = started; missing < count; ++missing) begin_.arrive_and_drop();
    end();
    throw std::runtime_error("only " + std::to_string(started) + " of " + std::to_string(count) +
                             " threads could be started (" + error.code().message() +
                             "); give fewer --threads");
  }
}

Crew::~Crew() {
  if (!others_.empty()) end();
}

void Crew::end() {
  ended_ = true;
  begin_.arrive_and_wait();
  join();
}

void Crew::join() {
  for (std::thread& thread : others_) thread.join();
  others_.clear();
}

bool Crew::run() {
  begin_.arrive_and_wait();
  drive();
  join();
  return good_;
}

void Crew::wait_and_drive() {
  begin_.arrive_and_wait();
  if (!ended_) drive();
}

void Crew::drive() {
  try {
    proactor_.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "httpd: %s\n", error.what());
    good_ = false;
    proactor_.stop();
  }
}

}  // namespace httpd
