"""The recorder inside a program: start and stop, and the hooks that `hooks` installs."""

from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.errno cimport errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import gc
import os
import sys
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType
# not from their public modules, which import others that the program may never need
from _contextvars import Context
from _functools import partial


cdef extern from "requests.h":
    """
    #define ASSIGN(variable, value) Py_XSETREF(variable, (void *)Py_NewRef(value))
    static int prepare_module(void) {
        return prepare_process() || prepare_proxies() || prepare_hooks() || prepare_requests() ? -1
                                                                                               : 0;
    }
    static void set_descriptions(PyObject *asgi, PyObject *aiohttp, PyObject *functions,
                                 PyObject *routes) {
        ASSIGN(describe_asgi, asgi);
        ASSIGN(describe_aiohttp, aiohttp);
        ASSIGN(described_functions, functions);
        ASSIGN(described_routes, routes);
    }
    static void set_cancel_type(int i, PyObject *type) { Py_XSETREF(cancel_types[i], Py_NewRef(type)); }
    static void set_task_types(PyObject *task, PyObject *future, PyObject *python_task) {
        ASSIGN(task_type, task);
        ASSIGN(future_type, future);
        ASSIGN(python_task_type, python_task);
    }
    /* each from `when` to `context` is the class's descriptor of a slot */
    static void set_handle_type(PyObject *timer, PyObject *when, PyObject *callback, PyObject *args,
                                PyObject *context, int is_known) {
        ASSIGN(timer_type, timer);
        timer_when_offset = ((PyMemberDescrObject *)when)->d_member->offset;
        handle_callback_offset = ((PyMemberDescrObject *)callback)->d_member->offset;
        handle_args_offset = ((PyMemberDescrObject *)args)->d_member->offset;
        handle_context_offset = ((PyMemberDescrObject *)context)->d_member->offset;
        runs_callbacks = is_known;
    }
    /* the facts of a forked process are created with its first stream */
    static void put_own_fact(uint8_t kind, uint32_t id, const char *text, uint32_t length) {
        if (stream_of_thread()) write_fact(kind, id, text, length);
    }
    static void set_unwatched(void) { unwatched_epoch = epoch; }
    static void set_label_variable(PyObject *variable) { ASSIGN(label_variable, variable); }
    static void set_trio_checkpoint(PyObject *kind) { ASSIGN(trio_checkpoint, kind); }
    static void set_hides_timers(int hides) { mine.hides_timers = hides; }
    static uint32_t begin_by_middleware(PyObject *method, PyObject *path) {
        return begin_request(method, path, 0, now_ns());
    }
    static void answer_by_middleware(uint32_t number, PyObject *scope, PyObject *message) {
        long status = status_of_message(message);
        if (status >= 0) answer_asgi(number, scope, status);
    }
    static void set_of_trio(PyObject *coroutine) { ((proxy *)coroutine)->of_trio = 1; }
    static void set_is_coroutine(PyObject *function) { ASSIGN(is_coroutine, function); }
    static void clear_library(void) {
        while (library_prefixes) free(library_prefix[--library_prefixes]);
    }
    static int add_library(const char *prefix, size_t length) {
        if (library_prefixes == 16) return -1;
        char *copy = malloc(length);
        if (!copy) return -1;
        memcpy(copy, prefix, length);
        library_prefix[library_prefixes] = copy;
        library_length[library_prefixes++] = length;
        return 0;
    }
    """
    ctypedef PyObject *(*hook_call)(void *, PyObject **, size_t, PyObject *)
    ctypedef struct recording_state:
        uint32_t pid, incarnation, parent_pid, parent_incarnation
        int64_t base_ns
        int failed_errno
        uint64_t lost_without_stream
    recording_state rec
    bint recording_on
    uint32_t epoch
    ctypedef struct cpu_times:
        uint64_t waited_ns
    ctypedef struct thread_state:
        uint32_t current_task, loop_epoch, served_request
        cpu_times cpu
    thread_state mine
    uint64_t blocked_limit_ns
    void begin_polls()
    void note_present_wait()
    void note_thread_start()
    void begin_thread_states()
    void set_handle_type(object, object, object, object, object, int)
    uint32_t (*location_of_callback)(PyObject *, PyObject *) noexcept
    PyObject *call_handle_run(void *, PyObject **, size_t, PyObject *)
    uint32_t LEAF_LOOP
    size_t (*name_of_thread)(char *, size_t) noexcept
    void (*loop_begins)(PyObject *) noexcept
    void (*loop_ends)(PyObject *) noexcept
    void (*item_submitted)(PyObject *) noexcept
    uint32_t (*item_begins)(PyObject *) noexcept
    int prepare_module()
    void set_cancel_type(int, object)
    void set_task_types(object, object, object)
    void set_is_coroutine(object)
    void set_label_variable(object)
    void put_own_fact(uint8_t, uint32_t, const char *, uint32_t)
    void set_unwatched()
    void clear_library()
    int add_library(const char *, size_t)
    int start_recording(const char *, int, uint32_t, uint64_t, uint64_t, uint64_t)
    void stop_recording()
    uint32_t number_of(PyObject *)
    void set_of_trio(object)
    void set_trio_checkpoint(object)
    PyObject *attach_coroutine(PyObject *, PyObject *, PyObject *, int)
    PyObject *detach_coroutine(PyObject *)
    int set_task_coroutine "set_coroutine"(object, object)
    void end_unseen_step "end_unseen"()
    void forget_unseen()
    void forget_locations()
    void forget_subjects()
    void dump_rings(int)
    int dump_on_signal(int)
    int start_dumper_thread()
    int DUMP_ASKED
    ctypedef struct dumper_state:
        bint running
    dumper_state dumper
    void put(uint8_t, uint32_t, uint32_t)
    void put_text(uint8_t, uint32_t, const char *, size_t)
    void write_fact(uint8_t, uint32_t, const void *, uint32_t)
    uint32_t location_id(PyObject *, int, PyObject *, uint32_t)
    uint32_t next_location
    uint32_t LEAF_NAME
    object new_hook(hook_call, object)
    PyObject *call_create_task(void *, PyObject **, size_t, PyObject *)
    void watch_tasks(object, int)
    object task_coroutine "coroutine_of_task"(object)
    PyObject *call_call_soon(void *, PyObject **, size_t, PyObject *)
    PyObject *call_get_coro(void *, PyObject **, size_t, PyObject *)
    PyObject *call_select(void *, PyObject **, size_t, PyObject *)
    PyObject *call_run_forever(void *, PyObject **, size_t, PyObject *)
    size_t (*name_of)(PyObject *, char *, size_t) noexcept
    void report_name(PyObject *)
    bint names_for_samples, names_for_streams
    void note_thread_name(PyObject *)
    void note_name_of(uint32_t, const char *, size_t)
    void forget_names()
    PyObject *call_thread_begin(void *, PyObject **, size_t, PyObject *)
    void (*trio_begins)(PyObject *) noexcept
    PyObject *call_trio_spawn(void *, PyObject **, size_t, PyObject *)
    PyObject *call_trio_get_events(void *, PyObject **, size_t, PyObject *)
    PyObject *call_trio_close(void *, PyObject **, size_t, PyObject *)
    PyObject *call_unhandled(void *, PyObject **, size_t, PyObject *)
    PyObject *call_item_init(void *, PyObject **, size_t, PyObject *)
    PyObject *call_item_run(void *, PyObject **, size_t, PyObject *)
    PyObject *call_thread_start(void *, PyObject **, size_t, PyObject *)
    PyObject *call_pool_queues(void *, PyObject **, size_t, PyObject *)
    PyObject *call_trio_thread(void *, PyObject **, size_t, PyObject *)
    PyObject *call_anyio_thread(void *, PyObject **, size_t, PyObject *)
    PyObject *call_submit(void *, PyObject **, size_t, PyObject *)
    PyObject *call_run_in_executor(void *, PyObject **, size_t, PyObject *)
    PyObject *call_asgi_send(void *, PyObject **, size_t, PyObject *)
    PyObject *call_finish_response(void *, PyObject **, size_t, PyObject *)
    void set_descriptions(object, object, object, object)
    int SERVER_ASGI, SERVER_AIOHTTP
    void set_hides_timers(int)
    void add_serving_code(object, int)
    void remove_serving_code(object)
    void add_serving_type(object, object, object, int)
    void remove_serving_type(object)
    uint32_t begin_by_middleware(object, object)
    void answer_by_middleware(uint32_t, object, object)
    int KIND_REQUEST_END
    void (*thread_begins)(PyObject *) noexcept
    void (*first_thread_starts)() noexcept
    bint awaits_threads
    PyObject *(*new_item)(PyObject *, PyObject *, uint32_t) noexcept
    void (*pool_prepared)(PyObject *) noexcept
    uint32_t (*pool_of_executor)(PyObject *) noexcept
    PyObject *hook_of_item(PyObject *, uint32_t, uint32_t)
    PyObject *hook_of_put(PyObject *, uint32_t)
    void forget_awaited()
    uint32_t trio_pool, anyio_pool, latest_item, current_pool
    int KIND_THREAD_BEGIN, KIND_ITEM_POOL, KIND_ITEM_DROPPED, KIND_POOL
    void begin_loop_run(uint32_t)
    void end_loop_run()
    int KIND_SUBMIT, KIND_ITEM_BEGIN, KIND_LOCATION
    int KIND_LABEL, KIND_UNRECOGNISED, KIND_UNWATCHED
    ctypedef struct record_number:
        const char *name
        int number
    const record_number *record_kinds
    const record_number *record_policies
    const record_number *record_sizes

