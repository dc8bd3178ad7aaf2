/* Requests of web servers: the tasks that uvicorn and aiohttp create for each, and hooks of the methods
   by which they answer.

   What they read belongs to the program and can be of any kind: an error in it is cleared, and the
   request is served without being recorded. */

#ifndef MEANTIME_REQUESTS_H
#define MEANTIME_REQUESTS_H

#include "hooks.h"

enum { MOST_REQUEST_CHARACTERS = 500 };

static uint32_t next_request = 1;

/* What answers, in bytes: the route, and the name, file and line of the function, separated by NUL.
   The first returns that of a request of ASGI, the second that of a request of aiohttp. */
static PyObject *describe_asgi = NULL, *describe_aiohttp = NULL;
static PyObject *described_functions = NULL; /* of each function: its name, file and line */
static PyObject *described_routes = NULL;    /* of each route of aiohttp: all of it */

static PyObject *text_type, *text_status, *text_method, *text_path, *text_endpoint, *text_scope,
    *text_path_params, *text_private_status, *text_private_route,
    *text_match_info, *text_private_url, *text_raw_path;

static int prepare_requests(void) {
    static const struct {
        PyObject **text;
        const char *value;
    } texts[] = {
        {&text_type, "type"},
        {&text_status, "status"},
        {&text_method, "method"},
        {&text_path, "path"},
        {&text_endpoint, "endpoint"},
        {&text_scope, "scope"},
        {&text_path_params, "path_params"},
        {&text_private_status, "_status"},
        {&text_private_route, "_route"},
        {&text_match_info, "_match_info"},
        {&text_private_url, "_rel_url"},
        {&text_raw_path, "raw_path"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!(*texts[i].text = PyUnicode_InternFromString(texts[i].value))) return -1;
    return 0;
}

/* Both return a new reference, or NULL without an exception. */

static PyObject *item_of(PyObject *mapping, PyObject *name) {
    PyObject *found = PyDict_CheckExact(mapping)
                          ? Py_XNewRef(PyDict_GetItemWithError(mapping, name))
                          : PyObject_GetItem(mapping, name);
    if (!found) PyErr_Clear();
    return found;
}

static PyObject *attribute_of(PyObject *object, PyObject *name) {
    PyObject *found = object ? PyObject_GetAttr(object, name) : NULL;
    if (!found) PyErr_Clear();
    return found;
}

static size_t append_decimal(char *text, size_t at, uint64_t number) {
    char digits[20];
    size_t count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count) text[at++] = digits[--count];
    return at;
}

/* Appends the first characters of a text; those that UTF-8 does not have become `?`. */
static size_t append_characters(char *text, size_t at, size_t size, PyObject *characters) {
    Py_ssize_t length = PyUnicode_GET_LENGTH(characters);
    if (PyUnicode_IS_COMPACT_ASCII(characters)) {
        if (length > MOST_REQUEST_CHARACTERS) length = MOST_REQUEST_CHARACTERS;
        return append(text, at, size, PyUnicode_DATA(characters), length);
    }
    PyObject *first = PyUnicode_Substring(characters, 0, MOST_REQUEST_CHARACTERS);
    PyObject *encoded = first ? PyUnicode_AsEncodedString(first, "utf-8", "replace") : NULL;
    if (encoded)
        at = append(text, at, size, PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded));
    else
        PyErr_Clear();
    Py_XDECREF(first);
    Py_XDECREF(encoded);
    return at;
}

/* Records that the running task begins to serve a request, and returns the request's number, or 0.
   `whole` is whether the task was created to serve it, and ends with it. */
static uint32_t begin_request(PyObject *method, PyObject *path, int whole, uint64_t time_ns) {
    char text[MAX_TEXT - 16];
    size_t at;
    if (!recording_on || !mine.current_task || !method || !path || !PyUnicode_Check(method) ||
        !PyUnicode_Check(path))
        return 0;
    at = append_decimal(text, 0, mine.current_task);
    text[at++] = 0;
    text[at++] = whole ? '1' : '0';
    text[at++] = 0;
    /* a character has up to 4 bytes, so the method leaves room for a part of the path */
    at = append_characters(text, at, sizeof text / 2 + 64, method);
    text[at++] = 0;
    at = append_characters(text, at, sizeof text, path);
    put_text_at(time_ns, KIND_REQUEST, next_request, text, at);
    return mine.served_request = next_request++;
}

static void put_response(uint32_t number, long status, PyObject *route, const char *described,
                         Py_ssize_t length) {
    char text[MAX_TEXT - 16];
    if (status < 0) return;
    size_t at = append_decimal(text, 0, (uint64_t)status);
    text[at++] = 0;
    if (route) {
        at = append_characters(text, at, sizeof text / 2 + 64, route);
        text[at++] = 0;
    }
    at = append(text, at, sizeof text, described, length);
    put_text(KIND_RESPONSE, number, text, at);
}

