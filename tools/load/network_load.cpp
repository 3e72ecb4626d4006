// The run as a whole: limits, addresses, threads, progress and report.
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "../output.hpp"
#include "../printable.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "worker.hpp"

namespace baton::tools {
namespace {

constexpr std::size_t connecting_max = 256;
constexpr std::size_t spare_descriptors = 32;

// --- limits and addresses -----------------------------------------------------------------------

// Raises the soft limit as far as possible; returns a message if that is not enough.
std::optional<std::string> make_room_for(std::size_t connections) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t needed = connections + spare_descriptors;
  if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= needed) return std::nullopt;
  return fmt::format(
      "{} connections need {} descriptors and the limit is {} - raise it with "
      "'ulimit -n {}' as root, or use fewer --sessions and --idle",
      connections, needed, limit.rlim_max, needed);
}

std::size_t ephemeral_port_count() {
  std::size_t first = 32'768;
  std::size_t last = 60'999;  // the kernel's default, if the file is missing
  if (std::FILE* file = std::fopen("/proc/sys/net/ipv4/ip_local_port_range", "re")) {
    if (std::fscanf(file, "%zu %zu", &first, &last) != 2) {
      first = 32'768;
      last = 60'999;
    }
    std::fclose(file);
  }
  return last >= first ? last - first + 1 : 1;
}

std::optional<std::string> resolve(const LoadOptions& options, LoadTarget& target) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = fmt::format("{}", options.port);
  const int error = ::getaddrinfo(options.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return fmt::format("host '{}': {}", options.host, ::gai_strerror(error));
  }
  std::memcpy(&target.address, found->ai_addr, found->ai_addrlen);
  target.address_size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return std::nullopt;
}

// Half of the range is left to other programs and to connections in TIME_WAIT.
unsigned source_count_for(const LoadTarget& target, std::size_t connections) {
  if (target.address.ss_family != AF_INET) return 0;
  sockaddr_in v4{};
  std::memcpy(&v4, &target.address, sizeof v4);
  if (ntohl(v4.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET) return 0;
  const std::size_t a_source = std::max<std::size_t>(1, ephemeral_port_count() / 2);
  const std::size_t sources = (connections + a_source - 1) / a_source;
  return sources <= 1 ? 0 : static_cast<unsigned>(std::min<std::size_t>(sources, 250));
}

// --- Ctrl-C -------------------------------------------------------------------------------------

int stop_descriptor = -1;

extern "C" void request_stop(int) {
  const int saved = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_descriptor, &one, sizeof one);
  errno = saved;
}

// The first Ctrl-C ends the run early and still gives the report; a second one ends the process.
bool watch_for_stop() {
  stop_descriptor = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (stop_descriptor < 0) return false;
  struct sigaction action{};
  action.sa_handler = request_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  return true;
}

bool stop_was_requested() {
  std::uint64_t times = 0;
  return ::read(stop_descriptor, &times, sizeof times) == sizeof times;
}

// --- the run ------------------------------------------------------------------------------------

using Workers = std::vector<std::unique_ptr<LoadWorker>>;

// An even share for each worker; the first ones take the rest.
LoadWorker::Share share_of(const LoadOptions& options, std::size_t worker) {
  const auto part = [&](std::size_t whole, std::size_t index) {
    return whole / options.threads + (index < whole % options.threads ? 1 : 0);
  };
  LoadWorker::Share share;
  for (std::size_t i = 0; i < worker; ++i) share.session_first += part(options.sessions, i);
  share.session_count = part(options.sessions, worker);
  share.idle_count = part(options.idle, worker);
  share.connecting_max = std::max<std::size_t>(1, connecting_max / options.threads);
  return share;
}

// Lets the calling program inspect the server between two parts of the run.
void hold_for(const char* part) noexcept {
  print("{}\n", part);
  if (!flush_output()) return;
  int c = 0;
  while ((c = std::getchar()) != '\n' && c != EOF) {
  }
}

