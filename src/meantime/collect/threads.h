/* Calls of the C library in which a thread blocks: it sleeps, or waits for a file, a socket or a
   process. Their entries are replaced as those of waits.h, in the interpreter and in the extension
   modules that make such calls.

   Input or output that ends within SHORT_CALL_NS did not block: its record is removed again, which
   readers of a growing recording expect of this kind of record only. */

#ifndef MEANTIME_THREADS_H
#define MEANTIME_THREADS_H

#include "waits.h"

#if MEANTIME_HAS_WAITS
#include <poll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { SHORT_CALL_NS = 20000 };

/* A call that is being recorded; `record` is its first record while that can be removed. */
typedef struct {
    int recorded;
    slot *record;
} blocking_call;

static blocking_call begin_call(uint8_t kind) {
    blocking_call call = {0, NULL};
    if (!recording_on || inside_stream) return call;
    stream *s = stream_of_wait();
    if (!s) return call;
    uint64_t time_ns = now_ns();
    end_running(time_ns);
    slot *record = s->cursor;
    put_at(s, time_ns, kind, 0, 0);
    call.recorded = 1;
    /* not if the chunk was full, and turned: another thread may be writing it to the disk */
    if (kind == KIND_IO_WAIT && s->cursor == record + 1) call.record = record;
    resumed_at = NULL;
    return call;
}

static void end_call(blocking_call call) {
    int error = errno;
    if (!call.recorded) return;
    if (call.record && mine.epoch == epoch && mine.stream->cursor == call.record + 1 &&
        now_ns() - (call.record->w0 >> 8) < SHORT_CALL_NS) {
        mine.stream->cursor = call.record;
        call.record->w0 = 0;
    } else {
        stream *s = stream_of_wait();
        uint64_t time_ns = now_ns();
        if (s) put_at(s, time_ns, KIND_RESUMED, 0, 0);
        begin_running(time_ns);
    }
    errno = error;
}

/* Defines the replacement of a function; it blocks only if `may_block` holds. */
#define BLOCKING_CALL(kind, may_block, result_type, name, parameters, arguments) \
    static result_type(*real_##name) parameters;                                 \
    static result_type blocking_##name parameters {                                  \
        if (!(may_block)) return real_##name arguments;                          \
        blocking_call call = begin_call(kind);                                   \
        result_type result = real_##name arguments;                              \
        end_call(call);                                                          \
        return result;                                                           \
    }

BLOCKING_CALL(KIND_SLEEP, 1, int, clock_nanosleep,
              (clockid_t clock, int flags, const struct timespec *time, struct timespec *rest),
              (clock, flags, time, rest))
BLOCKING_CALL(KIND_POLL, timeout != 0, int, poll, (struct pollfd *fds, nfds_t count, int timeout),
              (fds, count, timeout))
