"""The application that serves a session to pages on this machine; see `docs/reference/tiles.md`.

Only names of this machine are accepted as Host, and only pages of this server as Origin, so that no
page of another site can read a trace. Nothing is served by a path of the file system.
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from meantime.errors import MeantimeError, UsageError
from meantime.server import answers, places
from meantime.server.critical_path import why
from meantime.server.lane_columns import packed_columns
from meantime.server.moment import activity, moment
from meantime.server.notes import MOST_BYTES, TOO_LARGE, ChangedError, Notes, ReadOnlyError
from meantime.server.search import search
from meantime.server.sql import MOST_CHARACTERS, Statement, is_installed
from meantime.server.tiles import Place, standing, tile
from meantime.server.work import Answers
from meantime.units import MAX_NS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from meantime.server.lanes import LaneTree
    from meantime.server.session import OpenFile, Session, Shown
    from meantime.server.work import Progress

__all__ = ["application"]

_HOSTS = {"localhost", "127.0.0.1", "[::1]"}
_POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self' blob:;"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_MOST_TEXT = 1_000
_MOST_LIMIT = 10_000
_MOST_TAGS = 100_000
# What was asked for and nobody waits for any more; nginx's status for it.
_CLOSED = 499


def application(session: Session) -> ASGIApp:
    """Return the application that serves a session."""
    served = _Served(session)
    routes = [
        Route("/", served.page, methods=["GET"]),
        Route("/session.json", served.session, methods=["GET"]),
        Route("/lanes/{file:int}/{layout:int}", served.lanes, methods=["GET"]),
        Route("/names/{file:int}/{layout:int}", served.names, methods=["GET"]),
        Route(
            "/tile/{file:int}/{layout:int}/{kind}/{block:int}/{level:int}/{index}",
            served.tile,
            methods=["GET"],
        ),
        Route("/notes", served.notes, methods=["GET", "PUT"]),
        Route("/progress", served.progress, methods=["GET"]),
        Route("/sql", served.sql, methods=["GET"]),
        *(
            Route(f"/{name}", served.answer(question), methods=["GET"])
            for name, question in _QUESTIONS.items()
        ),
        *(
            Route(f"/{name}", served.long_answer(question), methods=["GET"])
            for name, question in _LONG.items()
        ),
        Route("/{name}", served.asset, methods=["GET"]),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _refused,
            MeantimeError: _refused,
            LookupError: _refused,
            Exception: _failed,
        },
    )
    return _Guard(app)


class _Guard:
    """Rejects requests that other sites make."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Request(scope).headers
        problem = _foreign(headers)
        if problem is not None:
            await _error(403, problem)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _foreign(headers: Mapping[str, str]) -> str | None:
    """Return why a request does not come from a page of this server; None if it does."""
    host = headers.get("host", "")
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not name:
        name, port = host, ""
    if name.lower() not in _HOSTS or (port and not port.isdecimal()):
        return "the Host of the request is not this machine"
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return "the Origin of the request is another site"
    if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        return "the request comes from another site"
    return None


def _headers() -> dict[str, str]:
    return {
        "cache-control": "no-cache",
        "content-security-policy": _POLICY,
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }


def _json(value: Any) -> bytes:
    return _text(answers.document(value))


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode(errors="backslashreplace")


