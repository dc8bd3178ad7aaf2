/* Callables that replace functions of the program while it is recorded.

   A hook is called like the function, as a method of a class or as an attribute of an instance. It
   adds no frame to tracebacks and delegates all other attributes to the function. */

#ifndef MEANTIME_HOOKS_H
#define MEANTIME_HOOKS_H

#include <sys/uio.h>

#include "names.h"
#include "proxy.h"

typedef struct hook hook;
typedef PyObject *(*hook_call)(hook *h, PyObject *const *args, size_t nargsf, PyObject *names);

struct hook {
    PyObject_HEAD
    PyObject *wrapped;
    PyObject *dictionary;
    hook_call call;
    vectorcallfunc vectorcall;
    uint32_t item, location; /* of a pool's function; of a pool's queue, the pool is the item */
};

static PyTypeObject *hook_type = NULL;

enum {
    LEAST_CALLBACK_NS = 100000, /* shorter callbacks are not recorded */
};

static void drop_item(hook *h);

/* Calls what a hook replaces. PyObject_Vectorcall would also check the result, as the caller of the
   hook does. */
static inline PyObject *call_wrapped(hook *h, PyObject *const *args, size_t nargsf,
                                     PyObject *names) {
    PyTypeObject *type = Py_TYPE(h->wrapped);
    if (likely(type->tp_flags & Py_TPFLAGS_HAVE_VECTORCALL)) {
        vectorcallfunc call = *(vectorcallfunc *)((char *)h->wrapped + type->tp_vectorcall_offset);
        if (likely(call)) return call(h->wrapped, args, nargsf, names);
    }
    return PyObject_Vectorcall(h->wrapped, args, nargsf, names);
}

static PyObject *hook_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf,
                                 PyObject *names) {
    hook *h = (hook *)self;
    if (!recording_on) return call_wrapped(h, args, nargsf, names);
    return h->call(h, args, nargsf, names);
}

static PyObject *hook_bind(PyObject *self, PyObject *instance, PyObject *owner) {
    if (!instance || instance == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, instance);
}

static PyObject *hook_getattr(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    return PyObject_GetAttr(((hook *)self)->wrapped, name);
}

static PyObject *hook_repr(PyObject *self) { return PyObject_Repr(((hook *)self)->wrapped); }

static PyObject *hook_delegated(PyObject *self, void *name) {
    return PyObject_GetAttrString(((hook *)self)->wrapped, name);
}

static int hook_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((hook *)self)->wrapped);
    Py_VISIT(((hook *)self)->dictionary);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int hook_clear(PyObject *self) {
    Py_CLEAR(((hook *)self)->dictionary);
    return 0; /* not `wrapped`: a finalizer in the same cycle may still call the hook */
}

static void hook_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    drop_item((hook *)self);
    Py_CLEAR(((hook *)self)->dictionary);
    Py_XDECREF(((hook *)self)->wrapped);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMemberDef hook_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(hook, wrapped), READONLY},
    {"__dictoffset__", T_PYSSIZET, offsetof(hook, dictionary), READONLY},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(hook, vectorcall), READONLY},
    {NULL},
};

static PyGetSetDef hook_getset[] = {
    {"__doc__", hook_delegated, NULL, NULL, "__doc__"},
    {"__name__", hook_delegated, NULL, NULL, "__name__"},
    {"__qualname__", hook_delegated, NULL, NULL, "__qualname__"},
    {"__module__", hook_delegated, NULL, NULL, "__module__"},
    {NULL},
};

static PyType_Slot hook_slots[] = {
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, hook_bind},
    {Py_tp_members, hook_members},
    {Py_tp_getset, hook_getset},
    {Py_tp_getattro, hook_getattr},
    {Py_tp_repr, hook_repr},
    {Py_tp_traverse, hook_traverse},
    {Py_tp_clear, hook_clear},
    {Py_tp_dealloc, hook_dealloc},
    {0},
};

