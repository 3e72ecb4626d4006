#include "worker.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "datagram_session.hpp"
#include "stream_session.hpp"

namespace baton::tools {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{64} * 1024;
constexpr int events_max = 512;
constexpr std::uint64_t stop_index = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t second_ns = 1'000'000'000;
constexpr int datagram_buffer_bytes = 1 << 20;  // of a socket

// The longest time without an event before a phase gives up: connecting, and the wait for blocks in
// flight at the end. Only time without progress counts, so a slow server is not called broken.
constexpr std::uint64_t silence_ns_max = 10 * second_ns;

double thread_cpu_s() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Rounded up, so that the wait does not end too early.
int timeout_ms(std::uint64_t now, std::uint64_t until) {
  if (until <= now) return 0;
  return static_cast<int>(std::min<std::uint64_t>((until - now + 999'999) / 1'000'000, 1'000'000));
}

std::unique_ptr<Session> make_session(const LoadOptions& options, std::size_t number) {
  if (options.datagrams()) {
    return std::make_unique<DatagramSession>(number, options.block, options.window);
  }
  return std::make_unique<StreamSession>(number, options.block, options.window);
}

}  // namespace

std::uint64_t monotonic_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * second_ns + static_cast<std::uint64_t>(t.tv_nsec);
}

LoadWorker::LoadWorker(const LoadOptions& options, const LoadTarget& target, const Pattern& pattern,
                       Share share, int stop_descriptor)
    : options_(options),
      target_(target),
      pattern_(pattern),
      share_(share),
      stop_descriptor_(stop_descriptor),
      connections_(share.idle_count + share.session_count),
      buffer_(buffer_bytes) {
  sessions_.reserve(share.session_count);
  for (std::size_t i = 0; i < share.session_count; ++i) {
    sessions_.push_back(make_session(options, share.session_first + i));
  }
  if (options.apart > 0) result_.session_round_trips.resize(share.session_count);
  again_.reserve(share.session_count);
  again_now_.reserve(share.session_count);
}

LoadWorker::~LoadWorker() {
  for (std::size_t i = 0; i < connections_.size(); ++i) close(i);
  if (epoll_ >= 0) ::close(epoll_);
}

void LoadWorker::close(std::size_t index) {
  if (connections_[index].descriptor >= 0) ::close(connections_[index].descriptor);
  connections_[index] = {};
}

// --- connecting ---------------------------------------------------------------------------------

bool LoadWorker::connect_all() {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) {
    result_.errors.add(fmt::format("epoll_create1: {}{}", std::strerror(errno), advice_for(errno)));
    return false;
  }
  epoll_event stop{};
  stop.events = EPOLLIN;
  stop.data.u64 = stop_index;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, stop_descriptor_, &stop);

  std::size_t next = 0;
  std::uint64_t progress_at = monotonic_ns();
  while (connected_count_ < connections_.size()) {
    // Paced: a burst longer than the server's backlog would lose connection requests, and TCP
    // repeats a lost one only after a second.
    while (next < connections_.size() && connecting_count_ < share_.connecting_max &&
           result_.errors.count() == 0) {
      start_connect(next++);
    }
    if (result_.errors.count() > 0 || stop_requested_) return false;

    const std::size_t connected_before = connected_count_;
    epoll_event events[events_max];
    const int count = ::epoll_wait(epoll_, events, events_max,
                                   timeout_ms(monotonic_ns(), progress_at + silence_ns_max));
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == stop_index) {
        stop_event();
      } else {
        end_connect(static_cast<std::size_t>(events[i].data.u64));
      }
    }
    const std::uint64_t now = monotonic_ns();
    if (connected_count_ > connected_before) {
      progress_at = now;
    } else if (now >= progress_at + silence_ns_max) {
      result_.errors.add(fmt::format("{} of {} connections were not established{}",
                                     connections_.size() - connected_count_, connections_.size(),
                                     advice_for(ETIMEDOUT)));
    }
  }
  return result_.errors.count() == 0 && !stop_requested_;
}

