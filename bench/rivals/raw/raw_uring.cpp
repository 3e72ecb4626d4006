// The echo server that io_uring allows when nothing stands between: one thread, one ring mapped by
// hand through the three system calls, a single-shot receive or send per connection into the
// connection's own buffer, and one io_uring_enter that submits a round's requests and waits for
// the next completions. The floor for Baton's io_uring engine. Needs Linux 6.1 and its header.
//
//   raw_uring [--port P] [--block B]
//   raw_uring --sessions N --block B --rounds R     in lock-step (bench/lock_step.hpp)
//
// Prints `listening PORT`, serves until SIGTERM or SIGINT, then prints one line of JSON.
#include <arpa/inet.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "rivals/rival.hpp"

namespace {

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "raw_uring: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

// A release store hands entries to the kernel, an acquire load takes them over.
unsigned load_acquire(unsigned* p) { return std::atomic_ref(*p).load(std::memory_order_acquire); }
void store_release(unsigned* p, unsigned value) {
  std::atomic_ref(*p).store(value, std::memory_order_release);
}

class Ring {
 public:
  Ring(unsigned entries, unsigned completions) {
    io_uring_params params{};
    params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE;
    params.cq_entries = completions;
    descriptor_ = static_cast<int>(::syscall(__NR_io_uring_setup, entries, &params));
    if (descriptor_ < 0) die("io_uring_setup (needs Linux 6.1 and sysctl io_uring_disabled=0)");
    // Since Linux 5.4 both rings are one mapping.
    const std::size_t size =
        std::max(params.sq_off.array + params.sq_entries * sizeof(unsigned),
                 params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe));
    char* const rings = map(size, IORING_OFF_SQ_RING);
    requests_ = reinterpret_cast<io_uring_sqe*>(
        map(params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    const auto word = [&](unsigned offset) { return reinterpret_cast<unsigned*>(rings + offset); };
    sq_head_ = word(params.sq_off.head);
    sq_tail_ = word(params.sq_off.tail);
    sq_mask_ = *word(params.sq_off.ring_mask);
    sq_entries_ = params.sq_entries;
    // The i-th place of the queue always names the i-th request.
    for (unsigned i = 0; i < sq_entries_; ++i) word(params.sq_off.array)[i] = i;
    cq_head_ = word(params.cq_off.head);
    cq_tail_ = word(params.cq_off.tail);
    cq_mask_ = *word(params.cq_off.ring_mask);
    completions_ = reinterpret_cast<io_uring_cqe*>(rings + params.cq_off.cqes);
  }

  io_uring_sqe& next(std::uint8_t opcode, int fd, std::uint64_t tag) {
    if (tail_ - load_acquire(sq_head_) == sq_entries_) enter(0);
    io_uring_sqe& request = requests_[tail_++ & sq_mask_] = io_uring_sqe{};
    request.opcode = opcode;
    request.fd = fd;
    request.user_data = tag;
    return request;
  }

  // Submits what was filled and, if `wanted` is not 0, waits for that many completions.
  void enter(unsigned wanted) {
    store_release(sq_tail_, tail_);
    const unsigned count = tail_ - load_acquire(sq_head_);
    const unsigned flags = wanted > 0 ? IORING_ENTER_GETEVENTS : 0;
    if (::syscall(__NR_io_uring_enter, descriptor_, count, wanted, flags, nullptr, 0) < 0 &&
        errno != EINTR && errno != EBUSY) {
      die("io_uring_enter");
    }
  }

  template <typename Handler>
  void reap(Handler&& handle) {
    unsigned head = *cq_head_;
    for (const unsigned tail = load_acquire(cq_tail_); head != tail; ++head) {
      handle(completions_[head & cq_mask_]);
    }
    store_release(cq_head_, head);
  }

 private:
  char* map(std::size_t size, unsigned long offset) const {
    void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                            descriptor_, static_cast<off_t>(offset));
    if (at == MAP_FAILED) die("mmap");
    return static_cast<char*>(at);
  }

