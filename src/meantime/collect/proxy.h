/* A task's root coroutine, wrapped: every step passes through and is recorded.

   The interpreter's tasks call only `am_send` and `throw` of their coroutine, so a type that has
   both can replace it. The methods are C functions, so they add no frame to a traceback. */

#ifndef MEANTIME_PROXY_H
#define MEANTIME_PROXY_H

#include <stddef.h>

#include <structmember.h>

#include "locations.h"
#include "recording.h"

typedef struct proxy {
    PyObject_HEAD
    PyObject *coroutine;
    PyObject *weak_references;
    PyObject *task;      /* borrowed: a task outlives the steps it makes */
    PyObject *last_name; /* borrowed, and only ever compared */
    PyObject *label;     /* from the context in which it was created, or NULL */
    uint32_t id, site;
    uint32_t generation, epoch; /* of the stream and recording in which it was last announced */
    uint32_t request;   /* that the task serves, or 0 */
    uint8_t finished, cancelled, stepped, of_trio;
    uint8_t server;     /* what calls its coroutine to serve one request, or 0 */
} proxy;

enum { CANCEL_TYPES = 4, MOST_DELAY_S = 1000000000 };

static PyTypeObject *proxy_type = NULL;
static PyTypeObject *python_task_type = NULL;
static uint32_t next_task = 1;
static PyObject *cancel_types[CANCEL_TYPES];
static Py_ssize_t coroutine_offset = 0, name_offset = 0;
static PyObject *text_send, *text_throw, *text_close, *text_coroutine, *text_cancelling, *text_get_name,
    *text_wrapped;

static int is_cancellation(PyObject *exception) {
    for (int i = 0; i < CANCEL_TYPES && cancel_types[i]; i++)
        if (PyErr_GivenExceptionMatches(exception, cancel_types[i])) return 1;
    return 0;
}

/* Names */

static int is_default_name(PyObject *name) {
    if (!PyUnicode_Check(name)) return 1; /* the number of a `Task-N` whose text was not needed */
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (!text) {
        PyErr_Clear();
        return 1;
    }
    if (length < 6 || memcmp(text, "Task-", 5)) return 0;
    for (Py_ssize_t i = 5; i < length; i++)
        if (text[i] < '0' || text[i] > '9') return 0;
    return 1;
}

static void put_name(proxy *p, PyObject *name) {
    Py_ssize_t length;
    p->last_name = name;
    if (is_default_name(name)) return;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text) put_text(KIND_NAME, p->id, text, (size_t)length);
    else PyErr_Clear();
}

/* Reads the name at its offset in the task: get_name would create the text of a default name. */
static inline PyObject *changed_name(proxy *p) {
    if (!p->task || !name_offset || !PyObject_TypeCheck(p->task, task_type)) return NULL;
    PyObject *name = *(PyObject **)((char *)p->task + name_offset);
    return name != p->last_name ? name : NULL;
}

static void note_name(proxy *p) {
    PyObject *name = changed_name(p);
    if (name) put_name(p, name);
}

/* Labels */

static PyObject *label_variable = NULL; /* a context variable of bytes */

static void put_label(proxy *p, uint64_t time_ns) {
    stream *s = stream_of_thread();
    Py_ssize_t length = PyBytes_GET_SIZE(p->label);
    if (!s || time_ns >= (uint64_t)rec.deadline_ns) return;
    put_payload(s, time_ns, KIND_LABEL, p->id, PyBytes_AS_STRING(p->label), (uint32_t)length, 0);
    if (s->cursor == s->limit) turn(s);
}

/* Records the label in a new task's context, which all tasks created in it inherit. */
static void take_label(proxy *p, PyObject *context, uint64_t time_ns) {
    PyObject *label = NULL;
    if (context) label = PyObject_GetItem(context, label_variable);
    else if (PyContextVar_Get(label_variable, NULL, &label) < 0) label = NULL;
    if (!label) PyErr_Clear();
    if (label && PyBytes_Check(label) && PyBytes_GET_SIZE(label) &&
        PyBytes_GET_SIZE(label) <= MAX_TEXT - 16) {
        p->label = label;
        put_label(p, time_ns);
    } else {
        Py_XDECREF(label);
    }
}

/* Requests. A task serves that of the task that created it, unless it begins one of its own. */

enum { SERVER_ASGI = 1, SERVER_AIOHTTP = 2, MOST_SERVING_CODES = 8 };

