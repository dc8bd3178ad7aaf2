/* Items of thread pools: functions that another thread is to call, and the futures that wait for
   them. Everything here requires the GIL. */

#ifndef MEANTIME_POOLS_H
#define MEANTIME_POOLS_H

#include <Python.h>

#include "stream.h"

enum { AWAITED_FUTURES = 4096, AWAITED_NEAR = 8 };

/* The item that was submitted last on this thread, and the pool whose `submit` is running. */
THREAD_LOCAL uint32_t latest_item = 0, current_pool = 0;

/* Which future of a loop gets the result of which item. By weak references, since the recorder must
   not keep a future alive; an entry whose future is gone is free. */
static struct {
    PyObject *reference;
    uint32_t item;
} awaited[AWAITED_FUTURES];
static int any_awaited = 0;

static inline size_t awaited_slot(PyObject *future, int near) {
    return (((size_t)future >> 4) * 0x9E3779B1u / 64 + (size_t)near) % AWAITED_FUTURES;
}

/* Returns the object without owning it, or NULL if it is gone: only its address is compared. */
static inline PyObject *referred(PyObject *reference) {
    PyObject *found = NULL;
#if PY_VERSION_HEX >= 0x030D0000
    if (PyWeakref_GetRef(reference, &found) > 0) Py_DECREF(found);
#else
    found = PyWeakref_GET_OBJECT(reference);
    if (found == Py_None) found = NULL;
#endif
    return found;
}

static void await_item(PyObject *future, uint32_t item) {
    PyObject *reference = PyWeakref_NewRef(future, NULL);
    if (!reference) {
        PyErr_Clear();
        return;
    }
    size_t at = awaited_slot(future, 0);
    for (int near = 0; near < AWAITED_NEAR; near++) {
        PyObject *there = awaited[awaited_slot(future, near)].reference;
        if (there && referred(there)) continue;
        at = awaited_slot(future, near);
        break;
    }
    Py_XSETREF(awaited[at].reference, reference);
    awaited[at].item = item;
    any_awaited = 1;
}

/* Returns the item whose result a future gets, or 0. */
static uint32_t item_of_future(PyObject *future) {
    for (int near = 0; any_awaited && near < AWAITED_NEAR; near++) {
        size_t at = awaited_slot(future, near);
        if (awaited[at].reference && referred(awaited[at].reference) == future)
            return awaited[at].item;
    }
    return 0;
}

static void forget_awaited(void) {
    for (int i = 0; i < AWAITED_FUTURES; i++) Py_CLEAR(awaited[i].reference);
    any_awaited = 0;
}

#endif
