/* uaio.h: asynchronous I/O by the interface of POSIX (aio.h), on Baton.
 *
 * The library of the thesis "Implementation of a Single Threaded User Level Asynchronous I/O
 * Library using the Reactor Pattern" (Kalicut, 2002), with its names, over the system's own
 * struct aiocb. Programs that are not to be changed use libuaio-preload.so instead, which has the
 * system's names: `uaio run PROGRAM ...`.
 *
 * Each function is POSIX's of the same name without the u, and has a manual page in section 3;
 * docs/guide/uaio.md lists where the thesis and POSIX differ (POSIX wins).
 *
 * Ownership. The aiocb and its buffer belong to the library from a successful start
 * until uaio_error returns something other than EINPROGRESS. From then on the library does not
 * touch the buffer again; after uaio_return (or uaio_waitcomplete) the aiocb may be used again,
 * leave its stack frame or be freed. Before that it may not, also after an ulio_listio that has
 * waited for it: the library keeps it in its list of what is complete.
 *
 * Threads and signals. Every function may be called by any thread. uaio_error, uaio_return and
 * uaio_suspend are async-signal-safe; the others never hang in a signal handler, unless it has
 * interrupted malloc. uaio_error and uaio_return make no system call for a request that is pending.
 * uaio_suspend and uaio_waitcomplete are cancellation points, the others are not.
 */
#ifndef UAIO_H
#define UAIO_H

#include <aio.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UAIO_API __attribute__((visibility("default")))

/* The most requests that one ulio_listio takes; longer lists are EINVAL. */
#define UAIO_LISTIO_MAX 65536

/* Start a request; 0, or -1 with errno: EAGAIN (no memory, descriptor or thread), EBADF (not open
 * for this), EINVAL (offset, priority or size). EFBIG and EOVERFLOW (beyond what the file may be)
 * come by uaio_error. */
UAIO_API int uaio_read(struct aiocb* request);
UAIO_API int uaio_write(struct aiocb* request);
/* The same with aio_buf an array of aio_nbytes struct iovec, which belongs to the library, too. */
UAIO_API int uaio_readv(struct aiocb* request);
UAIO_API int uaio_writev(struct aiocb* request);
/* Complete when every request on the file that was started before is, and the file is on its
 * medium. operation: O_SYNC or O_DSYNC. */
UAIO_API int uaio_fsync(int operation, struct aiocb* request);
/* Starts count requests by their aio_lio_opcode. LIO_WAIT: waits for all of them. */
UAIO_API int ulio_listio(int mode, struct aiocb* const list[], int count, struct sigevent* event);

/* 0, EINPROGRESS, ECANCELED or what went wrong; -1 with EINVAL: no request whose result is to be
 * fetched. */
UAIO_API int uaio_error(const struct aiocb* request);
/* The result, once. -1 with EINVAL as above; with EINPROGRESS: not complete. */
UAIO_API ssize_t uaio_return(struct aiocb* request);

/* Waits until one of them is complete. -1: EAGAIN when the time is over, EINTR. */
UAIO_API int uaio_suspend(const struct aiocb* const list[], int count,
                          const struct timespec* timeout);
/* Waits for the next completion of the process, takes it as uaio_return does, and stores whose it
 * is. -1 and *request NULL: EAGAIN when the time is over, EINTR, EINVAL: there is nothing to wait
 * for. */
UAIO_API ssize_t uaio_waitcomplete(struct aiocb** request, const struct timespec* timeout);

/* Cancels one request, or (NULL) all on the descriptor: AIO_CANCELED, AIO_NOTCANCELED, AIO_ALLDONE,
 * or -1 with EBADF. */
UAIO_API int uaio_cancel(int descriptor, struct aiocb* request);

/* Optional: reserves memory for aio_num requests. The other members have no effect. <aio.h> has
 * the structure for programs built with _GNU_SOURCE. */
struct aioinit;
UAIO_API void uaio_init(const struct aioinit* parameters);

/* Counters since the start, "name value" lines, written with a final NUL and cut to size; returns
 * the length of the whole text. */
UAIO_API size_t uaio_statistics(char* text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
