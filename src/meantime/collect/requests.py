"""Requests of web servers, as records: which task serves each, and how it was answered.

Requests of uvicorn and aiohttp are recognised by their servers' own methods. Each replacement is an
ordinary function that returns the coroutine of the original, so that it has left the stack before
the program's code runs, and is in no traceback. It is installed only if the server has the methods
that are expected, and an error in it never reaches the program.
"""

from __future__ import annotations

from _contextvars import ContextVar  # without the modules that contextvars imports
from itertools import count

from meantime.collect import _recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

__all__ = ["answer_asgi", "attach", "begin", "current", "end"]

# By package, the class and the methods through which requests pass.
_SERVERS = {
    "uvicorn": ("RequestResponseCycle", ("run_asgi", "send")),
    "aiohttp": ("RequestHandler", ("_handle_request", "finish_response")),
}
_REQUEST, _RESPONSE = _recorder.KINDS["REQUEST"], _recorder.KINDS["RESPONSE"]
_REQUEST_END = _recorder.KINDS["REQUEST_END"]
_MAX_TEXT = 500
_MAX_FUNCTIONS = 10_000

_numbers = count(1)
# the request that a task serves; tasks that it creates inherit it
_request: ContextVar[int] = ContextVar("meantime_request", default=0)
_functions: dict[object, str] = {}


def begin(method: str, path: str, *, whole: bool) -> int:
    """Record that the running task begins to serve a request; return the request's number.

    Args:
        method: The request's method.
        path: Its path.
        whole: Whether the task was created to serve it, and ends with it.
    """
    task = _recorder.current()
    if not task:
        return 0
    number = next(_numbers)
    text = f"{task}\0{int(whole)}\0{method[:_MAX_TEXT]}\0{path[:_MAX_TEXT]}"
    _recorder.emit_text(_REQUEST, number, text)
    _request.set(number)
    return number


def current() -> int:
    """Return the number of the request that the running task serves; 0 if there is none."""
    return _request.get()


def end(number: int) -> None:
    """Record the end of a request whose task goes on, and that the task serves none now."""
    _recorder.emit(_REQUEST_END, number)
    _request.set(0)


def answer_asgi(number: int, scope: Any, message: Any) -> None:
    """Record the status in an ASGI message that begins a response, and what answers."""
    kind = message["type"]
    if kind == "http.response.start":
        status = int(message["status"])
    elif kind == "websocket.accept":
        status = 101
    else:
        return
    endpoint = scope.get("endpoint")
    route = _route(scope, endpoint)
    _answer(number, status, route, _answering(endpoint, scope.get("method", "")))


def _route(scope: Any, endpoint: object) -> str:
    """Return the path of a request with the names of its parameters in place of their values."""
    if endpoint is None:
        return ""
    path = str(scope["path"])
    mounted, root = str(scope.get("root_path", "")), str(scope.get("app_root_path", ""))
    if len(mounted) > len(root) and not hasattr(endpoint, "__code__"):
        # an application inside this one that has no routes, such as one of static files
        return f"{mounted[len(root) :]}/*"
    parameters = scope.get("path_params")
    if not parameters:
        return path
    parts = path.split("/")
    for name, value in parameters.items():
        text = str(value)
        if text in parts:
            parts[parts.index(text)] = f"{{{name}}}"
        elif "/" in text:
            # a parameter of several parts
            parts = "/".join(parts).replace(text.strip("/"), f"{{{name}}}", 1).split("/")
    return "/".join(parts)


def _answering(endpoint: object, method: str) -> object:
    """Return what answers a method: of a class of views, its own method of that name."""
    return getattr(endpoint, method.lower(), endpoint) if isinstance(endpoint, type) else endpoint


def _answer(number: int, status: int, route: str, endpoint: object) -> None:
    try:
        function = _functions.get(endpoint)
    except TypeError:
        # not hashable: described each time
        function = _described(endpoint)
    if function is None:
        function = _described(endpoint)
        if len(_functions) < _MAX_FUNCTIONS:
            _functions[endpoint] = function
    _recorder.emit_text(_RESPONSE, number, f"{status}\0{route[:_MAX_TEXT]}\0{function}")