LoadReport run_workers(const LoadOptions& options, Workers& workers) {
  // No session starts before all are connected, and none closes before all have finished.
  const auto worker_count = static_cast<std::ptrdiff_t>(workers.size());
  const bool hold = options.hold;
  std::atomic<bool> all_connected{true};
  std::atomic<bool> out_of_memory{false};
  std::optional<Progress> progress;
  const auto on_connected = [&]() noexcept {
    if (!all_connected) return;
    if (hold) hold_for("connected");
    progress.emplace(options.seconds, "messages", [&workers] {
      std::uint64_t count = 0;
      for (const auto& worker : workers) count += worker->messages_so_far();
      return count;
    });
  };
  const auto on_measured = [&]() noexcept { progress.reset(); };
  const auto on_finished = [hold]() noexcept {
    if (hold) hold_for("finished");
  };
  std::barrier connected(worker_count, on_connected);
  std::barrier measured(worker_count, on_measured);
  std::barrier finished(worker_count, on_finished);
  // A worker without memory still reaches the barrier of the others.
  const auto done = [&](auto&& part) {
    try {
      return part();
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
      return false;
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(workers.size());
  std::string no_thread;
  try {
    for (auto& worker : workers) {
      threads.emplace_back([&] {
        if (!done([&] { return worker->connect_all(); })) all_connected = false;
        connected.arrive_and_wait();
        if (all_connected) {
          done([&] { return worker->run(), true; });
          measured.arrive_and_wait();
          done([&] { return worker->drain(), true; });
          finished.arrive_and_wait();
        }
      });
    }
  } catch (const std::system_error& error) {
    no_thread = fmt::format("only {} of {} threads could be started ({}); give fewer --threads",
                            threads.size(), workers.size(), error.code().message());
    all_connected = false;
    for (std::size_t i = threads.size(); i < workers.size(); ++i) connected.arrive_and_drop();
  }
  for (auto& thread : threads) thread.join();

  LoadReport report;
  if (!no_thread.empty()) report.errors.add(no_thread);
  if (out_of_memory) report.errors.add("not enough memory; give fewer --sessions or less --window");
  for (const auto& worker : workers) report.add(worker->result());
  report.compute(options.apart);
  return report;
}

/// No message came back, and no session failed.
std::string why_nothing_came(const LoadOptions& options, const LoadReport& report) {
  if (stop_was_requested()) return "stopped before a message came back";
  if (!options.datagrams()) {
    return fmt::format("no message came back in {} s; give more --seconds", options.seconds);
  }
  return fmt::format(
      "none of {} datagrams came back; check that an echo server for UDP is there (baton echo "
      "--protocol udp), or give more --seconds",
      report.datagrams.sent);
}

int fail(const std::string& why) {
  note("baton load: {}\n", printable(why));
  return 1;
}

}  // namespace

int run_network_load(const LoadOptions& wanted) {
  LoadOptions options = wanted;
  options.threads = std::clamp<std::size_t>(options.threads, 1, options.sessions);
  const std::size_t connections = options.sessions + options.idle;
  if (auto why = make_room_for(connections)) return fail(*why);
  LoadTarget target;
  if (auto why = resolve(options, target)) return fail(*why);
  target.source_count = source_count_for(target, connections);
  if (!watch_for_stop()) return fail(fmt::format("eventfd: {}", std::strerror(errno)));

  const Pattern pattern;
  Workers workers;
  for (std::size_t i = 0; i < options.threads; ++i) {
    workers.push_back(std::make_unique<LoadWorker>(options, target, pattern, share_of(options, i),
                                                   stop_descriptor));
  }
  const LoadReport report = run_workers(options, workers);
  workers.clear();
  if (report.messages_total == 0) {
    // Nothing was measured, so only the reason is printed.
    for (const auto& text : report.errors.texts()) note("baton load: {}\n", printable(text));
    if (report.errors.count() == 0 && !options.json)
      note("baton load: {}\n", why_nothing_came(options, report));
    if (!options.json) return 1;
  }
  print_text(options.json ? report.json(options) : report.text(options));
  return report.passed() && report.messages_total > 0 ? 0 : 1;
}

}  // namespace baton::tools