def _error(status: int, sentence: str) -> Response:
    return Response(_json({"error": sentence}), status, _headers(), media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    """Return the answer to a request that cannot be met."""
    del request
    if isinstance(error, HTTPException):
        found = _error(error.status_code, str(error.detail))
        found.headers.update(error.headers or {})
        return found
    if isinstance(error, MeantimeError):
        return _error(400, str(error))
    return _error(404, str(error.args[0]) if error.args else "there is no such thing")


async def _failed(request: Request, error: Exception) -> Response:
    """Return the answer to a request that met a defect of meantime; its text goes to the log."""
    del request
    return _error(500, f"{type(error).__name__}: {error}"[:_MOST_TEXT])


def _whole(parameters: Mapping[str, str], name: str, default: int | None = None) -> int:
    """Return an integer that a page sent.

    Raises:
        UsageError: If it is not one of 64 bits, or missing without a default.
    """
    text = parameters.get(name)
    if text is None or not text:
        if default is None:
            raise UsageError(f"{name} is missing")
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 20:
        raise UsageError(f"{name} is {text[:40]!r}: it is an integer")
    if abs(int(text)) > MAX_NS:
        raise UsageError(f"{name} is {text}: it is beyond 64 bits")
    return int(text)


def _optional(parameters: Mapping[str, str], name: str) -> int | None:
    return _whole(parameters, name) if parameters.get(name) else None


def _lanes(parameters: Mapping[str, str], tree: LaneTree) -> list[int] | None:
    """Return the lanes that a page names; None if it names none.

    Raises:
        LookupError: If there is no such lane.
    """
    text = parameters.get("lanes")
    if not text:
        return None
    lanes = [_whole({"lanes": each}, "lanes") for each in text.split(",")]
    for lane in lanes:
        if not 0 <= lane < len(tree.lanes):
            raise LookupError(f"there is no lane {lane}")
    return lanes


def _part(parameters: Mapping[str, str], tree: LaneTree) -> range:
    """Return the lanes in a part of a large group that a page names.

    Raises:
        LookupError: If it is none.
    """
    group = _whole(parameters, "within")
    if group not in tree.parts:
        raise LookupError(f"lane {group} is not a part of a large group")
    return tree.parts[group]


def _limit(parameters: Mapping[str, str], default: int) -> int:
    return max(0, min(_whole(parameters, "limit", default), _MOST_LIMIT))


def _range(parameters: Mapping[str, str]) -> tuple[int | None, int | None]:
    start_ns, end_ns = _optional(parameters, "from"), _optional(parameters, "to")
    if start_ns is not None and end_ns is not None and end_ns <= start_ns:
        raise UsageError("the range is empty: from is before to")
    return start_ns, end_ns


def _asked(tree: LaneTree, parameters: Mapping[str, str]) -> answers.Asked:
    return answers.Asked(*_range(parameters), _lanes(parameters, tree))


def _spot(parameters: Mapping[str, str]) -> tuple[int, int, int]:
    """Return a lane, a row and a time."""
    return _whole(parameters, "lane"), _whole(parameters, "row", 0), _whole(parameters, "time")


def _at(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    return places.at(tree, *_spot(asked), _whole(asked, "width", 1))


def _span(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    return places.span(tree, _whole(asked, "span"))


def _statistics(
    file: OpenFile, tree: LaneTree, asked: Mapping[str, str], progress: Progress
) -> Any:
    del file
    return answers.statistics(tree, asked.get("by", "state"), _asked(tree, asked), progress)


def _findings(file: OpenFile, tree: LaneTree, asked: Mapping[str, str], progress: Progress) -> Any:
    about = answers.Asked(*_range(asked), None)
    return answers.stands_out(tree, file.path or file.name, about, progress)


def _flame(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    return answers.flame(tree, _asked(tree, asked))


def _heat(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    period_ns = _whole(asked, "period", 10**9)
    rows = _whole(asked, "rows", min(50, max(1, period_ns)))
    if period_ns < 1:
        raise UsageError("the period is at least 1 ns")
    return answers.heat(tree, _asked(tree, asked), period_ns, rows, asked.get("state"))


def _search(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    text = asked.get("text", "")
    if not 0 < len(text) <= _MOST_TEXT:
        raise UsageError(f"the text to search for has from 1 to {_MOST_TEXT} characters")
    return search(tree, text, *_range(asked), _limit(asked, 100))


def _neighbors(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    return places.neighbors(tree, *_spot(asked), asked.get("name"))


def _points(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    lanes = _lanes(asked, tree)
    quarks = None if lanes is None else tree.quarks(lanes)
    return places.points(tree, quarks, *_range(asked), _limit(asked, 1_000))


def _flows(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    return answers.flows(tree, _asked(tree, asked), _limit(asked, 1_000))


def _moment(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    return moment(tree, _whole(asked, "time"))


def _activity(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    return activity(tree, _asked(tree, asked), asked.get("state") or None)


def _why(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    thread = asked.get("thread", "")
    if len(thread) > _MOST_TEXT:
        raise UsageError(f"a thread has at most {_MOST_TEXT} characters")
    return why(tree, _optional(asked, "lane"), thread, *_range(asked))


_QUESTIONS: dict[str, Callable[[LaneTree, Mapping[str, str]], Any]] = {
    "at": _at,
    "span": _span,
    "neighbors": _neighbors,
    "points": _points,
    "flows": _flows,
    "moment": _moment,
}
_LONG: dict[str, Callable[[OpenFile, LaneTree, Mapping[str, str], Progress], Any]] = {
    "statistics": _statistics,
    "findings": _findings,
    "flame": _flame,
    "heat": _heat,
    "search": _search,
    "activity": _activity,
    "why": _why,
}


class _Served:
    """The endpoints of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # the recordings of a demo are part of the package
        self._notes = Notes("" if session.tour else session.files[0].path)
        self._assets = files("meantime.views") / "static" / "viewer"
        # a long answer must not keep a tile waiting, so tiles have threads of their own
        self._tiles = anyio.CapacityLimiter(max(2, os.cpu_count() or 1))
        self._answers = anyio.CapacityLimiter(2)
        # and neither must what is under the pointer wait for a statistic
        self._short, self._long = Answers(2, waits=False), Answers(2, waits=True)
        self._statements = anyio.CapacityLimiter(1)
        # the tags of tiles that were sent, by what identifies them in this session
        self._tags: dict[str, str] = {}

    async def page(self, request: Request) -> Response:
        return await self._static(request, "viewer.html")

    async def asset(self, request: Request) -> Response:
        return await self._static(request, request.path_params["name"])

    async def _static(self, request: Request, name: str) -> Response:
        kind = _TYPES.get(name.rpartition(".")[2])
        # a name of the package's own folder, never a path
        names = {each.name for each in self._assets.iterdir()} if self._assets.is_dir() else set()
        if kind is None or name not in names:
            raise HTTPException(404, "there is no such page")
        return self._tagged(request, (self._assets / name).read_bytes(), kind)

    async def session(self, request: Request) -> Response:
        document = self._session.document()
        reason = self._notes.reason()
        document["notes"] = {"writable": reason is None, "reason": reason}
        document["sql"] = is_installed()
        return self._tagged(request, _json(document), "application/json")

    async def lanes(self, request: Request) -> Response:
        file = self._file(request.path_params["file"])
        shown = self._shown(file, request.path_params["layout"])
        etag = self._etag("lanes", file.index, shown.layout)
        if _has(request, etag):
            return self._unchanged(etag)
        data = await self._run(
            # columns have no times, which take a while to look for in millions of values
            request,
            lambda: _text(
                {
                    "layout": shown.layout,
                    **packed_columns(shown.tree.columns(every_name=False)),
                }
            ),
            self._answers,
        )
        return data if isinstance(data, Response) else self._reply(data, "application/json", etag)

    async def names(self, request: Request) -> Response:
        tree = self._shown(
            self._file(request.path_params["file"]), request.path_params["layout"]
        ).tree
        asked = request.query_params
        if any(len(text) > _MOST_TEXT for _, text in asked.multi_items()):
            raise UsageError(f"a text has at most {_MOST_TEXT} characters")

        def found() -> bytes:
            lanes: Sequence[int]
            if "within" in asked:
                lanes = _part(asked, tree)
            elif "text" in asked:
                lanes = tree.containing(asked["text"])
            else:
                lanes = tree.at_paths(asked.getlist("path"))
            return _text({"lane": list(lanes), **tree.names(lanes)})

        data = await self._run(request, found, self._answers)
        if isinstance(data, Response):
            return data
        return self._tagged(request, data, "application/json")

    async def tile(self, request: Request) -> Response:
        asked = request.path_params
        file = self._file(asked["file"])
        shown = self._shown(file, asked["layout"])
        place = Place(asked["level"], _whole(asked, "index"))
        address = asked["kind"], asked["block"], place.level, place.index
        # a finished history does not change
        key: str | None = self._etag("tile", file.index, shown.version, *address)
        if not shown.tree.history.built:
            stands = standing(shown.tree, asked["kind"], asked["block"], place)
            if stands is None:
                key = None
            else:
                key = self._etag("stands", file.index, shown.layout, *address, stands)
        known = None if key is None else self._tags.get(key)
        if known is not None and _has(request, known):
            return self._unchanged(known)
        # a group may be of all lanes
        limiter = self._answers if asked["kind"] == "group" else self._tiles
        with self._long.behind():
            data = await self._run(
                request,
                lambda: tile(shown.tree, asked["kind"], asked["block"], place).data(),
                limiter,
            )
        if isinstance(data, Response):
            return data
        reply = self._tagged(request, data, "application/octet-stream")
        if key is not None:
            self._tags[key] = reply.headers["etag"]
            if len(self._tags) > _MOST_TAGS:
                self._tags.pop(next(iter(self._tags)))
        return reply

    def answer(
        self, question: Callable[[LaneTree, Mapping[str, str]], Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a question about a file, which takes a moment."""

        async def endpoint(request: Request) -> Response:
            return await self._answered(
                request, lambda _file, tree, asked, _progress: question(tree, asked), self._short
            )

        return endpoint

    def long_answer(
        self, question: Callable[[OpenFile, LaneTree, Mapping[str, str], Progress], Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a question about a file, which may take seconds."""

        async def endpoint(request: Request) -> Response:
            return await self._answered(request, question, self._long)

        return endpoint

    async def sql(self, request: Request) -> Response:
        asked = request.query_params
        file = self._file(_whole(asked, "file", 0))
        shown = self._shown(file, _optional(asked, "layout"))
        text = asked.get("statement", "")
        if not 0 < len(text) <= MOST_CHARACTERS:
            raise UsageError(f"a statement has from 1 to {MOST_CHARACTERS:,} characters")
        statement = Statement(text)
        history = shown.tree.history
        found: bytes | Response | MeantimeError = b""
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                # the page may have gone, or have sent another statement
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                statement.stop()

            group.start_soon(watch)
            try:
                found = await self._run(
                    request, lambda: _json(statement.run(history)), self._statements
                )
            except MeantimeError as error:
                # raised outside of the group, which would wrap it
                found = error
            group.cancel_scope.cancel()
        if isinstance(found, MeantimeError):
            raise found
        if isinstance(found, Response):
            return found
        return self._tagged(request, found, "application/json")

    async def progress(self, request: Request) -> Response:
        data = _text({"running": self._long.progress()})
        return self._tagged(request, data, "application/json")

    async def _answered(
        self,
        request: Request,
        question: Callable[[OpenFile, LaneTree, Mapping[str, str], Progress], Any],
        threads: Answers,
    ) -> Response:
        """Return the answer to a question about a file, unless the page has it already."""
        asked = request.query_params
        file = self._file(_whole(asked, "file", 0))
        shown = self._shown(file, _optional(asked, "layout"))
        tree = shown.tree
        key = self._etag("answer", file.index, shown.version, str(request.url.path), str(asked))
        if tree.history.built and _has(request, key):
            return self._unchanged(key)
        data = await threads.answer(
            request, key, lambda progress: _json(question(file, tree, asked, progress))
        )
        if data is None:
            return Response(None, _CLOSED)
        if not tree.history.built:
            return self._tagged(request, data, "application/json")
        return self._reply(data, "application/json", key)

    async def notes(self, request: Request) -> Response:
        if request.method in {"GET", "HEAD"}:
            notes, digest = self._notes.read()
            etag = f'"{digest}"'
            if _has(request, etag):
                return self._unchanged(etag)
            # as they are: a page's own numbers are not times of this server
            data = json.dumps({"notes": notes}).encode()
            return self._reply(data, "application/json", etag)
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise HTTPException(415, "notes are application/json")
        expected = request.headers.get("if-match", "").strip('"')
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                raise HTTPException(413, TOO_LARGE)
        try:
            digest = await run_sync(self._notes.write, body, expected, limiter=self._answers)
        except ChangedError as error:
            raise HTTPException(412, str(error)) from None
        except ReadOnlyError as error:
            raise HTTPException(409, str(error)) from None
        return self._reply(b"{}", "application/json", f'"{digest}"')

    def _file(self, index: int) -> OpenFile:
        if not 0 <= index < len(self._session.files):
            raise HTTPException(404, f"there is no file {index}")
        return self._session.files[index]

    def _shown(self, file: OpenFile, layout: int | None) -> Shown:
        """Return what is seen of a file, if its lanes are still those that the page has."""
        shown = file.shown
        if shown is None:
            raise HTTPException(503, f"{file.name} is still being read")
        if layout is not None and layout != shown.layout:
            raise HTTPException(410, "the lanes have changed: read /session.json again")
        return shown

    def _etag(self, *parts: object) -> str:
        text = "\0".join(map(str, (self._session.token, *parts)))
        return f'"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"'

    def _tagged(self, request: Request, data: bytes, kind: str) -> Response:
        """Return content with a tag of it, or only that the page has it already."""
        etag = f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'
        return self._unchanged(etag) if _has(request, etag) else self._reply(data, kind, etag)

    def _reply(self, data: bytes, kind: str, etag: str) -> Response:
        return Response(data, 200, {**_headers(), "etag": etag}, media_type=kind)

    def _unchanged(self, etag: str) -> Response:
        return Response(None, 304, {**_headers(), "etag": etag})

    async def _run(
        self, request: Request, work: Callable[[], bytes], limiter: anyio.CapacityLimiter
    ) -> bytes | Response:
        """Return the result of work in a thread, unless nobody waits for it once it can begin."""
        async with limiter:
            if await request.is_disconnected():
                return Response(None, _CLOSED)
            # the place in the limiter is held already
            return await run_sync(work, limiter=anyio.CapacityLimiter(1))


def _has(request: Request, etag: str) -> bool:
    """Return whether a page has the content with this tag."""
    known = request.headers.get("if-none-match", "")
    return etag in {each.strip().removeprefix("W/") for each in known.split(",")}
