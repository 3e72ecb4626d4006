/* baton.h: Baton's interface for C and for other languages. One flat set of functions over plain
 * structs; no callback, no inline code, no header of the system.
 *
 *   baton_config config = BATON_CONFIG_INIT;
 *   baton_proactor *proactor;
 *   baton_open(&config, &proactor, why, sizeof why);
 *   baton_listen(proactor, "127.0.0.1:7007", 128, &listener);
 *
 *   baton_operation accept = BATON_OPERATION_INIT;
 *   accept.kind = BATON_ACCEPT;
 *   accept.handle = listener;
 *   accept.tag = 1;
 *   baton_start(proactor, &accept, 1, NULL, NULL);
 *
 *   baton_completion done[64];
 *   int count;
 *   while ((count = baton_wait(proactor, done, 64, -1)) >= 0) { ... look at the tags ... }
 *
 * How it works. baton_start copies operations into slots that baton_open has reserved, and returns
 * how many it took. baton_wait drives the proactor in the calling thread and returns completions.
 * Each operation that was taken gives exactly one completion, and one caller gets it. Between open
 * and close only tables grow, in chunks, up to their bound. baton_pool_open, debug=1 and
 * engine=chaos also allocate.
 *
 * Ownership. The operation structs are copied. The memory behind their pointers (buffers, a list of
 * buffers, a delimiter, an endpoint) belongs to Baton from the start until baton_wait or baton_poll
 * has returned that operation's own completion. This holds even if the operation was cancelled or
 * its handle closed meanwhile.
 *
 * Errors. 0 is success; a positive number is an error: one of the system's (errno), or one of
 * Baton's own from BATON_ERROR_BASE upwards. baton_error_text explains both. Functions that return
 * a count return the negated error instead.
 *
 * No strands. A strand keeps handlers from overlapping, and C has no handlers. A completion is a
 * value that the calling thread has received, and Baton cannot see when that thread has handled it.
 * Use the tag to keep order. Have one operation of a kind in flight for each object, and start the
 * next when its completion is handled. Or hand completions to the thread that owns the object.
 *
 * Threads. Every function may be called by any thread at any time, unless it says otherwise.
 * In per_thread mode a thread in baton_wait holds a lane. It returns the completions of that lane,
 * and of lanes without a thread. While other threads wait, one of them takes a lane whose thread
 * has been between two calls for a few milliseconds.
 * (io_uring is then opened in its form for changing threads. A program with profile=pinned must
 * keep its threads to the end, and close from the only one.) Only baton_poll, baton_status,
 * baton_glance, baton_pool_give and baton_version are safe inside a signal handler.
 *
 * Misuse. A proactor that is NULL or closed is answered. Functions with an error return EINVAL,
 * those with a count -EINVAL; baton_start returns 0, and *why_not is EINVAL. A text is empty,
 * baton_now is 0, a descriptor is -1, baton_glance is BATON_CANNOT_TELL, and the others do nothing.
 * A closed proactor is known until 64 more have been closed; then its memory is used again. A
 * number that no function gave out is refused like that of a handle or an operation that has ended.
 * Numbers do not say whose they are: that of another proactor may mean something else here.
 *
 * Versions. Structs carry their size, so that a program and a shared library of different versions
 * work together: initialise them with the macros. A library refuses (E2BIG) a struct that
 * is larger than it knows and not zero beyond, and any size above 256, at which it does not look.
 */
#ifndef BATON_H
#define BATON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef BATON_API
#if defined(__GNUC__)
#define BATON_API __attribute__((visibility("default")))
#else
#define BATON_API
#endif
#endif

/* A proactor of baton_open. The struct itself is private to the library. */
typedef struct baton_proactor baton_proactor;

/* Names a descriptor that a proactor knows. It is never 0, and never used again after its close. So
 * a late use is an error (BATON_HANDLE_CLOSED), and not an operation on another descriptor. */
typedef uint64_t baton_handle;

/* Names one activation of one slot: what baton_cancel and baton_status ask for. Never 0. Reused
 * only after 2^32 uses of the slot. */
typedef uint64_t baton_activation;

/* ---- errors ---------------------------------------------------------------------------------- */

