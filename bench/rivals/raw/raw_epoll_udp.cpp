// The echo of datagrams that epoll allows when nothing stands between: level-triggered, one thread,
// one buffer, read until there is no more or a turn is over. The floor for UDP on Baton's emulated
// engine.
//
//   raw_epoll_udp [--port P] [--block B]
//
// Prints `listening PORT`, serves until SIGTERM or SIGINT, then prints one line of JSON.
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include "rivals/rival.hpp"

namespace {

constexpr int turn_max = 64;  // then it checks whether it must end

unsigned long long messages = 0;

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) rival::die("epoll_ctl");
}

void echo(int fd, std::vector<char>& buffer) {
  for (int i = 0; i < turn_max; ++i) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    auto* const address = reinterpret_cast<sockaddr*>(&peer);
    const ssize_t got = ::recvfrom(fd, buffer.data(), buffer.size(), 0, address, &size);
    if (got < 0) return;
    ++messages;
    // A datagram that the socket does not take is lost, as datagrams may be.
    static_cast<void>(::sendto(fd, buffer.data(), static_cast<std::size_t>(got), 0, address, size));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const sigset_t ending = rival::block_ending_signals();
  std::vector<char> buffer(lock_step::number(argc, argv, "--block", 512));
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  const int signals = ::signalfd(-1, &ending, SFD_NONBLOCK | SFD_CLOEXEC);
  if (epoll < 0 || signals < 0) rival::die("start");
  const int fd = rival::datagrams_on(lock_step::number(argc, argv, "--port", 0));
  watch(epoll, signals);
  watch(epoll, fd);
  for (bool ended = false; !ended;) {
    epoll_event events[2];
    const int count = ::epoll_wait(epoll, events, 2, -1);
    if (count < 0 && errno != EINTR) rival::die("epoll_wait");
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == fd) {
        echo(fd, buffer);
      } else {
        ended = true;
      }
    }
  }
  rival::print_statistics("raw_epoll_udp", messages);
}
