/* Which thread has the GIL. */

#ifndef MEANTIME_GIL_H
#define MEANTIME_GIL_H

#include <sys/uio.h>

#include "internals.h"
#include "stream.h"

/* Returns the id of the thread that has the GIL, for which the calling thread waits, or 0. That
   thread may end meanwhile, so its state is read by a system call, which fails instead. */
static uint32_t holder_of_gil(void) {
#if PY_VERSION_HEX >= 0x030D0000
    struct _gil_runtime_state *gil = PyInterpreterState_Main()->ceval.gil;
    PyThreadState *holder = gil ? *(PyThreadState *volatile *)&gil->last_holder : NULL;
#elif PY_VERSION_HEX >= 0x030C0000
    struct _gil_runtime_state *gil = PyInterpreterState_Main()->ceval.gil;
    PyThreadState *holder = gil ? (PyThreadState *)_Py_atomic_load_relaxed(&gil->last_holder) : NULL;
#else
    PyThreadState *holder =
        (PyThreadState *)_Py_atomic_load_relaxed(&_PyRuntime.ceval.gil.last_holder);
#endif
    unsigned long tid = 0;
    if (!holder) return 0;
    struct iovec to = {&tid, sizeof tid}, from = {&holder->native_thread_id, sizeof tid};
    if (process_vm_readv((pid_t)rec.pid, &to, 1, &from, 1, 0) != (ssize_t)sizeof tid) return 0;
    return tid == my_tid ? 0 : (uint32_t)tid;
}

#endif
