// Mailbox: how requests reach a keeper, the thread that works on them with a table of descriptors
// of its own. A message carries a pointer and, by SCM_RIGHTS, the open file itself, so that the
// program's number is not needed any more, nor a duplicate in the program's table.
//
// The program's table holds the sender, at a high number. A program may close that number or reuse
// it for another file. So its identity is checked before each message, and a lost sender is
// replaced. For that the keeper listens at an abstract address that the kernel chooses, and accepts
// connections only from its own process.
#pragma once

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace uaio {

/// Room for so many descriptors in the calling thread's table for as long as it lives, also where
/// the program has lowered RLIMIT_NOFILE: the system's library needs no descriptor for a request.
class DescriptorRoom {
 public:
  explicit DescriptorRoom(std::size_t count) noexcept;
  ~DescriptorRoom();
  DescriptorRoom(const DescriptorRoom&) = delete;
  DescriptorRoom& operator=(const DescriptorRoom&) = delete;

  /// The hard limit does not allow more.
  [[nodiscard]] bool is_short() const noexcept {
    return raised_ && more_.rlim_cur == more_.rlim_max;
  }

 private:
  rlimit before_{};
  rlimit more_{};
  bool raised_ = false;
};

class Mailbox {
 public:
  enum class Sent : std::uint8_t { sent, lost, failed };
  enum class Received : std::uint8_t { message, nothing, ended, truncated };

  // -- the program's side -------------------------------------------------------------------------

  /// Connects a sender, in place of a lost one. A thread may have a table of descriptors of its own
  /// (unshare), and gets back the sender that is there. 0 or an errno. REQUIRES: the keeper
  /// listens; one thread at a time.
  int connect() noexcept;
  /// Any thread, and signal handlers. `fildes` < 0: the message carries no file. `lost`: the sender
  /// is gone, its keeper has ended, or there was none. `failed`: errno tells why, EBADF: `fildes`
  /// is no open file.
  Sent send(void* pointer, int fildes) noexcept;
  /// Closes the sender in the calling thread's table, if there is one. REQUIRES: as connect().
  void close_sender() noexcept;

  // -- the keeper's side --------------------------------------------------------------------------

  /// A listening socket, which belongs to the caller; -1 with errno, also when messages would not
  /// arrive.
  int listen() noexcept;
  /// Never blocks. The next receiver, which belongs to the caller; -1: none.
  static int accept(int listener) noexcept;
  /// Never blocks. `native` is -1 without a file, and where even a limit of `count` descriptors has
  /// no room for it.
  static Received receive(int receiver, std::size_t count, void*& pointer, int& native) noexcept;

 private:
  /// The inode of a socket is unique while it exists.
  struct Sender {
    int number = -1;
    dev_t device = 0;
    ino_t inode = 0;
  };
  /// It is in the calling thread's table.
  [[nodiscard]] static bool is_here(const Sender& sender) noexcept;
  [[nodiscard]] Sender current() const noexcept;
  void use(const Sender& sender) noexcept;
  [[nodiscard]] int try_out(int listener) const noexcept;
  static Received peek(int receiver, void*& pointer, int& native) noexcept;

  static constexpr std::size_t tables_max = 8;  // with more, some of their senders stay open
  Sender known_[tables_max];
  std::size_t next_ = 0;
  // One of the known. A thread that reads it while it changes finds none in its table.
  std::atomic<int> sender_{-1};
  std::atomic<dev_t> device_{0};
  std::atomic<ino_t> inode_{0};
  sockaddr_un address_{};
  socklen_t address_size_ = 0;
};

}  // namespace uaio