/* The code of the coroutines that servers create a task of for each request. */
static struct {
    PyObject *code;
    uint8_t server;
} serving_codes[MOST_SERVING_CODES];
static int serving_codes_used = 0;

static inline uint8_t server_of(PyObject *code) {
    for (int i = 0; i < serving_codes_used; i++)
        if (serving_codes[i].code == code) return serving_codes[i].server;
    return 0;
}

static void add_serving_code(PyObject *code, int server) {
    if (serving_codes_used == MOST_SERVING_CODES || server_of(code)) return;
    serving_codes[serving_codes_used].server = (uint8_t)server;
    serving_codes[serving_codes_used++].code = Py_NewRef(code);
}

static void remove_serving_code(PyObject *code) {
    for (int i = 0; i < serving_codes_used; i++) {
        if (serving_codes[i].code != code) continue;
        serving_codes[i] = serving_codes[--serving_codes_used];
        Py_DECREF(code);
        return;
    }
}

/* Of which class the server calls a method for each request, and of which the request is: the same
   for uvicorn. A library that wraps the server's coroutine in its own passes both on. */
static struct {
    PyObject *owner, *request, *file; /* the server's file, whose coroutines serve by their code */
    uint8_t server;
} serving_types[MOST_SERVING_CODES];
static int serving_types_used = 0;

static void add_serving_type(PyObject *owner, PyObject *request, PyObject *file, int server) {
    if (serving_types_used == MOST_SERVING_CODES) return;
    int i = serving_types_used++;
    serving_types[i].owner = Py_NewRef(owner);
    serving_types[i].request = Py_NewRef(request);
    serving_types[i].file = Py_NewRef(file);
    serving_types[i].server = (uint8_t)server;
}

static void remove_serving_type(PyObject *owner) {
    for (int i = 0; i < serving_types_used; i++) {
        if (serving_types[i].owner != owner) continue;
        PyObject *request = serving_types[i].request, *file = serving_types[i].file;
        serving_types[i] = serving_types[--serving_types_used];
        Py_DECREF(owner);
        Py_DECREF(request);
        Py_DECREF(file);
        return;
    }
}

/* Returns the server that called a coroutine which wraps its own for a request, or 0; in requests.h */
static uint8_t server_by_arguments(PyObject *coroutine);

/* Records that such a task, whose first step began at this time, serves a request; in requests.h */
static void begin_served(proxy *p, uint64_t time_ns);

/* Steps */

static __attribute__((noinline, cold)) void announce(proxy *p, stream *s) {
    if (p->epoch != epoch) {
        /* A fork increases the epoch by 1 and keeps the locations, which the child's recording
           inherits from its parent's. Stop and start increase it by 2, and location numbers of an
           earlier recording are not defined in this one. */
        if (p->epoch + 1 != epoch || rec.parent_pid == 0) p->site = 0;
        p->epoch = epoch;
        p->request = 0;
    }
    put(KIND_KNOWN, p->id, p->site);
    p->last_name = NULL;
    note_name(p);
    if (p->label) put_label(p, now_ns());
    p->generation = s->generation;
}

/* Returns when the step began; `before` is the task in whose step it is. */
static inline uint64_t begin_step(proxy *p, uint8_t kind, uint32_t before) {
    stream *s = stream_of_thread();
    if (unlikely(s && (p->generation != s->generation || p->epoch != epoch))) announce(p, s);
    uint8_t server = 0;
    if (unlikely(!p->stepped)) {
        p->stepped = 1;
        server = p->server;
        note_name(p);
    }
    mine.current_task = p->id;
    mine.served_request = p->request;
    mine.yielded_task = 0;
    uint64_t time_ns;
    if (mine.handle_begin_ns && !mine.handle_stepped && !before) {
        time_ns = mine.handle_begin_ns;
        /* a stream's records are in order of time, and others may have been written since */
        if (unlikely(s && s->cursor != mine.handle_cursor)) time_ns = now_ns();
    } else {
        time_ns = now_ns();
        if (!before) begin_outer_step(time_ns);
    }
    mine.handle_stepped = mine.stepped_since_poll = 1;
    if (likely(s)) put_at(s, time_ns, kind, p->id, p->site);
    if (unlikely(server) && kind == KIND_START) begin_served(p, time_ns);
    return time_ns;
}

/* Timeouts and task groups take back a cancellation by uncancel(), which no hook sees. */
static int still_cancelling(proxy *p) {
    if (!p->task || !task_type || !Py_IS_TYPE(p->task, task_type)) return 1;
    PyObject *count = PyObject_CallMethodNoArgs(p->task, text_cancelling);
    if (!count) {
        PyErr_Clear();
        return 1;
    }
    int requested = PyObject_IsTrue(count);
    Py_DECREF(count);
    if (requested == 0) p->cancelled = 0;
    return requested != 0;
}