cdef extern from "waits.h":
    """
    /* each passes an address inside the object whose entries are to be replaced */
    static int watch_thread_waits(void) { return install_thread_waits((void *)PyThreadState_Get); }
    static int watch_event_waits(PyObject *type) {
        return install_event_waits((void *)((PyTypeObject *)type)->tp_dealloc);
    }
    """
    int watch_thread_waits()
    int watch_event_waits(object)
    void remove_waits()

cdef extern from "threads.h":
    """
    static int watch_calls_of(PyObject *module) {
        PyModuleDef *definition = PyModule_GetDef(module);
        if (!definition || !definition->m_methods) {
            PyErr_Clear();
            return 0;
        }
        return install_blocking_calls((void *)definition->m_methods->ml_meth);
    }
    static int watch_interpreter_calls(void) {
        return install_blocking_calls((void *)PyThreadState_Get);
    }
    """
    int watch_calls_of(object)
    int watch_interpreter_calls()
    void put_thread_name "name_thread"(uint32_t, const char *, size_t)

cdef extern from "layout.h":
    const char *unexpected_in_thread()
    const char *unexpected_in_coroutine(object, object, object, int, int)
    int STATE_CREATED, STATE_SUSPENDED, STATE_ENDED

cdef extern from "task_lists.h":
    Py_ssize_t node_offset
    int find_node(object)
    object list_tasks "listed_tasks"()

