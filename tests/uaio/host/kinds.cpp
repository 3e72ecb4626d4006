// Sockets, directories, bad memory, large offsets; difficult callbacks and signals; unusual lists
// and syncs.
#include <netinet/in.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <termios.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>

#include "host.hpp"

using host::Pipe;

namespace {

void call_back(aiocb& block, void (*function)(sigval), pthread_attr_t* attributes) {
  block.aio_sigevent.sigev_notify = SIGEV_THREAD;
  block.aio_sigevent.sigev_notify_function = function;
  block.aio_sigevent.sigev_notify_attributes = attributes;
}

/// Whether it completes although nothing else happens.
bool completes(const aiocb& block) {
  const aiocb* const list[] = {&block};
  const timespec patience = host::patience();
  return aio_suspend(list, 1, &patience) == 0 && aio_error(&block) != EINPROGRESS;
}

}  // namespace

HOST_CASE(sync_of_what_is_open_for_reading, "answers") {
  const int file = host::temporary(0, 4'096);
  const int reader = ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY);
  const int folder = ::open(host::folder().c_str(), O_RDONLY | O_DIRECTORY);
  for (const int each : {reader, folder}) {
    for (const int operation : {O_SYNC, O_DSYNC}) {
      aiocb sync = host::request(each, nullptr, 0);
      CHECK(aio_fsync(operation, &sync) == 0 && host::finish(sync) == 0);
    }
  }
}
HOST_CASE(result_is_asked_for_too_early, "answers") {
  Pipe pipe;
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  errno = 0;
  CHECK(aio_return(&read) == 0 && errno == 0);
  CHECK(::write(pipe.in(), "e", 1) == 1 && host::finish(read) == 1);
}
HOST_CASE(bad_memory_is_the_requests_error, "answers") {
  void* const closed = ::mmap(nullptr, 8'192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Pipe pipe;
  CHECK(::write(pipe.in(), "m", 1) == 1);
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && ::write(ends[1], "m", 1) == 1);
  const int files[] = {host::temporary(0, 8'192), host::temporary(O_DIRECT, 8'192), pipe.out(),
                       ends[0]};
  for (const int file : files) {
    aiocb read = host::request(file, closed, 4'096);
    CHECK(aio_read(&read) == 0 && host::finish(read) == -1 && errno == EFAULT);
    if (file == pipe.out()) continue;
    CHECK(aio_write(&read) == 0 && host::finish(read) == -1 && errno == EFAULT);
  }
  // The first page is there: so many bytes are read.
  CHECK(::mprotect(closed, 4'096, PROT_READ | PROT_WRITE) == 0);
  aiocb read = host::request(files[0], closed, 8'192);
  CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
}
HOST_CASE(nothing_is_read_at_once, "answers") {
  Pipe pipe;
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  char byte = 0;
  for (const int each : {pipe.out(), ends[0]}) {
    aiocb read = host::request(each, &byte, 0);
    CHECK(aio_read(&read) == 0);
    CHECK(completes(read) && aio_error(&read) == 0 && aio_return(&read) == 0);
  }
}
HOST_CASE(list_of_all_that_can_be_wrong, "answers") {
  char bytes[8] = {};
  Pipe pipe;
  CHECK(::write(pipe.in(), "l", 1) == 1);
  const int file = host::temporary(0, 64);
  aiocb blocks[] = {host::request(file, bytes, 1),      host::request(987'654, bytes, 1),
                    host::request(file, bytes, 1, -9),  host::request(file, bytes, 1),
                    host::request(file, bytes, 1),      host::request(pipe.out(), bytes, 1),
                    host::request(pipe.out(), bytes, 1)};
  std::vector<aiocb*> list{nullptr};
  for (aiocb& each : blocks) {
    each.aio_lio_opcode = LIO_READ;
    list.push_back(&each);
  }
  blocks[3].aio_lio_opcode = 77;
  blocks[4].aio_lio_opcode = LIO_NOP;
  blocks[6].aio_lio_opcode = LIO_WRITE;  // the end to read from
  for (const int mode : {LIO_WAIT, LIO_NOWAIT}) {
    const int answer = lio_listio(mode, list.data(), static_cast<int>(list.size()), nullptr);
    CHECK(mode == LIO_NOWAIT || (answer == -1 && errno == EIO));
    if (mode == LIO_NOWAIT) CHECK(::write(pipe.in(), "l", 1) == 1);
    CHECK(host::finish(blocks[0]) == 1 && host::finish(blocks[5]) == 1);
    CHECK(host::finish(blocks[1]) == -1 && errno == EBADF);
    CHECK(host::finish(blocks[2]) == -1 && errno == EINVAL);
    CHECK(host::finish(blocks[3]) == -1 && errno == EINVAL);
    CHECK(host::finish(blocks[6]) == -1 && errno == EBADF);
  }
}
HOST_CASE(chains_of_syncs, "order") {
  const int file = host::temporary(0, 8'192);
  const int direct = ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR | O_DIRECT);
  CHECK(direct >= 0);
  void* const memory = host::aligned();
  for (int round = 0; round < 5; ++round) {
    std::vector<aiocb> all;
    for (int i = 0; i < 30; ++i) {
      // Places of their own: a direct write of a page that is dirty is an error of the sync.
      all.push_back(host::request(i % 2 ? direct : file, memory, 4'096, i % 2 * 4'096));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK((i % 3 == 0 ? aio_write(&all[i]) : aio_fsync(i % 3 == 1 ? O_SYNC : O_DSYNC, &all[i])) ==
            0);
    }
    // The last one is a sync: every request started before is complete with it.
    CHECK(host::finish(all.back()) == 0);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      if (i % 3 == 0) CHECK(aio_error(&all[i]) == 0 && aio_return(&all[i]) == 4'096);
    }
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      if (i % 3 != 0) CHECK(host::finish(all[i]) == 0);
    }
  }
}
// The second sync waits for the first, which is complete before the direct reads between the two.
HOST_CASE(sync_behind_a_sync_and_direct_reads, "order") {
  constexpr std::size_t size = 1U << 20;
  const int file = host::temporary(0, 4'096);
  const int direct = host::temporary(O_DIRECT, 4 * size);
  char byte = 'b';
  std::vector<aiocb> reads(8);
  for (aiocb& each : reads) each = host::request(direct, host::aligned(size), size);
  for (int i = 0; i < host::rounds(); ++i) {
    aiocb write = host::request(file, &byte, 1, i);
    aiocb syncs[] = {host::request(file, nullptr, 0), host::request(file, nullptr, 0)};
    CHECK(aio_write(&write) == 0 && aio_fsync(O_DSYNC, &syncs[0]) == 0);
    for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
    CHECK(aio_fsync(O_DSYNC, &syncs[1]) == 0);
    for (aiocb& each : syncs) CHECK(completes(each) && aio_return(&each) == 0);
    for (aiocb& each : reads) CHECK(host::finish(each) == static_cast<ssize_t>(size));
    CHECK(host::finish(write) == 1);
  }
}
HOST_CASE(appends_beyond_four_gigabytes, "kinds of files") {
  const int file = host::temporary(O_APPEND);
  const off_t far = (off_t{1} << 32) + 3;
  CHECK(::ftruncate(file, far) == 0);
  const int twin = ::dup(file);
  char text[] = "far";
  aiocb writes[] = {host::request(file, text, 3), host::request(twin, text, 2)};
  for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
  CHECK(host::finish(writes[0]) == 3 && host::finish(writes[1]) == 2);
  struct stat status{};
  CHECK(::fstat(file, &status) == 0 && status.st_size == far + 5);
  char back[8] = {};
  aiocb read = host::request(twin, back, 8, far);
  CHECK(aio_read(&read) == 0 && host::finish(read) == 5 && std::strcmp(back, "farfa") == 0);
}
HOST_CASE(sockets_keep_their_time_outs, "kinds of files") {
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const timeval moment{0, 20'000};
  CHECK(::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment)) == 0);
  char byte = 0;
  aiocb read = host::request(ends[0], &byte, 1);
  CHECK(aio_read(&read) == 0);
  CHECK(completes(read) && aio_error(&read) == EAGAIN && aio_return(&read) == -1);
  CHECK(::write(ends[1], "t", 1) == 1);
  CHECK(aio_read(&read) == 0 && host::finish(read) == 1 && byte == 't');
}
HOST_CASE(shut_sockets_and_hung_up_terminals, "kinds of files") {
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  char byte = 0;
  aiocb read = host::request(ends[0], &byte, 1);
  CHECK(aio_read(&read) == 0 && ::shutdown(ends[0], SHUT_RD) == 0);
  CHECK(completes(read) && aio_error(&read) == 0 && aio_return(&read) == 0);
  int master = -1;
  int slave = -1;
  CHECK(::openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
  read = host::request(slave, &byte, 1);
  CHECK(aio_read(&read) == 0 && ::close(master) == 0);
  CHECK(completes(read) && aio_return(&read) <= 0);
}
HOST_CASE(timers_and_signals_by_descriptor, "kinds of files") {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  const int signals = ::signalfd(-1, &set, 0);
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, 0);
  signalfd_siginfo info{};
  std::uint64_t count = 0;
  aiocb reads[] = {host::request(signals, &info, sizeof(info)),
                   host::request(timer, &count, sizeof(count))};
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  const itimerspec soon{{0, 0}, {0, 1'000'000}};
  CHECK(::timerfd_settime(timer, 0, &soon, nullptr) == 0);
  CHECK(::kill(::getpid(), SIGUSR2) == 0);
  CHECK(completes(reads[0]) && aio_return(&reads[0]) == sizeof(info));
  CHECK(info.ssi_signo == SIGUSR2);
  CHECK(completes(reads[1]) && aio_return(&reads[1]) == sizeof(count) && count == 1);
}
// Their thread cannot be created. The threads of the others can.
HOST_CASE(callback_that_cannot_be_made, "callbacks") {
  static std::atomic<int> called{0};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstacksize(&attributes, std::size_t{1} << 46) == 0);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  char byte = 0;
  const int file = host::temporary(0, 64);
  aiocb impossible = host::request(file, &byte, 1);
  call_back(impossible, [](sigval) {}, &attributes);
  CHECK(aio_read(&impossible) == 0 && host::finish(impossible) == 1);
  aiocb signalled = host::request(file, &byte, 1);
  signalled.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
  signalled.aio_sigevent.sigev_signo = SIGRTMIN;
  CHECK(aio_read(&signalled) == 0);
  const timespec patience = host::patience();
  CHECK(::sigtimedwait(&set, nullptr, &patience) == SIGRTMIN);
  // This case is the last: in a callback's thread the signal would not be blocked.
  aiocb callback = host::request(file, &byte, 1);
  call_back(callback, [](sigval) { ++called; }, nullptr);
  CHECK(aio_read(&callback) == 0 && host::finish(callback) == 1);
  host::until([] { return called == 1; });
}
HOST_CASE(small_append_follows_a_large_one, "order") {
  constexpr std::size_t size = 4U << 20;
  const int file = host::temporary(O_APPEND);
  std::vector<char> bytes(size, 'l');
  char end = 's';
  for (int i = 0; i < 20; ++i) {
    CHECK(::ftruncate(file, 0) == 0);
    aiocb large = host::request(file, bytes.data(), size);
    aiocb small = host::request(file, &end, 1);
    CHECK(aio_write(&large) == 0 && aio_write(&small) == 0);
    CHECK(host::finish(large) == static_cast<ssize_t>(size) && host::finish(small) == 1);
    char last = 0;
    CHECK(::pread(file, &last, 1, size) == 1 && last == 's');
  }
}
HOST_CASE(nothing_is_read_of_a_datagram, "kinds of files") {
  for (const int type : {SOCK_DGRAM, SOCK_SEQPACKET}) {
    int ends[2];
    CHECK(::socketpair(AF_UNIX, type, 0, ends) == 0);
    char byte = 0;
    aiocb read = host::request(ends[0], &byte, 0);
    CHECK(aio_read(&read) == 0 && host::finish(read) == 0);
    CHECK(::send(ends[1], "d", 1, 0) == 1);
    CHECK(aio_read(&read) == 0 && host::finish(read) == 0);
    CHECK(::recv(ends[0], &byte, 1, MSG_DONTWAIT) == 1);
  }
}
// The call is made all the same, and some files answer it with an error.
HOST_CASE(transfers_of_nothing_are_made, "kinds of files") {
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  ::close(ends[1]);
  const int counter = ::eventfd(0, 0);
  const int folder = ::open(host::folder().c_str(), O_RDONLY | O_DIRECTORY);
  const struct {
    int file;
    int (*start)(aiocb*);
    int error;
  } wrong[] = {{ends[0], aio_write, EPIPE},
               {counter, aio_read, EINVAL},
               {counter, aio_write, EINVAL},
               {folder, aio_read, EISDIR}};
  char byte = 0;
  for (const auto& each : wrong) {
    aiocb block = host::request(each.file, &byte, 0);
    CHECK(each.start(&block) == 0);
    CHECK(host::finish(block) == -1 && errno == each.error);
  }
  const int file = host::temporary(0, 64);
  Pipe pipe;
  for (const int each : {file, pipe.in()}) {
    aiocb write = host::request(each, &byte, 0);
    CHECK(aio_write(&write) == 0 && host::finish(write) == 0);
  }
}
// As read() does in a thread that has SIGTTIN blocked.
// With a connection that waits to be accepted, too.
HOST_CASE(socket_that_listens_is_not_read, "kinds of files") {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    for (const int domain : {AF_UNIX, AF_INET}) {
      if (domain == AF_INET && type == SOCK_SEQPACKET) continue;
      const int listener = ::socket(domain, type, 0);
      sockaddr_storage address{};
      address.ss_family = static_cast<sa_family_t>(domain);
      socklen_t size = domain == AF_UNIX ? sizeof(sa_family_t) : sizeof(sockaddr_in);
      CHECK(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
      CHECK(::listen(listener, 4) == 0);
      size = sizeof(address);
      CHECK(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
      char byte = 0;
      CHECK(::read(listener, &byte, 1) == -1);
      const int wanted = errno;
      const int client = ::socket(domain, type, 0);
      for (const bool connected : {false, true}) {
        if (connected) {
          CHECK(::connect(client, reinterpret_cast<sockaddr*>(&address), size) == 0);
        }
        aiocb read = host::request(listener, &byte, 1);
        CHECK(aio_read(&read) == 0 && completes(read));
        CHECK(host::finish(read) == -1 && errno == wanted);
      }
      ::close(client);
      ::close(listener);
    }
  }
}
HOST_CASE(terminal_is_not_read_in_the_background, "kinds of files") {
  CHECK(host::in_child([] {
          int ends[2];
          CHECK(::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) == 0);
          CHECK(::setsid() >= 0 && ::ioctl(ends[1], TIOCSCTTY, 0) == 0);
          for (const int flags : {0, O_NONBLOCK}) {
            CHECK(::fcntl(ends[1], F_SETFL, flags) == 0);
            CHECK(host::in_child([terminal = ends[1]] {
                    CHECK(::setpgid(0, 0) == 0);
                    ::signal(SIGTTIN, [](int) { ::_exit(3); });  // it would stop here for ever
                    char byte = 0;
                    aiocb read = host::request(terminal, &byte, 1);
                    CHECK(aio_read(&read) == 0 && host::finish(read) == -1 && errno == EIO);
                  }) == 0);
          }
        }) == 0);
}
HOST_CASE(callbacks_fork_and_start_requests, "callbacks") {
  static std::atomic<int> over{0};
  static int file = host::temporary(O_DIRECT, 64U << 10);
  static aiocb blocks[8];
  for (aiocb& each : blocks) {
    each = host::request(file, host::aligned(), 4'096);
    call_back(
        each,
        [](sigval) {
          CHECK(host::in_child([] { ::_exit(4); }) == 4);
          aiocb mine = host::request(file, host::aligned(), 4'096, 4'096);
          CHECK(aio_read(&mine) == 0 && host::finish(mine) == 4'096);
          aiocb sync = host::request(file, nullptr, 0);
          CHECK(aio_fsync(O_SYNC, &sync) == 0 && host::finish(sync) == 0);
          ++over;
        },
        nullptr);
    CHECK(aio_read(&each) == 0);
  }
  host::until([] { return over == 8; });
}
HOST_CASE(flood_of_signals, "signals") {
  static std::atomic<long> handled{0};
  struct sigaction action{};
  action.sa_handler = [](int) { ++handled; };
  action.sa_flags = SA_RESTART;
  CHECK(::sigaction(SIGUSR1, &action, nullptr) == 0);
  std::atomic<bool> over{false};
  const pthread_t self = pthread_self();
  std::thread sender{[&] {
    while (!over) {
      pthread_kill(self, SIGUSR1);
      ::sched_yield();
    }
  }};
  const int file = host::temporary(O_DIRECT, 1U << 20);
  const int cached = host::temporary(0, 1U << 20);
  void* const memory = host::aligned();
  Pipe pipe;
  char byte = 0;
  for (int i = 0; i < 200; ++i) {
    aiocb direct = host::request(file, memory, 4'096, i * 4'096L);
    aiocb read = host::request(cached, memory, 64, i);
    aiocb stream = host::request(pipe.out(), &byte, 1);
    aiocb sync = host::request(cached, nullptr, 0);
    CHECK(aio_read(&direct) == 0 && aio_read(&read) == 0 && aio_read(&stream) == 0);
    CHECK(aio_fsync(O_DSYNC, &sync) == 0 && ::write(pipe.in(), "f", 1) == 1);
    CHECK(host::finish(direct) == 4'096 && host::finish(read) == 64);
    CHECK(host::finish(stream) == 1 && host::finish(sync) == 0);
  }
  over = true;
  sender.join();
  CHECK(handled > 0);
}

namespace {

struct Terminal {
  int controller = -1;
  int terminal = -1;
  termios modes{};  // raw, not set yet
};

Terminal open_terminal() {
  Terminal both;
  CHECK(::openpty(&both.controller, &both.terminal, nullptr, nullptr, nullptr) == 0);
  CHECK(::tcgetattr(both.terminal, &both.modes) == 0);
  ::cfmakeraw(&both.modes);
  return both;
}

}  // namespace

HOST_CASE(terminal_without_characters_answers_nothing, "kinds of files") {
  auto [controller, terminal, modes] = open_terminal();
  modes.c_cc[VMIN] = 0;
  char text[8] = {};
  for (const cc_t tenths : {cc_t{0}, cc_t{1}}) {
    modes.c_cc[VTIME] = tenths;
    CHECK(::tcsetattr(terminal, TCSANOW, &modes) == 0);
    aiocb read = host::request(terminal, text, sizeof(text));
    CHECK(aio_read(&read) == 0 && host::finish(read) == 0);
  }
  modes.c_cc[VTIME] = 255;
  CHECK(::tcsetattr(terminal, TCSANOW, &modes) == 0);
  aiocb read = host::request(terminal, text, sizeof(text));
  CHECK(aio_read(&read) == 0 && ::write(controller, "ab", 2) == 2);
  CHECK(host::finish(read) > 0 && text[0] == 'a');
}

// The master side answers questions about modes and the foreground for the other side.
HOST_CASE(master_of_a_terminal_is_read, "kinds of files") {
  CHECK(host::in_child([] {
          host::end_in_time();
          ::setsid();
          auto [controller, terminal, modes] = open_terminal();
          for (const cc_t least : {cc_t{1}, cc_t{0}}) {
            modes.c_cc[VMIN] = least;
            CHECK(::tcsetattr(terminal, TCSANOW, &modes) == 0);
            char text[8] = {};
            aiocb read = host::request(controller, text, sizeof(text));
            CHECK(aio_read(&read) == 0 && ::write(terminal, "ab", 2) == 2);
            CHECK(host::finish(read) == 2 && text[0] == 'a' && text[1] == 'b');
          }
        }) == 0);
}

// A queue without messages is not ready, and a read of its descriptor answers all the same. So does
// a write to a file that takes none.
HOST_CASE(files_that_are_not_ready_answer, "kinds of files") {
  host::end_in_time();
  const mqd_t queue = host::message_queue();
  char text[128] = {};
  aiocb read = host::request(queue, text, sizeof(text));
  CHECK(aio_read(&read) == 0 && host::finish(read) > 7);
  CHECK(std::string(text, 7) == "QSIZE:0");
  read.aio_offset = 1'000;
  CHECK(aio_read(&read) == 0 && host::finish(read) == 0);
  const int mounts = ::open("/proc/self/mounts", O_RDWR);
  if (mounts < 0) host::skip("may not open /proc/self/mounts for writing");
  aiocb write = host::request(mounts, text, sizeof(text));
  CHECK(aio_write(&write) == 0 && host::finish(write) == -1 && errno == EINVAL);
}
HOST_CASE(nameless_files_answer_again, "kinds of files") {
  host::end_in_time();
  const int watch = ::inotify_init1(IN_NONBLOCK);
  const int counter = ::eventfd(0, EFD_NONBLOCK);
  char text[64];
  for (const int each : {watch, counter}) {
    aiocb read = host::request(each, text, sizeof(text));
    CHECK(aio_read(&read) == 0 && host::finish(read) == -1 && errno == EAGAIN);
  }
  std::uint64_t most = UINT64_MAX - 1;
  aiocb write = host::request(counter, &most, sizeof(most));
  CHECK(aio_write(&write) == 0 && host::finish(write) == 8);
  CHECK(aio_write(&write) == 0 && host::finish(write) == -1 && errno == EAGAIN);
  // It has no room, but refuses too few bytes at once.
  CHECK(::fcntl(counter, F_SETFL, 0) == 0);
  write = host::request(counter, &most, sizeof(most) - 1);
  CHECK(aio_write(&write) == 0 && host::finish(write) == -1 && errno == EINVAL);
}
HOST_CASE(appends_leave_the_position, "kinds of files") {
  std::vector<char> text(4U << 20, 'p');
  for (const int flags : {O_APPEND, O_APPEND | O_SYNC}) {
    const int file = host::temporary(flags);
    CHECK(::lseek(file, 123, SEEK_SET) == 123);
    for (int i = 1; i <= 2; ++i) {
      aiocb write = host::request(file, text.data(), text.size());
      CHECK(aio_write(&write) == 0 && host::finish(write) == static_cast<ssize_t>(text.size()));
      struct stat status{};
      CHECK(::fstat(file, &status) == 0);
      CHECK(status.st_size == i * static_cast<off_t>(text.size()));
      CHECK(::lseek(file, 0, SEEK_CUR) == 123);
    }
  }
}
HOST_CASE(result_lies_in_protected_memory, "answers") {
  auto* const block = static_cast<aiocb*>(
      ::mmap(nullptr, 4'096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  char text[100];
  *block = host::request(host::temporary(0, 4'096), text, sizeof(text));
  CHECK(aio_read(block) == 0);
  host::wait_for(*block);
  CHECK(::mprotect(block, 4'096, PROT_READ) == 0);
  CHECK(aio_error(block) == 0 && aio_return(block) == 100 && aio_return(block) == 100);
}
HOST_CASE(errno_is_left_alone, "answers") {
  Pipe pipe;
  const int file = host::temporary(0, 4'096);
  char text[100];
  for (const int each : {file, pipe.out()}) {
    aiocb read = host::request(each, text, sizeof(text));
    read.aio_lio_opcode = LIO_READ;
    aiocb* const list[] = {&read};
    for (const bool listed : {false, true}) {
      errno = 1'234;
      CHECK((listed ? lio_listio(LIO_NOWAIT, list, 1, nullptr) : aio_read(&read)) == 0);
      CHECK(errno == 1'234);
      CHECK(::write(pipe.in(), "e", 1) == 1);
      host::wait_for(read);
      errno = 1'234;
      CHECK(aio_error(&read) == 0 && aio_return(&read) > 0 && errno == 1'234);
    }
  }
}

// Errors that a call meets at once, whether there is something to read or not.
HOST_CASE(readiness_hides_no_error, "kinds of files") {
  sigset_t none;
  sigemptyset(&none);
  char data[128];
  const auto fails = [&data](int fildes, std::size_t size, int (*start)(aiocb*)) {
    aiocb block = host::request(fildes, data, size);
    CHECK(start(&block) == 0);
    CHECK(host::finish(block) == -1 && errno == EINVAL);
  };
  fails(::eventfd(0, 0), 4, aio_read);
  fails(::eventfd(0, 0), 4, aio_write);
  fails(::timerfd_create(CLOCK_MONOTONIC, 0), 4, aio_read);
  fails(::signalfd(-1, &none, 0), 4, aio_read);
  const int set = ::epoll_create1(0);
  fails(set, 8, aio_read);
  fails(set, 8, aio_write);
  struct {
    std::uint32_t members[30];
  } parameters{};
  const long ring = ::syscall(SYS_io_uring_setup, 1, &parameters);
  if (ring < 0) return;
  fails(static_cast<int>(ring), 8, aio_read);
  fails(static_cast<int>(ring), 8, aio_write);
}

// Some files of /proc are read at a place, and written only without one.
HOST_CASE(file_is_written_without_a_place, "kinds of files") {
  const int file = ::open("/proc/self/comm", O_RDWR);
  char name[] = "written";
  aiocb write = host::request(file, name, 7);
  CHECK(aio_write(&write) == 0 && host::finish(write) == 7);
  char now[16]{};
  CHECK(::prctl(PR_GET_NAME, now) == 0 && std::strcmp(now, name) == 0);
}

namespace {

/// Another open file of the same, through the page cache.
int buffered_twin(int file) {
  const std::string name = "/proc/self/fd/" + std::to_string(file);
  const int twin = ::open(name.c_str(), O_RDWR);
  CHECK(twin >= 0);
  return twin;
}

}  // namespace

// Direct writes of pages that the page cache has, clean, dirty or not at all, one by one and in
// lists. The written bytes are read through the cache.
HOST_CASE(direct_writes_of_cached_pages, "kinds of files") {
  constexpr std::size_t pages = 64;
  constexpr std::size_t size = 4'096;
  const int file = host::temporary(O_DIRECT, pages * size);
  const int twin = buffered_twin(file);
  char* const data = static_cast<char*>(host::aligned(pages * size));
  std::vector<char> seen(pages * size);
  std::vector<aiocb> blocks;
  std::vector<aiocb*> list;
  for (std::size_t i = 0; i < pages; ++i) {
    blocks.push_back(host::request(file, data + i * size, size, static_cast<off_t>(i * size)));
    blocks.back().aio_lio_opcode = LIO_WRITE;
  }
  for (aiocb& each : blocks) list.push_back(&each);
  for (int round = 0; round < host::rounds(); ++round) {
    for (std::size_t i = 0; i < pages; ++i) {
      const auto place = static_cast<off_t>(i * size);
      if (i % 4 == 1) CHECK(::pread(twin, seen.data(), size, place) == size);
      if (i % 4 == 2) CHECK(::pwrite(twin, "dirty", 5, place) == 5);
    }
    std::memset(data, 'a' + round % 26, pages * size);
    if (round % 2 == 0) {
      CHECK(lio_listio(LIO_WAIT, list.data(), pages, nullptr) == 0);
    } else {
      for (aiocb& each : blocks) CHECK(aio_write(&each) == 0);
    }
    for (aiocb& each : blocks) CHECK(host::finish(each) == size);
    CHECK(::pread(twin, seen.data(), seen.size(), 0) == static_cast<ssize_t>(seen.size()));
    CHECK(std::memcmp(seen.data(), data, seen.size()) == 0);
  }
}

// A file system that keeps data in its journal reads through the page cache, O_DIRECT or not.
HOST_CASE(direct_read_by_the_cache_is_whole, "kinds of files") {
  constexpr std::size_t size = 1U << 20;
  std::string mounted = host::folder() + "/uaio-host-XXXXXX";
  CHECK(::mkdtemp(mounted.data()) != nullptr);
  const std::string image = mounted + ".image";
  const std::string make = "(mkfs.ext4 -qF " + image + " 32M && mount -o loop,data=journal " +
                           image + " " + mounted + ") >/dev/null 2>&1";
  const bool made = ::unshare(CLONE_NEWNS) == 0 &&
                    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                    std::system(make.c_str()) == 0;
  const std::string name = mounted + "/file";
  const int cached = made ? ::open(name.c_str(), O_RDWR | O_CREAT, 0600) : -1;
  const int file = made ? ::open(name.c_str(), O_RDONLY | O_DIRECT) : -1;
  if (made) CHECK(::umount2(mounted.c_str(), MNT_DETACH) == 0);
  ::unlink(image.c_str());
  CHECK(::rmdir(mounted.c_str()) == 0);
  if (!made) host::skip("may not mount a file system");
  const std::vector<char> written(size, 'w');
  CHECK(cached >= 0 && ::pwrite(cached, written.data(), size, 0) == static_cast<ssize_t>(size));
  CHECK(file >= 0 && ::syncfs(cached) == 0);
  char* const data = static_cast<char*>(host::aligned(size));
  for (int round = 0; round < 4; ++round) {
    CHECK(::posix_fadvise(cached, 0, 0, POSIX_FADV_DONTNEED) == 0);
    CHECK(::posix_fadvise(cached, 0, 0, POSIX_FADV_RANDOM) == 0);
    CHECK(::pread(cached, data, 65'536, 0) == 65'536);
    std::memset(data, 0, size);
    aiocb read = host::request(file, data, size);
    CHECK(aio_read(&read) == 0 && host::finish(read) == static_cast<ssize_t>(size));
    CHECK(std::memcmp(data, written.data(), size) == 0);
  }
}

// Writes of up to PIPE_BUF bytes to a pipe are not mixed (pipe(7)).
HOST_CASE(records_of_several_writers_stay_whole, "kinds of files") {
  constexpr std::size_t size = 1'000;
  constexpr int writers = 3;
  constexpr int depth = 32;
  Pipe pipe;
  for (int i = 0; i < writers; ++i) {
    const pid_t child = ::fork();
    CHECK(child >= 0);
    if (child != 0) continue;
    std::vector<char> record(size, static_cast<char>('a' + i));
    std::vector<aiocb> writes(depth, host::request(pipe.in(), record.data(), size));
    for (int round = 0; round < host::rounds(); ++round) {
      for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
      for (aiocb& each : writes) CHECK(host::finish(each) == static_cast<ssize_t>(size));
    }
    ::_exit(0);
  }
  ::close(pipe.in());
  const int count = writers * depth * host::rounds();
  std::vector<char> record(size);
  for (int i = 0; i < count; ++i) {
    for (std::size_t got = 0; got < size;) {
      const ssize_t more = ::read(pipe.out(), record.data() + got, size - got);
      CHECK(more > 0);
      got += static_cast<std::size_t>(more);
    }
    CHECK(std::count(record.begin(), record.end(), record[0]) == static_cast<int>(size));
  }
}

// An operation that is none is the request's error, and the list's only for a caller that waits.
HOST_CASE(list_with_a_bad_operation, "answers") {
  const int file = host::temporary(0, 64);
  char data[3][8];
  aiocb blocks[3];
  aiocb* list[3];
  for (const int mode : {LIO_NOWAIT, LIO_WAIT}) {
    for (int i = 0; i < 3; ++i) {
      blocks[i] = host::request(file, data[i], 8);
      blocks[i].aio_lio_opcode = i == 1 ? 77 : LIO_READ;
      list[i] = &blocks[i];
    }
    const int answer = lio_listio(mode, list, 3, nullptr);
    CHECK(mode == LIO_NOWAIT ? answer == 0 : answer == -1 && errno == EIO);
    CHECK(host::finish(blocks[1]) == -1 && errno == EINVAL);
    CHECK(host::finish(blocks[0]) == 8 && host::finish(blocks[2]) == 8);
  }
}