/* Records the end of a step; `before` is the task in whose step it was. */
static inline void put_end(uint8_t kind, uint32_t id, uint32_t location, uint32_t before) {
    stream *s = stream_of_thread();
    uint64_t time_ns = now_ns();
    if (!before) end_step(time_ns);
    if (likely(s)) put_at(s, time_ns, kind, id, location);
}

static void finish(proxy *p, uint8_t kind, uint32_t before) {
    PyObject *type, *value, *traceback, *name = changed_name(p);
    if (unlikely(name)) {
        /* the step's own exception is set while the name is encoded */
        PyErr_Fetch(&type, &value, &traceback);
        put_name(p, name);
        PyErr_Restore(type, value, traceback);
    }
    put_end(kind, p->id, p->site, before);
    p->finished = 1;
    p->task = NULL;
}

static __attribute__((noinline)) void put_timer(double delay_s) {
    stream *s = stream_of_thread();
    if (s && delay_s < MOST_DELAY_S)
        put_number_at(s, now_ns(), KIND_TIMER, (uint64_t)(delay_s * 1e9));
}

static void suspend(proxy *p, PyObject *yielded, uint32_t before) {
    uint32_t location = wait_location(p->coroutine, yielded);
    uint8_t kind = KIND_WAIT;
    if (unlikely(p->cancelled) && still_cancelling(p)) kind = KIND_CANCELLING;
    if (unlikely(mine.waited_item)) put(KIND_ITEM_AWAITED, mine.waited_item, p->id);
    if (unlikely(mine.slept_s >= 0) && mine.hides_timers) put_timer(mine.slept_s);
    put_end(kind, p->id, location, before);
    /* while it is being cancelled, the wake-up ends that state */
    if (lets_others_run(yielded) && kind == KIND_WAIT) mine.yielded_task = p->id;
}

THREAD_LOCAL PyObject *unseen_task = NULL; /* that of mine.unseen */

static void forget_unseen(void) {
    if (!mine.unseen) return;
    if (mine.current_task == mine.unseen->id) mine.current_task = 0;
    mine.unseen->request = mine.served_request;
    mine.served_request = 0;
    Py_CLEAR(mine.unseen);
    Py_CLEAR(unseen_task);
}

/* Returns whether a method of the task that ran returns a true value. */
static int unseen_was(const char *method) {
    PyObject *answer = PyObject_CallMethod(unseen_task, method, NULL);
    int yes = answer && answer != Py_None && PyObject_IsTrue(answer) == 1;
    if (!answer) PyErr_Clear();
    Py_XDECREF(answer);
    return yes;
}

static __attribute__((noinline, cold)) void end_unseen(void) {
    PyObject *type, *value, *traceback;
    if (!mine.unseen || mine.unseen->epoch != epoch) {
        forget_unseen();
        return;
    }
    int state = frame_state(mine.unseen->coroutine);
    if (state == FRAME_EXECUTING) return;
    PyErr_Fetch(&type, &value, &traceback);
    if (state < FRAME_EXECUTING) {
        PyObject *waiter = PyObject_GetAttrString(unseen_task, "_fut_waiter");
        if (!waiter) PyErr_Clear();
        put(KIND_WAIT, mine.unseen->id,
            wait_location(mine.unseen->coroutine, waiter ? waiter : Py_False));
        Py_XDECREF(waiter);
    } else {
        int cancelled = unseen_was("cancelled");
        int failed = !cancelled && unseen_was("done") && unseen_was("exception");
        finish(mine.unseen, cancelled ? KIND_CANCELLED : failed ? KIND_FAILED : KIND_COMPLETED, 0);
    }
    forget_unseen();
    PyErr_Restore(type, value, traceback);
}