cdef extern from "sampler.h":
    int start_sampler(uint64_t)
    int begin_watching "watch_steps"(uint64_t)
    void stop_sampler()
    int restart_sampler()

cdef extern from "Python.h":
    const char *_compiled_for "PY_VERSION"
    bint PyGILState_Check()
    bint PyCode_Check(object)
    bint PyType_IsSubtype(type, type)
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL

if prepare_module() < 0:
    raise ImportError("the recorder could not be prepared")


cdef dict _by_name(const record_number *row):
    numbers = {}
    while row.name != NULL:
        numbers[row.name.decode("ascii")] = row.number
        row += 1
    return numbers


KINDS = _by_name(record_kinds)
POLICIES = _by_name(record_policies)
COROUTINE_STATES = {
    "created": STATE_CREATED, "suspended": STATE_SUSPENDED, "ended": STATE_ENDED
}
# that of the headers that this was compiled with
COMPILED_FOR = _compiled_for.decode("ascii")
SIZES = _by_name(record_sizes)

# as integers, since a dictionary of Python cannot contain C functions
cdef dict _hooks = {
    "create_task": <size_t>call_create_task,
    "call_soon": <size_t>call_call_soon,
    "get_coro": <size_t>call_get_coro,
    "handle_run": <size_t>call_handle_run,
    "select": <size_t>call_select,
    "run_forever": <size_t>call_run_forever,
    "thread_begin": <size_t>call_thread_begin,
    "trio_spawn": <size_t>call_trio_spawn,
    "trio_get_events": <size_t>call_trio_get_events,
    "trio_close": <size_t>call_trio_close,
    "unhandled": <size_t>call_unhandled,
    "item_init": <size_t>call_item_init,
    "item_run": <size_t>call_item_run,
    "thread_start": <size_t>call_thread_start,
    "pool_queues": <size_t>call_pool_queues,
    "trio_thread": <size_t>call_trio_thread,
    "anyio_thread": <size_t>call_anyio_thread,
    "submit": <size_t>call_submit,
    "run_in_executor": <size_t>call_run_in_executor,
    "send": <size_t>call_asgi_send,
    "finish_response": <size_t>call_finish_response,
}
cdef object _on_loop_begin = None
cdef object _on_loop_end = None
cdef bint _watch_workers = False
cdef uint32_t _next_item = 1
cdef uint32_t _next_pool = 1
cdef object _on_first_thread = None
cdef dict _named_locations = {}
cdef tuple _described = ()
cdef int _MAX_WRAPPED = 8
cdef bint _follows_forks = False


def unexpected_in_thread_state():
    """Return what of the calling thread is not in memory where this was compiled to expect it.

    It is named in the plural or without an article; None if all is there.
    """
    cdef const char *found = unexpected_in_thread()
    return None if found == NULL else found.decode("ascii")


def unexpected_in(coroutine, function, argument, state: str):
    """Return the same of a coroutine of a function, called with one argument, in a state."""
    frame = coroutine.cr_frame
    cdef int lasti = -1 if frame is None else frame.f_lasti
    cdef const char *found = unexpected_in_coroutine(
        coroutine, function, argument, lasti, COROUTINE_STATES[state]
    )
    return None if found == NULL else found.decode("ascii")