/* Baton's own errors: baton::errc plus BATON_ERROR_BASE. docs/guide/errors.md explains each. */
enum {
  BATON_ERROR_BASE = 10000,
  BATON_OPERATION_IN_USE = 10001,
  BATON_HANDLE_CLOSED = 10002,
  BATON_LIMIT_REACHED = 10003,
  BATON_STOPPED = 10004,
  BATON_NOT_SUPPORTED = 10005,
  BATON_TIMED_OUT = 10006,
  BATON_END_OF_STREAM = 10007,
  BATON_DELIMITER_NOT_FOUND = 10008,
  BATON_WRONG_THREAD = 10009,
  BATON_TOO_MANY_THREADS = 10010,
  BATON_DESCRIPTOR_OUT_OF_RANGE = 10011,
  BATON_NO_FREE_HANDLES = 10012,
  BATON_POOL_EXHAUSTED = 10013,
  BATON_ENGINE_UNAVAILABLE = 10014,
  BATON_ENGINE_FORBIDDEN = 10015,
  BATON_UNKNOWN_NAME = 10016,
  BATON_BAD_CONFIGURATION = 10017,
  BATON_AFTER_FORK = 10018,
  BATON_WRONG_HANDLE_KIND = 10019,
  BATON_ALREADY_ADOPTED = 10020,
  BATON_NOT_PREPARED = 10021, /* not of this interface, which prepares */
  BATON_ENGINE_LOST = 10022
};

/* ---- opening and closing --------------------------------------------------------------------- */

enum {
  BATON_ENVIRONMENT = 1 /* BATON_CONFIG, BATON, BATON_REQUIRE, _PREFER, _FORBID: over `text` */
};

/* The argument of baton_open: begin with BATON_CONFIG_INIT. */
typedef struct baton_config {
  uint32_t size;            /* sizeof(baton_config) */
  uint32_t completion_size; /* sizeof(baton_completion): the stride of arrays of completions */
  uint32_t slots;           /* operations started and not yet delivered, at most; 0: 1024 */
  uint32_t flags;           /* BATON_ENVIRONMENT */
  const char* text;         /* "engine=emulated,mode=shared", or an XML document; NULL: defaults */
} baton_config;

/* The library's version, "0.1.0", static and with a final NUL. Any thread. */
BATON_API const char* baton_version(void);

/* Opens a proactor. On failure returns an error, stores NULL in *out, and writes a sentence that
 * says what is missing into reason (may be NULL), cut to reason_size with its final NUL. */
BATON_API int baton_open(const baton_config* config, baton_proactor** out, char* reason,
                         size_t reason_size);

/* Cancels what is pending, closes every owned descriptor, and frees everything; completions that
 * were not delivered are dropped, and a connection in one of them is closed. NULL is allowed, and a
 * second close does nothing.
 * REQUIRES: no thread is inside a function with this proactor, or enters one before this has
 * returned; no other thread is attached. */
BATON_API void baton_close(baton_proactor* proactor);

/* Makes every thread return from baton_wait with -BATON_STOPPED, now and later. Starts fail. */
BATON_API void baton_stop(baton_proactor* proactor);

/* Ends gracefully: pending accepts are cancelled and new ones refused (BATON_STOPPED), the rest
 * goes on; when nothing is pending any more it is as after baton_stop. At deadline_ns, a point of
 * baton_now's clock (0: none), the rest is cancelled and delivered, and new starts are refused.
 * Returns at once: baton_wait returns -BATON_STOPPED when everything has been delivered.
 * EINVAL: the deadline is negative. A second drain can only bring the deadline forward. */
BATON_API int baton_drain(baton_proactor* proactor, int64_t deadline_ns);

/* After baton_stop, or a drain that is complete or not: starts are taken again, and baton_wait
 * waits again. Pending operations stay pending. */
BATON_API void baton_restart(baton_proactor* proactor);

/* The choices and their reasons, lines of text; and the counters, "name value" lines. Written with
 * a final NUL and cut to `size`; the result is the length of the whole text, without the NUL. */
BATON_API size_t baton_explain(baton_proactor* proactor, char* text, size_t size);
BATON_API size_t baton_statistics(baton_proactor* proactor, char* text, size_t size);

