/* Code locations of the program, interned: where a task was spawned, where it waits.

   A location is a line of code and a subject: the code of the spawned coroutine, or of the
   innermost coroutine that waits. Its text is a fact of the recording, written at its first use.
   The table owns references to the code objects, so that no address is reused while it is a key.
   Everything here requires the GIL, which serves as the tables' lock. */

#ifndef MEANTIME_LOCATIONS_H
#define MEANTIME_LOCATIONS_H

#include "internals.h"
#include "pools.h"
#include "stream.h"

enum {
    CODE_LIBRARY = 1, /* never reported as the program's own line */
    CODE_TRAP = 2,    /* suspends tasks for all of trio's primitives: its name explains nothing */
    CODE_HANDLE = 4,  /* runs a loop's callbacks: below it on the stack is only the loop */
    CODE_QUEUE = 8,   /* waits by an event inside, but is reported as a queue */
    CODE_DEADLINES = 16, /* in which trio ends the waits that are due */
    CODE_WAIT_FOR = 32,  /* up to 3.11: waits for a task that it makes of its argument */
    CODE_SLEEP = 64,     /* asyncio.sleep */
};

typedef struct {
    PyObject *code, *subject;
    int32_t lasti; /* rather than the line, which needs a decoding of the line table */
    uint32_t leaf, id;
} code_location;

typedef struct {
    PyObject *code;
    uint32_t flags;
} known_code;

static code_location *locations = NULL;
static size_t locations_capacity = 0, locations_used = 0;
static known_code *codes = NULL;
static size_t codes_capacity = 0, codes_used = 0;
static uint32_t next_location = 1;
static char *library_prefix[16];
static size_t library_length[16];
static int library_prefixes = 0;

static inline size_t mix(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t x = (a >> 4) * 0x9E3779B97F4A7C15u ^ (b >> 4) * 0xC2B2AE3D27D4EB4Fu ^
                 c * 0x165667B19E3779F9u;
    return (size_t)(x ^ x >> 29);
}

static void forget_locations(void) {
    for (size_t i = 0; i < locations_capacity; i++)
        if (locations[i].id && locations[i].subject && !PyCode_Check(locations[i].subject))
            Py_DECREF(locations[i].subject);
    for (size_t i = 0; i < codes_capacity; i++) Py_CLEAR(codes[i].code);
    free(codes);
    free(locations);
    codes = NULL;
    locations = NULL;
    codes_capacity = codes_used = locations_capacity = locations_used = 0;
}

static known_code *find_code(PyObject *code) {
    size_t mask = codes_capacity - 1;
    size_t i = mix((uint64_t)code, 0, 0) & mask;
    while (codes[i].code && codes[i].code != code) i = (i + 1) & mask;
    return &codes[i];
}

static int grow_codes(void) {
    known_code *old = codes;
    size_t capacity = codes_capacity;
    known_code *fresh = calloc(capacity ? capacity * 2 : 1024, sizeof *fresh);
    if (!fresh) return -1;
    codes = fresh;
    codes_capacity = capacity ? capacity * 2 : 1024;
    for (size_t i = 0; i < capacity; i++)
        if (old[i].code) *find_code(old[i].code) = old[i];
    free(old);
    return 0;
}

static int ends_with(const char *text, Py_ssize_t length, const char *end) {
    Py_ssize_t size = (Py_ssize_t)strlen(end);
    return length >= size && !memcmp(text + length - size, end, (size_t)size);
}

