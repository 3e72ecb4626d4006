// The system calls of a message, made directly. The C library's functions are cancellation points.
// In a process that has had a second thread each of them costs two locked instructions and some
// fifty others for that. No thread can be cancelled inside this library anyway. Sanitizer builds
// use the C library's functions, which the sanitizers know.
#pragma once

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "base/assert.hpp"

namespace baton::os::direct {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool calls_directly = false;
#else
inline constexpr bool calls_directly = true;
#endif

template <class... Arguments>
long call(long number, Arguments... arguments) {
#ifdef __x86_64__
  static_assert(sizeof...(arguments) <= 6);
  const long given[6] = {(long)arguments...};
  register long fourth asm("r10") = given[3];
  register long fifth asm("r8") = given[4];
  register long sixth asm("r9") = given[5];
  long result = number;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(given[0]), "S"(given[1]), "d"(given[2]), "r"(fourth), "r"(fifth), "r"(sixth)
               : "rcx", "r11", "memory");
  if (BATON_LIKELY(result >= 0 || result < -4095)) return result;
  errno = static_cast<int>(-result);
  return -1;
#else
  return ::syscall(number, arguments...);
#endif
}

inline ssize_t read_some(int fd, void* buffer, size_t size) {
  return calls_directly ? call(SYS_read, fd, buffer, size) : ::read(fd, buffer, size);
}
inline ssize_t write_some(int fd, const void* buffer, size_t size) {
  return calls_directly ? call(SYS_write, fd, buffer, size) : ::write(fd, buffer, size);
}
inline ssize_t receive(int fd, void* buffer, size_t size, int flags) {
  return calls_directly ? call(SYS_recvfrom, fd, buffer, size, flags, nullptr, nullptr)
                        : ::recv(fd, buffer, size, flags);
}
inline ssize_t send_some(int fd, const void* buffer, size_t size, int flags) {
  return calls_directly ? call(SYS_sendto, fd, buffer, size, flags, nullptr, 0)
                        : ::send(fd, buffer, size, flags);
}
inline ssize_t receive_from(int fd, void* buffer, size_t size, int flags, sockaddr* from,
                            socklen_t* from_size) {
  return calls_directly ? call(SYS_recvfrom, fd, buffer, size, flags, from, from_size)
                        : ::recvfrom(fd, buffer, size, flags, from, from_size);
}
inline ssize_t send_to(int fd, const void* buffer, size_t size, int flags, const sockaddr* to,
                       socklen_t to_size) {
  return calls_directly ? call(SYS_sendto, fd, buffer, size, flags, to, to_size)
                        : ::sendto(fd, buffer, size, flags, to, to_size);
}
inline ssize_t receive_message(int fd, msghdr* message, int flags) {
  return calls_directly ? call(SYS_recvmsg, fd, message, flags) : ::recvmsg(fd, message, flags);
}
inline ssize_t send_message(int fd, const msghdr* message, int flags) {
  return calls_directly ? call(SYS_sendmsg, fd, message, flags) : ::sendmsg(fd, message, flags);
}

}  // namespace baton::os::direct