/* Operations pending for at least age_ns, the oldest first, with a line for each: age, kind, state,
 * handle, descriptor, bytes moved, and the lower 32 bits of the tag. Another line has the work that
 * waits for a thread in baton_wait. In per_thread mode threads that do not answer within 0.2 s
 * are named instead. Writes and returns as above. */
BATON_API size_t baton_pending(baton_proactor* proactor, int64_t age_ns, char* text, size_t size);

/* The engines of this library in order of preference, a name and a line feed each. Writes and
 * returns as baton_explain. */
BATON_API size_t baton_engines(char* text, size_t size);

/* Whether this engine can be opened here and now: 0, or an error (BATON_UNKNOWN_NAME,
 * BATON_ENGINE_UNAVAILABLE, or the system's). With an error, `reason` gets a sentence that says
 * what is missing and what would help, cut as by baton_open. Opens the engine and closes it again.
 * Reads no environment. EINVAL: engine is NULL. */
BATON_API int baton_engine_reason(const char* engine, char* reason, size_t reason_size);

/* In the child after fork, before it opens anything and before anything else is done with the
 * proactor there: opens it anew. All slots are free, all handles gone, owned descriptors are closed
 * in the child, borrowed ones are untouched. Pending operations give no completion, and what they
 * have accepted or taken from a pool is given back. On failure only baton_close is allowed.
 * REQUIRES: called by the only thread of the child. */
BATON_API int baton_fork_child(baton_proactor* proactor);

/* The monotonic clock in nanoseconds, for deadlines. */
BATON_API int64_t baton_now(baton_proactor* proactor);

/* ---- loops of others ------------------------------------------------------------------------- */

/* For a program with an event loop of its own: a descriptor that is readable when the engine may
 * have completed something. Then call baton_wait with 0 ns until it returns 0. Do the same after
 * every start, cancel, close and drain. Timers, deadlines, posted operations, and starts and
 * cancels by other threads do not show here: limit the loop's own wait. -1: there is none
 * (mode=dedicated, several engines or lanes, an engine without one). It belongs to Baton, and is
 * another one after baton_fork_child. */
BATON_API int baton_descriptor(const baton_proactor* proactor);

enum {
  BATON_CANNOT_TELL = 0, /* only the system knows: ask baton_descriptor, or wait */
  BATON_NOTHING = 1,     /* a wait of 0 ns would find nothing of the engine's */
  BATON_SOMETHING = 2    /* it would return completions, or have the system deliver some */
};

/* The result of a wait of 0 ns, as far as it shows without a lock and a system call. Also
 * inside a signal handler, but not during baton_fork_child. */
BATON_API int baton_glance(const baton_proactor* proactor);

/* A line about an error. Writes and returns as baton_explain. */
BATON_API size_t baton_error_text(int error, char* text, size_t size);

/* ---- addresses ------------------------------------------------------------------------------- */

/* An IPv4, IPv6 or UNIX address: the first `length` bytes are the system's sockaddr. */
typedef struct baton_endpoint {
  uint64_t address[14]; /* the system's sockaddr; read it by baton_endpoint_print */
  uint32_t length;      /* 0: none */
  uint32_t reserved;
} baton_endpoint;

/* "127.0.0.1:80", "[::1]:80", "[fe80::1%2]:80", "*:80", "unix:/path", "unix:@name". Numeric only.
 * EINVAL when it is none of these. */
BATON_API int baton_endpoint_parse(const char* text, baton_endpoint* out);
/* The inverse. Writes and returns as baton_explain. */
BATON_API size_t baton_endpoint_print(const baton_endpoint* endpoint, char* text, size_t size);

/* ---- handles --------------------------------------------------------------------------------- */

enum {
  BATON_STREAM_SOCKET = 1,
  BATON_LISTENER = 2,
  BATON_DATAGRAM_SOCKET = 3,
  BATON_FILE = 4, /* a regular file or block device */
  BATON_PIPE = 5  /* pipes, FIFOs, terminals, character devices */
};

enum {
  BATON_OWNED = 0,   /* made non-blocking and close-on-exec now, closed by Baton */
  BATON_BORROWED = 1 /* untouched, left open; its owner may close it between operations */
};

/* Makes a descriptor known, which no other handle of the proactor may have. On failure the caller
 * keeps it (ENOMEM: an owned one is closed). */
BATON_API int baton_adopt(baton_proactor* proactor, int descriptor, int kind, int ownership,
                          baton_handle* out);