static PySendResult proxy_am_send(PyObject *self, PyObject *value, PyObject **result) {
    proxy *p = (proxy *)self;
    if (unlikely(!recording_on)) return PyIter_Send(p->coroutine, value, result);
    if (unlikely(mine.unseen)) end_unseen();
    /* a step may run loops or eager tasks, so steps can nest */
    uint32_t before = mine.current_task, served_before = mine.served_request;
    uint64_t begin_ns = begin_step(p, KIND_START, before);
    PySendResult sent = PyIter_Send(p->coroutine, value, result);
    if (likely(recording_on)) {
        if (sent == PYGEN_NEXT) suspend(p, *result, before);
        else if (sent == PYGEN_RETURN) finish(p, KIND_COMPLETED, before);
        else finish(p, is_cancellation(PyErr_Occurred()) ? KIND_CANCELLED : KIND_FAILED, before);
        if (unlikely(blocked_limit_ns)) check_blocked((uint64_t)rec.base_ns + begin_ns);
    }
    p->request = mine.served_request;
    mine.served_request = served_before;
    mine.current_task = before;
    return sent;
}

static PyObject *proxy_send(PyObject *self, PyObject *value) {
    PyObject *result = NULL;
    PySendResult sent = proxy_am_send(self, value, &result);
    if (sent == PYGEN_NEXT) return result;
    if (sent == PYGEN_RETURN) {
        /* PyErr_SetObject would unpack a result that is a tuple or an exception */
        PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, result);
        if (stop) PyErr_SetObject(PyExc_StopIteration, stop);
        Py_XDECREF(stop);
        Py_DECREF(result);
    }
    return NULL;
}

static PyObject *proxy_next(PyObject *self) { return proxy_send(self, Py_None); }

static PyObject *proxy_throw(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    proxy *p = (proxy *)self;
    PyObject *forward[4] = {p->coroutine};
    if (count > 3) {
        PyErr_Format(PyExc_TypeError, "throw expected at most 3 arguments, got %zd", count);
        return NULL;
    }
    memcpy(forward + 1, args, (size_t)count * sizeof *args);
    size_t forwarded = (size_t)count + 1;
    if (!recording_on) return PyObject_VectorcallMethod(text_throw, forward, forwarded, NULL);
    if (unlikely(mine.unseen)) end_unseen();
    uint32_t before = mine.current_task, served_before = mine.served_request;
    if (count && is_cancellation(args[0])) p->cancelled = 1;
    uint64_t begin_ns = begin_step(p, KIND_THROW, before);
    PyObject *result = PyObject_VectorcallMethod(text_throw, forward, forwarded, NULL);
    if (recording_on) {
        if (result) suspend(p, result, before);
        else if (PyErr_ExceptionMatches(PyExc_StopIteration)) finish(p, KIND_COMPLETED, before);
        else finish(p, is_cancellation(PyErr_Occurred()) ? KIND_CANCELLED : KIND_FAILED, before);
        if (blocked_limit_ns) check_blocked((uint64_t)rec.base_ns + begin_ns);
    }
    p->request = mine.served_request;
    mine.served_request = served_before;
    mine.current_task = before;
    return result;
}

static PyObject *proxy_close(PyObject *self, PyObject *unused) {
    proxy *p = (proxy *)self;
    PyObject *result = PyObject_CallMethodNoArgs(p->coroutine, text_close);
    /* as if inside a step, since none ends here */
    if (recording_on && !p->finished && result) finish(p, KIND_DROPPED, 1);
    return result;
}

/* When a timer that wakes a task was due. The record precedes that of the wake-up. */

static PyTypeObject *timer_type = NULL; /* asyncio.TimerHandle */
static Py_ssize_t timer_when_offset = 0;

/* Records a time of CLOCK_MONOTONIC in seconds, if it is one of this recording: the clock of a loop
   can be another. */
static void put_due(double when) {
    stream *s = stream_of_thread();
    uint64_t time_ns = now_ns();
    double due_ns = when * 1e9 - (double)rec.base_ns;
    if (s && due_ns > 0 && due_ns <= (double)time_ns)
        put_number_at(s, time_ns, KIND_DUE, time_ns - (uint64_t)due_ns);
}

static void put_timer_due(void) {
    if (!mine.running_handle || !timer_type || !Py_IS_TYPE(mine.running_handle, timer_type))
        return;
    PyObject *when = *(PyObject **)((char *)mine.running_handle + timer_when_offset);
    if (when && PyFloat_CheckExact(when)) put_due(PyFloat_AS_DOUBLE(when));
}

enum { MOST_TRIO_FRAMES = 12 };

static PyObject *local_named(frame_data *frame, const char *name) {
    PyCodeObject *code = (PyCodeObject *)code_of_frame(frame);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_localsplusnames); i++)
        if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_localsplusnames, i), name))
            return local_of_frame(frame, i);
    return NULL;
}

/* trio cancels what is due in Deadlines.expire, which is then among the innermost frames. Its clock
   may have any origin, so the time is derived from how late that is. */
