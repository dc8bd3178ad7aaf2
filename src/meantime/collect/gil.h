/* Which thread has the GIL. */

#ifndef MEANTIME_GIL_H
#define MEANTIME_GIL_H

#include <stddef.h>
#include <sys/uio.h>

#include "internals.h"
#include "stream.h"

typedef struct _gil_runtime_state gil_state;

static gil_state *gil_of_interpreter(PyInterpreterState *interpreter) {
#if PY_VERSION_HEX >= 0x030C0000
    return interpreter->ceval.gil;
#else
    (void)interpreter;
    return &_PyRuntime.ceval.gil;
#endif
}

/* Returns the thread that has a GIL, or had it last. */
static PyThreadState *thread_with_gil(const gil_state *gil) {
#if PY_VERSION_HEX >= 0x030D0000
    return *(PyThreadState *const volatile *)&gil->last_holder;
#else
    return (PyThreadState *)_Py_atomic_load_relaxed(&gil->last_holder);
#endif
}

/* Returns the id of the thread that has a GIL, for which the calling thread waits, or 0. That
   thread may end meanwhile, so its state is read by a system call, which fails instead. */
static uint32_t holder_of_gil(const gil_state *gil) {
    PyThreadState *holder = gil ? thread_with_gil(gil) : NULL;
    unsigned long tid = 0;
    if (!holder) return 0;
    struct iovec to = {&tid, sizeof tid}, from = {&holder->native_thread_id, sizeof tid};
    if (process_vm_readv((pid_t)rec.pid, &to, 1, &from, 1, 0) != (ssize_t)sizeof tid) return 0;
    return tid == my_tid ? 0 : (uint32_t)tid;
}

/* Return the GIL that a condition and its mutex are of, or NULL: of the condition for a thread that
   is to receive the GIL, and of that for one that has given it away. Where the platform has no
   semaphores, the interpreter's locks are conditions, too, but behind their mutex in memory. */

#define DISTANCE(member, other) \
    ((ptrdiff_t)offsetof(gil_state, other) - (ptrdiff_t)offsetof(gil_state, member))

static inline gil_state *gil_to_receive(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    if ((char *)mutex - (char *)condition != DISTANCE(cond, mutex)) return NULL;
    return (gil_state *)((char *)condition - offsetof(gil_state, cond));
}

static inline gil_state *gil_given_away(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    if ((char *)mutex - (char *)condition != DISTANCE(switch_cond, switch_mutex)) return NULL;
    return (gil_state *)((char *)condition - offsetof(gil_state, switch_cond));
}

#endif