static PyType_Spec hook_spec = {
    "meantime.collect.Hook",
    sizeof(hook),
    0,
    /* as a method descriptor, it is called with `self` and no bound method is created */
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
        Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    hook_slots,
};

/* Thread._bootstrap_inner(self), of a class: the first Python function that a thread runs */

static size_t (*name_of)(PyObject *thread, char *buffer, size_t size) = NULL;
static int names_for_samples = 0, names_for_streams = 0;

/* A thread whose first record was a wait for the GIL has a stream without a name, since reading it
   needs the GIL. */
static void report_name(PyObject *thread) {
    stream *s = stream_of_thread();
    if (!s || s->name_length) return;
    s->name_length = (uint32_t)(thread ? name_of(thread, s->thread_name, MAX_THREAD_NAME)
                                       : name_of_thread(s->thread_name, MAX_THREAD_NAME));
    if (!s->name_length) return;
    s->thread_unreported = 1;
    report_thread(s);
    if (s->cursor == s->limit) turn(s);
}

static void note_thread_name(PyObject *thread) {
    char name[MAX_THREAD_NAME];
    size_t length = thread ? name_of(thread, name, MAX_THREAD_NAME)
                           : name_of_thread(name, MAX_THREAD_NAME);
    note_name_of((uint32_t)syscall(SYS_gettid), name, length);
}

static void (*thread_begins)(PyObject *thread) = NULL;
static void (*first_thread_starts)(void) = NULL;
static int awaits_threads = 0; /* threads are recorded once the program starts one */

/* Thread.start(self), of a class */
static PyObject *call_thread_start(hook *h, PyObject *const *args, size_t nargsf,
                                   PyObject *names) {
    if (unlikely(awaits_threads)) {
        awaits_threads = 0;
        first_thread_starts();
    }
    return call_wrapped(h, args, nargsf, names);
}

static PyObject *call_thread_begin(hook *h, PyObject *const *args, size_t nargsf,
                                   PyObject *names) {
    if (PyVectorcall_NARGS(nargsf)) {
        /* noted in memory rather than in a stream, which would be a file for each thread */
        if (names_for_samples) note_thread_name(args[0]);
        if (names_for_streams) {
            report_name(args[0]);
            thread_begins(args[0]);
        }
    }
    return call_wrapped(h, args, nargsf, names);
}

static PyObject *text_coro, *text_get_coro, *text_next_send_fn;

static PyObject *new_hook(hook_call call, PyObject *wrapped) {
    hook *h = PyObject_GC_New(hook, hook_type);
    if (!h) return NULL;
    h->wrapped = Py_NewRef(wrapped);
    h->dictionary = NULL;
    h->call = call;
    h->item = h->location = 0;
    h->vectorcall = hook_vectorcall;
    PyObject_GC_Track((PyObject *)h);
    return (PyObject *)h;
}

/* create_task(self, coro, ...), of a class */

static PyObject *is_coroutine = NULL; /* asyncio.iscoroutine */

static int can_be_wrapped(PyObject *object) {
    if (PyCoro_CheckExact(object)) return 1;
    if (Py_IS_TYPE(object, proxy_type) || !is_coroutine) return 0;
    PyObject *answer = PyObject_CallOneArg(is_coroutine, object);
    int yes = answer == Py_True;
    if (!answer) PyErr_Clear();
    Py_XDECREF(answer);
    return yes;
}

static PyObject *given_context(PyObject *const *values, PyObject *names) {
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "context") == 0)
            return values[i] == Py_None ? NULL : values[i];
    return NULL;
}