/* Without a description, as where the program's own objects raise errors, there is the status. */
static void put_described(uint32_t number, long status, PyObject *route, PyObject *described) {
    if (described && PyBytes_Check(described)) {
        put_response(number, status, route, PyBytes_AS_STRING(described),
                     PyBytes_GET_SIZE(described));
    } else {
        PyErr_Clear();
        put_response(number, status, NULL, "\0\0\0", 3);
    }
}

/* ASGI */

/* Whether the path of a request is its route: it has no parameters, and what answers is a function,
   and not an application inside the application. */
static int is_own_route(PyObject *scope, PyObject *endpoint) {
    PyObject *parameters;
    if (!PyFunction_Check(endpoint) || !PyDict_CheckExact(scope)) return 0;
    parameters = PyDict_GetItemWithError(scope, text_path_params);
    return !parameters || (PyDict_CheckExact(parameters) && !PyDict_GET_SIZE(parameters));
}

/* Returns the status in an ASGI message that begins a response, or -1. */
static long status_of_message(PyObject *message) {
    static const char response[] = "http.response.start", accept[] = "websocket.accept";
    PyObject *kind = item_of(message, text_type), *value;
    long status = -1;
    if (kind && PyUnicode_Check(kind) && PyUnicode_IS_COMPACT_ASCII(kind)) {
        size_t length = (size_t)PyUnicode_GET_LENGTH(kind);
        const void *text = PyUnicode_DATA(kind);
        if (length == sizeof response - 1 && !memcmp(text, response, length)) {
            value = item_of(message, text_status);
            if (value) status = PyLong_AsLong(value);
            if (status == -1) PyErr_Clear();
            Py_XDECREF(value);
        } else if (length == sizeof accept - 1 && !memcmp(text, accept, length)) {
            status = 101;
        }
    }
    Py_XDECREF(kind);
    return status;
}

/* Records how a request of ASGI is answered, and what answers it. */
static void answer_asgi(uint32_t number, PyObject *scope, long status) {
    PyObject *endpoint, *described;
    endpoint = item_of(scope, text_endpoint);
    if (!endpoint || endpoint == Py_None) {
        put_response(number, status, NULL, "\0\0\0", 3);
    } else {
        PyObject *path = is_own_route(scope, endpoint) ? item_of(scope, text_path) : NULL;
        described = path && PyUnicode_Check(path) ? item_of(described_functions, endpoint) : NULL;
        if (!described) {
            Py_CLEAR(path); /* what is described now has its route, too */
            described = PyObject_CallFunctionObjArgs(describe_asgi, scope, endpoint, NULL);
        }
        put_described(number, status, path, described);
        Py_XDECREF(described);
        Py_XDECREF(path);
    }
    Py_XDECREF(endpoint);
}

/* Records that a request without a task was answered: readers count these as left out. */
static void put_left_out(void) { put_text(KIND_REQUEST, next_request++, "0\0001\0\0", 5); }

/* Records a request whose task was not recognised, such as one that began before the recording. */
static __attribute__((noinline, cold)) void begin_late(PyObject *scope) {
    PyObject *method = item_of(scope, text_method), *path = item_of(scope, text_path);
    if (!begin_request(method, path, 1, now_ns())) put_left_out();
    Py_XDECREF(method);
    Py_XDECREF(path);
}

THREAD_LOCAL uint32_t answered_request = 0; /* the last that was answered by this hook, or 0 */

/* send(self, message), of uvicorn's RequestResponseCycle */
static PyObject *call_asgi_send(hook *h, PyObject *const *args, size_t nargsf, PyObject *names) {
    /* the parts of a body follow what begins the response */
    int may_begin = mine.current_task && PyVectorcall_NARGS(nargsf) > 1 &&
                    (!mine.served_request || mine.served_request != answered_request);
    long status = may_begin ? status_of_message(args[1]) : -1;
    if (status >= 0) {
        PyObject *scope = attribute_of(args[0], text_scope);
        if (scope && !mine.served_request) begin_late(scope);
        if (scope && mine.served_request) {
            answered_request = mine.served_request;
            answer_asgi(mine.served_request, scope, status);
        }
        Py_XDECREF(scope);
    }
    return call_wrapped(h, args, nargsf, names);
}

/* aiohttp */

/* Returns the path of a request of aiohttp. The decoded path is computed at its first use, which
   many programs do not have; without escapes it is that of the URL. */
static PyObject *path_of_request(PyObject *request) {
    PyObject *url = attribute_of(request, text_private_url);
    PyObject *path = attribute_of(url, text_raw_path);
    Py_XDECREF(url);
    if (path && PyUnicode_Check(path) &&
        PyUnicode_FindChar(path, '%', 0, PyUnicode_GET_LENGTH(path), 1) == -1)
        return path;
    PyErr_Clear();
    Py_XDECREF(path);
    return attribute_of(request, text_path);
}

static void answer_aiohttp(uint32_t number, PyObject *request, PyObject *response) {
    /* the public properties are functions of Python, which cost more than all else here */
    PyObject *value = attribute_of(response, text_private_status);
    PyObject *found = attribute_of(request, text_match_info);
    PyObject *route = attribute_of(found, text_private_route);
    PyObject *described = route ? item_of(described_routes, route) : NULL;
    long status = value ? PyLong_AsLong(value) : 500;
    if (status == -1) PyErr_Clear();
    if (!described) described = PyObject_CallOneArg(describe_aiohttp, request);
    put_described(number, status, NULL, described);
    Py_XDECREF(described);
    Py_XDECREF(route);
    Py_XDECREF(found);
    Py_XDECREF(value);
}