  int descriptor_ = -1;
  unsigned tail_ = 0;  // ours; the kernel sees it at enter
  unsigned *sq_head_, *sq_tail_, *cq_head_, *cq_tail_;
  unsigned sq_mask_, sq_entries_, cq_mask_;
  io_uring_sqe* requests_;
  io_uring_cqe* completions_;
};

struct Connection {
  int descriptor;
  bool sending;
  unsigned offset, size;  // sent of the bytes received, and these
  std::unique_ptr<char[]> buffer;
};

// Requests of no connection; a connection's tag is its address.
constexpr std::uint64_t accept_tag = 1, signal_tag = 2;

struct Server {
  lock_step::Peers* peers = nullptr;
  Ring ring{1024, 32'768};
  int listener = -1;
  unsigned block = 512;
  bool stopping = false;
  unsigned long long messages = 0, bytes = 0, accepted = 0;
  void start_accept() {
    ring.next(IORING_OP_ACCEPT, listener, accept_tag).accept_flags = SOCK_CLOEXEC;
  }

  void start_receive(Connection* c) {
    c->sending = false;
    auto& request = ring.next(IORING_OP_RECV, c->descriptor, reinterpret_cast<std::uint64_t>(c));
    request.addr = reinterpret_cast<std::uint64_t>(c->buffer.get());
    request.len = block;
  }

  void start_send(Connection* c) {
    c->sending = true;
    auto& request = ring.next(IORING_OP_SEND, c->descriptor, reinterpret_cast<std::uint64_t>(c));
    request.addr = reinterpret_cast<std::uint64_t>(c->buffer.get() + c->offset);
    request.len = c->size - c->offset;
    request.msg_flags = MSG_NOSIGNAL;
  }

  void add(int descriptor) {
    ++accepted;
    start_receive(new Connection{descriptor, false, 0, 0, std::make_unique<char[]>(block)});
  }

  void on_accept(int answer) {
    if (answer >= 0) {
      const int on = 1;
      ::setsockopt(answer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      add(answer);
    }
    start_accept();
  }

  void on_transfer(Connection* c, int answer) {
    if (answer <= 0) {
      ::close(c->descriptor);
      delete c;
    } else if (!c->sending) {
      ++messages;
      bytes += static_cast<unsigned>(answer);
      c->offset = 0;
      c->size = static_cast<unsigned>(answer);
      start_send(c);
    } else {
      c->offset += static_cast<unsigned>(answer);
      if (c->offset < c->size) return start_send(c);
      if (peers != nullptr) peers->answered();
      start_receive(c);
    }
  }

  void on_completion(const io_uring_cqe& completion) {
    if (completion.user_data == accept_tag) return on_accept(completion.res);
    if (completion.user_data == signal_tag) return void(stopping = true);
    on_transfer(reinterpret_cast<Connection*>(completion.user_data), completion.res);
  }

  void serve() {
    while (!stopping) {
      ring.enter(1);
      ring.reap([this](const io_uring_cqe& completion) { on_completion(completion); });
    }
  }
};

int listen_on(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("bind");
  if (::listen(fd, SOMAXCONN) != 0) die("listen");
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  std::printf("listening %u\n", static_cast<unsigned>(ntohs(address.sin_port)));
  std::fflush(stdout);
  return fd;
}

void print_statistics(const Server& server) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  std::printf(
      "{\"server\": \"raw_uring\", \"messages\": %llu, \"bytes\": %llu, "
      "\"accepted\": %llu, \"user_seconds\": %.6f, \"system_seconds\": %.6f, "
      "\"voluntary_switches\": %ld, \"involuntary_switches\": %ld}\n",
      server.messages, server.bytes, server.accepted, seconds(usage.ru_utime),
      seconds(usage.ru_stime), usage.ru_nvcsw, usage.ru_nivcsw);
}

}  // namespace

int main(int argc, char** argv) {
  rival::raise_descriptor_limit();
  const sigset_t ending = rival::block_ending_signals();

  Server server;
  lock_step::Peers peers(argc, argv);
  server.block = static_cast<unsigned>(peers.block());
  if (peers.present()) {
    server.peers = &peers;
    for (const int fd : peers.sessions()) server.add(fd);
    peers.begin();
    server.serve();
  }
  server.listener =
      listen_on(static_cast<std::uint16_t>(lock_step::number(argc, argv, "--port", 0)));
  const int signals = ::signalfd(-1, &ending, SFD_CLOEXEC);
  if (signals < 0 || server.block == 0) die("start");
  server.ring.next(IORING_OP_POLL_ADD, signals, signal_tag).poll32_events = POLLIN;
  server.start_accept();
  server.serve();
  print_statistics(server);
  return 0;
}
