// Shared by the fairness programs: N connected sockets, a sender process that keeps all of them
// full without waiting for one, and the report. Each program has a reactor that reads one chunk for
// each event; this file depends on none of them.
//
//   fairness_NAME --connections N --threads M --seconds T [--chunk BYTES]
//
// Prints one line of JSON: chunks per socket, least and most, spread = (most - least) / most,
// Jain's index, chunks per second, the CPU time of the reading process per chunk, and how often a
// read has emptied its socket (dry, as a fraction of the chunks). In a run with dry reads the
// sender causes a part of the spread. So the sockets have deep buffers and are full when the clock
// starts, and a short pause of the sender has no effect.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace fairness {

struct Options {
  std::size_t connections = 50;
  std::size_t threads = 3;
  double seconds = 10;
  std::size_t chunk = 256;
};

[[noreturn]] inline void die(const char* what) {
  std::fprintf(stderr, "fairness: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

inline Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--connections") options.connections = std::strtoul(argv[i + 1], nullptr, 10);
    if (name == "--threads") options.threads = std::strtoul(argv[i + 1], nullptr, 10);
    if (name == "--seconds") options.seconds = std::strtod(argv[i + 1], nullptr);
    if (name == "--chunk") options.chunk = std::strtoul(argv[i + 1], nullptr, 10);
  }
  return options;
}

/// One socket's count, in a cache line of its own, so that threads do not share it.
struct alignas(64) Counter {
  std::uint64_t chunks = 0;
  std::uint64_t dry = 0;
};

/// Reads one chunk; false at the end of the stream.
inline bool read_chunk(int fd, std::size_t chunk, Counter& counter) {
  thread_local char buffer[65'536];
  const ssize_t got = ::recv(fd, buffer, std::min(chunk, sizeof buffer), MSG_DONTWAIT);
  if (got > 0) ++counter.chunks;
  if (got != static_cast<ssize_t>(chunk)) ++counter.dry;
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/// The sockets to read from, and the process that fills them.
class Arena {
 public:
  explicit Arena(std::size_t connections) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    connect_all(connections);
    if (::pipe2(go_, O_CLOEXEC) != 0) die("pipe");
    sender_ = ::fork();
    if (sender_ < 0) die("fork");
    if (sender_ == 0) send_for_ever();
    for (const int fd : far_ends_) ::close(fd);
    ::close(go_[0]);
  }
  ~Arena() {
    ::kill(sender_, SIGKILL);
    ::waitpid(sender_, nullptr, 0);
    for (const int fd : sockets) ::close(fd);
    ::close(go_[1]);
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Returns when every socket is readable and the sender has filled all of them.
  void start_sending() {
    if (::write(go_[1], "g", 1) != 1) die("write");
    for (std::size_t before = 0;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::size_t now = 0;
      bool all = true;
      for (const int fd : sockets) {
        int bytes = 0;
        if (::ioctl(fd, FIONREAD, &bytes) != 0) die("FIONREAD");
        all = all && bytes > 0;
        now += static_cast<std::size_t>(bytes);
      }
      if (all && now == before) return;
      before = now;
    }
  }

  std::vector<int> sockets;

 private:
  // Seconds of work for the readers, but not so much that the system runs short. Without privileges
  // the system's own limit is the most.
  static void deepen(int fd, int forced, int plain, std::size_t connections) {
    constexpr std::size_t all_max = std::size_t{256} << 20;
    constexpr std::size_t one_max = std::size_t{4} << 20;
    const int bytes = static_cast<int>(std::min(one_max, all_max / connections));
    if (::setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) == 0) return;
    if (::setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes) != 0) die("setsockopt");
  }

  void connect_all(std::size_t connections) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    if (listener >= 0) deepen(listener, SO_RCVBUFFORCE, SO_RCVBUF, connections);
    if (listener < 0 || ::bind(listener, plain, size) != 0 || ::listen(listener, 128) != 0 ||
        ::getsockname(listener, plain, &size) != 0) {
      die("listen");
    }
    for (std::size_t i = 0; i < connections; ++i) {
      const int far_end = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (far_end < 0 || ::connect(far_end, plain, size) != 0) die("connect");
      const int near = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (near < 0) die("accept");
      deepen(far_end, SO_SNDBUFFORCE, SO_SNDBUF, connections);
      ::fcntl(far_end, F_SETFL, O_NONBLOCK);
      sockets.push_back(near);
      far_ends_.push_back(far_end);
    }
    ::close(listener);
  }

  // Sixteen chunks and more a call, so that the sender is never the bottleneck.
  [[noreturn]] void send_for_ever() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const int fd : sockets) ::close(fd);
    char go;
    if (::read(go_[0], &go, 1) != 1) ::_exit(0);
    const std::vector<char> block(65'536, 'x');
    std::vector<pollfd> list;
    for (const int fd : far_ends_) list.push_back({fd, POLLOUT, 0});
    for (;;) {
      if (::poll(list.data(), list.size(), -1) <= 0) ::_exit(0);
      for (const pollfd& entry : list) {
        if (entry.revents == 0) continue;
        if (::send(entry.fd, block.data(), block.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
          ::_exit(0);
        }
      }
    }
  }

  std::vector<int> far_ends_;
  int go_[2]{-1, -1};
  pid_t sender_ = -1;
};

inline double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Runs `body(thread)` in so many threads for the given time; `end` makes them return. Prints the
/// report. Counters are read when all threads have returned.
template <class Body, class End>
void run(const char* name, const Options& options, Arena& arena, std::vector<Counter>& counters,
         Body&& body, End&& end, const std::string& more = {}) {
  arena.start_sending();
  std::vector<std::thread> threads;
  try {
    for (std::size_t i = 0; i < options.threads; ++i) threads.emplace_back(body, i);
  } catch (...) {
    end();
    for (std::thread& thread : threads) thread.join();
    throw;
  }
  const double cpu_before = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  const double cpu = cpu_seconds() - cpu_before;
  const std::chrono::duration<double> span = std::chrono::steady_clock::now() - start;
  end();
  for (std::thread& thread : threads) thread.join();

  double sum = 0;
  double squares = 0;
  std::uint64_t dry = 0;
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;
  std::string list;
  for (const Counter& counter : counters) {
    const auto count = static_cast<double>(counter.chunks);
    sum += count;
    squares += count * count;
    dry += counter.dry;
    least = std::min(least, counter.chunks);
    most = std::max(most, counter.chunks);
    list += (list.empty() ? "" : ", ") + std::to_string(counter.chunks);
  }
  const double spread =
      most > 0 ? static_cast<double>(most - least) / static_cast<double>(most) : 1;
  const double jain =
      squares > 0 ? sum * sum / (static_cast<double>(counters.size()) * squares) : 0;
  std::printf(
      "{\"program\": \"%s\", \"connections\": %zu, \"threads\": %zu, \"seconds\": %.3f, "
      "\"chunk\": %zu, \"chunks\": %.0f, \"rate\": %.1f, \"spread\": %.6f, \"jain\": %.6f, "
      "\"cpu_us\": %.4f, \"dry\": %.6f, \"least\": %llu, \"most\": %llu, %s\"counts\": [%s]}\n",
      name, counters.size(), options.threads, span.count(), options.chunk, sum, sum / span.count(),
      spread, jain, sum > 0 ? cpu * 1e6 / sum : 0, sum > 0 ? static_cast<double>(dry) / sum : 0,
      static_cast<unsigned long long>(least), static_cast<unsigned long long>(most), more.c_str(),
      list.c_str());
}

}  // namespace fairness
