"""ASGI middleware that records requests, and tags the tasks that serve them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from meantime.collect import _recorder, requests
from meantime.collect.labels import labelled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

__all__ = ["RequestTags"]


class RequestTags:
    """Records each request, and tags its tasks with `request`, `method` and `path`.

    With uvicorn, requests are recorded without it, but their tasks are not tagged.
    The task that serves a request is tagged until it has served it, and the tasks it spawns to
    their end. The request's id is its `x-request-id` header or, without one, its number in this
    process. In a program that is not being recorded, requests pass through unchanged.

    Args:
        app: The ASGI application.
        header: The header with a request's id.
    """

    def __init__(self, app: App, *, header: str = "x-request-id") -> None:
        self.app = app
        self._header = header.lower().encode("latin-1")
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] not in ("http", "websocket") or not _recorder.is_recording():
            await self.app(scope, receive, send)
            return
        fields = self._fields(scope)
        number = 0
        if not requests.current():
            # a server that is not recognised
            number = requests.begin(fields["method"], fields["path"])
        with labelled(fields):
            try:
                await self.app(scope, receive, _noting(number, scope, send) if number else send)
            finally:
                if number:
                    requests.end(number)

    def _fields(self, scope: Scope) -> dict[str, str]:
        number = next(self._numbers)
        given = [value for name, value in scope.get("headers", ()) if name == self._header]
        return {
            "request": given[0].decode("latin-1") if given else str(number),
            "method": str(scope.get("method", "WEBSOCKET")),
            "path": str(scope.get("path", "")),
        }


def _noting(number: int, scope: Scope, send: Send) -> Send:
    def noting(message: Message) -> Awaitable[None]:
        # returns what `send` returns, so that it is in no traceback
        requests.answer_asgi(number, scope, message)
        return send(message)

    return noting