def start(
    directory: bytes, *, policy: int, chunks: int, max_bytes: int, duration_ns: int,
    dump_ns: int, ring_ns: int,
):
    """Begin to record into an existing directory.

    Raises:
        OSError: If its files cannot be written.
    """
    global blocked_limit_ns
    if start_recording(directory, policy, chunks, max_bytes, duration_ns, ring_ns) < 0:
        raise OSError(errno or rec.failed_errno, os.strerror(errno or rec.failed_errno))
    blocked_limit_ns = dump_ns


def stop():
    """End the recording and return the error number of a write that failed, or 0."""
    global blocked_limit_ns, names_for_samples, names_for_streams, awaits_threads
    global trio_pool, anyio_pool
    # first whatever still writes records or looks up locations, then the recording and its tables
    blocked_limit_ns = 0
    names_for_samples = names_for_streams = awaits_threads = False
    trio_pool = anyio_pool = 0
    remove_waits()
    stop_sampler()
    forget_names()
    forget_unseen()
    stop_recording()
    forget_locations()
    forget_subjects()
    forget_awaited()
    _named_locations.clear()
    if _described:
        # they keep functions and routes of the program alive
        for each in _described:
            each.clear()
    clear_library()
    return rec.failed_errno


def watch_threads():
    """Begin to record when threads wait for the GIL and for locks; return whether that works.

    It works where the interpreter calls the C library's wait functions through a table.
    """
    global names_for_streams
    # Creates the calling thread's stream, with its name, while the GIL is held: its first record
    # could otherwise be a wait without the GIL, when the name cannot be read.
    begin_thread_states()
    names_for_streams = watch_thread_waits() > 0
    if names_for_streams:
        watch_interpreter_calls()
    return names_for_streams


def await_threads(on_first):
    """Call a function, once, before the program starts its next thread."""
    global awaits_threads, _on_first_thread
    _on_first_thread = on_first
    awaits_threads = True


def leave_threads_unwatched(reason: str, *, chosen: bool):
    """Record as a fact that waits of threads are not recorded, in a program that has several.

    `chosen` is whether they would be with other options.
    """
    cdef bytes text = _short(reason)
    cdef Py_ssize_t length = len(text)
    if recording_on:
        set_unwatched()
        put_own_fact(KIND_UNWATCHED, chosen, text, length)


def watch_calls(module):
    """Begin to record when threads block in the calls of an extension module."""
    if names_for_streams:
        watch_calls_of(module)


def name_thread(tid: int, name: str):
    """Record the name of a thread that runs already."""
    cdef bytes encoded = name.encode("utf-8", "replace")
    cdef Py_ssize_t length = len(encoded)
    put_thread_name(tid, encoded, length)


def add_pool(kind: str, threads: int):
    """Define the pool of a library that has one per process: `trio` or `anyio`."""
    global trio_pool, anyio_pool
    if kind == "trio":
        trio_pool = _add_pool(kind, threads)
    else:
        anyio_pool = _add_pool(kind, threads)


def watch_events(loop_type):
    """Begin to record when loops wait for events in the module of a compiled type.

    Returns whether that works: the module must call the C library through a table.
    """
    return watch_event_waits(loop_type) > 0


def watch_steps(limit_ns: int):
    """Record from now on the stack of each step of a loop that takes longer than a limit.

    Returns whether that is possible here.
    """
    return begin_watching(limit_ns) == 0


def sample_threads(period_ns: int):
    """Begin to sample all threads; return whether that is possible here.

    Forked processes are sampled, too.
    """
    global names_for_samples
    if start_sampler(period_ns) < 0:
        return False
    names_for_samples = True
    _follow_forks()
    return True


cdef _follow_forks():
    global _follows_forks
    if not _follows_forks:
        # it cannot be unregistered, so it is registered once and does nothing between recordings
        os.register_at_fork(after_in_child=_restart_threads)
        _follows_forks = True


def _restart_threads():
    if recording_on:
        if names_for_samples:
            forget_names()
            note_thread_name(NULL)
        restart_sampler()
        if dumper.running:
            start_dumper_thread()


def end_samples():
    """Stop the sampler, if it runs."""
    stop_sampler()


def note_thread(tid: int, name: str):
    """Store the name of a thread that runs already, for the sampler."""
    encoded = name.encode("utf-8", "replace")
    note_name_of(tid, encoded, len(encoded))


def is_recording():
    """Return whether this process is being recorded."""
    return bool(recording_on)


def process_key():
    """Return (pid, incarnation) as in the names of this process's files."""
    return rec.pid, rec.incarnation