static PyObject *call_create_task(hook *h, PyObject *const *args, size_t nargsf,
                                  PyObject *names) {
    PyObject *small[16], **forward = small;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    Py_ssize_t keywords = names ? PyTuple_GET_SIZE(names) : 0, at = 1;
    if (count < 2) {
        for (at = count; at < count + keywords; at++)
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, at - count), "coro") == 0)
                break;
    }
    if (at >= count + keywords || count + keywords > 16 || !can_be_wrapped(args[at]))
        return call_wrapped(h, args, nargsf, names);
    proxy *p = wrap_coroutine(args[at], label_variable ? given_context(args + count, names) : NULL);
    if (!p) return NULL;
    /* without PY_VECTORCALL_ARGUMENTS_OFFSET: the copy has no free item before its first */
    memcpy(forward, args, (size_t)(count + keywords) * sizeof *args);
    forward[at] = (PyObject *)p;
    PyObject *task = call_wrapped(h, forward, (size_t)count, names);
    if (task) bind_task(p, task);
    Py_DECREF(p);
    return task;
}

/* Task(coro, ...), called by libraries themselves: the coroutine of a loop's create_task is wrapped
   when it gets here. The type is immutable, but not its slots. */

static initproc task_init = NULL;

static int init_task(PyObject *task, PyObject *args, PyObject *names) {
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    if (!count || !can_be_wrapped(PyTuple_GET_ITEM(args, 0))) return task_init(task, args, names);
    PyObject *context = names && label_variable ? PyDict_GetItemString(names, "context") : NULL;
    PyObject *replaced = PyTuple_New(count);
    if (!replaced) return -1;
    proxy *p = wrap_coroutine(PyTuple_GET_ITEM(args, 0), context == Py_None ? NULL : context);
    if (!p) {
        Py_DECREF(replaced);
        return -1;
    }
    PyTuple_SET_ITEM(replaced, 0, Py_NewRef((PyObject *)p));
    for (Py_ssize_t i = 1; i < count; i++)
        PyTuple_SET_ITEM(replaced, i, Py_NewRef(PyTuple_GET_ITEM(args, i)));
    int result = task_init(task, replaced, names);
    if (!result) bind_task(p, task);
    Py_DECREF(replaced);
    Py_DECREF(p);
    return result;
}

/* Task.get_coro(self): programs get the coroutine that they gave. The type's method is changed and
   not replaced, as the type is immutable. */

static PyMethodDef *coroutine_method = NULL;
static PyCFunction own_get_coroutine = NULL;

/* Returns the coroutine that a task was given; takes over what is in its place. */
static PyObject *given_coroutine(PyObject *coroutine) {
    if (!coroutine || !Py_IS_TYPE(coroutine, proxy_type)) return coroutine;
    PyObject *given = Py_NewRef(((proxy *)coroutine)->coroutine);
    Py_DECREF(coroutine);
    return given;
}

static PyObject *get_coroutine(PyObject *task, PyObject *unused) {
    return given_coroutine(own_get_coroutine(task, unused));
}

/* The same of tasks written in Python */
static PyObject *call_get_coro(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    return given_coroutine(call_wrapped(h, args, nargsf, names));
}

/* Changes the function of a method; -1 if it is in memory that cannot be written. */
static int set_function(PyMethodDef *method, PyCFunction function) {
    struct iovec from = {&function, sizeof function}, to = {&method->ml_meth, sizeof function};
    return process_vm_writev(getpid(), &from, 1, &to, 1, 0) == (ssize_t)sizeof function ? 0 : -1;
}

static void watch_get_coroutine(PyTypeObject *tasks, int on) {
    if (!on) {
        if (coroutine_method) set_function(coroutine_method, own_get_coroutine);
        coroutine_method = NULL;
        return;
    }
    PyObject *found = _PyType_Lookup(tasks, text_get_coro);
    if (!found || !Py_IS_TYPE(found, &PyMethodDescr_Type)) return;
    PyMethodDef *method = ((PyMethodDescrObject *)found)->d_method;
    if (method->ml_flags != METH_NOARGS || method->ml_meth == get_coroutine) return;
    own_get_coroutine = method->ml_meth;
    if (set_function(method, get_coroutine) == 0) coroutine_method = method;
}

/* Returns a task's coroutine, or what is in its place while the task is recorded. */
static PyObject *coroutine_of_task(PyObject *task) {
    if (coroutine_method && PyObject_TypeCheck(task, task_type))
        return own_get_coroutine(task, NULL);
    if (python_task_type && PyObject_TypeCheck(task, python_task_type))
        return PyObject_GetAttr(task, text_coroutine);
    return PyObject_CallMethodNoArgs(task, text_get_coro);
}

