// Threads and signals: cancellation, the ends of threads, callbacks, handlers.
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>
#include <thread>

#include "host.hpp"

using host::Pipe;

namespace {

void detach_from(aiocb& block, void (*function)(sigval), void* value, pthread_attr_t* attributes) {
  block.aio_sigevent.sigev_notify = SIGEV_THREAD;
  block.aio_sigevent.sigev_value.sival_ptr = value;
  block.aio_sigevent.sigev_notify_function = function;
  block.aio_sigevent.sigev_notify_attributes = attributes;
}

struct Waiting {
  aiocb block;
  std::atomic<bool> started{false};
};

void* suspend_for_ever(void* argument) {
  auto& waiting = *static_cast<Waiting*>(argument);
  const aiocb* const list[] = {&waiting.block};
  waiting.started = true;
  for (;;) aio_suspend(list, 1, nullptr);
}

/// A thread in aio_suspend ends by pthread_cancel.
void is_cancelled(Waiting& waiting) {
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, suspend_for_ever, &waiting) == 0);
  host::until([&] { return waiting.started.load(); });
  CHECK(pthread_cancel(thread) == 0);
  void* end = nullptr;
  CHECK(pthread_join(thread, &end) == 0);
  CHECK(end == PTHREAD_CANCELED);
}

/// With a cancellation pending, `what` ends neither the thread nor the process.
void is_no_cancellation_point(void (*what)()) {
  pthread_t thread;
  CHECK(pthread_create(
            &thread, nullptr,
            [](void* argument) -> void* {
              CHECK(pthread_cancel(pthread_self()) == 0);
              reinterpret_cast<void (*)()>(argument)();
              static std::atomic<int> done;
              done = 1;
              pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
              return &done;
            },
            reinterpret_cast<void*>(what)) == 0);
  void* end = nullptr;
  CHECK(pthread_join(thread, &end) == 0);
  CHECK(end != nullptr && end != PTHREAD_CANCELED);
}

aiocb global;
char global_byte;

}  // namespace