def base_ns():
    """Return the CLOCK_MONOTONIC time that is time 0 of this recording."""
    return rec.base_ns


def dump():
    """Write the contents of the rings into the recording."""
    if recording_on:
        dump_rings(DUMP_ASKED)


def dump_upon(signal_number: int):
    """Dump the rings at each such signal, unless the program handles or ignores it.

    It works even while compiled code keeps the GIL, and in forked processes.

    Raises:
        OSError: If the thread that waits for the signal cannot be started.
    """
    if dump_on_signal(signal_number) < 0:
        raise OSError(errno, os.strerror(errno))
    _follow_forks()


def hook(name, function):
    """Return a callable that replaces `function` while it is recorded."""
    return new_hook(<hook_call><size_t>_hooks[name], function)


def configure_tasks(task, future, python_task, is_coroutine):
    """Set the types of asyncio's tasks."""
    set_task_types(task, future, python_task)
    set_is_coroutine(is_coroutine)


def record_created(task, *, on):
    """Record the tasks that are created by calling asyncio's type, from now on or no more.

    Meanwhile, `get_coro` of the type returns the coroutine that the program gave.
    """
    watch_tasks(task, on)


def coroutine_of(task):
    """Return a task's coroutine, or what is in its place while the task is recorded."""
    return task_coroutine(task)


def configure_handles(handle, timer):
    """Set the types of asyncio's handles; return whether their steps can be recorded.

    They must have the slots of the standard library's.
    """
    members = [timer.__dict__.get("_when"), handle.__dict__.get("_callback"),
               handle.__dict__.get("_args"), handle.__dict__.get("_context")]
    if any(type(member) is not MemberDescriptorType for member in members):
        return False
    code = getattr(handle._run, "__code__", None)
    # what it does besides is for exceptions, which are left to it
    is_known = (
        code is not None
        and code.co_names[:4] == ("_context", "run", "_callback", "_args")
        and handle._run.__module__ == "asyncio.events"
    )
    set_handle_type(timer, members[0], members[1], members[2], members[3], is_known)
    return True


def configure_requests(asgi, aiohttp, dict functions, dict routes):
    """Set what describes the answers to requests, and the dictionaries of those described already.

    Descriptions are bytes: the route, and the name, file and line of what answers, separated by
    NUL. `asgi` gets a scope and its endpoint, and `aiohttp` a request. `functions` has, by function,
    all but the route, and `routes` has all by route of aiohttp.
    """
    global _described
    _described = functions, routes
    set_descriptions(asgi, aiohttp, functions, routes)


def serve_requests(code, owner, request, str file, *, aiohttp):
    """Record that each task whose coroutine has this code serves one request.

    It is that of aiohttp's `_handle_request` or of uvicorn's `run_asgi`, or None where that is
    replaced already. So does a task whose coroutine is of another file than the server's and was
    called with an instance of each of both types, which may have a metaclass of their own.
    """
    if not (isinstance(owner, type) and isinstance(request, type)):
        raise TypeError("an owner and a request are types")
    cdef int server = SERVER_AIOHTTP if aiohttp else SERVER_ASGI
    if code is not None:
        add_serving_code(code, server)
    add_serving_type(owner, request, file, server)


def forget_requests(code, owner):
    """Record no more requests by this code, or by the types."""
    if code is not None:
        remove_serving_code(code)
    remove_serving_type(owner)


def hide_timers(*, on):
    """Record the delay of each `asyncio.sleep` on the calling thread, or no more.

    For loops whose handles are compiled: when a timer of theirs was due is not seen.
    """
    set_hides_timers(on)


def begin_request(method, path):
    """Record that the running task begins to serve a request, and goes on after it.

    Returns the request's number; 0 if the task is not recorded.
    """
    return begin_by_middleware(method, path)


def current_request():
    """Return the number of the request that the running task serves; 0 if there is none."""
    return mine.served_request if mine.current_task else 0


def end_request(number: int):
    """Record the end of such a request, and that the task serves none now."""
    if recording_on:
        put(KIND_REQUEST_END, number, 0)
    mine.served_request = 0


def answer_asgi(number: int, scope, message):
    """Record the status in an ASGI message that begins a response, and what answers."""
    if recording_on:
        answer_by_middleware(number, scope, message)


def report_unrecognised(library: str, version: str, what: str):
    """Record as a fact that a library is of a version of which something is not recorded."""
    cdef bytes text = b"%b\0%b\0%b" % (_short(library), _short(version), _short(what))
    cdef Py_ssize_t length = len(text)
    if recording_on:
        put_own_fact(KIND_UNRECOGNISED, 0, text, length)


def configure_trio(checkpoint):
    """Set what a task of trio yields to let others run while it is ready itself."""
    set_trio_checkpoint(checkpoint)


