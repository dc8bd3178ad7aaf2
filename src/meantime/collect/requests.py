"""Requests of web servers, as records: which task serves each, and how it was answered.

Requests of uvicorn and aiohttp are recognised by their servers' own methods: the one whose
coroutine is the task of a request, and the one by which a request is answered. The second is
replaced by a compiled hook, which is in no traceback. Where another library has wrapped the first,
its coroutines are recognised by what they were called with. An error in reading what these are
called with never reaches the program. What answers a request is described
here at its first one, and found by the hooks from then on.
"""

from __future__ import annotations

from types import FunctionType

from meantime.collect import _recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

__all__ = ["answer_asgi", "attach", "begin", "current", "end"]

# By package, the class, the class of its requests, the method that is a request's task with its
# first arguments, and the one that answers.
_SERVERS = {
    "uvicorn": ("RequestResponseCycle", "RequestResponseCycle", "run_asgi", ("self",), "send"),
    "aiohttp": (
        "RequestHandler",
        "BaseRequest",
        "_handle_request",
        ("self", "request"),
        "finish_response",
    ),
}
_MAX_TEXT = 500
_MAX_DESCRIBED = 10_000
_MOST_DECORATORS = 8

answer_asgi, begin = _recorder.answer_asgi, _recorder.begin_request
current, end = _recorder.current_request, _recorder.end_request

_functions: dict[object, bytes] = {}
_routes: dict[object, bytes] = {}


def _asgi_answer(scope: Any, endpoint: object) -> bytes:
    """Return the route of an ASGI request, and the name, file and line of what answers it."""
    function = _described(_answering(endpoint, scope.get("method", "")))
    return _encoded(_route(scope, endpoint)) + b"\0" + function


def _aiohttp_answer(request: Any) -> bytes:
    """Return the same of a request of aiohttp."""
    found = getattr(request, "_match_info", None)
    route = getattr(found, "route", None)
    resource = getattr(route, "resource", None)
    if resource is None:
        return b"\0\0\0"
    handler = getattr(found, "handler", None)
    described = _described(_answering(handler, request.method))
    answer = _encoded(str(resource.canonical)) + b"\0" + described
    if not isinstance(handler, type) and len(_routes) < _MAX_DESCRIBED:
        _routes[route] = answer
    return answer


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


def _described(endpoint: object) -> bytes:
    """Return the name, file and line of what answers a request, separated by NUL."""
    try:
        known = _functions.get(endpoint)
    except TypeError:
        # not hashable: described each time
        return _encoded_function(endpoint)
    if known is None:
        known = _encoded_function(endpoint)
        if len(_functions) < _MAX_DESCRIBED:
            _functions[endpoint] = known
    return known


def _encoded_function(endpoint: object) -> bytes:
    if endpoint is None:
        return b"\0\0"
    endpoint = getattr(endpoint, "__func__", endpoint)
    for _ in range(_MOST_DECORATORS):
        # as functools.wraps says what it wraps
        inner = endpoint.__dict__.get("__wrapped__") if isinstance(endpoint, FunctionType) else None
        if not isinstance(inner, FunctionType):
            break
        endpoint = inner
    code = getattr(endpoint, "__code__", None)
    name = getattr(endpoint, "__qualname__", None) or type(endpoint).__qualname__
    text = f"{name}\0{code.co_filename}\0{code.co_firstlineno}" if code else f"{name}\0\0"
    return text.encode("utf-8", "replace")


def _encoded(route: str) -> bytes:
    return route[:_MAX_TEXT].encode("utf-8", "replace")


_recorder.configure_requests(_asgi_answer, _aiohttp_answer, _functions, _routes)


def attach(module: ModuleType) -> Callable[[], None]:
    """Record the requests of a server's module from now on; return what ends that.

    Raises:
        LookupError: If the module is of a version whose requests are not known.
        TypeError: As above.
    """
    package = module.__name__.partition(".")[0]
    owner_name, request_name, served_name, arguments, answered_name = _SERVERS[package]
    owner, request = vars(module)[owner_name], vars(module)[request_name]
    if not (isinstance(owner, type) and isinstance(request, type)):
        raise TypeError(f"{owner_name} or {request_name} of {module.__name__} is not a type")
    served: Any = vars(owner)[served_name]
    original: Any = vars(owner)[answered_name]
    # another library may have replaced both already: the first by anything, as its coroutines have
    # the same arguments
    code = served.__code__ if _is_coroutine(served, arguments) else None
    if code is None and getattr(getattr(served, "__code__", None), "co_filename", "") == str(
        module.__file__
    ):
        raise LookupError(f"{served_name} of {module.__name__} has other arguments")
    _recorder.serve_requests(
        code, owner, request, str(module.__file__), aiohttp=package == "aiohttp"
    )
    replacement = original
    if type(original) is type(attach):
        replacement = _recorder.hook(answered_name, original)
        setattr(owner, answered_name, replacement)

    def detach() -> None:
        _recorder.forget_requests(code, owner)
        # what the program has replaced in the meantime is kept
        if original is not replacement and vars(owner).get(answered_name) is replacement:
            setattr(owner, answered_name, original)

    return detach


def _is_coroutine(function: Any, arguments: tuple[str, ...]) -> bool:
    """Return whether this is a function of coroutines with these first arguments."""
    if type(function) is not type(attach):
        return False
    code = function.__code__
    return (
        bool(code.co_flags & 0x80)  # CO_COROUTINE; inspect is not imported
        and code.co_varnames[: min(code.co_argcount, len(arguments))] == arguments
    )