HOST_CASE(waits_leave_the_type_of_cancellation, "cancellation") {
  host::Load load;
  load.finish_all();
  Pipe pipe;
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0 && ::write(pipe.in(), "w", 1) == 1 && host::finish(read) == 1);
  int before = -1;
  CHECK(::pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before) == 0);
  CHECK(before == PTHREAD_CANCEL_DEFERRED);
}
HOST_CASE(suspend_on_a_pipe_is_cancelled, "cancellation") {
  for (int i = 0; i < 20; ++i) {
    Pipe pipe;
    Waiting waiting;
    waiting.block = host::request(pipe.out(), &global_byte, 1);
    CHECK(aio_read(&waiting.block) == 0);
    is_cancelled(waiting);
    CHECK(::write(pipe.in(), "c", 1) == 1 && host::finish(waiting.block) == 1);
    ::close(pipe.in());
    ::close(pipe.out());
  }
}
HOST_CASE(suspend_with_direct_reads_is_cancelled, "cancellation") {
  host::Load load;
  Pipe pipe;
  for (int i = 0; i < 20; ++i) {
    Waiting waiting;
    waiting.block = host::request(pipe.out(), &global_byte, 1);
    CHECK(aio_read(&waiting.block) == 0);
    load.top_up();
    is_cancelled(waiting);
    CHECK(::write(pipe.in(), "c", 1) == 1 && host::finish(waiting.block) == 1);
  }
  load.finish_all();
}
// The thread that itself waits for the device ends, and the others are served all the same.
HOST_CASE(suspend_on_a_file_is_cancelled, "cancellation") {
  const int file = host::temporary(O_DIRECT, 4U << 20);
  for (int i = 0; i < 20; ++i) {
    aiocb reads[8];
    for (aiocb& each : reads) {
      each = host::request(file, host::aligned(), 4'096, (&each - reads) * 4'096);
      CHECK(aio_read(&each) == 0);
    }
    pthread_t thread;
    CHECK(pthread_create(
              &thread, nullptr,
              [](void* argument) -> void* {
                auto* const all = static_cast<aiocb*>(argument);
                for (int k = 0; k < 8; ++k) host::wait_for(all[k]);
                return nullptr;
              },
              reads) == 0);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
    for (aiocb& each : reads) CHECK(host::finish(each) == 4'096);
  }
}
HOST_CASE(cancel_pending_at_the_first_read, "cancellation") {
  static Pipe pipe;
  is_no_cancellation_point([] {
    global = host::request(pipe.out(), &global_byte, 1);
    CHECK(aio_read(&global) == 0);
  });
  CHECK(::write(pipe.in(), "f", 1) == 1 && host::finish(global) == 1);
}
HOST_CASE(cancel_pending_at_a_direct_read, "cancellation") {
  global = host::request(host::temporary(O_DIRECT, 4'096), host::aligned(), 4'096);
  is_no_cancellation_point([] { CHECK(aio_read(&global) == 0); });
  CHECK(host::finish(global) == 4'096);
}
// The number belonged to a file for direct writes before.
HOST_CASE(cancel_pending_at_a_pipe_without_readers, "cancellation") {
  static const int file = host::temporary(O_DIRECT, 4'096);
  static void* const memory = host::aligned();
  aiocb write = host::request(file, memory, 4'096);
  CHECK(aio_write(&write) == 0 && host::finish(write) == 4'096);
  int ends[2];
  CHECK(::pipe2(ends, O_NONBLOCK) == 0 && ::close(ends[0]) == 0 && ::dup2(ends[1], file) == file);
  is_no_cancellation_point([] {
    global = host::request(file, memory, 4'096);
    CHECK(aio_write(&global) == 0);
  });
  CHECK(host::finish(global) == -1 && errno == EPIPE);
}
HOST_CASE(cancel_pending_at_sync_and_cancel, "cancellation") {
  global = host::request(host::temporary(0, 4'096), nullptr, 0);
  is_no_cancellation_point([] {
    CHECK(aio_fsync(O_SYNC, &global) == 0);
    aio_cancel(global.aio_fildes, nullptr);
    aio_error(&global);
    CHECK(aio_cancel(-1, nullptr) == -1);
  });
}
HOST_CASE(cancel_pending_at_an_error, "cancellation") {
  is_no_cancellation_point([] {
    global = host::request(-1, &global_byte, 1);
    aio_read(&global);
    CHECK(aio_error(&global) != 0);
  });
}
// In mode=single the thread collects in aio_error: the timer finds its signal blocked.
HOST_CASE(cancel_pending_while_it_collects, "cancellation") {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  Pipe pipe;
  global = host::request(pipe.out(), &global_byte, 1);
  CHECK(aio_read(&global) == 0);
  CHECK(::write(pipe.in(), "c", 1) == 1);
  is_no_cancellation_point([] {
    while (aio_error(&global) == EINPROGRESS) sched_yield();
  });
  CHECK(host::finish(global) == 1);
}
HOST_CASE(disabled_cancellation_is_respected, "cancellation") {
  static Pipe pipe;
  pthread_t thread;
  global = host::request(pipe.out(), &global_byte, 1);
  CHECK(aio_read(&global) == 0);
  CHECK(pthread_create(
            &thread, nullptr,
            [](void*) -> void* {
              pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
              host::wait_for(global);
              return &global;
            },
            nullptr) == 0);
  CHECK(pthread_cancel(thread) == 0);
  CHECK(::write(pipe.in(), "d", 1) == 1);
  void* end = nullptr;
  CHECK(pthread_join(thread, &end) == 0 && end == &global);
}
HOST_CASE(cleanup_handlers_run_in_suspend, "cancellation") {
  static std::atomic<int> cleaned{0};
  static Pipe pipe;
  global = host::request(pipe.out(), &global_byte, 1);
  CHECK(aio_read(&global) == 0);
  pthread_t thread;
  CHECK(pthread_create(
            &thread, nullptr,
            [](void*) -> void* {
              pthread_cleanup_push([](void*) { ++cleaned; }, nullptr);
              host::wait_for(global);
              pthread_cleanup_pop(0);
              return nullptr;
            },
            nullptr) == 0);
  CHECK(pthread_cancel(thread) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
  CHECK(cleaned == 1);
}
HOST_CASE(requests_outlive_their_thread, "ends of threads") {
  static Pipe pipe;
  static aiocb direct;
  std::thread{[] {
    global = host::request(pipe.out(), &global_byte, 1);
    CHECK(aio_read(&global) == 0);
    direct = host::request(host::temporary(O_DIRECT, 4'096), host::aligned(), 4'096);
    CHECK(aio_read(&direct) == 0);
  }}.join();
  CHECK(::write(pipe.in(), "o", 1) == 1);
  CHECK(host::finish(global) == 1 && host::finish(direct) == 4'096);
}
HOST_CASE(main_thread_ends_first, "ends of threads") {
  CHECK(host::in_child([] {
          static Pipe pipe;
          pthread_t thread;
          CHECK(pthread_create(
                    &thread, nullptr,
                    [](void*) -> void* {
                      for (int i = 0; i < 20; ++i) {
                        global = host::request(pipe.out(), &global_byte, 1);
                        CHECK(aio_read(&global) == 0);
                        CHECK(::write(pipe.in(), "m", 1) == 1);
                        CHECK(host::finish(global) == 1);
                      }
                      ::_exit(0);
                    },
                    nullptr) == 0);
          pthread_exit(nullptr);
        }) == 0);
}
HOST_CASE(callback_ends_its_thread, "callbacks") {
  static sem_t called;
  CHECK(::sem_init(&called, 0, 0) == 0);
  const int file = host::temporary(0, 64);
  char byte = 0;
  for (int i = 0; i < 10; ++i) {
    aiocb read = host::request(file, &byte, 1);
    detach_from(
        read,
        [](sigval) {
          ::sem_post(&called);
          pthread_exit(nullptr);
        },
        nullptr, nullptr);
    CHECK(aio_read(&read) == 0);
    CHECK(::sem_wait(&called) == 0);
    CHECK(host::finish(read) == 1);
  }
}
HOST_CASE(callbacks_wait_for_one_another, "callbacks") {
  static std::atomic<int> inside{0};
  static std::atomic<int> gone{0};
  const int file = host::temporary(0, 64);
  char byte = 0;
  std::vector<aiocb> reads(8, host::request(file, &byte, 1));
  for (aiocb& each : reads) {
    detach_from(
        each,
        [](sigval) {
          ++inside;
          host::until([] { return inside == 8; });
          ++gone;
        },
        nullptr, nullptr);
  }
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  host::until([] { return gone == 8; });
}
HOST_CASE(callbacks_get_the_stack_they_ask_for, "callbacks") {
  static std::atomic<int> inside{0};
  static std::atomic<int> gone{0};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstacksize(&attributes, 32U << 20) == 0);
  const int file = host::temporary(0, 64);
  char byte = 0;
  std::vector<aiocb> reads(8, host::request(file, &byte, 1));
  for (aiocb& each : reads) {
    detach_from(
        each,
        [](sigval) {
          ++inside;
          host::until([] { return inside == 8; });
          pthread_attr_t mine;
          std::size_t size = 0;
          CHECK(pthread_getattr_np(pthread_self(), &mine) == 0);
          CHECK(pthread_attr_getstacksize(&mine, &size) == 0 && size >= 32U << 20);
          ++gone;
        },
        nullptr, &attributes);
  }
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  host::until([] { return gone == 8; });
}
HOST_CASE(callbacks_find_no_data_of_others, "callbacks") {
  static pthread_key_t key;
  static std::atomic<int> gone{0};
  CHECK(pthread_key_create(&key, nullptr) == 0);
  const int file = host::temporary(0, 64);
  char byte = 0;
  for (int i = 0; i < 10; ++i) {
    aiocb read = host::request(file, &byte, 1);
    detach_from(
        read,
        [](sigval) {
          CHECK(pthread_getspecific(key) == nullptr);
          CHECK(pthread_setspecific(key, &gone) == 0);
          ++gone;
        },
        nullptr, nullptr);
    CHECK(aio_read(&read) == 0);
    host::until([&] { return gone == i + 1; });
    CHECK(host::finish(read) == 1);
  }
}
HOST_CASE(callbacks_have_no_signal_blocked, "callbacks") {
  static std::atomic<int> blocked{-1};
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  const int file = host::temporary(0, 64);
  char byte = 0;
  aiocb read = host::request(file, &byte, 1);
  detach_from(
      read,
      [](sigval) {
        sigset_t mine;
        pthread_sigmask(SIG_SETMASK, nullptr, &mine);
        int count = 0;
        for (int each = 1; each <= SIGRTMAX; ++each) count += sigismember(&mine, each) == 1 ? 1 : 0;
        blocked = count;
      },
      nullptr, nullptr);
  CHECK(aio_read(&read) == 0);
  host::until([] { return blocked >= 0; });
  CHECK(blocked == 0);
}
// A thread that ends gives its memory to the next one. A library that detaches it too late detaches
// that one, and the program cannot join it.
HOST_CASE(callback_detaches_its_thread, "callbacks") {
  static std::atomic<int> called{0};
  static std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([] {
      while (!over) {
        pthread_t thread;
        CHECK(
            pthread_create(&thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr) == 0);
        CHECK(pthread_join(thread, nullptr) == 0);
      }
    });
  }
  pthread_attr_t joinable;
  pthread_attr_init(&joinable);
  const int file = host::temporary(0, 64);
  char byte = 0;
  for (int i = 0; i < 25 * host::rounds(); ++i) {
    aiocb read = host::request(file, &byte, 1);
    const auto detach = [](sigval) {
      CHECK(pthread_detach(pthread_self()) == 0);
      ++called;
    };
    detach_from(read, detach, nullptr, &joinable);
    CHECK(aio_read(&read) == 0 && host::finish(read) == 1);
    host::until([i] { return called == i + 1; });
  }
  over = true;
  for (std::thread& each : threads) each.join();
}
// Wherever the program is, also in malloc, whose locks a new thread needs.
HOST_CASE(callbacks_while_memory_is_allocated, "callbacks") {
  static std::atomic<int> called{0};
  host::end_in_time();
  Pipe pipe;
  for (int i = 0; i < 2 * host::rounds(); ++i) {
    aiocb read = host::request(pipe.out(), &global_byte, 1);
    detach_from(read, [](sigval) { ++called; }, nullptr, nullptr);
    CHECK(aio_read(&read) == 0 && ::write(pipe.in(), "m", 1) == 1);
    for (std::size_t size = 1'000; called == i; size = size % 30'000 + 991) {
      void* volatile blocks[] = {std::malloc(size), std::malloc(31'000 - size)};
      for (void* const each : blocks) std::free(each);
    }
    CHECK(host::finish(read) == 1);
  }
}
// In mode=single the timer interrupts threads that start a callback.
HOST_CASE(callbacks_start_the_next_request, "callbacks") {
  static const int file = host::temporary(O_DIRECT, 64U << 10);
  static std::atomic<int> left{6'000};
  static std::atomic<int> over{0};
  constexpr int chains = 8;
  static aiocb blocks[chains];
  host::end_in_time();
  for (int i = 0; i < chains; ++i) {
    blocks[i] = host::request(file, host::aligned(), 4'096);
    const auto next = [](sigval value) {
      aiocb& block = *static_cast<aiocb*>(value.sival_ptr);
      CHECK(host::finish(block) == 4'096);
      if (--left < 0)
        ++over;
      else
        CHECK(aio_read(&block) == 0);
    };
    detach_from(blocks[i], next, &blocks[i], nullptr);
    CHECK(aio_read(&blocks[i]) == 0);
  }
  host::until([] { return over == chains; });
}
HOST_CASE(no_thread_for_a_callback, "limits") {
  if (::geteuid() != 0 && ::getuid() == 0) host::skip("needs another user");
  Pipe pipe;
  const int file = host::temporary(0, 4'096);
  CHECK(host::in_child([&] {
          if (::getuid() == 0) CHECK(::setresgid(65'534, 65'534, 65'534) == 0);
          if (::getuid() == 0) CHECK(::setresuid(65'534, 65'534, 65'534) == 0);
          const rlimit none{1, 1};
          CHECK(::setrlimit(RLIMIT_NPROC, &none) == 0);
          // For the pipe our library needs a thread for the request, for the file only for the
          // callback.
          for (const int fildes : {pipe.out(), file}) {
            char byte = 0;
            aiocb read = host::request(fildes, &byte, 1);
            detach_from(read, [](sigval) {}, nullptr, nullptr);
            CHECK(aio_read(&read) == -1 && errno == EAGAIN);
          }
          sigset_t mask;
          pthread_sigmask(SIG_SETMASK, nullptr, &mask);
          CHECK(sigismember(&mask, SIGTERM) == 0);
        }) == 0);
}

// The requests lie behind one another in a file, so that one call can move all.
HOST_CASE(no_thread_for_the_callbacks_of_a_list, "limits") {
  if (::geteuid() != 0 && ::getuid() == 0) host::skip("needs another user");
  const int file = host::temporary(0, 4'096);
  CHECK(host::in_child([&] {
          if (::getuid() == 0) CHECK(::setresgid(65'534, 65'534, 65'534) == 0);
          if (::getuid() == 0) CHECK(::setresuid(65'534, 65'534, 65'534) == 0);
          char bytes[4];
          aiocb first = host::request(file, bytes, 4);
          CHECK(aio_read(&first) == 0 && host::finish(first) == 4);
          const rlimit none{1, 1};
          CHECK(::setrlimit(RLIMIT_NPROC, &none) == 0);
          aiocb blocks[4];
          aiocb* list[4];
          for (int i = 0; i < 4; ++i) {
            list[i] = &(blocks[i] = host::request(file, &bytes[i], 1, i));
            blocks[i].aio_lio_opcode = LIO_READ;
            detach_from(blocks[i], [](sigval) {}, nullptr, nullptr);
          }
          CHECK(lio_listio(LIO_NOWAIT, list, 4, nullptr) == -1 && errno == EAGAIN);
          for (const aiocb& each : blocks) CHECK(aio_error(&each) == EAGAIN);
        }) == 0);
}

namespace {

/// SIGRTMIN, blocked, for notifications; the queue of signals can be closed and opened.
class QueuedSignals {
 public:
  QueuedSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGRTMIN);
    CHECK(pthread_sigmask(SIG_BLOCK, &set_, nullptr) == 0);
    CHECK(::getrlimit(RLIMIT_SIGPENDING, &limit_) == 0);
  }
  /// Those of this user's other processes count, too, so that none at all can be queued when shut.
  void open(bool open) {
    limit_.rlim_cur = open ? limit_.rlim_max : 0;
    CHECK(::setrlimit(RLIMIT_SIGPENDING, &limit_) == 0);
  }
  static void notify(aiocb& request, int value) {
    request.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    request.aio_sigevent.sigev_signo = SIGRTMIN;
    request.aio_sigevent.sigev_value.sival_int = value;
  }
  /// The value of the next.
  [[nodiscard]] int take() const {
    siginfo_t info{};
    const timespec patience = host::patience();
    CHECK(::sigtimedwait(&set_, &info, &patience) == SIGRTMIN);
    return info.si_value.sival_int;
  }

 private:
  sigset_t set_;
  rlimit limit_{};
};

}  // namespace

HOST_CASE(signals_of_a_full_queue_keep_their_order, "signals") {
  QueuedSignals signals;
  const int file = host::temporary(0, 64);
  char byte = 0;
  aiocb reads[2] = {host::request(file, &byte, 1), host::request(file, &byte, 1)};
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 2; ++i) {
      QueuedSignals::notify(reads[i], i);
      signals.open(i != 0);
      CHECK(aio_read(&reads[i]) == 0 && host::finish(reads[i]) == 1);
    }
    for (int i = 0; i < 2; ++i) CHECK(signals.take() == i);
  }
}
HOST_CASE(no_signal_is_lost_in_a_full_queue, "signals") {
  QueuedSignals signals;
  signals.open(false);
  const int file = host::temporary(O_DIRECT, 64U << 10);
  constexpr int count = 16;
  std::vector<aiocb> reads;
  for (int i = 0; i < count; ++i) {
    reads.push_back(host::request(file, host::aligned(), 4'096));
    QueuedSignals::notify(reads.back(), i);
  }
  for (aiocb& each : reads) CHECK(aio_read(&each) == 0);
  for (aiocb& each : reads) CHECK(host::finish(each) == 4'096);
  signals.open(true);
  unsigned seen = 0;
  for (int i = 0; i < count; ++i) seen |= 1U << signals.take();
  CHECK(seen == (1U << count) - 1);
}

namespace {

std::atomic<int> alarms{0};
std::atomic<Pipe*> to_wake{nullptr};

/// A handler every few milliseconds; with SA_RESTART or without.
void handle_alarms(int flags, int wake_after) {
  static int after;
  after = wake_after;
  struct sigaction action{};
  action.sa_flags = flags;
  action.sa_handler = [](int) {
    const int saved = errno;
    if (++alarms == after && to_wake != nullptr) CHECK(::write(to_wake.load()->in(), "a", 1) == 1);
    errno = saved;
  };
  CHECK(::sigaction(SIGALRM, &action, nullptr) == 0);
  const itimerval period{{0, 3'000}, {0, 3'000}};
  CHECK(::setitimer(ITIMER_REAL, &period, nullptr) == 0);
}

}  // namespace

HOST_CASE(suspend_restarts_on_pipes, "signals") {
  Pipe pipe;
  to_wake = &pipe;
  aiocb read = host::request(pipe.out(), &global_byte, 1);
  CHECK(aio_read(&read) == 0);
  handle_alarms(SA_RESTART, 10);
  const aiocb* const list[] = {&read};
  CHECK(aio_suspend(list, 1, nullptr) == 0);
  CHECK(aio_error(&read) == 0);
}
HOST_CASE(suspend_restarts_on_files, "signals") {
  const int file = host::temporary(O_DIRECT, 8U << 20);
  handle_alarms(SA_RESTART, -1);
  aiocb read = host::request(file, host::aligned(64U << 10), 64U << 10);
  const aiocb* const list[] = {&read};
  for (int i = 0; i < 60 || alarms < 40; ++i) {
    read.aio_offset = static_cast<off_t>(i % 60) << 16;
    CHECK(aio_read(&read) == 0);
    CHECK(aio_suspend(list, 1, nullptr) == 0);
    CHECK(aio_error(&read) == 0 && aio_return(&read) == 64 << 10);
  }
}
HOST_CASE(suspend_is_interrupted_without_restart, "signals") {
  Pipe pipe;
  aiocb read = host::request(pipe.out(), &global_byte, 1);
  CHECK(aio_read(&read) == 0);
  handle_alarms(0, -1);
  const aiocb* const list[] = {&read};
  CHECK(aio_suspend(list, 1, nullptr) == -1 && errno == EINTR);
}
HOST_CASE(suspend_times_out_under_signals, "signals") {
  Pipe pipe;
  aiocb read = host::request(pipe.out(), &global_byte, 1);
  CHECK(aio_read(&read) == 0);
  const aiocb* const list[] = {&read};
  const timespec moment{0, 5'000'000};
  CHECK(aio_suspend(list, 1, &moment) == -1 && errno == EAGAIN);
}
HOST_CASE(handlers_ask_and_wait, "signals") {
  static host::Load load;
  static aiocb direct;
  static std::atomic<int> handled{0};
  direct = host::request(host::temporary(O_DIRECT, 4'096), host::aligned(), 4'096);
  struct sigaction action{};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int) {
    const int saved = errno;
    if (aio_error(&direct) != EINPROGRESS) {
      const aiocb* const list[] = {&direct};
      aio_suspend(list, 1, nullptr);
      ++handled;
    }
    errno = saved;
  };
  CHECK(::sigaction(SIGALRM, &action, nullptr) == 0);
  const itimerval period{{0, 1'000}, {0, 1'000}};
  CHECK(::setitimer(ITIMER_REAL, &period, nullptr) == 0);
  host::until([] {
    load.top_up();
    aiocb read = host::request(direct.aio_fildes, host::aligned(), 4'096);
    CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
    return handled > 50;
  });
}
// A handler that comes between the start of a request and its way into the kernel, or between its
// way out and its result, waits in vain (docs/guide/uaio.md): so no handler waits for ever.
HOST_CASE(handler_waits_for_the_request_below_it, "signals") {
  const int file = host::temporary(O_DIRECT, 4U << 20);
  struct sigaction action{};
  action.sa_handler = [](int) {
    const int saved = errno;
    const timespec while_it_may_last{0, 20'000'000};
    const aiocb* const list[] = {&global};
    const bool was_pending = aio_error(&global) == EINPROGRESS;
    if (was_pending && aio_suspend(list, 1, &while_it_may_last) == 0) ++alarms;
    errno = saved;
  };
  action.sa_flags = SA_RESTART;
  CHECK(::sigaction(SIGALRM, &action, nullptr) == 0);
  void* const memory = host::aligned();
  for (int i = 0; i < 100 || alarms < 20; ++i) {
    global = host::request(file, memory, 4'096, i % 1'000 * 4'096L);
    // One wait for each alarm: alarms that come faster than a handler waits leave the interrupted
    // code no time.
    const itimerval soon{{0, 0}, {0, 10 + i * 7 % 200}};
    CHECK(::setitimer(ITIMER_REAL, &soon, nullptr) == 0);
    CHECK(aio_read(&global) == 0);
    CHECK(host::finish(global) == 4'096);
  }
}
HOST_CASE(threads_of_the_library_take_no_signals, "signals") {
  static std::atomic<pthread_t> taker{};
  Pipe pipe;
  aiocb read = host::request(pipe.out(), &global_byte, 1);
  CHECK(aio_read(&read) == 0);
  struct sigaction action{};
  action.sa_handler = [](int) { taker = pthread_self(); };
  CHECK(::sigaction(SIGUSR1, &action, nullptr) == 0);
  for (int i = 0; i < 50; ++i) {
    taker = pthread_t{};
    CHECK(::kill(::getpid(), SIGUSR1) == 0);
    host::until([] { return taker.load() != pthread_t{}; });
    CHECK(taker.load() == pthread_self());
  }
}
HOST_CASE(many_threads_wait_for_direct_reads, "ends of threads") {
  const int file = host::temporary(O_DIRECT, 4U << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([file, t] {
      void* const memory = host::aligned();
      for (int i = 0; i < 60; ++i) {
        aiocb read = host::request(file, memory, 4'096, (t * 60 + i) * 4'096L);
        CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
      }
    });
  }
  for (std::thread& each : threads) each.join();
}