def configure_cancellation(types):
    """Set the exceptions that mean that a task was cancelled."""
    for index, kind in enumerate(types):
        set_cancel_type(index, kind)


def configure_loops(on_begin, on_end, *, workers):
    """Set the functions to call around a loop's run, and whether the run itself is recorded."""
    global _on_loop_begin, _on_loop_end, _watch_workers
    _watch_workers = workers
    _on_loop_begin = on_begin
    _on_loop_end = on_end


def begin_loop(loop):
    """Begin to record a loop of the calling thread that was running already."""
    mine.loop_epoch = epoch
    begin_polls()
    _loop_begins(<PyObject *>loop)


def end_loop(loop):
    """End the recording of such a loop."""
    _loop_ends(<PyObject *>loop)


def configure_labels(variable):
    """Set the context variable of bytes that labels tasks created in its context."""
    set_label_variable(variable)


def label_current(label: bytes):
    """Label the task that runs on the calling thread; an empty label removes it."""
    if recording_on and mine.current_task:
        put_text(KIND_LABEL, mine.current_task, label, len(label))


def library(prefixes):
    """Set the paths of files whose frames are never a spawn or wait site."""
    clear_library()
    for prefix in prefixes:
        encoded = prefix.encode("utf-8", "replace")
        add_library(encoded, len(encoded))


def emit(kind: int, ident: int = 0, aux: int = 0):
    """Write one record of the calling thread."""
    if recording_on:
        put(kind, ident, aux)


def emit_many(kind: int, count: int):
    """Write `count` records of one kind, numbered from 0; for benchmarks."""
    cdef uint32_t i
    for i in range(<uint32_t>count):
        put(kind, i, 0)


def emit_text(kind: int, ident: int, text: str):
    """Write a record of the calling thread that carries a text."""
    cdef Py_ssize_t length
    cdef bytes encoded
    if recording_on:
        encoded = text.encode("utf-8", "replace")
        length = len(encoded)
        put_text(kind, ident, encoded, length)


def note_cpu_wait():
    """Record for how long the calling thread waited for a processor in its loop's present step.

    Returns for how long it has waited in all, or 0 if it runs no loop.
    """
    if not recording_on:
        return 0
    note_present_wait()
    return mine.cpu.waited_ns


def current():
    """Return the number of the task that runs on the calling thread, or 0."""
    return mine.current_task


def instances(kind):
    """Return the objects of a type that the garbage collector knows."""
    cdef list everything = gc.get_objects(), found = []
    cdef object each
    for each in everything:
        # not isinstance: it reads `__class__`, which runs code of proxies and mocks
        if PyType_IsSubtype(type(each), <type>kind):
            found.append(each)
    return found


def listed_tasks(new_task):
    """Return the tasks of asyncio's own type that have not ended, of all loops and threads.

    `new_task` is called to create one, without a loop that runs it, at the first time: its place in
    the interpreter's list shows where that of others is. Before CPython 3.14 there is no such list,
    and the result is empty.
    """
    if sys.version_info < (3, 14):
        return []
    if not node_offset:
        probe = new_task()
        if find_node(probe) < 0:
            return []
        del probe
    return list_tasks()


def attach(coroutine, task, waiter, ready: bool):
    """Add an existing task to the recording, and record its present state.

    Returns the proxy that is to become its coroutine, or None if nothing is to change.
    """
    cdef PyObject *proxy = attach_coroutine(
        <PyObject *>coroutine, <PyObject *>task, <PyObject *>waiter, ready
    )
    return _owned(proxy)


def detach(coroutine):
    """Return a recorded task's own coroutine, or None if it is not wrapped, or is running."""
    return _owned(detach_coroutine(<PyObject *>coroutine))


def attach_trio(coroutine, task, ready: bool):
    """Do as `attach` for a task of trio."""
    proxy = attach(coroutine, task, None, ready)
    if proxy is not None:
        set_of_trio(proxy)
    return proxy


def set_coroutine(task, coroutine):
    """Replace the coroutine of a task of the interpreter's own type."""
    set_task_coroutine(task, coroutine)


def end_unseen():
    """Record the end of the step that was running when the recording began."""
    end_unseen_step()


cdef object _owned(PyObject *pointer):
    cdef object found
    if pointer == NULL:
        return None
    found = <object>pointer
    Py_DECREF(found)
    return found


def task_number(coroutine):
    """Return the number of a task by its coroutine, or 0 if it is not recorded."""
    return number_of(<PyObject *>coroutine)


cdef uint32_t _location_of_code(object code):
    return location_id(<PyObject *>code, -1, NULL, LEAF_NAME)


