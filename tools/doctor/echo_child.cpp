#include "echo_child.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "../echo/server.hpp"
#include "../load/report.hpp"
#include "../load/worker.hpp"
#include "child.hpp"

namespace baton::doctor {
namespace {

constexpr std::size_t block = 512;
constexpr int start_ms_max = 10'000;

// Set by ApartOnCores, of which there is one, in a process with one thread.
const cpu_set_t* child_cores = nullptr;

void say(int out, const std::string& text) {
  [[maybe_unused]] const ssize_t written = ::write(out, text.data(), text.size());
}

// The body of the child. It prints "port N" or an error first, and is killed at the end.
void serve(int out, const ProcessorConfig& processor) {
  if (child_cores != nullptr) ::sched_setaffinity(0, sizeof *child_cores, child_cores);
  Config config;
  config.processors = {processor};
  config.processors.front().threads = 1;
  config.require = {processor.engine};
  const auto proactor = Proactor::open(config);
  if (!proactor) return say(out, proactor.error().reason);
  auto acceptor = Acceptor::listen(**proactor, Endpoint::loopback(0));
  if (!acceptor) return say(out, "listen: " + acceptor.error().message());
  const auto local = acceptor->local_endpoint();
  if (!local) return say(out, "getsockname: " + local.error().message());
  tools::EchoOptions options;
  options.block = block;
  tools::EchoServer server(**proactor, options);
  tools::serve_by_callback(server, std::move(*acceptor));
  say(out, fmt::format("port {}\n", local->port()));
  ::close(out);
  (*proactor)->run();
}

// The child's first output, up to the newline or its end.
std::string first_words(int fd) {
  std::string text;
  while (text.find('\n') == text.npos) {
    pollfd one{fd, POLLIN, 0};
    const int ready = ::poll(&one, 1, start_ms_max);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return "the server did not listen in 10 s";
    char part[512];
    const ssize_t count = ::read(fd, part, sizeof part);
    if (count <= 0) break;
    text.append(part, static_cast<std::size_t>(count));
  }
  return text.empty() ? "the server ended without any output" : text;
}

}  // namespace

Result<std::unique_ptr<EchoChild>, Failure> EchoChild::start(const ProcessorConfig& processor) {
  const auto spawned = spawn([&](int out) { serve(out, processor); });
  if (!spawned) return unexpected{spawned.error()};
  const pid_t child = spawned->child;
  const std::string words = first_words(spawned->out);
  ::close(spawned->out);
  unsigned port = 0;
  if (std::sscanf(words.c_str(), "port %u", &port) != 1) {
    end_child(child);
    return unexpected{Failure{errc::engine_unavailable, words}};
  }
  return std::unique_ptr<EchoChild>(new EchoChild(child, static_cast<std::uint16_t>(port)));
}

EchoChild::~EchoChild() { end_child(child_); }

// The CPU time of all its threads, also those that the kernel has made for a ring. 0: it has ended.
double EchoChild::cpu_s() const {
  clockid_t clock{};
  timespec t{};
  if (::clock_getcpuclockid(child_, &clock) != 0 || ::clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void EchoChild::settle() const {
  constexpr timespec look{0, 1'000'000};
  constexpr int looks_max = 300;
  constexpr int quiet_wanted = 3;
  double before = cpu_s();
  for (int i = 0, quiet = 0; i < looks_max && quiet < quiet_wanted; ++i) {
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &look, nullptr);
    const double now = cpu_s();
    quiet = now == before ? quiet + 1 : 0;
    before = now;
  }
}

Result<EchoNumbers, Failure> EchoChild::measure(std::size_t sessions, double seconds,
                                                const tools::Pattern& pattern) const {
  tools::LoadOptions options;
  options.port = port_;
  options.sessions = sessions;
  options.block = block;
  options.seconds = seconds;
  tools::LoadTarget target;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::memcpy(&target.address, &address, sizeof address);
  target.address_size = sizeof address;

  tools::LoadWorker::Share share;
  share.session_count = sessions;
  tools::LoadReport report;
  double cpu = 0;
  double elapsed = 0;
  {
    // There is no descriptor for an early stop.
    tools::LoadWorker worker(options, target, pattern, share, -1);
    if (worker.connect_all()) {
      settle();
      const double before = cpu_s();
      const std::uint64_t start = tools::monotonic_ns();
      worker.run();
      worker.drain();
      cpu = cpu_s() - before;
      elapsed = static_cast<double>(tools::monotonic_ns() - start) / 1e9;
    }
    report.add(worker.result());
  }
  settle();  // so that the closes do not disturb the next measurement
  report.compute();
  if (report.errors.count() > 0) {
    return unexpected{
        Failure{std::make_error_code(std::errc::io_error), report.errors.texts().front()}};
  }
  if (report.messages_total == 0 || cpu <= 0) {
    return unexpected{
        Failure{std::make_error_code(std::errc::timed_out), "no message came back in time"}};
  }
  const auto messages = static_cast<double>(report.messages_total);
  return EchoNumbers{static_cast<double>(report.round_trips.percentile(0.5)) / 1000,
                     cpu * 1e6 / messages, messages / elapsed};
}

// --- cores --------------------------------------------------------------------------------------

struct ApartOnCores::Sets {
  cpu_set_t all;
  cpu_set_t children;
};

ApartOnCores::ApartOnCores() {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (::sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return;
  std::size_t last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &all)) --last;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(last, &own);
  if (::sched_setaffinity(0, sizeof own, &own) != 0) return;
  sets_ = std::make_unique<Sets>(Sets{all, all});
  CPU_CLR(last, &sets_->children);
  child_cores = &sets_->children;
}

ApartOnCores::~ApartOnCores() {
  if (sets_ == nullptr) return;
  child_cores = nullptr;
  ::sched_setaffinity(0, sizeof sets_->all, &sets_->all);
}

}  // namespace baton::doctor
