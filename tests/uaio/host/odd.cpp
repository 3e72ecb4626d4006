// Unusual programs: much thread-local data, little memory, aiocbs in memory shared by processes,
// reused descriptor numbers, threads that end in every way.
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>

#include "host.hpp"

using host::Pipe;

namespace {

// Present in every case of this program: thread-local data takes its room from the stacks of
// threads.
thread_local volatile char data_of_each_thread[1U << 20];

void call_back(aiocb& block, void (*function)(sigval), void* value = nullptr) {
  block.aio_sigevent.sigev_notify = SIGEV_THREAD;
  block.aio_sigevent.sigev_value.sival_ptr = value;
  block.aio_sigevent.sigev_notify_function = function;
}

void signal_by(aiocb& block, int signal) {
  block.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
  block.aio_sigevent.sigev_signo = signal;
}

/// A stream, a file past the page cache, and a file that is open for direct transfers.
void use_streams_and_files() {
  Pipe pipe;
  char byte = 0;
  aiocb stream = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&stream) == 0 && ::write(pipe.in(), "s", 1) == 1 && host::finish(stream) == 1);
  const int direct = host::temporary(O_DIRECT, 4'096);
  aiocb read = host::request(direct, host::aligned(), 4'096);
  CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
  aiocb sync = host::request(direct, nullptr, 0);
  CHECK(aio_fsync(O_SYNC, &sync) == 0 && host::finish(sync) == 0);
  for (const int each : {pipe.out(), pipe.in(), direct}) ::close(each);
}

bool has_thread(const char* name) {
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string line;
    if (std::getline(std::ifstream{each.path() / "comm"}, line) && line == name) return true;
  }
  return false;
}