enum { BATON_IPV4 = 1, BATON_IPV6 = 2, BATON_UNIX = 3 };

/* A socket option by the system's numbers, for those that Baton has no name for: level, name and
 * value as of setsockopt. */
typedef struct baton_option {
  uint32_t size;       /* sizeof(baton_option): the same in all of an array */
  int32_t level;       /* SOL_SOCKET, IPPROTO_TCP ... */
  int32_t name;        /* SO_REUSEPORT, TCP_NODELAY ... */
  uint32_t value_size; /* bytes at value */
  const void* value;   /* what to set */
} baton_option;

/* A socket to open. */
typedef struct baton_socket {
  uint32_t size;               /* sizeof(baton_socket) */
  int32_t kind;                /* BATON_STREAM_SOCKET, BATON_LISTENER or BATON_DATAGRAM_SOCKET */
  int32_t family;              /* BATON_IPV4 ...; 0: that of `local` */
  int32_t backlog;             /* BATON_LISTENER */
  const baton_endpoint* local; /* is bound to it; NULL: not bound, and no listener */
  const baton_option* options; /* set in order, before it is bound */
  uint32_t option_count;       /* number of `options` */
  uint32_t reserved;           /* 0 */
} baton_socket;

/* Opens a socket, sets its options, binds it, and, a listener, listens. A stream socket is then
 * connected by an operation of kind BATON_CONNECT. A listener for IPv4 or IPv6 has SO_REUSEADDR set
 * and IPV6_V6ONLY cleared before its options. Everything is copied. EINVAL: a field is wrong, the
 * family is not that of `local`; else the system's error (EADDRINUSE, EACCES, ENOPROTOOPT ...) or
 * baton_adopt's. On failure *out is 0, and nothing is left open. */
BATON_API int baton_socket_open(baton_proactor* proactor, const baton_socket* socket,
                                baton_handle* out);
/* Listens; port 0 takes a free one, which baton_local_endpoint returns. */
BATON_API int baton_listen(baton_proactor* proactor, const char* endpoint, int backlog,
                           baton_handle* out);
/* Opens a stream socket for this address and starts a connect with this tag, which completes like
 * any other operation: its result has no meaning, its error says whether it succeeded. deadline as
 * in baton_operation.
 * *out is the socket's handle, to be closed also when the connect fails. *activation may be NULL.*/
BATON_API int baton_connect(baton_proactor* proactor, const char* endpoint, uint64_t tag,
                            int64_t deadline_ns, baton_handle* out, baton_activation* activation);

/* The descriptor, or -1 when the handle is closed. */
BATON_API int baton_handle_descriptor(baton_proactor* proactor, baton_handle handle);
/* The address a socket is bound to, and the one it is connected to (ENOTCONN: it is not). */
BATON_API int baton_local_endpoint(baton_proactor* proactor, baton_handle handle,
                                   baton_endpoint* out);
BATON_API int baton_remote_endpoint(baton_proactor* proactor, baton_handle handle,
                                    baton_endpoint* out);
/* Sets, or reads, an option of a socket. When reading, *value_size is the room at value, and
 * afterwards the number of bytes written. EINVAL, BATON_HANDLE_CLOSED, or the system's error. A
 * socket with SO_LINGER and a time is closed off the threads in baton_wait. */
BATON_API int baton_set_option(baton_proactor* proactor, baton_handle handle,
                               const baton_option* option);
BATON_API int baton_get_option(baton_proactor* proactor, baton_handle handle, int level, int name,
                               void* value, uint32_t* value_size);
/* Starts a close and does not wait for it: pending operations complete as cancelled, the descriptor
 * is closed (a borrowed one let go), and the close itself has no completion. For a close with one,
 * start an operation of kind BATON_CLOSE. BATON_AFTER_FORK in a child before baton_fork_child. */
BATON_API int baton_handle_close(baton_proactor* proactor, baton_handle handle);

/* ---- pools of buffers ------------------------------------------------------------------------ */

/* Memory blocks of equal size that reads with BATON_POOLED take only when data has arrived, so
 * that a connection with a pending read holds none. A pool belongs to no proactor: several may use
 * it. Functions with a pool that is NULL return EINVAL or 0. A closed one must not be used. */