static void watch_tasks(PyObject *type, int on) {
    PyTypeObject *tasks = (PyTypeObject *)type;
    watch_get_coroutine(tasks, on);
    if (on && tasks->tp_init != init_task) {
        task_init = tasks->tp_init;
        tasks->tp_init = init_task;
    } else if (!on && tasks->tp_init == init_task) {
        tasks->tp_init = task_init; /* which a call in another thread may still need */
    }
}

/* call_soon(callback, ...), of a loop: a task's step among the callbacks is a wake-up */

static PyTypeObject *step_type = NULL;
static PyCFunction wakeup_function = NULL;

/* Returns the task of a callback that _asyncio schedules: for a step an object of a private type,
   whose first member is the task, and for the end of a wait a builtin method of the task. Both are
   recognised by name once, then by address. */
static PyObject *task_of_callback(PyObject *callback) {
    if (PyCFunction_CheckExact(callback)) {
        PyMethodDef *definition = ((PyCFunctionObject *)callback)->m_ml;
        if (unlikely(!wakeup_function) && !strcmp(definition->ml_name, "task_wakeup"))
            wakeup_function = definition->ml_meth;
        return definition->ml_meth == wakeup_function ? PyCFunction_GET_SELF(callback) : NULL;
    }
    if (unlikely(!step_type) && strstr(Py_TYPE(callback)->tp_name, "TaskStepMethWrapper"))
        step_type = Py_TYPE(callback);
    if (Py_IS_TYPE(callback, step_type)) return ((PyObject **)(callback + 1))[0];
    return NULL;
}

/* The same for tasks written in Python, where both callbacks are private methods. */
static PyObject *task_of_method(PyObject *callback) {
    PyObject *function = PyMethod_GET_FUNCTION(callback);
    PyObject *task = PyMethod_GET_SELF(callback);
    if (!python_task_type || !PyFunction_Check(function) ||
        !PyObject_TypeCheck(task, python_task_type))
        return NULL;
    PyObject *name = ((PyCodeObject *)PyFunction_GET_CODE(function))->co_name;
    return PyUnicode_CompareWithASCIIString(name, "__step") == 0 ||
                   PyUnicode_CompareWithASCIIString(name, "__wakeup") == 0
               ? task
               : NULL;
}

static PyObject *call_call_soon(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    if (PyVectorcall_NARGS(nargsf)) {
        PyObject *task = PyMethod_Check(args[0]) ? task_of_method(args[0])
                                                 : task_of_callback(args[0]);
        uint32_t id = task ? id_of_task(task) : 0;
        if (unlikely(mine.unseen)) end_unseen();
        if (id && id == mine.yielded_task) {
            mine.yielded_task = 0;
        } else if (id) {
            uint32_t waker = mine.current_task;
            if (!waker) {
                put_timer_due();
                /* the argument of a step is what the task has waited for */
                if (PyVectorcall_NARGS(nargsf) > 1) waker = id_of_ended(args[1]);
            }
            put(KIND_WAKE, id, waker);
        }
    }
    return call_wrapped(h, args, nargsf, names);
}

/* Handle._run(self), of a class: one step of a task, or a callback */

static Py_ssize_t handle_callback_offset = 0, handle_args_offset = 0, handle_context_offset = 0;
static int runs_callbacks = 0; /* whether _run is the standard library's, which is known */
static uint32_t (*location_of_callback)(PyObject *callback, PyObject *args) = NULL;

static PyObject *slot_of(PyObject *object, Py_ssize_t offset) {
    return *(PyObject **)((char *)object + offset);
}

