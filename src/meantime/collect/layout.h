/* Checks that the interpreter's structures are where the headers say that this was compiled with.

   They may not be in a release candidate, in a distribution's patched interpreter, or in one that was
   configured in another way. Pointers are compared with those that the public API returns, and only
   followed after that. Everything here requires the GIL. */

#ifndef MEANTIME_LAYOUT_H
#define MEANTIME_LAYOUT_H

#include "gil.h"
#include "internals.h"

enum { STATE_CREATED, STATE_SUSPENDED, STATE_ENDED };

static int has_state(PyObject *coroutine, int state) {
    int found = frame_state(coroutine);
    if (state == STATE_CREATED) return found == FRAME_CREATED;
    if (state == STATE_SUSPENDED) return found > FRAME_CREATED && found < FRAME_EXECUTING;
    return found > FRAME_EXECUTING;
}

/* Returns what is not where it is expected in a coroutine of the given function and first argument,
   or NULL. `lasti` is the offset of its present instruction. */
static const char *unexpected_in_coroutine(PyObject *coroutine, PyObject *function,
                                           PyObject *argument, int lasti, int state) {
    Py_ssize_t size =
        (Py_ssize_t)(offsetof(PyCoroObject, cr_iframe) + offsetof(frame_data, localsplus));
    if (!PyCoro_CheckExact(coroutine) || PyCoro_Type.tp_basicsize != size) return "coroutines";
    if (!has_state(coroutine, state)) return "states of coroutines";
    if (state == STATE_ENDED) return NULL;
    PyFunctionObject *called = (PyFunctionObject *)function;
    frame_data *frame = frame_of_coroutine(coroutine);
    if (((PyGenObject *)coroutine)->gi_qualname != called->func_qualname) return "coroutines";
    if (code_of_frame(frame) != called->func_code) return "code in frames";
    if (function_of_frame(frame) != function) return "functions in frames";
    if (local_of_frame(frame, 0) != argument) return "variables in frames";
    if (_PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT) != lasti)
        return "instructions in frames";
    return NULL;
}

/* The same of the calling thread, which runs a Python function. */
static const char *unexpected_in_thread(void) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    PyThreadState *thread = PyThreadState_Get();
    PyFrameObject *frame = PyEval_GetFrame();
    if (thread->interp != interpreter) return "threads";
    if (interpreter->threads.head != PyInterpreterState_ThreadHead(interpreter)) return "threads";
    if (!frame || top_frame(thread) != frame->f_frame) return "frames of threads";
#if PY_VERSION_HEX >= 0x030C0000
    /* another interpreter may have one of its own, or the main one's */
    if (interpreter == PyInterpreterState_Main() && interpreter->ceval.gil != &interpreter->_gil)
        return "interpreter locks";
#endif
    return thread_with_gil(gil_of_interpreter(interpreter)) != thread ? "interpreter locks" : NULL;
}

#endif