typedef struct baton_pool baton_pool;

/* `count` blocks of `block_size` bytes, allocated now. EINVAL: none, or more than memory has
 * addresses; ENOMEM. */
BATON_API int baton_pool_open(size_t block_size, uint32_t count, baton_pool** out);
/* Gives back the block of a completion (`data`), once. EINVAL: it is no block of this pool, or the
 * pool has it already. Any thread, also inside a signal handler. */
BATON_API int baton_pool_give(baton_pool* pool, void* block);
/* Blocks that are not taken now. Any thread. */
BATON_API size_t baton_pool_available(const baton_pool* pool);
/* Frees the pool. EBUSY, and nothing is freed: a block is in use, or a read that may take one is
 * pending. NULL is allowed. REQUIRES: no other thread uses it. */
BATON_API int baton_pool_close(baton_pool* pool);

/* ---- operations ------------------------------------------------------------------------------ */

enum {
  BATON_READ_STREAM = 1, /* result 0 without error: end of stream */
  BATON_WRITE_STREAM = 2,
  BATON_READ_FILE = 3,
  BATON_WRITE_FILE = 4,
  BATON_READ_DATAGRAM = 5,
  BATON_WRITE_DATAGRAM = 6,
  BATON_ACCEPT = 7, /* result: the descriptor of the connection, which is yours without
                       BATON_ADOPT */
  BATON_CONNECT = 8,
  BATON_SYNC_FILE = 9,
  BATON_WAIT_READY = 10,
  BATON_SHUTDOWN = 11, /* half close of the sending side, behind earlier writes */
  BATON_CLOSE = 12,    /* completes last of all on its handle */
  BATON_TIMER = 13,    /* completes without error at deadline_ns */
  BATON_POST = 14      /* completes at once, in some thread in baton_wait */
};

enum {
  BATON_VECTORED = 1,   /* data is an array of `length` baton_buffer */
  BATON_EXACTLY = 2,    /* complete only when all bytes are moved: read_exactly, write_all */
  BATON_UNTIL = 4,      /* BATON_READ_STREAM: complete when the delimiter is in the buffer */
  BATON_POOLED = 8,     /* BATON_READ_STREAM: data is a baton_pool, and length is not looked at;
                           not together with the others */
  BATON_DATA_ONLY = 16, /* BATON_SYNC_FILE: fdatasync */
  BATON_READABLE = 32,  /* BATON_WAIT_READY: until there is input, */
  BATON_WRITABLE = 64,  /* until there is room */
  BATON_APPEND = 128,   /* files written at their end: these keep their order */
  BATON_ADOPT = 256     /* BATON_ACCEPT: the completion has a handle, whose home the setting
                           `accept` chooses */
};

/* Which threads a BATON_POST wakes. */
enum {
  BATON_NOTIFY_STRONG = 0,   /* a thread in baton_wait, woken if need be, returns it */
  BATON_NOTIFY_FOLLOWER = 1, /* wakes a thread only if one sleeps without leading */
  BATON_NOTIFY_NONE = 2      /* only queued: delivered with the next completions */
};

/* The layout of the system's iovec. */
typedef struct baton_buffer {
  void* data;  /* where it begins */
  size_t size; /* bytes */
} baton_buffer;

/* One operation to start. Fields that a kind does not use are not looked at; a flag that it does
 * not know is EINVAL. */
typedef struct baton_operation {
  uint32_t size;       /* sizeof(baton_operation): the same in all of an array */
  uint16_t kind;       /* BATON_READ_STREAM ... */
  uint16_t flags;      /* BATON_VECTORED ... */
  baton_handle handle; /* which handle; 0 for timers and posts */
  uint64_t tag;        /* yours; comes back in the completion */
  void* data;          /* the buffer (only read through by writes), the array of baton_buffer, or
                          the baton_pool */
  size_t length;       /* its bytes, or how many baton_buffer: at most 1024 */
  uint64_t offset;     /* files: where; BATON_UNTIL: bytes that are in the buffer already */
  int64_t deadline_ns; /* a point of baton_now's clock; 0: none; below: EINVAL. Too late:
                          BATON_TIMED_OUT */
  baton_endpoint* endpoint; /* where to send or connect to; accept and read_datagram store the
                               peer there, if not NULL */
  const void* delimiter;    /* BATON_UNTIL */
  uint32_t delimiter_size;  /* 1 to 64 */
  uint32_t notify;          /* BATON_POST: BATON_NOTIFY_STRONG ... */
} baton_operation;