static void put_trio_due(void) {
    frame_data *frame = top_frame(PyThreadState_Get());
    for (int i = 0; frame && i < MOST_TRIO_FRAMES; i++, frame = frame->previous) {
        if (_PyFrame_IsIncomplete(frame) || !(flags_of_code(code_of_frame(frame)) & CODE_DEADLINES))
            continue;
        PyObject *now = local_named(frame, "now"), *due = local_named(frame, "deadline");
        stream *s = stream_of_thread();
        if (!s || !now || !due || !PyFloat_CheckExact(now) || !PyFloat_CheckExact(due)) return;
        double late_ns = (PyFloat_AS_DOUBLE(now) - PyFloat_AS_DOUBLE(due)) * 1e9;
        uint64_t time_ns = now_ns();
        if (late_ns >= 0 && late_ns <= (double)time_ns)
            put_number_at(s, time_ns, KIND_DUE, (uint64_t)late_ns);
        return;
    }
}

/* The rest of a coroutine's interface */

static PyObject *proxy_self(PyObject *self) { return Py_NewRef(self); }

static PyObject *proxy_repr(PyObject *self) { return PyObject_Repr(((proxy *)self)->coroutine); }

static PyObject *proxy_getattr(PyObject *self, PyObject *name) {
    proxy *p = (proxy *)self;
    /* trio looks up `send` when it schedules a task, and calls it later: this is the wake-up */
    if (p->of_trio && p->stepped && !p->finished && recording_on && name == text_send) {
        if (unlikely(mine.unseen)) end_unseen();
        if (p->id == mine.yielded_task) {
            mine.yielded_task = 0;
        } else {
            /* what is due, trio ends after each poll, before any step */
            if (!mine.current_task && !mine.stepped_since_poll) put_trio_due();
            put(KIND_WAKE, p->id, mine.current_task);
        }
    }
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    return PyObject_GetAttr(((proxy *)self)->coroutine, name);
}

static int proxy_setattr(PyObject *self, PyObject *name, PyObject *value) {
    return PyObject_SetAttr(((proxy *)self)->coroutine, name, value);
}

static PyObject *proxy_delegated(PyObject *self, void *name) {
    return PyObject_GetAttrString(((proxy *)self)->coroutine, name);
}

static int proxy_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((proxy *)self)->coroutine);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

/* Memory of freed ones, which is used again: a server has a task for each request. */
enum { KEPT_PROXIES = 64 };

static proxy *kept_proxies[KEPT_PROXIES];
static int proxies_kept = 0;

static void proxy_dealloc(PyObject *self) {
    proxy *p = (proxy *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (!p->finished && recording_on && p->epoch == epoch) put(KIND_DROPPED, p->id, p->site);
    if (p->weak_references) PyObject_ClearWeakRefs(self);
    Py_XDECREF(p->coroutine);
    Py_XDECREF(p->label);
    if (likely(proxies_kept < KEPT_PROXIES)) kept_proxies[proxies_kept++] = p;
    else PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef proxy_methods[] = {
    {"send", proxy_send, METH_O, NULL},
    {"throw", (PyCFunction)(void (*)(void))proxy_throw, METH_FASTCALL, NULL},
    {"close", proxy_close, METH_NOARGS, NULL},
    {NULL},
};

static PyGetSetDef proxy_getset[] = {
    /* so that isinstance(task.get_coro(), types.CoroutineType) has the same result */
    {"__class__", proxy_delegated, NULL, NULL, "__class__"},
    {"__name__", proxy_delegated, NULL, NULL, "__name__"},
    {"__qualname__", proxy_delegated, NULL, NULL, "__qualname__"},
    {"__doc__", proxy_delegated, NULL, NULL, "__doc__"},
    {NULL},
};

static PyMemberDef proxy_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(proxy, weak_references), READONLY},
    {NULL},
};

static PyType_Slot proxy_slots[] = {
    {Py_am_send, proxy_am_send},
    {Py_am_await, proxy_self},
    {Py_tp_iter, proxy_self},
    {Py_tp_iternext, proxy_next},
    {Py_tp_methods, proxy_methods},
    {Py_tp_getset, proxy_getset},
    {Py_tp_members, proxy_members},
    {Py_tp_getattro, proxy_getattr},
    {Py_tp_setattro, proxy_setattr},
    {Py_tp_repr, proxy_repr},
    {Py_tp_traverse, proxy_traverse},
    {Py_tp_dealloc, proxy_dealloc},
    {0},
};

