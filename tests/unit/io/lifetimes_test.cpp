// The natural order of declarations - the proactor first, then what its handlers use - in every
// mode. AddressSanitizer checks it.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "baton/attachment.hpp"
#include "baton/coro/scope.hpp"
#include "baton/coro/sleep.hpp"
#include "baton/proactor.hpp"
#include "baton/reactor.hpp"
#include "baton/strand.hpp"
#include "baton/stream_socket.hpp"
#include "baton/timer.hpp"
#include "support/modes.hpp"

namespace baton::test {
namespace {

using namespace std::chrono_literals;

class NaturalOrder : public testing::TestWithParam<ModeCase> {
 protected:
  void SetUp() override {
    if (auto opened = Proactor::open(GetParam().config()); !opened) {
      GTEST_SKIP() << opened.error().reason;
    }
  }
};

struct Told {
  std::vector<std::error_code> errors;
};

// Owns its socket, and its handlers have its address.
class Session {
 public:
  Session(StreamSocket socket, Told& told) : socket_(std::move(socket)), told_(&told) {
    EXPECT_FALSE(socket_.read(buffer_, [this](Operation& operation) {
      told_->errors.push_back(operation.error());
      EXPECT_EQ(socket_.write(std::string_view{"more"}, [](Operation&) {}), errc::stopped);
    }));
  }

