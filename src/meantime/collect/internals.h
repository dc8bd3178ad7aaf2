/* The interpreter's internal headers: where frames, and the state of the GIL, are in memory.

   They differ by minor version, so that what includes this is built for each of them. What differs
   between versions in a frame or a coroutine is read by the functions below, and nowhere else. */

#ifndef MEANTIME_INTERNALS_H
#define MEANTIME_INTERNALS_H

#include <Python.h>

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#define MEANTIME_DEFINED_CORE
#endif
#undef _PyGC_FINALIZED /* the internal headers have their own */
#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#if PY_VERSION_HEX >= 0x030E0000
#include "internal/pycore_interpframe.h"
#include "internal/pycore_tstate.h"
#endif
#include "internal/pycore_runtime.h"
#ifdef MEANTIME_DEFINED_CORE
#undef Py_BUILD_CORE
#undef MEANTIME_DEFINED_CORE
#endif

typedef struct _PyInterpreterFrame frame_data;

static inline frame_data *top_frame(PyThreadState *thread) {
#if PY_VERSION_HEX >= 0x030D0000
    return thread->current_frame;
#else
    return thread->cframe->current_frame;
#endif
}

/* These return borrowed references. Since 3.14 a frame has its objects with tags in their lowest
   bits; they are also called for frames in copied memory. */

static inline PyObject *code_of_frame(const frame_data *frame) {
#if PY_VERSION_HEX >= 0x030E0000
    return (PyObject *)(frame->f_executable.bits & ~(uintptr_t)Py_TAG_BITS);
#elif PY_VERSION_HEX >= 0x030D0000
    return frame->f_executable;
#else
    return (PyObject *)frame->f_code;
#endif
}

static inline PyObject *function_of_frame(const frame_data *frame) {
#if PY_VERSION_HEX >= 0x030E0000
    return PyStackRef_AsPyObjectBorrow(frame->f_funcobj);
#elif PY_VERSION_HEX >= 0x030C0000
    return frame->f_funcobj;
#else
    return (PyObject *)frame->f_func;
#endif
}

/* Returns a local variable, or NULL if it is not bound; the first are the arguments. */
static inline PyObject *local_of_frame(const frame_data *frame, Py_ssize_t index) {
#if PY_VERSION_HEX >= 0x030E0000
    _PyStackRef local = frame->localsplus[index];
    return PyStackRef_IsNull(local) ? NULL : PyStackRef_AsPyObjectBorrow(local);
#else
    return frame->localsplus[index];
#endif
}

/* Returns the address of the instruction that a frame executes. */
static inline uintptr_t instruction_of_frame(const frame_data *frame) {
#if PY_VERSION_HEX >= 0x030D0000
    return (uintptr_t)frame->instr_ptr;
#else
    return (uintptr_t)frame->prev_instr;
#endif
}

/* Whether a frame is the interpreter's own, one per call from C, rather than a function's. */
static inline int is_entry_frame(const frame_data *frame) {
#if PY_VERSION_HEX >= 0x030E0000
    return frame->owner >= FRAME_OWNED_BY_INTERPRETER;
#elif PY_VERSION_HEX >= 0x030C0000
    return frame->owner == FRAME_OWNED_BY_CSTACK;
#else
    (void)frame;
    return 0;
#endif
}

static inline frame_data *frame_of_coroutine(PyObject *coroutine) {
    return (frame_data *)&((PyGenObject *)coroutine)->gi_iframe;
}

/* In all versions, created and suspended are below FRAME_EXECUTING, completed and cleared above. */
static inline int frame_state(PyObject *coroutine) {
    return ((PyGenObject *)coroutine)->gi_frame_state;
}

/* Returns the code of a coroutine: a borrowed reference. */
static inline PyCodeObject *code_of_coroutine(PyObject *coroutine) {
#if PY_VERSION_HEX >= 0x030C0000
    PyCodeObject *code = PyGen_GetCode((PyGenObject *)coroutine);
    Py_DECREF(code); /* the coroutine owns another */
    return code;
#else
    return ((PyGenObject *)coroutine)->gi_code;
#endif
}

#endif
