#include "driver.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/tsan.hpp"

namespace baton::test::aio {

std::ostream& operator<<(std::ostream& out, const Form& form) {
  return out << form.notify << (form.concurrent ? "" : "_single");
}

std::string form_name(const testing::TestParamInfo<Form>& form) {
  return testing::PrintToString(form.param);
}

std::vector<Form> forms() {
  std::vector<Form> all{
      {.notify = "suspend"}, {.notify = "sigwait"}, {.notify = "suspend", .concurrent = false}};
#ifndef BATON_TSAN  // see callback.cpp
  all.push_back({.notify = "callback"});
#endif
  return all;
}

Result<std::unique_ptr<Engine>, Failure> open_engine(const Form& form, const os::System& system) {
  ProcessorConfig config;
  config.notify = form.notify;
  config.wait_signal = form.signal;
  EngineOptions options;
  options.system = &system;
  options.config = &config;
  options.concurrent = form.concurrent;
  return engines::open_posix_aio(options);
}

std::string why_not(const Form& form, const os::System& system) {
  const auto opened = open_engine(form, system);
  return opened ? std::string{} : opened.error().reason;
}

Driver::Driver(const Form& form) : EngineDriver(open_engine(form), fault_system()) {}

std::string content(int fd) {
  std::string all(4'000'000, '\0');
  all.resize(static_cast<std::size_t>(::pread(fd, all.data(), all.size(), 0)));
  return all;
}

}  // namespace baton::test::aio
