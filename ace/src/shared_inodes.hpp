// SharedInodes: tells open files apart that have one inode, so that fstat(2) cannot show that a
// number names another one: the kernel's nameless files (eventfd, timerfd, inotify, signalfd), the
// masters of pseudo-terminals and other devices, a FIFO that is opened anew.
//
// An epoll set finds an entry by its number and its open file together, and the kernel removes the
// entries of a file that is closed. So a number names the same file as long as the set has it. No
// thread waits for the set.
#pragma once

#include <mutex>

namespace baton::ace {

class SharedInodes {
 public:
  SharedInodes() noexcept = default;
  ~SharedInodes();
  SharedInodes(const SharedInodes&) = delete;
  SharedInodes& operator=(const SharedInodes&) = delete;

  /// From now on knows() is true while the number names this file. 0, or an errno. The first call
  /// takes a descriptor.
  int add(int fildes) noexcept;
  [[nodiscard]] bool knows(int fildes) noexcept;

 private:
  std::mutex mutex_;
  int set_ = -1;
};

}  // namespace baton::ace
