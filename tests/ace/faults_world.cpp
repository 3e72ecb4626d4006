#include "faults_world.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support/failing_system.hpp"

namespace baton::ace::test {
namespace {

char trying[256];

// Only async-signal-safe calls.
void tell_of_crash(int number) {
  constexpr char text[] = "\nended by a signal while trying: ";
  if (::write(2, text, sizeof text - 1) < 0 || ::write(2, trying, std::strlen(trying)) < 0 ||
      ::write(2, "\n", 1) < 0) {
    std::abort();
  }
  ::signal(number, SIG_DFL);
  ::raise(number);
}

[[noreturn]] void hang() {
  std::fprintf(stderr, "\nhangs: %s\n", trying);
  std::abort();
}

Config failing_config() {
  Config config;
  config.system = &baton::test::failing_system();
  return Config::from_environment(config);
}

}  // namespace

void now_trying(const std::string& what) {
  static const bool told = ::signal(SIGABRT, tell_of_crash) != SIG_ERR;
  static_cast<void>(told);
  std::snprintf(trying, sizeof trying, "%s", what.c_str());
}

World::World() : ACE_Handler(nullptr) {
  const baton::test::OpensProactor opens;
  bridge_ = std::make_unique<Proactor>(failing_config(), Options::from_environment().value());
  ace_ = std::make_unique<ACE_Proactor>(bridge_.get(), false, &timers_);
  proactor(ace_.get());
  // ACE's timer thread allocates when it begins, and does not expect that to fail.
  pending_ = 1;
  EXPECT_NE(-1, ace_->schedule_timer(*this, nullptr, ACE_Time_Value::zero));
  while (pending_.load() > 0) handle_one();
}

World::~World() { destroy(); }

void World::destroy() {
  ace_.reset();
  bridge_.reset();
}

void World::fail(int error) {
  EXPECT_NE(0, error) << "failed without a reason";
  int none = -1;
  if (!ending_.load()) error_.compare_exchange_strong(none, error);
}

void World::took(bool success, u_long error, std::size_t bytes) {
  static_cast<void>(bytes);
  if (!success && !(expects_cancel && error == ECANCELED)) fail(static_cast<int>(error));
  EXPECT_GE(pending_.fetch_sub(1), 1) << "complete twice";
}

void World::ends_by(std::function<int()> cancel) { cancels_.push_back(std::move(cancel)); }

void World::handle_one() {
  ACE_Time_Value wait{patience.count()};
  errno = 0;
  const int answer = ace_->handle_events(wait);
  if (answer == 0) hang();
  if (answer == -1) fail(errno);
}

void World::settle() {
  while (pending_.load() > 0 && !failed()) handle_one();
  end();
}

void World::settle_by(unsigned threads) {
  std::vector<std::thread> running;
  {
    const Own own;
    for (unsigned i = 0; i < threads; ++i) {
      running.emplace_back([this] {
        while (ace_->proactor_run_event_loop() == -1) fail(errno);
      });
    }
  }
  const auto until = std::chrono::steady_clock::now() + patience;
  while (pending_.load() > 0) {
    if (failed() && !ending_.exchange(true)) {
      for (const std::function<int()>& cancel : cancels_) {
        while (cancel() == -1 && errno == ENOMEM) {
        }
      }
    }
    if (std::chrono::steady_clock::now() > until) hang();
    std::this_thread::sleep_for(std::chrono::microseconds{100});
  }
  while (ace_->proactor_end_event_loop() != 0) {
  }
  for (std::thread& each : running) each.join();
  const Own own;
  ace_->proactor_reset_event_loop();
}

// After a failure, pending operations may wait for events that will never come.
void World::end() {
  if (pending_.load() > 0) {
    ending_.store(true);
    for (const std::function<int()>& cancel : cancels_) {
      while (cancel() == -1 && errno == ENOMEM) {
      }
    }
    while (pending_.load() > 0) handle_one();
  }
}

void World::expect_works() {
  error_ = -1;
  ending_ = false;
  cancels_.clear();  // they name objects of the scenario
  expects_cancel = false;
  SocketPair pair;
  ACE_Asynch_Read_Stream reader;
  ACE_Asynch_Write_Stream writer;
  ASSERT_EQ(0, reader.open(*this, pair.first, nullptr, ace()));
  ASSERT_EQ(0, writer.open(*this, pair.second, nullptr, ace()));
  ACE_Message_Block in(10);
  ACE_Message_Block out(10);
  out.copy("works", 5);
  start([&] { return reader.read(in, 10); });
  start([&] { return writer.write(out, 5); });
  settle();
  EXPECT_EQ(-1, error()) << "does not work afterwards";
  EXPECT_EQ("works", std::string(in.rd_ptr(), in.length()));
}

// -- completions ----------------------------------------------------------------------------------

void World::handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) {
  const Own own;
  bytes_read += static_cast<long>(result.bytes_transferred());
  took(result.success() != 0, result.error(), result.bytes_transferred());
}
void World::handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) {
  const Own own;
  bytes_sent += static_cast<long>(result.bytes_transferred());
  took(result.success() != 0, result.error(), result.bytes_transferred());
}
void World::handle_read_file(const ACE_Asynch_Read_File::Result& result) {
  const Own own;
  bytes_read += static_cast<long>(result.bytes_transferred());
  took(result.success() != 0, result.error(), result.bytes_transferred());
}
void World::handle_write_file(const ACE_Asynch_Write_File::Result& result) {
  const Own own;
  bytes_sent += static_cast<long>(result.bytes_transferred());
  took(result.success() != 0, result.error(), result.bytes_transferred());
}
void World::handle_read_dgram(const ACE_Asynch_Read_Dgram::Result& result) {
  const Own own;
  bytes_read += static_cast<long>(result.bytes_transferred());
  took(result.success() != 0, result.error(), result.bytes_transferred());
}
void World::handle_write_dgram(const ACE_Asynch_Write_Dgram::Result& result) {
  const Own own;
  bytes_sent += static_cast<long>(result.bytes_transferred());
  took(result.success() != 0, result.error(), result.bytes_transferred());
}
void World::handle_transmit_file(const ACE_Asynch_Transmit_File::Result& result) {
  const Own own;
  bytes_sent += static_cast<long>(result.bytes_transferred());
  took(result.success() != 0, result.error(), result.bytes_transferred());
}
void World::handle_accept(const ACE_Asynch_Accept::Result& result) {
  const Own own;
  EXPECT_EQ(result.success() != 0, result.accept_handle() != ACE_INVALID_HANDLE);
  if (result.accept_handle() != ACE_INVALID_HANDLE) ::close(result.accept_handle());
  took(result.success() != 0, result.error(), 0);
}
void World::handle_time_out(const ACE_Time_Value&, const void*) { took(true, 0, 0); }
void World::handle_connect(const ACE_Asynch_Connect::Result& result) {
  const Own own;
  if (result.connect_handle() != ACE_INVALID_HANDLE) ::close(result.connect_handle());
  took(result.success() != 0, result.error(), 0);
}

}  // namespace baton::ace::test
