// What read and write answer for files where an engine, which waits for readiness and then moves
// bytes, would not meet that answer: terminals, listeners, nameless files, transfers of no bytes.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include "baton/deadline.hpp"
#include "request.hpp"

namespace uaio {

/// The kernel may give the request to a thread of its own. It loses the request if the ring's first
/// such thread cannot be made (seen on Linux 6.18).
[[nodiscard]] bool may_need_thread(const Request& request, const struct stat& status) noexcept;
/// A read of the process's own terminal by a background process. The call returns EIO at once, as
/// for a thread that has SIGTTIN blocked. Readiness, which an engine waits for, does not show this.
[[nodiscard]] bool reads_in_background(const Request& request, const struct stat& status) noexcept;
/// The errno of a read on a listening socket, else 0. There is never anything to read, and the call
/// fails at once. Readiness, which an engine may wait for, shows connections instead.
[[nodiscard]] int error_of_listener(const Request& request, const struct stat& status) noexcept;
/// A nameless file of the kernel: an eventfd, a timerfd, a signalfd, an epoll set.
[[nodiscard]] bool is_nameless(const struct stat& status) noexcept;
/// A file that makes its readers wait for data, such as /proc/kmsg, says so. Files on a disk are
/// always ready.
[[nodiscard]] bool is_unready(const Request& request) noexcept;
/// read() or write() of no bytes. Some files answer with an error, which an engine would not meet.
/// False: it is an empty datagram, which has to wait, or the call might wait.
[[nodiscard]] bool moves_nothing(const Request& request, const struct stat& status,
                                 ssize_t& moved) noexcept;
/// The time that the program has set by SO_RCVTIMEO or SO_SNDTIMEO, after which reads and writes
/// return EAGAIN.
[[nodiscard]] baton::Deadline end_of_wait(const Request& request) noexcept;
/// How long a read of a terminal in non-canonical mode waits if it needs no character (VMIN is 0):
/// at most VTIME, and then it returns 0. -1: as other reads do.
[[nodiscard]] int tenths_of_wait(const Request& request) noexcept;
/// The call itself, at the request's place: the bytes, or -1 and errno. Waits for the device.
[[nodiscard]] ssize_t move_now(const Request& request) noexcept;
/// Whether the call returns without waiting, with the result in `moved` and errno. A read of too
/// few bytes, or of an unreadable file, fails at once; readiness, which an engine may wait for,
/// does not show this. False also if the kernel cannot tell. preadv2 of no bytes checks nothing;
/// one byte is too few for an eventfd, a timerfd and a signalfd. An eventfd, full or not, refuses a
/// write of less than 8 bytes.
[[nodiscard]] bool answers_at_once(const Request& request, ssize_t& moved) noexcept;
/// Whether the call returns now although the file is not ready, which an engine may wait for.
/// Examples are a read of a message queue, which returns the queue's status, and a write to a file
/// that cannot be written.
[[nodiscard]] bool answers_unready(const Request& request) noexcept;
/// The write would raise SIGXFSZ.
[[nodiscard]] bool is_beyond_limit(const Request& request) noexcept;
/// A read of a terminal that returns what is there, or nothing. False: another reader keeps the
/// terminal to itself. A blocking read would wait for that one, so the terminal is opened anew (by
/// /proc).
[[nodiscard]] bool reads_terminal_now(const Request& request, ssize_t& moved) noexcept;

}  // namespace uaio