static PyType_Spec proxy_spec = {
    "meantime.collect.RecordedCoroutine",
    sizeof(proxy),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
        Py_TPFLAGS_IMMUTABLETYPE,
    proxy_slots,
};

static int prepare_proxies(void) {
    find_getters();
    proxy_type = (PyTypeObject *)PyType_FromSpec(&proxy_spec);
    text_send = PyUnicode_InternFromString("send");
    text_throw = PyUnicode_InternFromString("throw");
    text_close = PyUnicode_InternFromString("close");
    text_coroutine = PyUnicode_InternFromString("_coro");
    text_cancelling = PyUnicode_InternFromString("cancelling");
    text_get_name = PyUnicode_InternFromString("get_name");
    text_wrapped = PyUnicode_InternFromString("__wrapped__");
    return proxy_type && coroutine_await ? 0 : -1;
}

static proxy *new_proxy(PyObject *coroutine) {
    proxy *p;
    if (likely(proxies_kept)) {
        p = kept_proxies[--proxies_kept];
        PyObject_Init((PyObject *)p, proxy_type);
    } else if (!(p = PyObject_GC_New(proxy, proxy_type))) {
        return NULL;
    }
    p->coroutine = Py_NewRef(coroutine);
    p->weak_references = p->task = p->last_name = p->label = NULL;
    p->id = next_task++;
    p->finished = p->cancelled = p->stepped = p->of_trio = p->server = 0;
    p->epoch = p->request = 0;
    return p;
}

/* Returns the subject of a coroutine's location: its code or, unless it is native, its type. */
static PyObject *subject_of(PyObject *coroutine) {
    if (!PyCoro_CheckExact(coroutine)) return (PyObject *)Py_TYPE(coroutine);
    return (PyObject *)code_of_coroutine(coroutine);
}

/* What a task is named after: the function that somebody wrote, and not what a decorator or a
   library has put around its coroutine. */

enum { MOST_DECORATORS = 8, MOST_LIBRARY_WRAPPERS = 4, MOST_NAMED_SUBJECTS = 10000 };

static PyObject *named_subjects = NULL; /* (code, name): that tuple itself */

/* Returns the function in a value, as functools.wraps finds it in `__wrapped__`. */
static PyObject *decorated_function(PyObject *function) {
    for (int i = 0; i < MOST_DECORATORS && function; i++) {
        if (PyMethod_Check(function)) function = PyMethod_GET_FUNCTION(function);
        if (!PyFunction_Check(function)) return NULL;
        PyObject *attributes = ((PyFunctionObject *)function)->func_dict;
        PyObject *next = attributes ? PyDict_GetItemWithError(attributes, text_wrapped) : NULL;
        if (!next) return function;
        function = next;
    }
    return NULL;
}

/* Returns the subject of a coroutine whose name is not that of its code. */
static __attribute__((noinline)) PyObject *renamed_subject(PyObject *coroutine, PyObject *code) {
    PyObject *name = ((PyGenObject *)coroutine)->gi_qualname, *pair, *subject;
    if (PyUnicode_Compare(name, ((PyCodeObject *)code)->co_qualname) == 0) return code;
    if (frame_state(coroutine) < FRAME_EXECUTING) {
        PyObject *function = decorated_function(function_of_frame(frame_of_coroutine(coroutine)));
        PyObject *inner = function ? ((PyFunctionObject *)function)->func_code : code;
        if (PyUnicode_Compare(name, ((PyCodeObject *)inner)->co_qualname) == 0) return inner;
    }
    if (!named_subjects) named_subjects = PyDict_New();
    pair = named_subjects ? PyTuple_Pack(2, code, name) : NULL;
    /* names that a program makes up are not kept without a limit */
    subject = pair && PyDict_GET_SIZE(named_subjects) < MOST_NAMED_SUBJECTS
                  ? PyDict_SetDefault(named_subjects, pair, pair)
                  : pair ? PyDict_GetItemWithError(named_subjects, pair) : NULL;
    Py_XDECREF(pair);
    if (!subject) PyErr_Clear();
    return subject ? subject : code;
}

/* Returns the coroutine that a library's coroutine, which has not begun, is called to await: an
   argument, a variable of the function around it, or a slot of its object. */
