// Requests at unusual moments and places: while a process ends, in the middle of a fork, on the
// smallest stacks, under filters installed later.
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <thread>

#include "host.hpp"

using host::Pipe;

namespace {

int direct_file;
Pipe* stream;

/// A request for each path through the library.
void use_all_roads() {
  const std::size_t size = 4'096;
  aiocb direct = host::request(direct_file, host::aligned(), size);
  CHECK(aio_read(&direct) == 0 && host::finish(direct) == 4'096);
  char byte = 0;
  aiocb read = host::request(stream->out(), &byte, 1);
  CHECK(aio_read(&read) == 0 && ::write(stream->in(), "r", 1) == 1);
  CHECK(host::finish(read) == 1 && byte == 'r');
  aiocb sync = host::request(direct_file, nullptr, 0);
  CHECK(aio_fsync(O_SYNC, &sync) == 0 && host::finish(sync) == 0);
}

void open_all_roads() {
  direct_file = host::temporary(O_DIRECT, 64U << 10);
  stream = new Pipe;
}

struct AtTheEnd {
  bool active = false;
  ~AtTheEnd() {
    if (active) use_all_roads();
  }
};
AtTheEnd at_the_end;

int refuse_by_filter(std::initializer_list<int> calls, int error, unsigned flags) {
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
  for (const int call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return host::install(program, flags);
}

std::size_t numbers_in_use() {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/thread-self/fd")) {
    static_cast<void>(each);
    ++count;
  }
  return count;
}

}  // namespace

HOST_CASE(requests_while_a_process_ends, "fork and exec") {
  CHECK(host::in_child([] {
          open_all_roads();
          at_the_end.active = true;
          std::atexit(use_all_roads);
          std::exit(0);
        }) == 0);
}
HOST_CASE(requests_while_a_process_ends_after_others, "fork and exec") {
  CHECK(host::in_child([] {
          open_all_roads();
          use_all_roads();
          at_the_end.active = true;
          std::atexit(use_all_roads);
          std::exit(0);
        }) == 0);
}
HOST_CASE(requests_while_a_thread_ends, "ends of threads") {
  open_all_roads();
  static pthread_key_t key;
  CHECK(pthread_key_create(&key, [](void*) { use_all_roads(); }) == 0);
  for (int i = 0; i < 10; ++i) {
    std::thread{[] {
      pthread_setspecific(key, &key);
      static thread_local struct Local {
        ~Local() { use_all_roads(); }
      } local;
      static_cast<void>(&local);
    }}.join();
  }
}
HOST_CASE(callbacks_use_the_programs_descriptors, "callbacks") {
  open_all_roads();
  static Pipe answer;
  static int spare = ::dup(answer.in());
  char byte = 0;
  const int file = host::temporary(0, 64U << 10);
  const auto told = [](sigval) {
    // A file of the library's with one of these numbers would take it, or be closed.
    CHECK(::write(answer.in(), "c", 1) == 1);
    CHECK(::write(spare, "c", 1) == 1);
    CHECK(::close(spare) == 0);
    spare = ::dup(answer.in());
    use_all_roads();
    CHECK(::write(answer.in(), "e", 1) == 1);
  };
  for (int i = 0; i < 4; ++i) {
    aiocb block = host::request(i < 2 ? stream->out() : (i == 2 ? file : direct_file), &byte, 1);
    block.aio_sigevent.sigev_notify = SIGEV_THREAD;
    block.aio_sigevent.sigev_notify_function = told;
    block.aio_sigevent.sigev_notify_attributes = nullptr;
    if (i < 2) CHECK(aio_read(&block) == 0);
    if (i >= 2) CHECK(aio_fsync(O_SYNC, &block) == 0);
    if (i < 2) CHECK(::write(stream->in(), "b", 1) == 1);
    char got[3] = {};
    for (char& each : got) CHECK(::read(answer.out(), &each, 1) == 1);
    CHECK(got[0] == 'c' && got[1] == 'c' && got[2] == 'e');
    CHECK(host::finish(block) == (i < 2 ? 1 : 0));
  }
  CHECK(::fcntl(spare, F_GETFD) >= 0);
}
HOST_CASE(exit_in_a_callback, "callbacks") {
  CHECK(host::in_child([] {
          open_all_roads();
          char byte = 0;
          aiocb read = host::request(stream->out(), &byte, 1);
          read.aio_sigevent.sigev_notify = SIGEV_THREAD;
          read.aio_sigevent.sigev_notify_function = [](sigval) {
            std::atexit(use_all_roads);
            std::exit(7);
          };
          read.aio_sigevent.sigev_notify_attributes = nullptr;
          CHECK(aio_read(&read) == 0);
          CHECK(::write(stream->in(), "e", 1) == 1);
          for (;;) ::pause();
        }) == 7);
}
HOST_CASE(fork_handlers_make_requests, "fork and exec") {
  open_all_roads();
  use_all_roads();
  CHECK(pthread_atfork(use_all_roads, use_all_roads, use_all_roads) == 0);
  for (int i = 0; i < 5; ++i) CHECK(host::in_child(use_all_roads) == 0);
}
HOST_CASE(child_of_vfork_makes_requests, "fork and exec") {
  host::end_in_time();
  open_all_roads();
  use_all_roads();
  // A child cannot make a thread, so the library's stay, however long the device takes.
  Pipe idle;
  char byte = 0;
  aiocb pending = host::request(idle.out(), &byte, 1);
  CHECK(aio_read(&pending) == 0);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::vfork();
    if (child == 0) {
      use_all_roads();
      ::_exit(0);
    }
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child && status == 0);
    use_all_roads();
  }
  CHECK(::write(idle.in(), "v", 1) == 1 && host::finish(pending) == 1);
}
HOST_CASE(child_of_vfork_makes_the_first_request, "fork and exec") {
  host::end_in_time();
  open_all_roads();
  const pid_t child = ::vfork();
  if (child == 0) {
    // The start may be refused. A thread of the child would end with the child, and the parent
    // would wait for it.
    aiocb read = host::request(stream->out(), host::aligned(), 1);
    if (aio_read(&read) == 0 && ::write(stream->in(), "v", 1) == 1) host::wait_for(read);
    ::_exit(0);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
  use_all_roads();
}
HOST_CASE(smallest_stacks, "limits") {
  open_all_roads();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  // The smallest: what this program's thread-local data takes of it, and PTHREAD_STACK_MIN.
  const auto minimum = reinterpret_cast<std::size_t (*)(const pthread_attr_t*)>(
      ::dlsym(RTLD_DEFAULT, "__pthread_get_minstack"));
  const std::size_t smallest = minimum != nullptr ? minimum(&attributes) : 0;
  CHECK(pthread_attr_setstacksize(
            &attributes, std::max(smallest, static_cast<std::size_t>(PTHREAD_STACK_MIN)) + 4'096) ==
        0);
  for (int i = 0; i < 5; ++i) {
    pthread_t thread;
    CHECK(pthread_create(
              &thread, &attributes,
              [](void*) -> void* {
                use_all_roads();
                aiocb blocks[8];
                aiocb* list[8];
                static char* const data = static_cast<char*>(host::aligned());
                for (int each = 0; each < 8; ++each) {
                  blocks[each] = host::request(direct_file, data, 4'096);
                  blocks[each].aio_lio_opcode = LIO_READ;
                  list[each] = &blocks[each];
                }
                CHECK(lio_listio(LIO_WAIT, list, 8, nullptr) == 0);
                CHECK(aio_cancel(direct_file, nullptr) == AIO_ALLDONE);
                return nullptr;
              },
              nullptr) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
    // The library's threads end when they are idle, so the next one may start them.
    const timespec longer{1, 200'000'000};
    if (i == 2) ::nanosleep(&longer, nullptr);
  }
}
HOST_CASE(handler_on_the_smallest_stack, "signals") {
  open_all_roads();
  use_all_roads();
  static int done = 0;
  stack_t small{};
  // The size of the kernel's frame there depends on the processor's registers.
  small.ss_size = std::max(::getauxval(AT_MINSIGSTKSZ), 2'048UL) + 8'192;
  small.ss_sp = host::aligned(small.ss_size);
  CHECK(::sigaltstack(&small, nullptr) == 0);
  struct sigaction action{};
  action.sa_handler = [](int) {
    static char* const data = static_cast<char*>(host::aligned());
    aiocb direct = host::request(direct_file, data, 4'096);
    CHECK(aio_read(&direct) == 0 && host::finish(direct) == 4'096);
    char byte = 0;
    aiocb read = host::request(stream->out(), &byte, 1);
    CHECK(aio_read(&read) == 0 && ::write(stream->in(), "s", 1) == 1 && host::finish(read) == 1);
    ++done;
  };
  action.sa_flags = SA_ONSTACK;
  CHECK(::sigaction(SIGUSR1, &action, nullptr) == 0);
  for (int i = 0; i < 20; ++i) ::raise(SIGUSR1);
  CHECK(done == 20);
}
HOST_CASE(packets_of_a_pipe_keep_their_bounds, "kinds of files") {
  int ends[2];
  CHECK(::pipe2(ends, O_DIRECT) == 0);
  char bytes[3][16];
  aiocb blocks[3];
  for (int i = 0; i < 3; ++i) {
    blocks[i] = host::request(ends[0], bytes[i], sizeof(bytes[i]));
    CHECK(aio_read(&blocks[i]) == 0);
  }
  for (int i = 0; i < 3; ++i) {
    aiocb write = host::request(ends[1], const_cast<char*>("packet"), static_cast<size_t>(i) + 2);
    CHECK(aio_write(&write) == 0 && host::finish(write) == i + 2);
  }
  for (int i = 0; i < 3; ++i) CHECK(host::finish(blocks[i]) == i + 2);
}
HOST_CASE(sealed_memory_is_not_written, "kinds of files") {
  const int file = ::memfd_create("sealed", MFD_ALLOW_SEALING);
  CHECK(file >= 0);
  char byte = 's';
  constexpr off_t far = (off_t{5} << 30) + 3;
  aiocb write = host::request(file, &byte, 1, far);
  CHECK(aio_write(&write) == 0 && host::finish(write) == 1);
  CHECK(::fcntl(file, F_ADD_SEALS, F_SEAL_GROW) == 0);
  write.aio_offset = far + 1;
  CHECK(aio_write(&write) == 0 && host::finish(write) == -1 && errno == EPERM);
  CHECK(::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == 0);
  write.aio_offset = far;
  CHECK(aio_write(&write) == 0 && host::finish(write) == -1 && errno == EPERM);
  byte = 0;
  aiocb read = host::request(file, &byte, 1, far);
  CHECK(aio_read(&read) == 0 && host::finish(read) == 1 && byte == 's');
}
HOST_CASE(native_aio_is_refused_later, "filters") {
  for (const unsigned flags : {0U, unsigned{SECCOMP_FILTER_FLAG_TSYNC}}) {
    CHECK(host::in_child([flags] {
            open_all_roads();
            use_all_roads();
            if (refuse_by_filter({SYS_io_setup, SYS_io_submit, SYS_io_getevents}, EPERM, flags) !=
                0)
              host::skip("seccomp is refused");
            use_all_roads();
            aiocb write = host::request(direct_file, host::aligned(), 4'096);
            CHECK(aio_write(&write) == 0 && host::finish(write) == 4'096);
          }) == 0);
  }
}
// Nothing can be opened, as in a process that has locked itself up. Requests that need a descriptor
// of the library's are refused, and the others work.
static void work_or_refuse() {
  aiocb direct = host::request(direct_file, host::aligned(), 4'096);
  CHECK(aio_read(&direct) == 0 && host::finish(direct) == 4'096);
  char byte = 0;
  aiocb read = host::request(stream->out(), &byte, 1);
  CHECK(::write(stream->in(), "w", 1) == 1);
  const bool started = aio_read(&read) == 0;
  CHECK(started || errno == EAGAIN);
  if (started) CHECK(host::finish(read) == 1 || errno == EAGAIN);
}
HOST_CASE(no_descriptor_may_be_opened, "limits") {
  CHECK(host::in_child([] {
          open_all_roads();
          const rlimit none{0, 0};
          CHECK(::setrlimit(RLIMIT_NOFILE, &none) == 0);
          work_or_refuse();
        }) == 0);
}
HOST_CASE(no_descriptor_may_be_opened_later, "limits") {
  CHECK(host::in_child([] {
          open_all_roads();
          use_all_roads();
          const rlimit none{0, 0};
          CHECK(::setrlimit(RLIMIT_NOFILE, &none) == 0);
          work_or_refuse();
        }) == 0);
}
HOST_CASE(threads_with_tables_of_their_own, "descriptors") {
  open_all_roads();
  std::atomic<int> turn{0};
  constexpr int turns = 200;
  std::size_t before[2] = {};
  std::size_t after[2] = {};
  const auto take_turns = [&](int side) {
    for (int i = 0; i < turns; ++i) {
      while (turn != 2 * i + side) std::this_thread::yield();
      use_all_roads();
      if (i == 2) before[side] = numbers_in_use();
      if (i == turns - 1) after[side] = numbers_in_use();
      ++turn;
    }
  };
  std::thread other{[&] {
    CHECK(::unshare(CLONE_FILES) == 0);
    take_turns(1);
  }};
  take_turns(0);
  other.join();
  CHECK(after[0] <= before[0] + 2 && after[1] <= before[1] + 2);
}
HOST_CASE(process_leaves_its_table, "descriptors") {
  open_all_roads();
  use_all_roads();
  CHECK(::unshare(CLONE_FILES) == 0);
  open_all_roads();
  use_all_roads();
}
HOST_CASE(child_in_another_namespace, "fork and exec") {
  open_all_roads();
  use_all_roads();
  if (::unshare(CLONE_NEWPID) != 0) host::skip("may not make a namespace of processes");
  use_all_roads();
  CHECK(host::in_child(use_all_roads) == 0);
}
HOST_CASE(copy_of_a_pending_block_is_not_waited_for, "answers") {
  host::end_in_time();
  Pipe pipe;
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&read) == 0);
  const aiocb copy = read;
  const aiocb* const list[] = {&copy};
  CHECK(aio_suspend(list, 1, nullptr) == 0);
  CHECK(::write(pipe.in(), "c", 1) == 1 && host::finish(read) == 1);
}
HOST_CASE(stop_is_no_interruption, "signals") {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  CHECK(::sigaction(SIGUSR2, &action, nullptr) == 0);
  CHECK(host::in_child([] {
          Pipe pipe;
          const pid_t me = ::getpid();
          const pid_t other = ::fork();
          if (other == 0) {
            const timespec moment{0, 20'000'000};
            for (int i = 0; i < 10; ++i) {
              ::nanosleep(&moment, nullptr);
              ::kill(me, SIGSTOP);
              ::nanosleep(&moment, nullptr);
              ::kill(me, SIGCONT);
            }
            CHECK(::write(pipe.in(), "s", 1) == 1);
            ::_exit(0);
          }
          char byte = 0;
          aiocb read = host::request(pipe.out(), &byte, 1);
          CHECK(aio_read(&read) == 0);
          const aiocb* const list[] = {&read};
          const timespec patience = host::patience();
          CHECK(aio_suspend(list, 1, &patience) == 0);
          CHECK(host::finish(read) == 1);
        }) == 0);
}
HOST_CASE(stop_is_no_interruption_of_direct_reads, "signals") {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  CHECK(::sigaction(SIGUSR2, &action, nullptr) == 0);
  CHECK(host::in_child([] {
          constexpr std::size_t size = 8U << 20;
          const int file = host::temporary(O_DIRECT, size);
          void* const memory = host::aligned(size);
          const pid_t me = ::getpid();
          const pid_t other = ::fork();
          if (other == 0) {
            const timespec moment{0, 2'000'000};
            for (int i = 0; i < 2 * host::rounds(); ++i) {
              ::nanosleep(&moment, nullptr);
              ::kill(me, SIGSTOP);
              ::kill(me, SIGCONT);
            }
            ::_exit(0);
          }
          const timespec patience = host::patience();
          while (::waitpid(other, nullptr, WNOHANG) == 0) {
            aiocb read = host::request(file, memory, size);
            const aiocb* const list[] = {&read};
            CHECK(aio_read(&read) == 0 && aio_suspend(list, 1, &patience) == 0);
            CHECK(host::finish(read) == static_cast<ssize_t>(size));
          }
        }) == 0);
}
HOST_CASE(block_in_a_packed_struct, "answers") {
  alignas(16) static unsigned char memory[sizeof(aiocb) + 16];
  Pipe pipe;
  char byte = 0;
  const int file = host::temporary(0, 64);
  for (const unsigned place : {4U, 2U, 1U}) {
    auto* const block = reinterpret_cast<aiocb*>(memory + place);
    for (const int from : {pipe.out(), file}) {
      const aiocb aligned = host::request(from, &byte, 1);
      std::memcpy(static_cast<void*>(block), &aligned, sizeof(aligned));
      CHECK(aio_read(block) == 0 && ::write(pipe.in(), "p", 1) == 1);
      CHECK(host::finish(*block) == 1);
    }
    CHECK(::read(pipe.out(), &byte, 1) == 1);
  }
}
HOST_CASE(one_block_is_started_twice, "answers") {
  Pipe pipe;
  char byte = 0;
  aiocb read = host::request(pipe.out(), &byte, 1);
  for (int i = 0; i < 3; ++i) CHECK(aio_read(&read) == 0);
  CHECK(::write(pipe.in(), "one", 3) == 3);
  host::wait_for(read);
  open_all_roads();
  use_all_roads();
}
HOST_CASE(cancels_close_and_dup2_at_once, "descriptors") {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  const int number = ::fcntl(1, F_DUPFD, 500);  // not that of a pipe to come
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        aio_cancel(number, nullptr);
        std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < host::rounds() * 5; ++i) {
    Pipe pipe;
    CHECK(::dup2(pipe.out(), number) == number);
    char bytes[4] = {};
    aiocb blocks[4];
    for (int each = 0; each < 4; ++each) {
      blocks[each] = host::request(number, &bytes[each], 1);
      CHECK(aio_read(&blocks[each]) == 0);
    }
    if (i % 2 == 0) ::close(number);
    CHECK(::write(pipe.in(), "many", 4) == 4);
    for (aiocb& each : blocks) {
      const ssize_t answer = host::finish(each);
      CHECK(answer == 1 || (answer == -1 && (errno == ECANCELED || errno == EBADF)));
    }
    ::close(pipe.in());
    ::close(pipe.out());
  }
  stop = true;
  for (std::thread& each : threads) each.join();
}
HOST_CASE(places_at_the_end_of_all_numbers, "kinds of files") {
  const int file = host::temporary(0, 4'096);
  char bytes[16] = {};
  const off_t last = std::numeric_limits<off_t>::max();
  for (const off_t place : {last, last - 1, last - 8, last - 16}) {
    aiocb read = host::request(file, bytes, sizeof(bytes), place);
    CHECK(aio_read(&read) == 0);
    const ssize_t answer = host::finish(read);
    CHECK(answer == 0 || (answer == -1 && errno == EINVAL) || (answer == -1 && errno == EOVERFLOW));
    aiocb write = host::request(file, bytes, sizeof(bytes), place);
    CHECK(aio_write(&write) == 0);
    CHECK(host::finish(write) == -1 && (errno == EFBIG || errno == EINVAL));
  }
}