/* finish_response(self, request, response, start), of aiohttp's RequestHandler */
static PyObject *call_finish_response(hook *h, PyObject *const *args, size_t nargsf,
                                      PyObject *names) {
    if (mine.current_task && PyVectorcall_NARGS(nargsf) > 2) {
        /* the running task may be that of a connection, with other requests before and after */
        if (mine.served_request) answer_aiohttp(mine.served_request, args[1], args[2]);
        else put_left_out();
    }
    return call_wrapped(h, args, nargsf, names);
}

/* The task of a request, by its coroutine's arguments: of uvicorn's run_asgi(self, app), self has the
   scope; of aiohttp's _handle_request(self, request, ...), the request itself. A coroutine of another
   library that wraps one of these has the same among its arguments, in a tuple of them or in its
   closure; or it has the server's coroutine there. */

enum { MOST_VARIABLES = 16, MOST_WRAPPERS = 4 };

typedef struct {
    PyObject *owner, *request; /* borrowed from the coroutine's frame */
    uint8_t server;
} served_arguments;

static void note_arguments(served_arguments *found, PyObject *coroutine, int depth);

static void note_argument(served_arguments *found, PyObject *object, int depth) {
    if (object && PyCell_Check(object)) object = PyCell_GET(object);
    if (!object) return;
    if (PyCoro_CheckExact(object)) {
        note_arguments(found, object, depth + 1);
    } else if (PyTuple_CheckExact(object)) {
        if (depth == MOST_WRAPPERS) return;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object) && i < MOST_VARIABLES; i++)
            note_argument(found, PyTuple_GET_ITEM(object, i), MOST_WRAPPERS);
    }
    for (int i = 0; i < serving_types_used; i++) {
        if (PyObject_TypeCheck(object, (PyTypeObject *)serving_types[i].owner)) {
            found->owner = object;
            found->server = serving_types[i].server;
        }
        if (PyObject_TypeCheck(object, (PyTypeObject *)serving_types[i].request))
            found->request = object;
    }
}

static void note_arguments(served_arguments *found, PyObject *coroutine, int depth) {
    if (depth >= MOST_WRAPPERS || frame_state(coroutine) != FRAME_CREATED) return;
    frame_data *frame = frame_of_coroutine(coroutine);
    PyCodeObject *code = (PyCodeObject *)code_of_frame(frame);
    for (int i = 0; i < code->co_nlocalsplus && i < MOST_VARIABLES; i++)
        note_argument(found, local_of_frame(frame, i), depth);
}

/* The same for the server's own coroutine, whose arguments are known. */
static void note_own_request(served_arguments *found, PyObject *coroutine) {
    uint8_t server = server_of(subject_of(coroutine));
    if (!server || frame_state(coroutine) != FRAME_CREATED) return;
    PyObject *object = local_of_frame(frame_of_coroutine(coroutine), server == SERVER_AIOHTTP);
    for (int i = 0; object && i < serving_types_used; i++) {
        if (serving_types[i].server != server ||
            !PyObject_TypeCheck(object, (PyTypeObject *)serving_types[i].request))
            continue;
        found->request = object;
        found->server = server;
        return;
    }
}

static uint8_t server_by_arguments(PyObject *coroutine) {
    served_arguments found = {NULL, NULL, 0};
    if (!PyCoro_CheckExact(coroutine)) return 0;
    PyObject *file = ((PyCodeObject *)subject_of(coroutine))->co_filename;
    /* the server's other coroutines do not serve */
    for (int i = 0; i < serving_types_used; i++)
        if (PyUnicode_Compare(serving_types[i].file, file) == 0) return 0;
    note_arguments(&found, coroutine, 0);
    return found.owner && found.request ? found.server : 0;
}

static __attribute__((noinline)) void begin_served(proxy *p, uint64_t time_ns) {
    served_arguments found = {NULL, NULL, 0};
    PyObject *request, *method, *path;
    if (!PyCoro_CheckExact(p->coroutine)) return;
    note_own_request(&found, p->coroutine);
    if (!found.request) note_arguments(&found, p->coroutine, 0);
    if (!found.request) return;
    /* what is called to read it can close the coroutine, which has the only reference */
    Py_INCREF(found.request);
    if (found.server == SERVER_AIOHTTP) {
        request = Py_NewRef(found.request);
        method = attribute_of(request, text_method);
        path = path_of_request(request);
    } else {
        request = attribute_of(found.request, text_scope);
        method = request ? item_of(request, text_method) : NULL;
        path = request ? item_of(request, text_path) : NULL;
    }
    begin_request(method, path, 1, time_ns);
    Py_XDECREF(method);
    Py_XDECREF(path);
    Py_XDECREF(request);
    Py_DECREF(found.request);
}

#endif