/* Records a callback that has ended: a duration of more than 31 bits in microseconds. */
static __attribute__((noinline, cold)) void put_callback(PyObject *callback, PyObject *args,
                                                   uint64_t begin_ns, uint64_t end_ns) {
    PyObject *type, *value, *traceback;
    uint64_t duration = end_ns - begin_ns;
    slot *cursor = mine.stream ? mine.stream->cursor : NULL;
    PyErr_Fetch(&type, &value, &traceback);
    uint32_t location = location_of_callback(callback, args);
    PyErr_Restore(type, value, traceback);
    if (duration >= 1u << 31) {
        duration /= 1000;
        duration = (1u << 31) | (duration < (1u << 31) ? duration : (1u << 31) - 1);
    }
    stream *s = stream_of_thread();
    /* it ends where it ended, although the thread may have been interrupted since; unless its
       location was written here, and records are in order of time */
    if (!s) return;
    uint64_t time_ns = s->cursor == cursor ? end_ns : now_ns();
    put_at(s, time_ns, KIND_CALLBACK, location, (uint32_t)duration);
}

/* What a callback raised, and the handle's own members, which are replaced until that is raised. */
typedef struct {
    PyObject *type, *value, *traceback;
    PyObject *handle, *callback, *args;
} raised_exception;

THREAD_LOCAL raised_exception *to_raise = NULL;

static void replace_member(PyObject *object, Py_ssize_t offset, PyObject *stolen) {
    PyObject **at = (PyObject **)((char *)object + offset), *old = *at;
    *at = stolen;
    Py_XDECREF(old);
}

static PyObject *raise_again(PyObject *self, PyObject *unused) {
    raised_exception *r = to_raise;
    if (r) {
        to_raise = NULL;
        replace_member(r->handle, handle_callback_offset, r->callback);
        replace_member(r->handle, handle_args_offset, r->args);
        PyErr_Restore(r->type, r->value, r->traceback);
    } else {
        PyErr_SetString(PyExc_RuntimeError, "nothing was raised");
    }
    return NULL;
}

static PyMethodDef raise_again_method = {"raise_again", raise_again, METH_NOARGS, NULL};
static PyObject *raiser = NULL, *no_arguments = NULL;

/* Lets _run treat what its callback has raised: _run calls a function that raises it again, so that
   the traceback and the message are those of a call that is not recorded. */
static __attribute__((noinline, cold)) PyObject *run_raising(hook *h, PyObject *handle) {
    raised_exception r = {.handle = handle};
    PyErr_Fetch(&r.type, &r.value, &r.traceback);
    r.callback = Py_XNewRef(slot_of(handle, handle_callback_offset));
    r.args = Py_XNewRef(slot_of(handle, handle_args_offset));
    to_raise = &r;
    replace_member(handle, handle_callback_offset, Py_NewRef(raiser));
    replace_member(handle, handle_args_offset, Py_NewRef(no_arguments));
    PyObject *result = call_wrapped(h, &handle, 1, NULL);
    if (to_raise == &r) {
        /* it was not called */
        to_raise = NULL;
        replace_member(handle, handle_callback_offset, r.callback);
        replace_member(handle, handle_args_offset, r.args);
        Py_XDECREF(r.type);
        Py_XDECREF(r.value);
        Py_XDECREF(r.traceback);
    }
    return result;
}

/* Calls a handle's callback in its context, as _run does, without the frame of _run: a call of a
   Python function from C costs as much as all records of a step. */
static PyObject *run_callback(hook *h, PyObject *handle, PyObject *callback, PyObject *given) {
    PyObject *context = slot_of(handle, handle_context_offset);
    if (!runs_callbacks || !callback || !given || !PyTuple_CheckExact(given) || !context ||
        !PyContext_CheckExact(context))
        return call_wrapped(h, &handle, 1, NULL);
    if (PyContext_Enter(context) < 0) {
        /* it is entered already: _run gets, and reports, the same error */
        PyErr_Clear();
        return call_wrapped(h, &handle, 1, NULL);
    }
    Py_INCREF(context);
    PyObject *result = PyObject_Vectorcall(callback, &PyTuple_GET_ITEM(given, 0),
                                           (size_t)PyTuple_GET_SIZE(given), NULL);
    if (PyContext_Exit(context) < 0) Py_CLEAR(result);
    Py_DECREF(context);
    if (unlikely(!result)) return run_raising(h, handle);
    Py_DECREF(result);
    return Py_NewRef(Py_None);
}