static uint32_t classify_code(PyCodeObject *code) {
    uint32_t flags = 0;
    Py_ssize_t length;
    const char *file = PyUnicode_AsUTF8AndSize(code->co_filename, &length);
    if (!file) {
        PyErr_Clear();
        return 0;
    }
    for (int i = 0; i < library_prefixes; i++)
        if ((size_t)length >= library_length[i] &&
            !memcmp(file, library_prefix[i], library_length[i]))
            flags |= CODE_LIBRARY;
    if (flags && (ends_with(file, length, "/trio/_core/_traps.py") ||
                  ends_with(file, length, "/trio/_core/_parking_lot.py")))
        flags |= CODE_TRAP;
    if (flags && ends_with(file, length, "/trio/_core/_run.py") &&
        PyUnicode_CompareWithASCIIString(code->co_qualname, "Deadlines.expire") == 0)
        flags |= CODE_DEADLINES;
    if (flags && ends_with(file, length, "/asyncio/base_events.py") &&
        PyUnicode_CompareWithASCIIString(code->co_qualname, "BaseEventLoop._run_once") == 0)
        flags |= CODE_HANDLE;
    if (flags && (ends_with(file, length, "/anyio/streams/memory.py") ||
                  (ends_with(file, length, "/asyncio/queues.py") &&
                   PyUnicode_CompareWithASCIIString(code->co_qualname, "Queue.join") == 0)))
        flags |= CODE_QUEUE;
    if (PY_VERSION_HEX < 0x030C0000 && flags && ends_with(file, length, "/asyncio/tasks.py") &&
        PyUnicode_CompareWithASCIIString(code->co_qualname, "wait_for") == 0)
        flags |= CODE_WAIT_FOR;
    if (flags && ends_with(file, length, "/asyncio/tasks.py") && code->co_argcount &&
        PyUnicode_CompareWithASCIIString(code->co_qualname, "sleep") == 0)
        flags |= CODE_SLEEP;
    return flags;
}

static __attribute__((noinline)) uint32_t flags_of_new_code(PyObject *code) {
    if (unlikely(codes_used * 2 >= codes_capacity) && grow_codes() < 0) return 0;
    known_code *known = find_code(code);
    if (unlikely(!known->code)) {
        known->code = Py_NewRef(code);
        known->flags = classify_code((PyCodeObject *)code);
        codes_used++;
    }
    return known->flags;
}

static inline uint32_t flags_of_code(PyObject *code) {
    if (likely(codes_capacity)) {
        /* most are where the search begins */
        known_code *known = &codes[mix((uint64_t)code, 0, 0) & (codes_capacity - 1)];
        if (likely(known->code == code)) return known->flags;
    }
    return flags_of_new_code(code);
}

static size_t append(char *text, size_t at, size_t size, const char *part, Py_ssize_t length) {
    size_t room = size - at;
    if (!part) return at;
    if ((size_t)length > room) length = (Py_ssize_t)room;
    memcpy(text + at, part, (size_t)length);
    return at + (size_t)length;
}

static size_t append_object(char *text, size_t at, size_t size, PyObject *object) {
    Py_ssize_t length;
    const char *part = object ? PyUnicode_AsUTF8AndSize(object, &length) : NULL;
    if (part) return append(text, at, size, part, length);
    /* a lone surrogate, as in a file name that is not UTF-8 */
    PyErr_Clear();
    return append(text, at, size, "?", 1);
}

static size_t append_number(char *text, size_t at, int number) {
    return at + (size_t)snprintf(text + at, 16, "%d", number);
}

/* Writes line, function and file, the subject's name, file and line, and the leaf, separated by
   NUL. Each text has a limit, so that long ones leave room for the others. */
static void define_location(uint32_t id, PyObject *code, int lasti, PyObject *subject,
                         uint32_t leaf) {
    char text[MAX_TEXT - 16];
    size_t size = sizeof text - 64, at = 0;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback); /* the text may be made while an exception is set */
    memset(text, 0, sizeof text);
    if (code) {
        PyCodeObject *co = (PyCodeObject *)code;
        int line = lasti < 0 ? co->co_firstlineno
                             : PyCode_Addr2Line(co, lasti * (int)sizeof(_Py_CODEUNIT));
        at = append_number(text, at, line) + 1;
        at = append_object(text, at, size / 4, co->co_qualname) + 1;
        at = append_object(text, at, size / 2, co->co_filename) + 1;
    } else {
        at = 3;
    }
    if (subject && (PyCode_Check(subject) || PyTuple_Check(subject))) {
        int renamed = PyTuple_Check(subject);
        PyCodeObject *co = (PyCodeObject *)(renamed ? PyTuple_GET_ITEM(subject, 0) : subject);
        PyObject *name = renamed ? PyTuple_GET_ITEM(subject, 1) : co->co_qualname;
        at = append_object(text, at, size * 3 / 4, name) + 1;
        at = append_object(text, at, size, co->co_filename) + 1;
        at = append_number(text, at, co->co_firstlineno) + 1;
    } else {
        const char *name = subject ? ((PyTypeObject *)subject)->tp_name : "";
        at = append(text, at, size * 3 / 4, name, (Py_ssize_t)strlen(name)) + 3;
    }
    at = append_number(text, at, (int)leaf);
    write_fact(KIND_LOCATION, id, text, (uint32_t)at);
    PyErr_Restore(type, value, traceback);
}