cdef uint32_t _location_of_name(object name) except? 0:
    """Return the location of something that has a name but no code object."""
    return _location_of_text(b"\0\0\0%s\0\0\0%d" % (_short(name), LEAF_NAME))


cdef uint32_t _location_of_loop(object name, object runtime) except? 0:
    """Return the location of a loop: its type's name and the library that it is of."""
    return _location_of_text(b"\0%s\0\0%s\0\0\0%d" % (_short(runtime), _short(name), LEAF_LOOP))


cdef bytes _short(object name):
    return name.encode("utf-8", "replace").replace(b"\0", b"?")[:1000]


cdef uint32_t _location_of_text(bytes text) except? 0:
    global next_location
    if text not in _named_locations:
        write_fact(KIND_LOCATION, next_location, <const char *>text, <uint32_t>len(text))
        _named_locations[text] = next_location
        next_location += 1
    return _named_locations[text]


cdef object _runtime_of(object kind):
    """Return the library that a type of loop is of; that of its base if it is the program's own."""
    cdef object base
    for base in kind.__mro__:
        package = str(base.__dict__.get("__module__", "")).partition(".")[0]
        if package in ("asyncio", "uvloop"):
            return package
    return kind.__module__.partition(".")[0] if type(kind.__module__) is str else "asyncio"


cdef size_t _name_of(PyObject *thread, char *buffer, size_t size) noexcept:
    cdef Py_ssize_t length
    cdef const char *text
    try:
        name = (<object>thread).__dict__.get("_name")
        text = PyUnicode_AsUTF8AndSize(name, &length)
        length = min(length, <Py_ssize_t>size)
        memcpy(buffer, text, length)
        return length
    except Exception:
        return 0


cdef size_t _name_of_thread(char *buffer, size_t size) noexcept:
    # Dictionary look-ups only: current_thread() would run Python code, and for a thread that
    # threading did not start, even register a dummy. A thread may also come here without the GIL.
    cdef PyObject *kind
    cdef PyObject *value
    cdef PyObject *traceback
    cdef size_t length = 0
    if not PyGILState_Check():
        return 0
    # the first record of a thread can be made while an exception is set
    PyErr_Fetch(&kind, &value, &traceback)
    try:
        threading = sys.modules.get("threading")
        thread = None if threading is None else threading._active.get(threading.get_ident())
        if thread is not None:
            length = _name_of(<PyObject *>thread, buffer, size)
    except Exception:
        length = 0
    PyErr_Restore(kind, value, traceback)
    return length


# errors in these are reported by sys.unraisablehook, and the program's loop continues


cdef void _loop_begins(PyObject *loop) noexcept:
    cdef uint32_t location
    report_name(NULL)
    # defined even if loops are not recorded, since it also names the runtime of the tasks
    location = _location_of_loop(type(<object>loop).__name__, _runtime_of(type(<object>loop)))
    if _watch_workers:
        begin_loop_run(location)
    _on_loop_begin(<object>loop)


cdef void _loop_ends(PyObject *loop) noexcept:
    _on_loop_end(<object>loop)
    if _watch_workers:
        end_loop_run()


cdef uint32_t _location_of_item(object item) except? 0:
    try:
        function, args = item.fn, item.args
    except AttributeError:
        # concurrent.futures since 3.14 keeps (fn, args, kwargs)
        function, args = item.task[0], item.task[1]
    return _location_of_callable(function, args)


cdef uint32_t _location_of_callback(PyObject *function, PyObject *args) noexcept:
    try:
        return _location_of_callable(<object>function, () if args == NULL else <object>args)
    except Exception:
        return 0


cdef uint32_t _location_of_callable(object function, object args) except? 0:
    # exact types only: an attribute of any other object, such as a mock, could run its code
    for _ in range(_MAX_WRAPPED):
        kind = type(function)
        if kind is FunctionType:
            inner = _called_by(function, args)
            if inner is None:
                return _location_of_code(function.__code__)
            function, args = inner, ()
        elif kind is MethodType:
            function = function.__func__
        elif kind is partial:
            function, args = function.func, function.args
        elif kind is BuiltinFunctionType and type(function.__self__) is Context and args:
            # asyncio.to_thread submits Context.run with the function
            function, args = args[0], args[1:]
        elif kind is BuiltinFunctionType or kind is type:
            return _location_of_name(function.__qualname__)
        else:
            break
    return _location_of_name(type(function).__qualname__)


cdef object _called_by(object function, object args):
    """Return the program's function that one of a library calls for it, or None."""
    cdef str module = function.__module__
    if module == "multiprocessing.pool" and args and type(args[0]) is tuple and args[0]:
        # mapstar and starmapstar get (function, arguments)
        return args[0][0]
    if module == "trio._threads" and "sync_fn" in function.__code__.co_freevars:
        index = function.__code__.co_freevars.index("sync_fn")
        return function.__closure__[index].cell_contents
    return None