static PyObject *awaited_argument(PyObject *coroutine, PyCodeObject *code) {
    if (frame_state(coroutine) != FRAME_CREATED) return NULL;
    frame_data *frame = frame_of_coroutine(coroutine);
    PyObject *function = function_of_frame(frame), *found = NULL;
    for (int i = 0; i < code->co_argcount; i++) {
        found = local_of_frame(frame, i);
        if (found && PyCoro_CheckExact(found)) return found;
    }
    PyObject *cells = function && PyFunction_Check(function) ? PyFunction_GET_CLOSURE(function)
                                                             : NULL;
    for (Py_ssize_t i = 0; cells && i < PyTuple_GET_SIZE(cells); i++) {
        found = PyCell_GET(PyTuple_GET_ITEM(cells, i));
        if (found && PyCoro_CheckExact(found)) return found;
    }
    PyObject *first = code->co_argcount ? local_of_frame(frame, 0) : NULL;
    PyObject *slot = first ? _PyType_Lookup(Py_TYPE(first), text_coroutine) : NULL;
    if (!slot || !Py_IS_TYPE(slot, &PyMemberDescr_Type)) return NULL;
    found = PyObject_GenericGetAttr(first, text_coroutine);
    if (!found) PyErr_Clear();
    Py_XDECREF(found); /* the object has another reference */
    return found && PyCoro_CheckExact(found) ? found : NULL;
}

static void forget_subjects(void) { Py_CLEAR(named_subjects); }

static PyObject *named_subject(PyObject *coroutine) {
    PyObject *subject = subject_of(coroutine);
    for (int i = 0; i < MOST_LIBRARY_WRAPPERS && PyCoro_CheckExact(coroutine); i++) {
        PyCodeObject *code = (PyCodeObject *)subject_of(coroutine);
        subject = (PyObject *)code;
        if (unlikely(((PyGenObject *)coroutine)->gi_qualname != code->co_qualname))
            return renamed_subject(coroutine, subject);
        if (likely(!(flags_of_code(subject) & CODE_LIBRARY))) break;
        PyObject *inner = awaited_argument(coroutine, code);
        if (!inner) break;
        coroutine = inner;
    }
    return subject;
}

/* Wraps the coroutine of a task to be created in `context` or, if that is NULL, the current one. */
static proxy *wrap_coroutine(PyObject *coroutine, PyObject *context) {
    proxy *p = new_proxy(coroutine);
    if (!p) return NULL;
    PyObject *subject = subject_of(coroutine);
    p->site = spawn_site(named_subject(coroutine));
    p->server = server_of(subject);
    if (unlikely(serving_types_used) && !p->server) p->server = server_by_arguments(coroutine);
    if (mine.current_task) p->request = mine.served_request;
    stream *s = stream_of_thread();
    uint64_t time_ns = now_ns();
    if (likely(s)) put_at(s, time_ns, KIND_SPAWN, p->id, p->site);
    if (unlikely(label_variable)) take_label(p, context, time_ns);
    p->epoch = epoch;
    p->generation = s ? s->generation : 0;
    PyObject_GC_Track((PyObject *)p);
    return p;
}

/* Task structures are private to _asyncio and differ between versions, so a member is found by its
   value in an object that is known to refer to it. */
static Py_ssize_t offset_of(PyObject *object, PyTypeObject *type, PyObject *member) {
    for (Py_ssize_t at = sizeof(PyObject); at + (Py_ssize_t)sizeof(void *) <= type->tp_basicsize;
         at += sizeof(void *))
        if (*(PyObject **)((char *)object + at) == member) return at;
    return 0;
}

/* Finds once the offsets of coroutine and name in the interpreter's own tasks. */
static void learn_offsets(PyObject *task, PyObject *coroutine) {
    if (!coroutine_offset) coroutine_offset = offset_of(task, task_type, coroutine);
    if (!name_offset) {
        PyObject *name = PyObject_CallMethodNoArgs(task, text_get_name);
        if (name) name_offset = offset_of(task, task_type, name);
        else PyErr_Clear();
        Py_XDECREF(name);
    }
}

/* Connects a new task with its wrapped coroutine. */
static void bind_task(proxy *p, PyObject *task) {
    if (!task_type || !PyObject_TypeCheck(task, task_type)) return;
    learn_offsets(task, (PyObject *)p);
    p->task = task;
    if (p->stepped) note_name(p); /* an eager task (3.12 and later) begins inside create_task */
    if (p->finished) p->task = NULL;
}

/* Tasks that exist when a recording begins or ends */

/* Adds an existing task to the recording, and records its present state. `waiter` is the object
   that it awaits, or None; `ready` is whether it is scheduled already. Returns the proxy that is to
   become the task's coroutine, or NULL without an error if nothing is to change. */