static inline size_t location_hash(PyObject *code, int lasti, PyObject *subject, uint32_t leaf) {
    return mix((uint64_t)code, (uint64_t)subject, (uint32_t)lasti * 4u + leaf);
}

static inline int is_location(const code_location *p, PyObject *code, int lasti,
                              PyObject *subject, uint32_t leaf) {
    return p->code == code && p->subject == subject && p->lasti == lasti && p->leaf == leaf;
}

static code_location *find_location(PyObject *code, int lasti, PyObject *subject, uint32_t leaf) {
    size_t mask = locations_capacity - 1, i = location_hash(code, lasti, subject, leaf) & mask;
    while (locations[i].id && !is_location(&locations[i], code, lasti, subject, leaf))
        i = (i + 1) & mask;
    return &locations[i];
}

static int grow_locations(void) {
    code_location *old = locations;
    size_t capacity = locations_capacity;
    code_location *fresh = calloc(capacity ? capacity * 2 : 1024, sizeof *fresh);
    if (!fresh) return -1;
    locations = fresh;
    locations_capacity = capacity ? capacity * 2 : 1024;
    for (size_t i = 0; i < capacity; i++)
        if (old[i].id)
            *find_location(old[i].code, old[i].lasti, old[i].subject, old[i].leaf) = old[i];
    free(old);
    return 0;
}

static __attribute__((noinline)) uint32_t add_location(PyObject *code, int lasti,
                                                       PyObject *subject, uint32_t leaf) {
    if (!code && !subject) return 0;
    if (unlikely(locations_used * 2 >= locations_capacity) && grow_locations() < 0) return 0;
    code_location *p = find_location(code, lasti, subject, leaf);
    if (likely(p->id)) return p->id;
    *p = (code_location){code, subject, lasti, leaf, next_location++};
    locations_used++;
    if (code) flags_of_code(code); /* owns the reference that keeps the key valid */
    if (subject && PyCode_Check(subject)) flags_of_code(subject);
    else Py_XINCREF(subject);
    uint32_t id = p->id;
    define_location(id, code, lasti, subject, leaf);
    return id;
}

/* Returns the number of a location; 0 where there is none. `subject` is a code object, a tuple of one
   and another name for it, or a type. */
static inline uint32_t location_id(PyObject *code, int lasti, PyObject *subject, uint32_t leaf) {
    if (likely(locations_capacity)) {
        size_t at = location_hash(code, lasti, subject, leaf) & (locations_capacity - 1);
        code_location *p = &locations[at];
        if (likely(p->id && is_location(p, code, lasti, subject, leaf))) return p->id;
    }
    return add_location(code, lasti, subject, leaf);
}

/* Where a task is spawned */

/* Returns the innermost frame outside the libraries. If there is none between here and the loop,
   as when a callback of a library spawns, the innermost frame of all. */
static uint32_t spawn_site(PyObject *subject) {
    frame_data *frame = top_frame(PyThreadState_Get());
    frame_data *first = NULL;
    for (; frame && frame != mine.loop_frame; frame = frame->previous) {
        if (_PyFrame_IsIncomplete(frame)) continue; /* not at an instruction yet, or a shim */
        if (!first) first = frame;
        uint32_t flags = flags_of_code(code_of_frame(frame));
        if (!(flags & CODE_LIBRARY)) break;
        if (flags & CODE_HANDLE) frame = mine.loop_frame;
        if (frame == mine.loop_frame) break;
    }
    if (!frame || frame == mine.loop_frame) frame = first;
    if (!frame) return location_id(NULL, -1, subject, LEAF_SPAWN);
    return location_id(code_of_frame(frame), _PyInterpreterFrame_LASTI(frame), subject, LEAF_SPAWN);
}