static PyObject *call_handle_run(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    if (mine.running_handle || mine.current_task || PyVectorcall_NARGS(nargsf) != 1 ||
        mine.loop_epoch != epoch || !PyObject_TypeCheck(args[0], timer_type->tp_base))
        /* a loop inside a step, or another object than a handle */
        return call_wrapped(h, args, nargsf, names);
    /* a callback that is cancelled while it runs is removed from its handle */
    PyObject *callback = Py_XNewRef(slot_of(args[0], handle_callback_offset));
    PyObject *given = Py_XNewRef(slot_of(args[0], handle_args_offset));
    uint64_t begin_ns = now_ns();
    mine.running_handle = args[0];
    mine.handle_stepped = 0;
    mine.handle_begin_ns = begin_ns;
    begin_outer_step(begin_ns);
    mine.handle_cursor = mine.stream ? mine.stream->cursor : NULL;
    PyObject *result = run_callback(h, args[0], callback, given);
    mine.running_handle = NULL;
    mine.handle_begin_ns = 0;
    if (!mine.handle_stepped && recording_on) {
        uint64_t end_ns = now_ns();
        end_step(end_ns);
        if (callback && end_ns - begin_ns >= LEAST_CALLBACK_NS)
            put_callback(callback, given, begin_ns, end_ns);
    }
    Py_XDECREF(given);
    Py_XDECREF(callback);
    return result;
}

static int prepare_hooks(void) {
    hook_type = (PyTypeObject *)PyType_FromSpec(&hook_spec);
    text_coro = PyUnicode_InternFromString("coro");
    text_get_coro = PyUnicode_InternFromString("get_coro");
    text_next_send_fn = PyUnicode_InternFromString("_next_send_fn");
    raiser = PyCFunction_New(&raise_again_method, NULL);
    no_arguments = PyTuple_New(0);
    return hook_type && raiser && no_arguments ? 0 : -1;
}

/* select(timeout), of a loop's selector */

static int waits(PyObject *timeout) {
    if (timeout == Py_None) return 1;
    if (PyFloat_Check(timeout)) return PyFloat_AS_DOUBLE(timeout) > 0;
    if (PyLong_CheckExact(timeout)) return PyLong_AsDouble(timeout) > 0;
    return 1;
}

static PyObject *poll_events(hook *h, PyObject *const *args, size_t nargsf, PyObject *names,
                             int may_wait) {
    begin_poll(may_wait);
    PyObject *ready = call_wrapped(h, args, nargsf, names);
    end_poll(may_wait, ready && PyList_Check(ready) ? (uint32_t)PyList_GET_SIZE(ready) : 0);
    return ready;
}

static PyObject *call_select(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    int may_wait = !PyVectorcall_NARGS(nargsf) || waits(args[0]);
    return poll_events(h, args, nargsf, names, may_wait);
}

/* run_forever(self), of a class */

static void (*loop_begins)(PyObject *loop) = NULL;
static void (*loop_ends)(PyObject *loop) = NULL;

static PyObject *call_run_forever(hook *h, PyObject *const *args, size_t nargsf,
                                  PyObject *names) {
    if (PyVectorcall_NARGS(nargsf) < 1)
        return call_wrapped(h, args, nargsf, names);
    frame_data *outer = mine.loop_frame;
    uint32_t outer_epoch = mine.loop_epoch, outer_location = loop_location;
    PyObject *type, *value, *traceback;
    /* the caller's, since this hook has no frame */
    mine.loop_frame = top_frame(PyThreadState_Get());
    mine.loop_epoch = epoch;
    begin_polls();
    loop_begins(args[0]);
    PyObject *result = call_wrapped(h, args, nargsf, names);
    PyErr_Fetch(&type, &value, &traceback);
    loop_ends(args[0]);
    end_polls();
    PyErr_Restore(type, value, traceback);
    mine.loop_frame = outer;
    mine.loop_epoch = outer_epoch;
    loop_location = outer_location;
    return result;
}