BLOCKING_CALL(KIND_POLL, !timeout || timeout->tv_sec || timeout->tv_nsec, int, ppoll,
              (struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
              (fds, count, timeout, mask))
BLOCKING_CALL(KIND_POLL, !timeout || timeout->tv_sec || timeout->tv_usec, int, select,
              (int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *timeout),
              (count, in, out, other, timeout))
BLOCKING_CALL(KIND_POLL, 1, int, sigwait, (const sigset_t *signals, int *number), (signals, number))
BLOCKING_CALL(KIND_POLL, !time || time->tv_sec || time->tv_nsec, int, sigtimedwait,
              (const sigset_t *signals, siginfo_t *info, const struct timespec *time),
              (signals, info, time))
BLOCKING_CALL(KIND_POLL, 1, int, sigwaitinfo, (const sigset_t *signals, siginfo_t *info),
              (signals, info))
BLOCKING_CALL(KIND_POLL, 1, int, pause, (void), ())
BLOCKING_CALL(KIND_IO_WAIT, 1, ssize_t, read, (int fd, void *buffer, size_t size),
              (fd, buffer, size))
BLOCKING_CALL(KIND_IO_WAIT, 1, ssize_t, readv, (int fd, const struct iovec *parts, int count),
              (fd, parts, count))
BLOCKING_CALL(KIND_IO_WAIT, 1, ssize_t, recv, (int fd, void *buffer, size_t size, int flags),
              (fd, buffer, size, flags))
BLOCKING_CALL(KIND_IO_WAIT, 1, ssize_t, recvfrom,
              (int fd, void *buffer, size_t size, int flags, struct sockaddr *from, socklen_t *length),
              (fd, buffer, size, flags, from, length))
BLOCKING_CALL(KIND_IO_WAIT, 1, ssize_t, recvmsg, (int fd, struct msghdr *message, int flags),
              (fd, message, flags))
BLOCKING_CALL(KIND_IO_WAIT, 1, ssize_t, send, (int fd, const void *data, size_t size, int flags),
              (fd, data, size, flags))
BLOCKING_CALL(KIND_IO_WAIT, 1, int, accept, (int fd, struct sockaddr *from, socklen_t *length),
              (fd, from, length))
BLOCKING_CALL(KIND_IO_WAIT, 1, int, accept4,
              (int fd, struct sockaddr *from, socklen_t *length, int flags),
              (fd, from, length, flags))
BLOCKING_CALL(KIND_IO_WAIT, 1, int, connect, (int fd, const struct sockaddr *to, socklen_t length),
              (fd, to, length))
BLOCKING_CALL(KIND_CHILD_WAIT, !(options & WNOHANG), pid_t, waitpid,
              (pid_t pid, int *status, int options), (pid, status, options))
BLOCKING_CALL(KIND_CHILD_WAIT, !(options & WNOHANG), pid_t, wait4,
              (pid_t pid, int *status, int options, struct rusage *usage),
              (pid, status, options, usage))
BLOCKING_CALL(KIND_CHILD_WAIT, !(options & WNOHANG), int, waitid,
              (idtype_t type, id_t id, siginfo_t *info, int options), (type, id, info, options))
BLOCKING_CALL(KIND_LOCK_WAIT, 1, int, sem_timedwait, (sem_t * s, const struct timespec *until),
              (s, until))

#define BLOCKING_ROW(name) {#name, blocking_##name, (void **)&real_##name}

static const waited blocking_calls[] = {
    BLOCKING_ROW(clock_nanosleep),
    BLOCKING_ROW(poll),
    BLOCKING_ROW(ppoll), /* select.poll, since Python 3.15 */
    BLOCKING_ROW(select),
    BLOCKING_ROW(sigwait),
    BLOCKING_ROW(sigtimedwait),
    BLOCKING_ROW(sigwaitinfo),
    BLOCKING_ROW(pause),
    BLOCKING_ROW(read),
    BLOCKING_ROW(readv),
    BLOCKING_ROW(recv),
    BLOCKING_ROW(recvfrom),
    BLOCKING_ROW(recvmsg),
    BLOCKING_ROW(send),
    BLOCKING_ROW(accept),
    BLOCKING_ROW(accept4),
    BLOCKING_ROW(connect),
    BLOCKING_ROW(waitpid),
    BLOCKING_ROW(wait4),
    BLOCKING_ROW(waitid),
    BLOCKING_ROW(sem_timedwait),
    {"sem_wait", wait_for_lock, (void **)&real_sem_wait},
    {NULL},
};

static int install_blocking_calls(void *within) { return install(blocking_calls, within); }

#else
static int install_blocking_calls(void *within) {
    (void)within;
    return 0;
}
#endif

/* Records the name of a thread that may have no stream yet. */
static void name_thread(uint32_t tid, const char *name, size_t length) {
    stream *s = stream_of_thread();
    if (!s) return;
    put_payload(s, now_ns(), KIND_CALLED, tid, name,
                (uint32_t)(length < MAX_THREAD_NAME ? length : MAX_THREAD_NAME), 1);
    if (s->cursor == s->limit) turn(s);
}

#endif