/* The location and object that a suspended coroutine waits for */

static getter coroutine_await = NULL;
static PyTypeObject *task_type = NULL, *future_type = NULL;
/* _asyncio.FutureIter, by which the interpreter's own futures are awaited */
static PyTypeObject *future_iterator = NULL;

/* cr_await is found in the type's table, since its C function is static in the interpreter. */
static void find_getters(void) {
    for (PyGetSetDef *g = PyCoro_Type.tp_getset; g && g->name; g++)
        if (!strcmp(g->name, "cr_await")) coroutine_await = g->get;
}

static int has_name(PyObject *object, const char *begin) {
    PyObject *name = PyObject_GetAttrString(object, "__name__");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    int yes = text && !strncmp(text, begin, strlen(begin));
    if (!name || (!text && PyErr_Occurred())) PyErr_Clear();
    Py_XDECREF(name);
    return yes;
}

static int note_coroutine(PyObject *referred_to, void *found) {
    if (!PyType_Check(referred_to)) *(PyObject **)found = referred_to;
    return 0;
}

/* Returns what a compiled coroutine waits for; those of a loop's sockets are recognised by name. */
static uint32_t leaf_of_compiled(PyObject *awaited) {
    PyObject *coroutine = NULL;
    if (!future_iterator && !strcmp(Py_TYPE(awaited)->tp_name, "_asyncio.FutureIter"))
        future_iterator = (PyTypeObject *)Py_NewRef(Py_TYPE(awaited));
    /* Cython awaits through a wrapper, which does not have the coroutine as an attribute */
    if (!strstr(Py_TYPE(awaited)->tp_name, "coroutine_wrapper") || !Py_TYPE(awaited)->tp_traverse)
        return LEAF_OTHER;
    Py_TYPE(awaited)->tp_traverse(awaited, note_coroutine, &coroutine);
    if (!coroutine || !has_name(coroutine, "sock_")) return LEAF_OTHER;
    return has_name(coroutine, "sock_recv") || has_name(coroutine, "sock_accept") ? LEAF_READ
                                                                                  : LEAF_WRITE;
}

static getter future_callbacks = NULL;

/* Whether the future is one of asyncio.shield, which ends with a task. Such a future is given its
   first callback by `shield` itself. */
static int is_shield(PyObject *future) {
    if (!future_callbacks) {
        for (PyGetSetDef *g = future_type->tp_getset; g && g->name; g++)
            if (!strcmp(g->name, "_callbacks")) future_callbacks = g->get;
        if (!future_callbacks) return 0;
    }
    PyObject *callbacks = future_callbacks(future, NULL);
    int yes = 0;
    if (!callbacks) PyErr_Clear();
    else if (PyList_Check(callbacks) && PyList_GET_SIZE(callbacks)) {
        PyObject *first = PyList_GET_ITEM(callbacks, 0);
        PyObject *function = PyTuple_Check(first) && PyTuple_GET_SIZE(first)
                                 ? PyTuple_GET_ITEM(first, 0) : NULL;
        if (function && PyFunction_Check(function)) {
            PyObject *name = ((PyFunctionObject *)function)->func_qualname;
            yes = !PyUnicode_CompareWithASCIIString(name, "shield.<locals>._outer_done_callback");
        }
    }
    Py_XDECREF(callbacks);
    return yes;
}

#if PY_VERSION_HEX < 0x030C0000
/* Returns the library's coroutine in the task that wait_for waits for, such as that of a lock. */
static PyObject *code_of_wait_for(frame_data *frame) {
    PyObject *task = local_of_frame(frame, 0), *coroutine, *code = NULL, *found = NULL;
    if (!task) return NULL;
    if (!task_type || !Py_IS_TYPE(task, task_type)) {
        mine.waited_item = item_of_future(task);
        return NULL;
    }
    coroutine = PyObject_CallMethod(task, "get_coro", NULL);
    if (coroutine) code = PyObject_GetAttrString(coroutine, "cr_code");
    if (!code) PyErr_Clear();
    else if (PyCode_Check(code) && flags_of_code(code) & CODE_LIBRARY) found = code;
    Py_XDECREF(code); /* the table of codes owns it */
    Py_XDECREF(coroutine);
    return found;
}
#endif