void LoadWorker::start_connect(std::size_t index) {
  const int type = options_.datagrams() ? SOCK_DGRAM : SOCK_STREAM;
  const int fd = ::socket(target_.address.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return connect_failed(index, errno);
  connections_[index].descriptor = fd;

  const int on = 1;
  if (options_.datagrams()) {
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &datagram_buffer_bytes, sizeof datagram_buffer_bytes);
  } else {
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  if (target_.source_count > 0) {
    // The port is chosen at connect, where only the whole pair of addresses must be unique; bind
    // alone would need it unique for the source address (since Linux 4.2).
    ::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    sockaddr_in source{};
    source.sin_family = AF_INET;
    const auto turn = static_cast<std::uint32_t>(index % target_.source_count);
    source.sin_addr.s_addr = htonl(INADDR_LOOPBACK + turn);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&source), sizeof source) != 0) {
      return connect_failed(index, errno);
    }
  }

  // One registration for the connection's life: edge-triggered, so that neither the end of the
  // connect nor a full socket needs another epoll_ctl.
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLET;
  event.data.u64 = index;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) return connect_failed(index, errno);

  const auto* address = reinterpret_cast<const sockaddr*>(&target_.address);
  if (::connect(fd, address, target_.address_size) != 0 && errno != EINPROGRESS) {
    return connect_failed(index, errno);
  }
  ++connecting_count_;  // even if it is connected already: the event comes all the same
}

void LoadWorker::end_connect(std::size_t index) {
  Connection& connection = connections_[index];
  if (connection.connected || connection.descriptor < 0) return;
  // A socket that was registered before its connect reports a hang-up until then.
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(connection.descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return connect_failed(index, error);
  sockaddr_storage peer{};
  socklen_t peer_size = sizeof peer;
  if (::getpeername(connection.descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) {
    return;
  }
  connection.connected = true;
  ++connected_count_;
  --connecting_count_;
}

void LoadWorker::connect_failed(std::size_t index, int error) {
  result_.errors.add(fmt::format("connection {} to {}:{} failed: {}{}", index, options_.host,
                                 options_.port, std::strerror(error), advice_for(error)));
}

// --- running ------------------------------------------------------------------------------------

void LoadWorker::run() {
  const std::uint64_t start = monotonic_ns();
  const double cpu_start = thread_cpu_s();
  const auto length = static_cast<std::uint64_t>(options_.seconds * static_cast<double>(second_ns));

  for (std::size_t i = share_.idle_count; i < connections_.size(); ++i) serve_session(i, false);
  // Without a connection no event will come.
  while (!stop_requested_ && failed_count_ < sessions_.size() && monotonic_ns() < start + length) {
    serve(start + length);
    messages_so_far_.store(messages_, std::memory_order_relaxed);
  }

  result_.elapsed_s = static_cast<double>(monotonic_ns() - start) / static_cast<double>(second_ns);
  result_.cpu_s = thread_cpu_s() - cpu_start;
  result_.messages = messages_;
  result_.bytes = bytes_;
  for (const auto& session : sessions_) {
    result_.session_messages.push_back(session->messages());
    if (session->received() == 0) ++result_.silent;
  }
}

// One wait and its events. False: the wait timed out.
bool LoadWorker::serve(std::uint64_t until) {
  epoll_event events[events_max];
  if (options_.datagrams()) until = std::min(until, look_at_);
  const int timeout = again_.empty() ? timeout_ms(monotonic_ns(), until) : 0;
  const int count = ::epoll_wait(epoll_, events, events_max, timeout);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == stop_index) {
      stop_event();
    } else {
      serve_event(static_cast<std::size_t>(events[i].data.u64), events[i].events);
    }
  }
  const bool again = !again_.empty();
  serve_again();
  if (options_.datagrams()) look_for_lost();
  return count > 0 || again;
}

