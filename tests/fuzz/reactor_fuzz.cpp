// Sequences of calls of the Reactor, checked against a model. A handler is called only for what it
// is registered for, not while it is suspended and not after its end. Every registration is closed
// once, every notification is delivered or purged, every timer fires or is cancelled.
//
// The first byte chooses the strategy. Everything runs in this thread, so the model knows what is
// ready.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "baton/reactor.hpp"
#include "expect.hpp"
#include "input.hpp"

namespace baton::fuzz {
namespace {

constexpr std::size_t slots = 6;
constexpr std::array<const char*, 4> strategies{"epoll", "poll", "select", "rt_signals"};

struct Book;

struct Slot final : EventHandler {
  Book* book = nullptr;
  std::size_t number = 0;
  int ours = -1;
  int peer = -1;
  RegistrationKey key;
  bool registered = false;
  bool suspended = false;
  bool inside = false;
  Interest interest = Interest::none;
  Interest told = Interest::none;

  Next on_input(NativeHandle fd) override { return called(fd, Interest::in); }
  Next on_output(NativeHandle fd) override { return called(fd, Interest::out); }
  Next on_exception(NativeHandle fd) override { return called(fd, Interest::urgent); }
  Next called(NativeHandle fd, Interest what);
  void on_close(NativeHandle fd, std::error_code) noexcept override {
    expect(registered && !inside && fd == ours, "closed once, and not while it runs");
    registered = false;
  }
};

struct Told final : EventHandler {
  std::size_t count = 0;
  Next on_input(NativeHandle fd) override {
    expect(fd == invalid_handle, "a notification is not about a descriptor");
    return ++count, Next::keep;
  }
};

struct Book {
  Input& input;
  std::unique_ptr<Reactor> reactor;
  std::array<Slot, slots> all{};
  Told told{};
  std::size_t sent = 0;
  std::size_t scheduled = 0;
  std::size_t ticks = 0;
  std::size_t depth = 0;

  explicit Book(Input& bytes) : input(bytes) {}
  void step();
  void add(Slot& slot);
  void remove(Slot& slot);
};

Next Slot::called(NativeHandle fd, Interest what) {
  expect(registered && !inside && fd == ours, "called while it is registered, once at a time");
  const bool notified = any(told & what);
  expect(notified || (any(interest & what) && !suspended), "called for what it is registered for");
  told = told - what;
  inside = true;
  if (what == Interest::in) {
    char buffer[4];
    static_cast<void>(::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT));
  }
  if (book->depth++ == 0) book->step();
  --book->depth;
  inside = false;
  switch (book->input.choice(8)) {
    case 0:
      return Next::again;
    case 1:
      interest = interest - what;
      return Next::drop;
    case 2:
      return Next::remove;
    default:
      return Next::keep;
  }
}

void Book::add(Slot& slot) {
  if (slot.registered) return;
  const auto interest = static_cast<Interest>(input.choice(8));
  slot.interest = interest;
  slot.told = Interest::none;
  slot.suspended = false;
  slot.registered = true;
  const auto key = reactor->add(slot.ours, interest, slot);
  expect(key.has_value(), "a socket is registered");
  slot.key = *key;
}

void Book::remove(Slot& slot) {
  const bool was = slot.registered;
  const bool inside = slot.inside;
  const Reactor::Removal removal = reactor->remove(slot.key);
  if (!was) expect(removal == Reactor::Removal::unknown, "what has ended is not removed");
  if (was && !inside) {
    expect(removal == Reactor::Removal::done && !slot.registered, "removal closes");
  }
  if (was && inside) expect(removal != Reactor::Removal::done, "not while it runs");
}

void Book::step() {
  Slot& slot = all[input.choice(slots)];
  switch (input.choice(12)) {
    case 0:
      return add(slot);
    case 1:
      return remove(slot);
    case 2: {
      const auto interest = static_cast<Interest>(input.choice(8));
      if (!reactor->change(slot.key, interest)) slot.interest = interest;
      return;
    }
    case 3:
      if (!reactor->suspend(slot.key)) slot.suspended = true;
      return;
    case 4:
      if (!reactor->resume(slot.key)) slot.suspended = false;
      return;
    case 5: {
      const auto as = static_cast<Interest>(input.choice(8));
      if (!reactor->notify(slot.key, as)) slot.told = slot.told | as;
      return;
    }
    case 6:
      if (!reactor->notify(told, Interest::in)) ++sent;
      return;
    case 7:
      sent -= reactor->purge(&told, Interest::in);
      return;
    case 8: {
      const auto timer = reactor->schedule(
          [this](TimerKey, Deadline) { return ++ticks, Next::keep; }, Deadline::immediately());
      expect(timer.has_value(), "a timer is scheduled");
      ++scheduled;
      if (input.flag() && reactor->cancel(*timer)) --scheduled;
      return;
    }
    case 9:
      static_cast<void>(::send(slot.peer, "abcdefgh", 1 + input.choice(8), MSG_DONTWAIT));
      return;
    case 10:
      if (depth == 0) static_cast<void>(reactor->handle_one(Deadline::immediately()));
      return;
    default:
      if (depth == 0) static_cast<void>(reactor->handle_events(Deadline::immediately()));
  }
}

}  // namespace
}  // namespace baton::fuzz

using namespace baton;
using namespace baton::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, std::min<std::size_t>(size, 2'000));
  Book book(input);
  ReactorConfig config;
  config.wait = strategies[input.choice(strategies.size())];
  config.handles_max = 64;
  config.notifications_max = 16;
  auto made = Reactor::open(config);
  expect(made.has_value(), "a reactor is opened");
  book.reactor = std::move(*made);
  for (std::size_t i = 0; i < slots; ++i) {
    int ends[2];
    expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
           "there is a pair of sockets");
    book.all[i].book = &book;
    book.all[i].number = i;
    book.all[i].ours = ends[0];
    book.all[i].peer = ends[1];
  }
  while (!input.empty()) book.step();
  // Notifications and timers arrive, whatever is registered.
  while (book.told.count < book.sent || book.ticks < book.scheduled) {
    expect(book.reactor->handle_events(Deadline::immediately()).has_value(), "it goes on");
  }
  expect(book.told.count == book.sent && book.ticks == book.scheduled, "neither more nor less");
  book.reactor.reset();
  for (Slot& slot : book.all) {
    expect(!slot.registered, "its end closes all");
    ::close(slot.ours);
    ::close(slot.peer);
  }
  return 0;
}