static PyObject *trio_checkpoint = NULL; /* what a task of trio yields that only lets others run */

static inline int lets_others_run(PyObject *yielded) {
    return yielded == Py_None || yielded == trio_checkpoint;
}

static uint32_t leaf_of(PyObject *yielded, int by_library) {
    if (task_type && Py_IS_TYPE(yielded, task_type)) return LEAF_TASK;
    if (!future_type || !PyObject_TypeCheck(yielded, future_type)) return LEAF_OTHER;
    if ((mine.waited_item = item_of_future(yielded))) return LEAF_ITEM;
    /* asyncio.gather returns its own future type, but waits for tasks */
    if (!Py_IS_TYPE(yielded, future_type))
        return strcmp(Py_TYPE(yielded)->tp_name, "_GatheringFuture") ? LEAF_FUTURE : LEAF_TASK;
    return !by_library && is_shield(yielded) ? LEAF_TASK : LEAF_FUTURE;
}

/* Returns a number of seconds that a task is to sleep; -1 if it is not a usual one. */
static double seconds_of(PyObject *delay) {
    double seconds = -1;
    if (delay && PyFloat_CheckExact(delay)) seconds = PyFloat_AS_DOUBLE(delay);
    else if (delay && PyLong_CheckExact(delay)) seconds = PyLong_AsDouble(delay);
    if (seconds == -1 && PyErr_Occurred()) PyErr_Clear();
    return seconds >= 0 ? seconds : -1;
}

static uint32_t wait_location(PyObject *coroutine, PyObject *yielded) {
    PyObject *at = coroutine, *user_code = NULL, *inner_code = NULL, *queue_code = NULL;
    uint32_t compiled = LEAF_OTHER, flags;
    frame_data *frame;
    int user_lasti = -1;
    mine.waited_item = 0;
    mine.slept_s = -1;
    if (!PyCoro_CheckExact(at)) return location_id(NULL, -1, (PyObject *)Py_TYPE(at), LEAF_OTHER);
    Py_INCREF(at);
    /* from the task's coroutine inwards; the location is the innermost line outside libraries */
    for (;;) {
        frame = frame_of_coroutine(at);
        PyObject *code = code_of_frame(frame);
        flags = flags_of_code(code);
        if (!inner_code || !(flags & CODE_TRAP)) inner_code = code;
        if (flags & CODE_QUEUE) queue_code = code;
        if (!user_code || !(flags & CODE_LIBRARY)) {
            user_code = code;
            user_lasti = _PyInterpreterFrame_LASTI(frame);
        }
        PyObject *next = coroutine_await(at, NULL);
        if (!next || !PyCoro_CheckExact(next)) {
            if (!next) PyErr_Clear();
            else if (!Py_IS_TYPE(next, future_iterator) && next != Py_None && next != yielded &&
                     !PyGen_CheckExact(next))
                compiled = leaf_of_compiled(next);
            Py_XDECREF(next);
            break;
        }
        Py_DECREF(at);
        at = next;
    }
    if (lets_others_run(yielded)) {
        Py_DECREF(at);
        return location_id(user_code, user_lasti, inner_code, LEAF_NONE);
    }
    if (queue_code) inner_code = queue_code;
    uint32_t leaf = leaf_of(yielded, flags & CODE_LIBRARY);
    if (leaf == LEAF_FUTURE && compiled != LEAF_OTHER) leaf = compiled;
#if PY_VERSION_HEX < 0x030C0000
    if (unlikely(flags & CODE_WAIT_FOR) && leaf == LEAF_FUTURE) {
        PyObject *code = code_of_wait_for(frame);
        if (code) inner_code = code;
        if (mine.waited_item) leaf = LEAF_ITEM;
    }
#endif
    if (unlikely(flags & CODE_SLEEP)) mine.slept_s = seconds_of(local_of_frame(frame, 0));
    uint32_t id = location_id(user_code, user_lasti, inner_code, leaf);
    Py_DECREF(at);
    return id;
}

#endif