// No event reports a lost datagram.
void LoadWorker::look_for_lost() {
  const std::uint64_t now = monotonic_ns();
  if (now < look_at_) return;
  look_at_ = now + DatagramSession::look_ns;
  for (std::size_t i = share_.idle_count; i < connections_.size(); ++i) serve_session(i, false);
}

// Ctrl-C is remembered, and its descriptor no longer watched, because it stays readable.
void LoadWorker::stop_event() {
  stop_requested_ = true;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, stop_descriptor_, nullptr);
}

void LoadWorker::serve_event(std::size_t index, std::uint32_t events) {
  if (connections_[index].descriptor < 0) return;
  const bool readable = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
  if (is_idle(index)) {
    if (readable) serve_idle(index);
  } else {
    serve_session(index, readable);
  }
}

// Sessions that had more to read than one visit's share: an edge is not reported twice.
void LoadWorker::serve_again() {
  again_now_.swap(again_);
  for (const std::size_t index : again_now_) serve_session(index, true);
  again_now_.clear();
}

void LoadWorker::serve_session(std::size_t index, bool readable) {
  if (connections_[index].descriptor < 0) return;
  const std::size_t place = index - share_.idle_count;
  Session& session = *sessions_[place];
  Histogram& round_trips =
      options_.apart > 0 ? result_.session_round_trips[place] : result_.round_trips;
  const std::uint64_t messages_before = session.messages();
  const std::uint64_t bytes_before = session.received();
  const bool busy_before = !session.idle();
  const auto progress = session.visit(connections_[index].descriptor, pattern_, buffer_,
                                      monotonic_ns(), readable, closing_, round_trips);
  messages_ += session.messages() - messages_before;
  bytes_ += session.received() - bytes_before;
  if (progress == Session::Progress::more) {
    again_.push_back(index);
  } else if (progress == Session::Progress::failed) {
    if (session.byte_was_wrong()) ++result_.wrong;
    result_.errors.add(fmt::format("session {}: {}", session.number(), session.error()));
    close(index);
    ++failed_count_;
  }
  if (closing_ && busy_before && (session.idle() || session.failed())) --busy_count_;
}

void LoadWorker::serve_idle(std::size_t index) {
  std::byte unexpected{};
  const ssize_t count = ::recv(connections_[index].descriptor, &unexpected, 1, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const char* what = count > 0    ? "got bytes that were not sent"
                     : count == 0 ? "was closed by the server"
                                  : std::strerror(errno);
  result_.errors.add(fmt::format("idle connection {}: {}", index, what));
  close(index);
}

// --- ending -------------------------------------------------------------------------------------

// Messages in flight at the end are waited for and compared, but do not count in the rates. A
// Ctrl-C that did not end the measured part ends this.
void LoadWorker::drain() {
  closing_ = true;
  const bool run_was_stopped = stop_requested_;
  for (const auto& session : sessions_) {
    if (!session->failed() && !session->idle()) ++busy_count_;
  }
  std::uint64_t progress_at = monotonic_ns();
  while (busy_count_ > 0 && stop_requested_ == run_was_stopped) {
    const std::uint64_t bytes_before = bytes_;
    serve(progress_at + silence_ns_max);
    const std::uint64_t now = monotonic_ns();
    if (bytes_ > bytes_before) {
      progress_at = now;
    } else if (now >= progress_at + silence_ns_max) {
      break;
    }
  }
  result_.messages_total = messages_;
  for (const auto& session : sessions_) {
    result_.datagrams.add(session->datagrams());
    if (session->failed() || session->idle()) continue;
    const std::string bytes =
        fmt::format("session {}: {} bytes", session->number(), session->outstanding());
    result_.errors.add(
        stop_requested_ != run_was_stopped
            ? bytes + " had not come back when it was stopped"
            : fmt::format("{} never came back (none in {} s)", bytes, silence_ns_max / second_ns));
  }
}

}  // namespace baton::tools