/* The outcome of an operation. */
typedef struct baton_completion {
  uint64_t tag;                /* as given to baton_start */
  int64_t result;              /* bytes moved, also when it failed; accept: the descriptor, or -1 */
  baton_activation activation; /* which operation it was */
  int32_t error;               /* 0, or why it failed; cancelled: ECANCELED */
  /* BATON_READ_STREAM ... */
  uint16_t kind;
  uint16_t reserved;
  void* data; /* BATON_POOLED: the block, to be given back by baton_pool_give; NULL: none was taken
                 (the end, an error, BATON_POOL_EXHAUSTED among them) */
  baton_handle handle; /* BATON_ADOPT: the connection, to be closed by baton_handle_close; result is
                          its descriptor, which is Baton's. When it could not be adopted it is
                          closed, and error says why. 0 and no error: baton_poll returned it, which
                          must not allocate; result is yours then, as without BATON_ADOPT */
} baton_completion;

/* Starts operations in order, as many as it can, and returns how many. *why_not (may be NULL) is 0,
 * or the reason for not taking the next one. EAGAIN: no slot is free. EINVAL: the struct is wrong
 * or count is negative. Others: BATON_HANDLE_CLOSED, BATON_LIMIT_REACHED, BATON_STOPPED,
 * BATON_NOT_SUPPORTED, BATON_WRONG_HANDLE_KIND, BATON_AFTER_FORK. An operation that was not taken
 * gives no completion, and those after it are not read. Every other failure is a completion.
 * activations (may be NULL) has room for count numbers; where an operation was not taken, it has 0
 * or is as it was. */
BATON_API int baton_start(baton_proactor* proactor, const baton_operation* operations, int count,
                          baton_activation* activations, int* why_not);

/* Waits until there are completions, stores up to max of them and returns their number. 0: the time
 * is over (0 ns: does not wait; negative: no timeout), or baton_wake was called. -BATON_STOPPED
 * after baton_stop. In per_thread mode a thread without a lane waits until there is one. */
BATON_API int baton_wait(baton_proactor* proactor, baton_completion* out, int max,
                         int64_t timeout_ns);

/* Makes baton_wait and baton_exchange cheaper for a thread that calls them again and again. In
 * per_thread mode it keeps its lane between them, and its starts go straight to the engine, with
 * its next wait at the latest. So it must call again soon: its lane is not served meanwhile.
 * Changes nothing in the other modes, nor when every lane has a thread, nor the second time. 0;
 * ENOMEM; BATON_WRONG_THREAD when another thread keeps a pinned lane; BATON_AFTER_FORK. */
BATON_API int baton_attach(baton_proactor* proactor);
/* Undoes baton_attach; does nothing if the thread is not attached. Pending operations go on (with
 * profile=pinned they are cancelled). The end of the thread, and baton_close by this thread, detach
 * it, too; no other thread may be attached when a proactor is closed. */
BATON_API void baton_detach(baton_proactor* proactor);

/* An array to start, and what became of it. */
typedef struct baton_batch {
  uint32_t size;                     /* sizeof(baton_batch) */
  int32_t count;                     /* in: how many operations */
  const baton_operation* operations; /* in: as for baton_start; NULL: none */
  baton_activation* activations;     /* in: NULL, or room for count numbers */
  int32_t taken;                     /* out: how many were started, from the first on */
  int32_t why_not;                   /* out: 0, or why operations[taken] was not */
} baton_batch;

/* baton_start and baton_wait in one call. Starts the batch in order, writes `taken` and `why_not`,
 * then waits and returns completions of any operation, as baton_wait does. Operations from
 * `taken` on are not started and never complete. If `why_not` is EAGAIN (no slot is free), the call
 * still waits, because completions free slots, and the next call starts the rest. After any other
 * refusal it does not wait, so that the caller sees the error at once. -EINVAL: the library does
 * not know the batch's version, or out and max are wrong. Then nothing was started, and the batch
 * is unchanged. */
BATON_API int baton_exchange(baton_proactor* proactor, baton_batch* batch, baton_completion* out,
                             int max, int64_t timeout_ns);