cdef uint32_t _add_pool(str name, int threads) except? 0:
    global _next_pool
    cdef bytes text = b"%d\0%s" % (threads, name.encode("utf-8", "replace")[:1000])
    cdef Py_ssize_t length = len(text)
    write_fact(KIND_POOL, _next_pool, <const char *>text, length)
    _next_pool += 1
    return _next_pool - 1


cdef uint32_t _number_of_pool(object pool, str name, int threads) except? 0:
    # kept in the pool itself, with the recording that it is of
    known = pool.__dict__.get("_meantime_pool")
    if known is not None and known[0] == rec.base_ns:
        return known[1]
    number = _add_pool(name, threads)
    pool._meantime_pool = (rec.base_ns, number)
    return number


cdef uint32_t _pool_of_executor(PyObject *pointer) noexcept:
    cdef object executor = <object>pointer
    try:
        name, threads = executor._thread_name_prefix, executor._max_workers
        return _number_of_pool(executor, name, threads)
    except Exception:
        # of another kind than the standard library's: its items have no pool
        return 0


cdef void _pool_prepared(PyObject *pointer) noexcept:
    cdef object pool = <object>pointer
    try:
        # called by its constructor, before the number of threads is known
        number = _number_of_pool(pool, type(pool).__name__, 0)
        pool._quick_put = _owned(hook_of_put(<PyObject *>pool._quick_put, number))
    except Exception:
        return


cdef uint32_t _submit(uint32_t location, uint32_t pool) noexcept:
    global _next_item, latest_item
    cdef uint32_t ident = _next_item
    _next_item += 1
    put(KIND_SUBMIT, ident, location)
    if pool:
        put(KIND_ITEM_POOL, ident, pool)
    latest_item = ident
    return ident


cdef PyObject *_new_item(PyObject *function, PyObject *args, uint32_t pool) noexcept:
    cdef uint32_t location
    try:
        if not recording_on:
            return NULL
        location = _location_of_callable(<object>function, <object>args if args != NULL else ())
        return hook_of_item(function, _submit(location, pool), location)
    except Exception:
        return NULL


cdef void _thread_begins(PyObject *pointer) noexcept:
    cdef uint32_t location = 0
    cdef object thread = <object>pointer
    try:
        target = thread.__dict__.get("_target")
        if target is None:
            target = type(thread).run
        location = _location_of_callable(target, thread.__dict__.get("_args") or ())
    except Exception:
        location = 0
    note_thread_start()
    put(KIND_THREAD_BEGIN, 0, location)


cdef void _first_thread_starts() noexcept:
    # errors are reported by sys.unraisablehook, and the thread starts
    _on_first_thread()


cdef class SubmittedItem:
    """What is known of a work item; one that is discarded without having run is counted."""

    cdef uint32_t ident, location
    cdef bint begun

    def __dealloc__(self):
        if not self.begun and recording_on:
            put(KIND_ITEM_DROPPED, self.ident, 0)


cdef SubmittedItem _submitted(object item):
    cdef SubmittedItem known = SubmittedItem.__new__(SubmittedItem)
    known.begun = True
    known.location = _location_of_item(item)
    item._meantime = known
    return known


cdef void _item_submitted(PyObject *pointer) noexcept:
    cdef SubmittedItem known
    try:
        known = _submitted(<object>pointer)
        known.ident = _submit(known.location, current_pool)
        known.begun = False
    except Exception:
        # an item of another kind than the standard library's: it runs unrecorded
        return


cdef uint32_t _item_begins(PyObject *pointer) noexcept:
    global _next_item
    cdef object item = <object>pointer
    cdef SubmittedItem known
    try:
        found = getattr(item, "_meantime", None)
        if type(found) is SubmittedItem:
            known = found
        else:
            known = _submitted(item)
            known.ident = _next_item
            _next_item += 1
        known.begun = True
        put(KIND_ITEM_BEGIN, known.ident, known.location)
        return known.ident
    except Exception:
        return 0


cdef void _trio_begins(PyObject *runner) noexcept:
    cdef uint32_t location
    mine.loop_epoch = epoch
    report_name(NULL)
    begin_polls()
    location = _location_of_loop("trio", "trio")
    if _watch_workers:
        begin_loop_run(location)


location_of_callback = _location_of_callback
name_of = _name_of
name_of_thread = _name_of_thread
trio_begins = _trio_begins
loop_begins = _loop_begins
loop_ends = _loop_ends
item_submitted = _item_submitted
item_begins = _item_begins
thread_begins = _thread_begins
first_thread_starts = _first_thread_starts
new_item = _new_item
pool_prepared = _pool_prepared
pool_of_executor = _pool_of_executor