aiocb* shared_block() {
  void* const memory =
      ::mmap(nullptr, 4'096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return static_cast<aiocb*>(memory);
}

/// In seconds.
double time_of_process() {
  timespec time{};
  CHECK(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

HOST_CASE(threads_have_much_data_of_their_own, "limits") {
  static std::atomic<int> called{0};
  const int file = host::temporary(O_DIRECT, 4'096);
  aiocb read = host::request(file, host::aligned(), 4'096);
  call_back(read, [](sigval) {
    for (volatile char& each : data_of_each_thread) each = 'd';
    ++called;
  });
  CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
  host::until([] { return called == 1; });
  use_streams_and_files();
}

// -- memory ---------------------------------------------------------------------------------------

// An aiocb in memory that a child shares is the parent's, whatever the child does.
HOST_CASE(requests_in_shared_memory_survive_forks, "fork and exec") {
  Pipe pipe;
  char byte = 0;
  aiocb& read = *shared_block();
  read = host::request(pipe.out(), &byte, 1);
  for (int i = 0; i < 10; ++i) {
    CHECK(aio_read(&read) == 0);
    CHECK(host::in_child([&read] { CHECK(aio_error(&read) == EINPROGRESS); }) == 0);
    CHECK(aio_error(&read) == EINPROGRESS);
    CHECK(::write(pipe.in(), "s", 1) == 1 && host::finish(read) == 1);
  }
}
// The child sees in its memory when its parent's request is complete.
HOST_CASE(child_sees_the_parents_request_complete, "fork and exec") {
  Pipe pipe;
  Pipe started;
  char byte = 0;
  aiocb& read = *shared_block();
  read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  std::thread writer{[&] {
    char at = 0;
    CHECK(::read(started.out(), &at, 1) == 1 && ::write(pipe.in(), "c", 1) == 1);
    host::wait_for(read);
  }};
  CHECK(host::in_child([&] {
          CHECK(aio_error(&read) == EINPROGRESS && ::write(started.in(), "s", 1) == 1);
          host::until([&read] { return aio_error(&read) == 0; });
        }) == 0);
  writer.join();
}
// Nothing in the child would end its wait.
HOST_CASE(child_waits_for_no_request_of_its_parent, "fork and exec") {
  Pipe pipe;
  Pipe to_parent;
  Pipe to_child;
  char byte = 0;
  aiocb& read = *shared_block();
  std::thread parent{[&] {
    char at = 0;
    CHECK(::read(to_parent.out(), &at, 1) == 1);
    read = host::request(pipe.out(), &byte, 1);
    CHECK(aio_read(&read) == 0 && ::write(to_child.in(), "s", 1) == 1);
    CHECK(::read(to_parent.out(), &at, 1) == 1 && ::write(pipe.in(), "w", 1) == 1);
    CHECK(host::finish(read) == 1);
  }};
  CHECK(host::in_child([&] {
          host::end_in_time();
          char at = 0;
          CHECK(::write(to_parent.in(), "f", 1) == 1 && ::read(to_child.out(), &at, 1) == 1);
          const aiocb* const list[] = {&read};
          CHECK(aio_suspend(list, 1, nullptr) == 0 && aio_error(&read) == EINPROGRESS);
          CHECK(::write(to_parent.in(), "w", 1) == 1);
          host::until([&] { return aio_suspend(list, 1, nullptr) == 0 && aio_error(&read) == 0; });
        }) == 0);
  parent.join();
}
// The same memory, at another address.
HOST_CASE(request_is_over_at_both_addresses, "answers") {
  host::end_in_time();
  const int memory = ::memfd_create("blocks", 0);
  CHECK(memory >= 0 && ::ftruncate(memory, 4'096) == 0);
  aiocb* blocks[2];
  for (aiocb*& each : blocks) {
    each =
        static_cast<aiocb*>(::mmap(nullptr, 4'096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
    CHECK(each != MAP_FAILED);
  }
  const int file = host::temporary(O_DIRECT, 1U << 20);
  *blocks[0] = host::request(file, host::aligned(1U << 20), 1U << 20);
  CHECK(aio_read(blocks[0]) == 0);
  host::until([&blocks] { return aio_error(blocks[1]) == 0; });
  CHECK(aio_return(blocks[1]) == 1 << 20);
}
HOST_CASE(child_has_not_got_the_memory, "fork and exec") {
  Pipe pipe;
  char byte = 0;
  void* const memory =
      ::mmap(nullptr, 4'096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED && ::madvise(memory, 4'096, MADV_DONTFORK) == 0);
  aiocb& read = *static_cast<aiocb*>(memory);
  read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  CHECK(host::in_child([] {}) == 0);
  CHECK(::write(pipe.in(), "m", 1) == 1 && host::finish(read) == 1);
}
// A shortage refuses requests while it lasts. Afterwards everything works as before.
HOST_CASE(memory_is_short_for_a_while, "limits") {
  constexpr rlim_t step = 32U << 10;
  for (rlim_t room = 0; room < 120 * step; room += step) {
    CHECK(host::in_child([room] {
            Pipe pipe;
            char byte = 0;
            rlimit before{};
            CHECK(::getrlimit(RLIMIT_AS, &before) == 0);
            std::FILE* const file = std::fopen("/proc/self/statm", "r");
            unsigned long pages = 0;
            CHECK(std::fscanf(file, "%lu", &pages) == 1);
            std::fclose(file);
            const rlimit less{pages * 4'096 + room, before.rlim_max};
            CHECK(::setrlimit(RLIMIT_AS, &less) == 0);
            aiocb read = host::request(pipe.out(), &byte, 1);
            const int answer = aio_read(&read);
            CHECK(answer == 0 || errno == EAGAIN);
            CHECK(::setrlimit(RLIMIT_AS, &before) == 0);
            if (answer != 0) CHECK(aio_read(&read) == 0);
            // Without a keeper, a helper would share the program's table of descriptors.
            CHECK(!has_thread("uaio-helper"));
            CHECK(::write(pipe.in(), "m", 1) == 1);
            CHECK(host::finish(read) == 1 || errno == EAGAIN);
          }) == 0);
  }
}

// -- descriptors ----------------------------------------------------------------------------------

// A program that sees its request complete and closes its descriptor has closed the file.
HOST_CASE(closed_socket_is_heard_of_at_once, "descriptors") {
  for (int i = 0; i < 5 * host::rounds(); ++i) {
    int ends[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    char byte = 0;
    aiocb read = host::request(ends[0], &byte, 1);
    CHECK(aio_read(&read) == 0 && ::write(ends[1], "c", 1) == 1 && host::finish(read) == 1);
    ::close(ends[0]);
    CHECK(::recv(ends[1], &byte, 1, MSG_DONTWAIT) == 0);
    ::close(ends[1]);
  }
}
HOST_CASE(lock_ends_with_the_file_at_once, "locks") {
  const std::string name = host::folder() + "/uaio-lock-" + std::to_string(::getpid());
  const int other = ::open(name.c_str(), O_RDWR | O_CREAT, 0600);
  char bytes[512] = {};
  CHECK(::write(other, bytes, sizeof(bytes)) == sizeof(bytes) && ::fdatasync(other) == 0);
  for (int i = 0; i < 5 * host::rounds(); ++i) {
    const int file = ::open(name.c_str(), O_RDWR);
    CHECK(::flock(file, LOCK_EX) == 0);
    CHECK(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
    aiocb read = host::request(file, bytes, sizeof(bytes));
    CHECK(aio_read(&read) == 0 && host::finish(read) == sizeof(bytes));
    ::close(file);
    CHECK(::flock(other, LOCK_EX | LOCK_NB) == 0 && ::flock(other, LOCK_UN) == 0);
  }
  ::unlink(name.c_str());
}
HOST_CASE(numbers_change_hands_under_requests, "descriptors") {
  constexpr std::size_t size = 64U << 10;
  // Another thread collects the kernel's completions, too. All files are open before a number is
  // free: dup2 says EBUSY to a number that another thread is about to get.
  host::Load load;
  load.top_up();
  std::atomic<bool> over{false};
  std::thread other{[&over, &load] {
    while (!over) load.top_up();
    load.finish_all();
  }};
  const int number = ::dup(0);
  int files[4];
  char* const memory = static_cast<char*>(host::aligned(size));
  for (int i = 0; i < 4; ++i) {
    files[i] = host::temporary(i % 2 == 0 ? O_DIRECT : 0, size);
    std::memset(memory, 'a' + i, size);
    CHECK(::pwrite(files[i], memory, size, 0) == size && ::fdatasync(files[i]) == 0);
  }
  for (int i = 0; i < 10 * host::rounds(); ++i) {
    const int which = i % 4;
    // Files that are not open for direct transfers: in the page cache, and not.
    if (i % 8 > 3) CHECK(::posix_fadvise(files[which], 0, 0, POSIX_FADV_DONTNEED) == 0);
    CHECK(::dup2(files[which], number) == number);
    aiocb reads[4];
    for (aiocb& each : reads) {
      each =
          host::request(number, memory + (&each - reads) * 4'096, 4'096, (&each - reads) * 8'192);
      CHECK(aio_read(&each) == 0);
    }
    if (i % 3 == 0) ::close(number);
    CHECK(::dup2(files[(which + 1) % 4], number) == number);
    for (aiocb& each : reads) {
      CHECK(host::finish(each) == 4'096);
      const auto* const bytes = static_cast<volatile char*>(each.aio_buf);
      CHECK(bytes[0] == 'a' + which && bytes[4'095] == 'a' + which);
    }
  }
  over = true;
  other.join();
}
HOST_CASE(few_numbers_leave_the_lowest_free, "descriptors") {
  rlimit limit{};
  CHECK(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = 40;
  CHECK(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int expected = ::dup(0);
  ::close(expected);
  use_streams_and_files();
  for (int each = expected; each < expected + 10; ++each) CHECK(::dup(0) == each);
}

// -- threads and forks ----------------------------------------------------------------------------

HOST_CASE(cancel_pending_at_lists, "cancellation") {
  static Pipe pipe;
  static char bytes[2];
  static aiocb blocks[2];
  pthread_t thread;
  CHECK(pthread_create(
            &thread, nullptr,
            [](void*) -> void* {
              CHECK(pthread_cancel(pthread_self()) == 0);
              aiocb* const list[] = {&blocks[0], &blocks[1]};
              for (const int mode : {LIO_NOWAIT, LIO_WAIT}) {
                blocks[0] = host::request(pipe.out(), &bytes[0], 1);
                blocks[1] = host::request(pipe.out(), &bytes[1], 1);
                blocks[0].aio_lio_opcode = blocks[1].aio_lio_opcode = LIO_READ;
                CHECK(lio_listio(mode, list, 2, nullptr) == 0);
                while (aio_error(&blocks[1]) == EINPROGRESS) {
                }
                CHECK(aio_return(&blocks[0]) == 1 && aio_return(&blocks[1]) == 1);
              }
              pthread_testcancel();
              return nullptr;
            },
            nullptr) == 0);
  for (int i = 0; i < 4; ++i) CHECK(::write(pipe.in(), "l", 1) == 1);
  void* end = nullptr;
  CHECK(pthread_join(thread, &end) == 0 && end == PTHREAD_CANCELED);
}
HOST_CASE(threads_end_in_every_way, "ends of threads") {
  static Pipe pipe;
  static std::atomic<int> gone{0};
  constexpr int count = 24;
  static aiocb blocks[count];
  static char bytes[count];
  struct Way {
    static void* start(void* argument) {
      const int i = static_cast<int>(reinterpret_cast<std::intptr_t>(argument));
      blocks[i] = host::request(pipe.out(), &bytes[i], 1);
      CHECK(aio_read(&blocks[i]) == 0);
      ++gone;
      if (i % 3 == 1) pthread_exit(nullptr);
      if (i % 3 == 2) {
        pthread_cancel(pthread_self());
        host::wait_for(blocks[i]);
      }
      return nullptr;
    }
  };
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  for (std::intptr_t i = 0; i < count; ++i) {
    pthread_t thread;
    const pthread_attr_t* const attributes = i % 2 == 0 ? &detached : nullptr;
    CHECK(pthread_create(&thread, attributes, Way::start, reinterpret_cast<void*>(i)) == 0);
    if (i % 2 != 0) CHECK(pthread_join(thread, nullptr) == 0);
  }
  host::until([] { return gone == count; });
  for (int i = 0; i < count; ++i) CHECK(::write(pipe.in(), "e", 1) == 1);
  for (aiocb& each : blocks) CHECK(host::finish(each) == 1);
}
HOST_CASE(callback_is_cancelled, "callbacks") {
  static std::atomic<int> cleaned{0};
  const int file = host::temporary(0, 64);
  char byte = 0;
  for (int i = 0; i < 10; ++i) {
    aiocb read = host::request(file, &byte, 1);
    call_back(read, [](sigval) {
      pthread_cleanup_push([](void*) { ++cleaned; }, nullptr);
      pthread_cancel(pthread_self());
      pthread_testcancel();
      pthread_cleanup_pop(0);
    });
    CHECK(aio_read(&read) == 0);
    host::until([i] { return cleaned == i + 1; });
    CHECK(host::finish(read) == 1);
  }
}
// Of two threads, each with a request pending: the parent is notified once, the child never.
// No second signal of a number is pending meanwhile, and no thread ends with one:
// ThreadSanitizer keeps one of each number back for a thread, and drops the others.
HOST_CASE(child_is_told_nothing_of_the_parents, "fork and exec") {
  static std::atomic<int> called{0};
  static std::atomic<int> handled[2];
  static std::atomic<int> ended{0};
  static const int first = SIGRTMIN;
  struct sigaction action{};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int signal) { ++handled[signal - first]; };
  const int rounds = host::rounds() / 4;
  std::thread threads[2];
  for (int i = 0; i < 2; ++i) {
    CHECK(::sigaction(first + i, &action, nullptr) == 0);
    threads[i] = std::thread{[i, rounds] {
      Pipe pipe;
      char bytes[2];
      for (int round = 0; round < rounds; ++round) {
        aiocb signalled = host::request(pipe.out(), &bytes[0], 1);
        aiocb callback = host::request(pipe.out(), &bytes[1], 1);
        signal_by(signalled, first + i);
        call_back(callback, [](sigval) { ++called; });
        CHECK(aio_read(&signalled) == 0 && aio_read(&callback) == 0);
        CHECK(host::in_child([] {
                called = handled[0] = handled[1] = 0;
                const timespec moment{0, 2'000'000};
                ::nanosleep(&moment, nullptr);
                CHECK(called == 0 && handled[0] == 0 && handled[1] == 0);
              }) == 0);
        CHECK(::write(pipe.in(), "ab", 2) == 2);
        CHECK(host::finish(signalled) == 1 && host::finish(callback) == 1);
        host::until([i, round] { return handled[i] > round; });
      }
      ++ended;
      host::until([] { return ended == 2; });
    }};
  }
  for (std::thread& each : threads) each.join();
  host::until([rounds] { return called == 2 * rounds; });
  CHECK(handled[0] == rounds && handled[1] == rounds);
}
// The processor time does not grow with the square of their number. Other programs may disturb a
// measurement, so one good one of several is enough.
bool is_soon_quick(const std::function<bool()>& measure, int tries = 10) {
  for (int i = 0; i < tries; ++i) {
    if (measure()) return true;
  }
  return false;
}
HOST_CASE(very_many_are_cancelled, "answers") {
  // The system's library may leave one request of each measurement pending.
  static std::deque<std::vector<aiocb>> all;
  static std::vector<char> bytes(40'000);
  Pipe pipe;
  CHECK(is_soon_quick([&] {
    std::vector<aiocb>& reads = all.emplace_back();
    for (char& each : bytes) reads.push_back(host::request(pipe.out(), &each, 1));
    const double begin = time_of_process();
    for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
    const double started = time_of_process();
    CHECK(aio_cancel(pipe.out(), nullptr) != -1);
    const double cancelled = time_of_process();
    CHECK(aio_error(&reads.back()) == ECANCELED);
    return cancelled - started < 2 * (started - begin);
  }));
}
// A cancel that searched all that is pending would take thirty times as long as a start.
HOST_CASE(very_many_are_cancelled_one_by_one, "answers") {
  static std::deque<std::vector<aiocb>> all;
  static std::vector<char> bytes(20'000);
  Pipe pipe;
  const auto measure = [&] {
    std::vector<aiocb>& reads = all.emplace_back();
    for (char& each : bytes) reads.push_back(host::request(pipe.out(), &each, 1));
    std::vector<aiocb*> order;
    for (aiocb& each : reads) order.push_back(&each);
    std::shuffle(order.begin(), order.end(), std::minstd_rand{});
    const double begin = time_of_process();
    for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
    const double started = time_of_process();
    // The system's library does not cancel the first, which has begun.
    int cancelled = 0;
    for (aiocb* const each : order) {
      if (aio_cancel(pipe.out(), each) != AIO_CANCELED) continue;
      CHECK(aio_error(each) == ECANCELED && aio_return(each) == -1);
      ++cancelled;
    }
    const double ended = time_of_process();
    CHECK(cancelled >= static_cast<int>(bytes.size()) - static_cast<int>(all.size()));
    return ended - started < 12 * (started - begin);
  };
  CHECK(is_soon_quick(measure, 4));
}
// What other descriptors have pending does not matter.
HOST_CASE(cancels_beside_very_many_requests, "answers") {
  static std::vector<char> bytes(40'000);
  static std::vector<aiocb> others;
  Pipe pipe;
  Pipe idle;
  char byte = 0;
  const auto time_of_cancels = [&] {
    const double begin = time_of_process();
    for (int i = 0; i < 500; ++i) {
      aiocb read = host::request(pipe.out(), &byte, 1);
      CHECK(aio_read(&read) == 0 && aio_cancel(pipe.out(), nullptr) != -1);
      if (aio_error(&read) == EINPROGRESS) CHECK(::write(pipe.in(), "c", 1) == 1);  // the system's
      host::wait_for(read);
    }
    return time_of_process() - begin;
  };
  const double alone = time_of_cancels();
  for (char& each : bytes) others.push_back(host::request(idle.out(), &each, 1));
  for (aiocb& each : others) CHECK(aio_read(&each) == 0);
  CHECK(is_soon_quick([&] { return time_of_cancels() < 4 * alone; }, 4));
}
// Each waits for all those before it.
HOST_CASE(very_many_syncs_at_once, "answers") {
  const int file = ::memfd_create("synced", 0);
  CHECK(file >= 0);
  const auto time_of = [&](std::size_t count) {
    std::vector<aiocb> syncs(count, host::request(file, nullptr, 0));
    const double begin = time_of_process();
    for (aiocb& each : syncs) CHECK(aio_fsync(O_SYNC, &each) == 0);
    for (aiocb& each : syncs) CHECK(host::finish(each) == 0);
    return time_of_process() - begin;
  };
  CHECK(is_soon_quick([&] {
    const double few = time_of(2'000);
    return time_of(16'000) < 24 * few;  // 64, if each is looked at for each
  }));
}
HOST_CASE(time_outs_of_all_lengths, "signals") {
  Pipe pipe;
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  const aiocb* const list[] = {&read};
  constexpr time_t least = std::numeric_limits<time_t>::min();
  for (const timespec& none :
       {timespec{0, 0}, timespec{0, 1}, timespec{-1, 0}, timespec{least, 0}}) {
    CHECK(aio_suspend(list, 1, &none) == -1 && errno == EAGAIN);
  }
  for (const timespec& wrong : {timespec{0, -1}, timespec{0, 1'000'000'000}}) {
    CHECK(aio_suspend(list, 1, &wrong) == -1 && errno == EINVAL);
  }
  std::thread writer{[&] {
    const timespec moment{0, 20'000'000};
    ::nanosleep(&moment, nullptr);
    CHECK(::write(pipe.in(), "t", 1) == 1);
  }};
  const timespec age{std::numeric_limits<time_t>::max() / 4, 999'999'999};
  CHECK(aio_suspend(list, 1, &age) == 0 && aio_error(&read) == 0);
  writer.join();
}
// Too large for the clock: the system's library does not wait at all. Neither is busy meanwhile.
HOST_CASE(longest_time_out_sleeps, "signals") {
  Pipe pipe;
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  const aiocb* const list[] = {&read};
  const pid_t me = ::gettid();
  std::thread writer{[&] {
    host::until([me] { return host::sleeps(me); });
    CHECK(::write(pipe.in(), "t", 1) == 1);
  }};
  const timespec age{std::numeric_limits<time_t>::max(), 999'999'999};
  CHECK(aio_suspend(list, 1, &age) == 0 || errno == EAGAIN);
  writer.join();
  CHECK(host::finish(read) == 1);
}
// They are hints, and this many requests may never come.
HOST_CASE(large_hints_take_little_memory, "limits") {
  aioinit hints{};
  hints.aio_num = hints.aio_threads = 1 << 20;
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  aio_init(&hints);
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 128L << 10);  // KiB
  Pipe pipe;
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0 && ::write(pipe.in(), "h", 1) == 1 && host::finish(read) == 1);
}