/* Like baton_wait without waiting. It returns -EBUSY at once in two cases: another thread is
 * waiting, which will get the completions; or a signal has interrupted the calling thread inside
 * the library. Allocates nothing and frees nothing. -BATON_NOT_SUPPORTED where driving may
 * allocate: with mode=per_thread, start=leader_only, debug=1, or the engine chaos or posix_aio. Use
 * baton_wait with 0 ns there, outside of signal handlers. It starts no thread either: a file
 * operation, or a close that lingers, waits until a worker is free. If there is no worker yet, the
 * call itself carries it out. */
BATON_API int baton_poll(baton_proactor* proactor, baton_completion* out, int max);

/* Makes one baton_wait return: one that waits now, else the next. Several calls before that are as
 * good as one. A wait that returns completions may be the one: check after every return for the
 * condition that you waited for. */
BATON_API void baton_wake(baton_proactor* proactor);

/* Request the early end of one operation, of all on a handle, of all with a tag (which visits every
 * slot), or of all. 0: requested. ENOENT: none of them is pending. (In per_thread mode the lanes of
 * other threads cannot be examined: 0.) Only the completion, which still comes, says whether the
 * cancel was in time. */
BATON_API int baton_cancel(baton_proactor* proactor, baton_activation activation);
BATON_API int baton_cancel_handle(baton_proactor* proactor, baton_handle handle);
BATON_API int baton_cancel_tag(baton_proactor* proactor, uint64_t tag);
BATON_API int baton_cancel_all(baton_proactor* proactor);

/* Cancels one operation and waits until it is complete. 0: it completed as cancelled. ENOENT: it
 * was complete, or completed otherwise. BATON_TIMED_OUT: it is still running at deadline_ns, a
 * point of baton_now's clock (0: none). EINVAL: deadline_ns is negative. baton_wait returns its
 * completion as usual. In per_thread mode, and for engines whose leader has to help, another thread
 * must be in baton_wait. */
BATON_API int baton_cancel_wait(baton_proactor* proactor, baton_activation activation,
                                int64_t deadline_ns);

/* Moves the deadline of a pending timer, or of a pending operation that has one, without a
 * completion in between. So every message can extend a timeout. 0: moved. ENOENT: nothing was
 * changed, because it is not pending any more or has no deadline. EINVAL: deadline_ns is not
 * positive. BATON_NOT_SUPPORTED in per_thread mode: cancel and start again. */
BATON_API int baton_move_deadline(baton_proactor* proactor, baton_activation activation,
                                  int64_t deadline_ns);

enum {
  BATON_PENDING = 1,  /* started and not done */
  BATON_DONE = 2,     /* the result is there; the completion will be delivered */
  BATON_DELIVERED = 3 /* and has been delivered; valid until the slot is reused */
};

/* The state of an operation, as baton_status reports it. */
typedef struct baton_state {
  uint32_t size;  /* sizeof(baton_state) */
  int32_t state;  /* BATON_PENDING ... */
  int64_t result; /* as in the completion */
  int32_t error;  /* as in the completion */
  int32_t reserved;
} baton_state;

/* Reads the state of an operation without entering the library: takes no lock, makes no system
 * call. result and error are valid when it is not pending. ENOENT: the slot is in use again. */
BATON_API int baton_status(const baton_proactor* proactor, baton_activation activation,
                           baton_state* out);

/* ---- initialisers ---------------------------------------------------------------------------- */

#define BATON_CONFIG_INIT {sizeof(baton_config), sizeof(baton_completion), 0, 0, NULL}
#define BATON_OPERATION_INIT {sizeof(baton_operation), 0, 0, 0, 0, NULL, 0, 0, 0, NULL, NULL, 0, 0}
#define BATON_STATE_INIT {sizeof(baton_state), 0, 0, 0, 0}
#define BATON_BATCH_INIT {sizeof(baton_batch), 0, NULL, NULL, 0, 0}
#define BATON_OPTION_INIT {sizeof(baton_option), 0, 0, 0, NULL}
#define BATON_SOCKET_INIT {sizeof(baton_socket), 0, 0, 0, NULL, NULL, 0, 0}

#ifdef __cplusplus
}
#endif

#endif