/* trio: Runner.spawn_impl(self, async_fn, args, nursery, ...), of a class */

static void (*trio_begins)(PyObject *runner) = NULL;

/* By now trio has scheduled the task with its own coroutine, so its stored `send` changes too. */
static void wrap_trio_task(PyObject *task) {
    PyObject *coroutine = PyObject_GetAttr(task, text_coro);
    PyObject *send = NULL;
    proxy *p = NULL;
    if (coroutine && PyCoro_CheckExact(coroutine)) p = wrap_coroutine(coroutine, NULL);
    if (p) {
        p->of_trio = 1;
        send = PyObject_GetAttr((PyObject *)p, text_send);
        if (send && PyObject_SetAttr(task, text_coro, (PyObject *)p) == 0)
            PyObject_SetAttr(task, text_next_send_fn, send);
    }
    PyErr_Clear();
    Py_XDECREF(send);
    Py_XDECREF(p);
    Py_XDECREF(coroutine);
}

static PyObject *call_trio_spawn(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    /* args[3] is the nursery: only the first task of a run has none */
    if (count > 3 && args[3] == Py_None) trio_begins(args[0]);
    PyObject *task = call_wrapped(h, args, nargsf, names);
    if (task) wrap_trio_task(task);
    return task;
}

/* get_events(self, timeout), of trio's I/O manager */
static PyObject *call_trio_get_events(hook *h, PyObject *const *args, size_t nargsf,
                                      PyObject *names) {
    int may_wait = PyVectorcall_NARGS(nargsf) > 1 && waits(args[1]);
    return poll_events(h, args, nargsf, names, may_wait);
}

/* Runner.close(self) */
static PyObject *call_trio_close(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    PyObject *result = call_wrapped(h, args, nargsf, names);
    if (recording_on) end_loop_run();
    end_polls();
    return result;
}

/* excepthook(...), call_exception_handler(self, context): an exception was not handled */

static PyObject *call_unhandled(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    dump_rings(DUMP_ERROR);
    return call_wrapped(h, args, nargsf, names);
}

/* _WorkItem.__init__(self, future, fn, ...) and .run(self), of a class */

static void (*item_submitted)(PyObject *item) = NULL;
static uint32_t (*item_begins)(PyObject *item) = NULL;

static PyObject *call_item_init(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    PyObject *result = call_wrapped(h, args, nargsf, names);
    if (result && PyVectorcall_NARGS(nargsf)) item_submitted(args[0]);
    return result;
}

static PyObject *call_item_run(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    uint32_t id = PyVectorcall_NARGS(nargsf) ? item_begins(args[0]) : 0;
    PyObject *result = call_wrapped(h, args, nargsf, names);
    if (recording_on) put(KIND_ITEM_END, id, 0);
    return result;
}

/* Other pools: what their threads call is replaced by a hook of it */

static PyObject *(*new_item)(PyObject *function, PyObject *arguments, uint32_t pool) = NULL;

static PyObject *call_item(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    uint32_t item = h->item;
    h->item = 0;
    put(KIND_ITEM_BEGIN, item, h->location);
    PyObject *result = call_wrapped(h, args, nargsf, names);
    if (recording_on) put(KIND_ITEM_END, item, 0);
    return result;
}

static void drop_item(hook *h) {
    if (h->call == call_item && h->item && recording_on) put(KIND_ITEM_DROPPED, h->item, 0);
}

static PyObject *hook_of_item(PyObject *function, uint32_t item, uint32_t location) {
    PyObject *h = new_hook(call_item, function);
    if (!h) return NULL;
    ((hook *)h)->item = item;
    ((hook *)h)->location = location;
    return h;
}

