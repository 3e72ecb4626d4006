// Requests that could hold up the thread that serves all others: files that wait where others
// answer at once, and terminals that wait for more.
#include <pthread.h>
#include <pty.h>
#include <sys/inotify.h>
#include <termios.h>
#include <time.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "host.hpp"

using host::Pipe;

namespace {

/// A request that has nothing to do with the others is completed.
void others_are_served(const std::function<void()>& meanwhile = [] {}) {
  Pipe pipe;
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0 && ::write(pipe.in(), "o", 1) == 1);
  host::until([&] {
    meanwhile();
    return aio_error(&read) != EINPROGRESS;
  });
  CHECK(aio_return(&read) == 1);
}

/// Raw; its reads wait for so many characters, and for the time after each.
std::array<int, 2> open_raw_terminal(cc_t characters, cc_t tenths) {
  std::array<int, 2> ends{};
  termios modes{};
  CHECK(::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) == 0);
  CHECK(::tcgetattr(ends[1], &modes) == 0);
  ::cfmakeraw(&modes);
  modes.c_cc[VMIN] = characters;
  modes.c_cc[VTIME] = tenths;
  CHECK(::tcsetattr(ends[1], TCSANOW, &modes) == 0);
  return ends;
}

}  // namespace

// inotify waits for an event, and a terminal for its other reader.
HOST_CASE(reads_of_nothing_hold_up_no_other, "kinds of files") {
  others_are_served();
  static char byte = 0;
  static aiocb reads[2];
  const auto [controller, terminal] = open_raw_terminal(1, 0);
  std::atomic<pid_t> reader{0};
  std::thread thread{[&, terminal = terminal] {
    char character = 0;
    reader = ::gettid();
    CHECK(::read(terminal, &character, 1) == 1);
  }};
  host::until([&] { return reader != 0 && host::sleeps(reader); });
  reads[0] = host::request(::inotify_init1(0), &byte, 0);
  reads[1] = host::request(terminal, &byte, 0);
  for (aiocb& each : reads) {
    CHECK(aio_read(&each) == 0);
    others_are_served();
  }
  CHECK(::write(controller, "r", 1) == 1);
  thread.join();
  CHECK(host::finish(reads[1]) == 0);
}
// Without a character to wait for, a read waits for the terminal's other reader all the same, and a
// write of nothing for its other writer.
HOST_CASE(terminals_that_others_use_hold_up_no_other, "kinds of files") {
  host::end_in_time();
  others_are_served();
  static char byte = 0;
  static aiocb requests[2];
  static int terminals[2];
  terminals[0] = open_raw_terminal(5, 0)[1];
  terminals[1] = open_raw_terminal(5, 0)[1];
  static std::atomic<pid_t> users[2];
  for (int i = 0; i < 2; ++i) {
    std::thread{[i] {
      std::vector<char> text(64U << 10);
      users[i] = ::gettid();
      static_cast<void>(i == 0 ? ::read(terminals[i], text.data(), text.size())
                               : ::write(terminals[i], text.data(), text.size()));
    }}.detach();
    host::until([i] { return users[i] != 0 && host::sleeps(users[i]); });
    requests[i] = host::request(terminals[i], &byte, i == 0 ? 1 : 0);
  }
  termios modes{};
  CHECK(::tcgetattr(terminals[0], &modes) == 0);
  modes.c_cc[VMIN] = 0;
  CHECK(::tcsetattr(terminals[0], TCSANOW, &modes) == 0);
  CHECK(aio_read(&requests[0]) == 0);
  others_are_served();
  CHECK(aio_write(&requests[1]) == 0);
  others_are_served();
}
// It is readable with the first character, and the call would wait for the others. The end of a
// ring that the library tried may interrupt the first such call, so there are two.
HOST_CASE(terminal_that_waits_for_more_holds_up_no_other, "kinds of files") {
  others_are_served();
  static char text[2][300];
  static aiocb reads[2];
  const auto [controller, terminal] = open_raw_terminal(255, 255);
  for (int i = 0; i < 2; ++i) {
    CHECK(::write(controller, "m", 1) == 1);
    reads[i] = host::request(terminal, text[i], sizeof(text[i]));
    CHECK(aio_read(&reads[i]) == 0);
    for (int j = 0; j < 10; ++j) {
      // Before the time after the last character is over.
      time_t last = ::time(nullptr);
      others_are_served([&, controller = controller] {
        if (::time(nullptr) < last + 5) return;
        last = ::time(nullptr);
        CHECK(::write(controller, "m", 1) == 1);
      });
    }
  }
}
// The library's thread has other files at the program's numbers.
HOST_CASE(terminal_is_written_and_no_other_file, "descriptors") {
  const auto [controller, terminal] = open_raw_terminal(1, 0);
  const int file = host::temporary();
  CHECK(::pwrite(file, "precious", 8, 0) == 8);
  for (int i = 0; i < 60; ++i) CHECK(::dup(file) >= 0);
  char text[] = "terminal";
  aiocb write = host::request(terminal, text, 8);
  CHECK(aio_write(&write) == 0 && host::finish(write) == 8);
  char back[8] = {};
  CHECK(::pread(file, back, 8, 0) == 8 && std::memcmp(back, "precious", 8) == 0);
  for (std::size_t got = 0; got < 8;) {
    const ssize_t more = ::read(controller, back + got, 8 - got);
    CHECK(more > 0);
    got += static_cast<std::size_t>(more);
  }
  CHECK(std::memcmp(back, "terminal", 8) == 0);
  // And read, where the call would not wait.
  aiocb read = host::request(terminal, back, 8);
  CHECK(::write(controller, "answer", 6) == 6);
  CHECK(aio_read(&read) == 0 && host::finish(read) > 0 && back[0] == 'a');
}
// More than the engine may have at once of files.
HOST_CASE(idle_streams_hold_up_no_other, "kinds of files") {
  static char bytes[1'100];
  static aiocb reads[std::size(bytes)];
  static std::vector<char> text(2U << 20);
  Pipe idle;
  for (std::size_t i = 0; i < std::size(bytes); ++i) {
    reads[i] = host::request(idle.out(), &bytes[i], 1);
    CHECK(aio_read(&reads[i]) == 0);
  }
  others_are_served();
  const int file = host::temporary();
  aiocb write = host::request(file, text.data(), text.size());
  aiocb sync = host::request(file, nullptr, 0);
  CHECK(aio_write(&write) == 0 && aio_fsync(O_SYNC, &sync) == 0);
  CHECK(host::finish(sync) == 0 && host::finish(write) == static_cast<ssize_t>(text.size()));
  CHECK(::write(idle.in(), text.data(), std::size(bytes)) == std::size(bytes));
  for (aiocb& each : reads) CHECK(host::finish(each) == 1);
}