def _described(endpoint: object) -> str:
    """Return the name, file and line of what answers a request, separated by NUL."""
    if endpoint is None:
        return "\0\0"
    endpoint = getattr(endpoint, "__func__", endpoint)
    code = getattr(endpoint, "__code__", None)
    name = getattr(endpoint, "__qualname__", None) or type(endpoint).__qualname__
    return f"{name}\0{code.co_filename}\0{code.co_firstlineno}" if code else f"{name}\0\0"


def attach(module: ModuleType) -> Callable[[], None]:
    """Record the requests of a server's module from now on; return what ends that."""
    owner_name, methods = _SERVERS[module.__name__.partition(".")[0]]
    owner = getattr(module, owner_name, None)
    if owner is None or not all(_is_coroutine(vars(owner).get(name)) for name in methods):
        # another version, of which nothing is known
        return lambda: None
    replaced = []
    for name in methods:
        original = vars(owner).get(name)
        if original is not None:
            replacement = _REPLACEMENTS[name](original)
            for copied in ("__name__", "__qualname__", "__doc__", "__module__"):
                setattr(replacement, copied, getattr(original, copied, None))
            replacement.__wrapped__ = original
            setattr(owner, name, replacement)
            replaced.append((name, original, replacement))

    def detach() -> None:
        for name, original, replacement in replaced:
            # what the program has replaced in the meantime is kept
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)

    return detach


def _is_coroutine(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & 0x80)  # CO_COROUTINE; inspect is not imported


class _App:
    """An ASGI application that is called to serve one request of uvicorn."""

    __slots__ = ("_app",)

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        try:  # noqa: SIM105 - contextlib is an import that the program may not have made
            begin(scope["method"], scope["path"], whole=True)
        except Exception:  # noqa: BLE001,S110 - the request must be served
            pass
        return self._app(scope, receive, send)


class _Handler:
    """The handler that is called to serve one request of aiohttp."""

    __slots__ = ("_handler",)

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def __call__(self, request: Any) -> Any:
        try:  # noqa: SIM105 - as above
            begin(request.method, request.path, whole=True)
        except Exception:  # noqa: BLE001,S110 - as above
            pass
        return self._handler(request)


def _run_asgi(original: Any) -> Any:
    def run_asgi(cycle: Any, app: Any, *more: Any, **named: Any) -> Any:
        return original(cycle, _App(app), *more, **named)

    return run_asgi


def _send(original: Any) -> Any:
    def send(cycle: Any, message: Any) -> Any:
        try:
            # most messages are parts of the body
            if message["type"] != "http.response.body" and (number := _request.get()):
                answer_asgi(number, cycle.scope, message)
        except Exception:  # noqa: BLE001,S110 - the original says what is wrong with the message
            pass
        return original(cycle, message)

    return send


def _handle_request(original: Any) -> Any:
    def _handle_request(protocol: Any, request: Any, start: Any, handler: Any, *more: Any) -> Any:
        return original(protocol, request, start, _Handler(handler), *more)

    return _handle_request


def _finish_response(original: Any) -> Any:
    def finish_response(protocol: Any, request: Any, response: Any, *more: Any) -> Any:
        try:
            if number := _request.get():
                found = getattr(request, "_match_info", None)
                resource = getattr(getattr(found, "route", None), "resource", None)
                route = "" if resource is None else str(resource.canonical)
                handler = None if resource is None else getattr(found, "handler", None)
                status = int(getattr(response, "status", 500))
                _answer(number, status, route, _answering(handler, request.method))
        except Exception:  # noqa: BLE001,S110 - the response must be sent
            pass
        return original(protocol, request, response, *more)

    return finish_response


_REPLACEMENTS: dict[str, Callable[[Any], Any]] = {
    "run_asgi": _run_asgi,
    "send": _send,
    "_handle_request": _handle_request,
    "finish_response": _finish_response,
}