/* Calls the wrapped function with the item in place of one argument; without, if it fails. */
static PyObject *call_with_item(hook *h, PyObject *const *args, size_t nargsf, PyObject *names,
                                Py_ssize_t at, PyObject *item) {
    PyObject *small[16];
    size_t total = (size_t)PyVectorcall_NARGS(nargsf) + (names ? (size_t)PyTuple_GET_SIZE(names) : 0);
    if (!item || total > 16) {
        PyErr_Clear();
        Py_XDECREF(item);
        return call_wrapped(h, args, nargsf, names);
    }
    memcpy(small, args, total * sizeof *args);
    small[at] = item;
    PyObject *result =
        call_wrapped(h, small, (size_t)PyVectorcall_NARGS(nargsf), names);
    Py_DECREF(item);
    return result;
}

/* put(task), of a ThreadPool's queue: (job, number, function, arguments, keywords), or None */
static PyObject *call_pool_put(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    PyObject *task = PyVectorcall_NARGS(nargsf) ? args[0] : NULL, *item, *replaced = NULL;
    if (task && PyTuple_CheckExact(task) && PyTuple_GET_SIZE(task) == 5) {
        item = new_item(PyTuple_GET_ITEM(task, 2), PyTuple_GET_ITEM(task, 3), h->item);
        if (item) replaced = PyTuple_GetSlice(task, 0, 5);
        /* a slice of a whole tuple is the tuple itself */
        if (replaced == task) {
            Py_DECREF(replaced);
            replaced = PyTuple_Pack(5, PyTuple_GET_ITEM(task, 0), PyTuple_GET_ITEM(task, 1), item,
                                    PyTuple_GET_ITEM(task, 3), PyTuple_GET_ITEM(task, 4));
        }
        Py_XDECREF(item);
        if (!replaced) PyErr_Clear();
    }
    return call_with_item(h, args, nargsf, names, 0, replaced);
}

static PyObject *hook_of_put(PyObject *put_task, uint32_t pool) {
    PyObject *h = new_hook(call_pool_put, put_task);
    if (h) ((hook *)h)->item = pool;
    return h;
}

static void (*pool_prepared)(PyObject *pool) = NULL;

/* _setup_queues(self), of ThreadPool */
static PyObject *call_pool_queues(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    PyObject *result = call_wrapped(h, args, nargsf, names);
    if (result && PyVectorcall_NARGS(nargsf)) pool_prepared(args[0]);
    return result;
}

static uint32_t trio_pool = 0, anyio_pool = 0;

/* start_thread_soon(self, fn, deliver, name=None), of trio's ThreadCache */
static PyObject *call_trio_thread(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    PyObject *item = PyVectorcall_NARGS(nargsf) > 1 ? new_item(args[1], NULL, trio_pool) : NULL;
    return call_with_item(h, args, nargsf, names, 1, item);
}

/* run_sync_in_worker_thread(func, ...), of anyio's backend, bound to its class */
static PyObject *call_anyio_thread(hook *h, PyObject *const *args, size_t nargsf,
                                   PyObject *names) {
    PyObject *item = PyVectorcall_NARGS(nargsf) ? new_item(args[0], NULL, anyio_pool) : NULL;
    return call_with_item(h, args, nargsf, names, 0, item);
}

/* submit(self, function, ...), of ThreadPoolExecutor */

static uint32_t (*pool_of_executor)(PyObject *executor) = NULL;

static PyObject *call_submit(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    uint32_t outer = current_pool;
    if (PyVectorcall_NARGS(nargsf)) current_pool = pool_of_executor(args[0]);
    PyObject *result = call_wrapped(h, args, nargsf, names);
    current_pool = outer;
    return result;
}

/* run_in_executor(self, executor, function, ...), of a loop's class */
static PyObject *call_run_in_executor(hook *h, PyObject *const *args, size_t nargsf,
                                      PyObject *names) {
    latest_item = 0;
    PyObject *result = call_wrapped(h, args, nargsf, names);
    if (result && latest_item && future_type && PyObject_TypeCheck(result, future_type))
        await_item(result, latest_item);
    return result;
}

#endif