static PyObject *attach_coroutine(PyObject *coroutine, PyObject *task, PyObject *waiter, int ready) {
    proxy *p;
    int learns = task_type && PyObject_TypeCheck(task, task_type);
    if (learns) learn_offsets(task, coroutine);
    if (Py_IS_TYPE(coroutine, proxy_type)) p = (proxy *)Py_NewRef(coroutine);
    else if (PyCoro_CheckExact(coroutine)) p = new_proxy(coroutine);
    else return NULL;
    if (!p) return NULL;
    if (!Py_IS_TYPE(coroutine, proxy_type)) PyObject_GC_Track((PyObject *)p);
    stream *s = stream_of_thread();
    if (p->epoch == epoch || !s || !PyCoro_CheckExact(p->coroutine)) {
        Py_DECREF(p);
        return NULL;
    }
    p->epoch = epoch;
    p->generation = s->generation;
    p->site = location_id(NULL, -1, named_subject(p->coroutine), LEAF_SPAWN);
    p->task = learns ? task : NULL;
    p->last_name = NULL;
    if (frame_state(p->coroutine) == FRAME_CREATED) {
        p->server = server_of(subject_of(p->coroutine));
        put(KIND_SPAWN, p->id, p->site);
        return (PyObject *)p;
    }
    p->stepped = 1;
    put(KIND_KNOWN, p->id, p->site);
    note_name(p);
    if (frame_state(p->coroutine) == FRAME_EXECUTING) {
        put(KIND_START, p->id, p->site);
        mine.current_task = p->id;
        Py_XSETREF(mine.unseen, (proxy *)Py_NewRef(p));
        Py_XSETREF(unseen_task, Py_NewRef(task));
    } else {
        /* a task of trio has no object that it awaits: None would mean that it only yielded */
        if (!ready && waiter == Py_None) waiter = Py_False;
        put(KIND_WAIT, p->id, wait_location(p->coroutine, waiter));
        if (ready) put(KIND_WAKE, p->id, 0);
    }
    return (PyObject *)p;
}

/* Returns the wrapped coroutine, or NULL if it is running: its step returns through the proxy. */
static PyObject *detach_coroutine(PyObject *coroutine) {
    proxy *p = (proxy *)coroutine;
    if (!Py_IS_TYPE(coroutine, proxy_type) || !PyCoro_CheckExact(p->coroutine) ||
        frame_state(p->coroutine) == FRAME_EXECUTING)
        return NULL;
    p->epoch = 0; /* so that freeing the proxy does not record the task as dropped */
    return Py_NewRef(p->coroutine);
}

static int set_coroutine(PyObject *task, PyObject *coroutine) {
    if (!task_type || !coroutine_offset || !PyObject_TypeCheck(task, task_type)) return -1;
    PyObject **at = (PyObject **)((char *)task + coroutine_offset);
    Py_XSETREF(*at, Py_NewRef(coroutine));
    return 0;
}

static uint32_t number_of(PyObject *coroutine) {
    return Py_IS_TYPE(coroutine, proxy_type) ? ((proxy *)coroutine)->id : 0;
}

/* The first schedule of a task belongs to its spawn, and one that ended cannot be woken. */
static uint32_t id_to_wake(PyObject *coroutine) {
    proxy *p = (proxy *)coroutine;
    return Py_IS_TYPE(coroutine, proxy_type) && p->stepped && !p->finished ? p->id : 0;
}

/* The recorded task's id, or 0; `task` may be anything. */
static uint32_t id_of_task(PyObject *task) {
    PyObject *coroutine;
    if (task_type && coroutine_offset && PyObject_TypeCheck(task, task_type)) {
        coroutine = *(PyObject **)((char *)task + coroutine_offset);
        return coroutine ? id_to_wake(coroutine) : 0;
    }
    if (python_task_type && PyObject_TypeCheck(task, python_task_type)) {
        coroutine = PyObject_GetAttr(task, text_coroutine);
        if (!coroutine) {
            PyErr_Clear();
            return 0;
        }
        uint32_t id = id_to_wake(coroutine);
        Py_DECREF(coroutine);
        return id;
    }
    return 0;
}

/* The id of a recorded task that has ended, or 0; `task` may be anything. */
static uint32_t id_of_ended(PyObject *task) {
    if (!task_type || !coroutine_offset || !PyObject_TypeCheck(task, task_type)) return 0;
    proxy *p = *(proxy **)((char *)task + coroutine_offset);
    return p && Py_IS_TYPE(p, proxy_type) && p->finished ? p->id : 0;
}

#endif