 private:
  StreamSocket socket_;
  std::array<char, 64> buffer_{};
  Told* told_;
};

Task<void> reads(StreamSocket& socket, Told& told) {
  std::array<char, 64> buffer{};
  auto got = co_await socket.read(buffer);
  told.errors.push_back(got.error());
}
Task<void> in_scope(Proactor& proactor, Scope& scope, StreamSocket& socket, Told& told) {
  scope.spawn(reads(socket, told));
  co_await scope.join();
  EXPECT_EQ((co_await sleep_for(proactor, 1h)).error(), errc::stopped);
}

void sessions(const ModeCase& mode, bool throws, Told& told) {
  Proactor proactor{mode.config()};
  auto counted = std::make_unique<Told>();
  auto first = StreamSocket::pair(proactor).value();
  auto second = StreamSocket::pair(proactor).value();
  const auto session = std::make_unique<Session>(std::move(first.first), *counted);
  Scope scope{proactor};
  Timer timer{proactor};
  struct Keep {
    Told& from;
    Told& to;
    ~Keep() { to = from; }
  } const keep{*counted, told};
  const FinishAtEnd end{proactor};
  EXPECT_FALSE(timer.wait_for(
      1h, [&counted](Operation& operation) { counted->errors.push_back(operation.error()); }));
  proactor.spawn(in_scope(proactor, scope, second.first, *counted));
  std::thread driver([&] { proactor.run(); });
  proactor.stop();  // before the driver comes to it, or afterwards
  driver.join();
  if (throws) throw std::runtime_error("out of the scope of all this");
}

TEST_P(NaturalOrder, handlers_find_what_they_use) {
  Told told;
  sessions(GetParam(), false, told);
  ASSERT_EQ(told.errors.size(), 3U);
  for (const std::error_code& error : told.errors) {
    // The scope's task may come to its read only now.
    EXPECT_TRUE(error == std::errc::operation_canceled || error == errc::stopped);
  }
}
TEST_P(NaturalOrder, handlers_find_what_they_use_when_an_exception_leaves) {
  Told told;
  EXPECT_THROW(sessions(GetParam(), true, told), std::runtime_error);
  EXPECT_EQ(told.errors.size(), 3U);
}
BATON_EVERY_MODE(NaturalOrder);

void destroy_a_timer_that_waits() {
  Proactor proactor;
  Timer timer{proactor};
  EXPECT_FALSE(timer.wait_for(1h, [](Operation&) {}));
}
TEST(Lifetimes, a_pending_operation_that_is_destroyed_ends_the_program_with_the_advice) {
  EXPECT_DEATH(destroy_a_timer_that_waits(), "destroyed while it was pending: .*FinishAtEnd");
}

Config config_of(Mode mode) {
  Config config;
  config.processors = {{.mode = mode}};
  return config;
}
void end_a_proactor_that_a_thread_runs(Mode mode,
                                       const std::function<void(std::unique_ptr<Proactor>&)>& end) {
  auto proactor = std::make_unique<Proactor>(config_of(mode));
  std::promise<void> runs;
  EXPECT_FALSE(proactor->post([&] { runs.set_value(); }));
  std::thread thread{[&] { proactor->run(); }};
  runs.get_future().wait();
  end(proactor);
  thread.join();
}
TEST(Lifetimes, a_proactor_that_is_destroyed_while_a_thread_runs_it_ends_the_program) {
  for (const Mode mode : {Mode::shared, Mode::dedicated, Mode::per_thread}) {
    EXPECT_DEATH(end_a_proactor_that_a_thread_runs(mode, [](auto& proactor) { proactor.reset(); }),
                 "while a thread is in run\\(\\): stop");
  }
}
TEST(Lifetimes, a_proactor_that_is_finished_while_a_thread_runs_it_ends_the_program) {
  for (const Mode mode : {Mode::shared, Mode::dedicated, Mode::per_thread}) {
    EXPECT_DEATH(
        end_a_proactor_that_a_thread_runs(mode, [](auto& proactor) { proactor->finish(); }),
        "while another thread is in run\\(\\): stop");
  }
}

// A handler acts on the proactor that runs it. There is one of a post, one of a read, and one of a
// read in a strand where another read waits behind it.
enum class Handler : std::uint8_t { of_a_post, of_a_read, in_a_strand };
constexpr Handler handlers[] = {Handler::of_a_post, Handler::of_a_read, Handler::in_a_strand};

void run_until_a_handler(Proactor& proactor, Handler which, const std::function<void()>& ends) {
  if (which == Handler::of_a_post) {
    EXPECT_FALSE(proactor.post([&] { ends(); }));
    return proactor.run();
  }
  struct Reads {
    explicit Reads(Proactor& proactor)
        : sockets(StreamSocket::pair(proactor).value()), strand(proactor) {}
    std::pair<StreamSocket, StreamSocket> sockets;
    Strand strand;
    std::array<Operation, 2> operations;
    std::array<char, 2> bytes{};
  };
  // Never destroyed: exit() ends the proactor before them.
  static Reads* reads = nullptr;
  reads = new Reads{proactor};
  for (std::size_t i = 0; i < 2; ++i) {
    Operation& operation = reads->operations[i];
    operation.prepare(OperationKind::read_stream, reads->sockets.first.handle());
    operation.set_buffer(MutableBuffer{&reads->bytes[i], 1});
    if (which == Handler::in_a_strand) operation.set_strand(&reads->strand);
    operation.set_handler([&ends, i](Operation&) {
      if (i == 0) ends();
    });
    EXPECT_FALSE(proactor.start(operation));
  }
  EXPECT_EQ(::write(reads->sockets.second.native(), "xy", 2), 2);
  proactor.run();
}

void end_a_proactor_in(Handler which, Mode mode,
                       const std::function<void(std::unique_ptr<Proactor>&)>& end) {
  auto proactor = std::make_unique<Proactor>(config_of(mode));
  run_until_a_handler(*proactor, which, [&] { end(proactor); });
}
TEST(Lifetimes, a_proactor_that_its_handler_ends_ends_the_program_with_the_advice) {
  for (const Mode mode : {Mode::shared, Mode::dedicated, Mode::per_thread}) {
    for (const Handler handler : handlers) {
      EXPECT_DEATH(end_a_proactor_in(handler, mode, [](auto& proactor) { proactor.reset(); }),
                   "inside one of its own handlers: call");
      EXPECT_DEATH(end_a_proactor_in(handler, mode, [](auto& proactor) { proactor->finish(); }),
                   "inside one of its own handlers: call");
    }
  }
}

void exit_in(Handler which, Mode mode) {
  static Proactor proactor{config_of(mode)};
  run_until_a_handler(proactor, which, [] { std::exit(3); });
}
TEST(Lifetimes, a_handler_may_call_exit) {
  for (const Mode mode : {Mode::shared, Mode::dedicated, Mode::per_thread}) {
    for (const Handler handler : handlers) {
      EXPECT_EXIT(exit_in(handler, mode), testing::ExitedWithCode(3), "");
    }
  }
}

// exit() goes on to free what the operations name: nothing may write into it any more.
void finish_in_a_handler(const char* how) {
  static Proactor proactor{Config::parse(how, Config{}).value()};
  static std::array<Operation, 2> reads;
  static std::array<char, 2> bytes;
  for (std::size_t i = 0; i < 2; ++i) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const auto lane = static_cast<std::uint32_t>(i) % proactor.lanes();
    const auto handle =
        proactor.adopt(pair[0], HandleKind::stream_socket, Ownership::owned, Home{lane});
    reads[i].prepare(OperationKind::read_stream, handle.value());
    reads[i].set_buffer(MutableBuffer{&bytes[i], 1});
    EXPECT_FALSE(proactor.start(reads[i]));
  }
  static std::atomic<bool> both{false};
  EXPECT_FALSE(proactor.post([] {
    while (!both) std::this_thread::yield();
    proactor.finish();
    const bool ended = std::all_of(reads.begin(), reads.end(), [](const Operation& read) {
      return read.state() == OperationState::result_ready;
    });
    std::_Exit(ended ? 3 : 4);
  }));
  std::thread{[] {
    both = true;
    proactor.run();
  }}.detach();
  proactor.run();
}
TEST(Lifetimes, an_end_in_a_handler_leaves_nothing_to_the_engines) {
  for (const char* const how :
       {"mode=shared", "mode=dedicated", "mode=per_thread,threads=2", "engine=emulated,mode=shared",
        "engine=emulated,mode=dedicated", "engine=emulated,mode=per_thread,threads=2"}) {
    EXPECT_EXIT(finish_in_a_handler(how), testing::ExitedWithCode(3), "") << how;
  }
}

// Three threads drive a static proactor, two of them by single calls, and a handler calls exit().
// No thread comes out of run(): it could use what is destroyed, or return from main().
void exit_beside_other_threads(Mode mode) {
  static Proactor proactor{config_of(mode)};
  static std::atomic<int> left{1000};
  struct Again {
    void operator()() const {
      if (left.fetch_sub(1) == 1) std::exit(3);
      static_cast<void>(proactor.post(Again{}));
    }
  };
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(proactor.post(Again{}));
  const auto step = [] {
    for (;;) static_cast<void>(proactor.run_one(Deadline::after(1ms, Deadline::immediately())));
  };
  std::thread(step).detach();
  std::thread(step).detach();
  proactor.run();
  ::_exit(4);
}
TEST(Lifetimes, a_handler_may_call_exit_beside_other_threads) {
  for (const Mode mode : {Mode::shared, Mode::dedicated, Mode::per_thread}) {
    for (int round = 0; round < 6; ++round) {
      EXPECT_EXIT(exit_beside_other_threads(mode), testing::ExitedWithCode(3), "");
    }
  }
}

// exit() destroys the objects of the thread first.
void exit_after_a_wait(const char* how) {
  static Proactor proactor{Config::parse(how, Config{}).value()};
  static_cast<void>(proactor.run_one(Deadline::after(1ms, proactor.now())));
  // Never destroyed: exit() ends the proactor before them.
  static Operation* const reading = new Operation;
  static auto* const sockets = new auto(StreamSocket::pair(proactor).value());
  static std::byte byte;
  EXPECT_FALSE(sockets->first.read(*reading, {&byte, 1}, [](Operation&) {}));
  std::exit(3);
}
TEST(Lifetimes, a_static_proactor_may_wait_for_signals) {
  for (const char* const how :
       {"engine=emulated,wait=rt_signals,mode=per_thread,threads=1",
        "engine=emulated,wait=epoll,interrupt=signal,mode=per_thread,threads=1",
        "engine=emulated,wait=poll,interrupt=signal,mode=shared"}) {
    EXPECT_EXIT(exit_after_a_wait(how), testing::ExitedWithCode(3), "") << how;
  }
}

// The operation waits for the handler, which waits for it.
void end_a_proactor_in_a_handler_that_it_waits_for() {
  Proactor proactor;
  Proactor other;
  Strand strand{other};
  struct Shared {
    Proactor& proactor;
    Operation waits;
  } shared{proactor, {}};
  shared.waits.set_strand(&strand);
  shared.waits.set_handler([](Operation&) {});
  Operation first;
  first.set_strand(&strand);
  first.set_handler([to = &shared](Operation&) {
    static_cast<void>(to->proactor.post(to->waits));
    to->proactor.poll();
    to->proactor.finish();
  });
  static_cast<void>(other.post(first));
  other.run_one();
}

void destroy_a_strand_in_its_handler() {
  Proactor proactor;
  auto strand = std::make_unique<Strand>(proactor);
  Operation operation;
  operation.prepare(OperationKind::user, nullptr);
  operation.set_strand(strand.get());
  operation.set_handler([&strand](Operation&) { strand.reset(); });
  EXPECT_FALSE(proactor.post(operation));
  proactor.run();
}
TEST(Lifetimes, an_end_in_a_handler_of_its_strand_ends_the_program_with_the_advice) {
  EXPECT_DEATH(destroy_a_strand_in_its_handler(), "give it to Strand::retire");
  EXPECT_DEATH(end_a_proactor_in_a_handler_that_it_waits_for(), "end it after the handler");
}

// The thread that runs `first` waits for the stop, so `second` is still queued in the strand.
void destroy_a_strand_that_an_operation_waits_for() {
  Proactor proactor;
  auto strand = std::make_unique<Strand>(proactor);
  Operation first;
  Operation second;
  std::promise<void> runs;
  for (Operation* const operation : {&first, &second}) {
    operation->prepare(OperationKind::user, nullptr);
    operation->set_strand(strand.get());
    operation->set_handler([&proactor, &runs](Operation&) {
      runs.set_value();
      while (!proactor.stopped()) std::this_thread::yield();
    });
  }
  EXPECT_FALSE(proactor.post(first));
  std::thread thread{[&] { proactor.run(); }};
  runs.get_future().wait();
  EXPECT_FALSE(proactor.post(second));
  while (proactor.pending().queued != 0) static_cast<void>(proactor.poll());
  proactor.stop();
  thread.join();
  ::alarm(60);  // else one that waits for the operation would do so for ever
  strand.reset();
}
TEST(Lifetimes, a_strand_that_an_operation_waits_for_ends_the_program_with_the_advice) {
  EXPECT_DEATH(destroy_a_strand_that_an_operation_waits_for(), "a strand was .*FinishAtEnd");
}

// In memory that stays, as that of a member or of a local variable usually does.
void destroy_a_socket_after_its_proactor() {
  std::optional<Proactor> proactor{std::in_place};
  const auto sockets = StreamSocket::pair(*proactor).value();
  proactor.reset();
}
TEST(Lifetimes, a_socket_that_outlives_its_proactor_ends_the_program_with_the_advice) {
  EXPECT_DEATH(destroy_a_socket_after_its_proactor(), "declare it after the proactor");
}

TEST(Lifetimes, a_timer_may_be_destroyed_after_its_proactor) {
  std::optional<Proactor> proactor{std::in_place};
  Timer timer{*proactor};
  std::error_code ended;
  ASSERT_FALSE(timer.wait_for(1h, [&](Operation& operation) { ended = operation.error(); }));
  proactor.reset();
  EXPECT_EQ(ended, std::errc::operation_canceled);
}

void destroy_a_reactor_in_its_handler() {
  auto reactor = Reactor::open({}).value();
  EXPECT_FALSE(reactor->notify([&] { reactor.reset(); }));
  static_cast<void>(reactor->run());
}
TEST(Lifetimes, a_reactor_that_its_handler_destroys_ends_the_program_with_the_advice) {
  EXPECT_DEATH(destroy_a_reactor_in_its_handler(), "a reactor was destroyed .*: end\\(\\) it");
}

void end_an_attachment_in_another_thread() {
  Config config;
  config.processors = {{.mode = Mode::per_thread, .threads = 1}};
  Proactor proactor{std::move(config)};
  auto attached = std::make_unique<Attachment>(proactor);
  std::thread{[&] { attached.reset(); }}.join();
}
TEST(Lifetimes, an_attachment_that_another_thread_ends_ends_the_program_with_the_advice) {
  EXPECT_DEATH(end_an_attachment_in_another_thread(), "end it in the thread that attached");
}

}  // namespace
}  // namespace baton::test
