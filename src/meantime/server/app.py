"""The application that serves a session to pages on this machine; see `docs/reference/tiles.md`.

Only names of this machine are accepted as Host, and only pages of this server as Origin, so that no
page of another site can read a trace. Other accounts of this machine reach the port too: everything
needs the token of the server, which its first address has, and a cookie afterwards. Nothing is
served by a path of the file system.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from meantime.errors import MeantimeError, UsageError
from meantime.server.documents import document
from meantime.server.lane_columns import packed_columns
from meantime.server.notes import MOST_BYTES, TOO_LARGE, ChangedError, Notes, ReadOnlyError
from meantime.server.parameters import MOST_TEXT, optional, part_of, whole
from meantime.server.sql import MOST_CHARACTERS, Statement, is_installed
from meantime.server.tiles import Place, standing, tile
from meantime.server.work import Answers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
_STRANGER = "open the address that `meantime view` printed: the token in it is missing here"
_MOST_TAGS = 100_000
# What was asked for and nobody waits for any more; nginx's status for it.
_CLOSED = 499
# Browsers report other statuses than 200 as errors, also those that a page expects: a request with
# the first header is answered by 200, and the second one has the status. The first names the
# session that the page is of.
_PAGE, _STATUS = "meantime-page", "meantime-status"
_ANY_SESSION = "1"
# Where the page has its first answers, and how many bytes these have at most.
_MARK = b"<!--meantime-data-->"
_MOST_FIRST_BYTES = 2**20
# Less is not worth compressing; from so many bytes on it is done in a thread. The files of the page
# are compressed once, and so well.
_SMALL_BYTES = 1_000
_LARGE_BYTES = 2**16
_QUICK, _WELL = 1, 9
_GZIPPED = {"content-encoding": "gzip", "vary": "Accept-Encoding"}


def application(session: Session, token: str) -> ASGIApp:
    """Return the application that serves a session to those who have the token."""
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
        Route("/{name}", served.named, methods=["GET"]),
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
    return _Guard(app, token, session.token)


class _Guard:
    """Rejects requests of other sites, and of programs that do not have the token."""

    def __init__(self, app: ASGIApp, token: str, session: str) -> None:
        self._app = app
        self._token = token
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        headers = request.headers
        host = headers.get("host", "")
        problem = _foreign(host, headers.get("origin"))
        # one cookie for each port, by the port that the browser sees: `ssh -L` may change it
        cookie = f"meantime-{_name_and_port(host)[1] or 80}"
        # a link from anywhere may have the token: the page then has it as a cookie
        if problem is None and scope["path"] == "/" and self._is(request.query_params.get("token")):
            entered = f"{cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"

            async def enter(message: Message) -> None:
                if message["type"] == "http.response.start":
                    kept = MutableHeaders(scope=message)
                    kept["set-cookie"], kept["cache-control"] = entered, "no-store"
                await send(message)

            await self._app(scope, receive, enter)
            return
        if problem is None and headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            problem = "the request comes from another site"
        if problem is None and not self._is(request.cookies.get(cookie)):
            problem = _STRANGER
        if problem is not None:
            await _error(request, 403, problem)(scope, receive, send)
            return
        known = headers.get(_PAGE, _ANY_SESSION)
        if known not in {_ANY_SESSION, self._session} and scope["path"] != "/session.json":
            await _error(request, 410, "the server was started again")(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self._token.encode())


def _name_and_port(host: str) -> tuple[str, str]:
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    return (name, port) if name else (host, "")


def _foreign(host: str, origin: str | None) -> str | None:
    """Return why a request is not for this server, or not from its pages; None if it is."""
    name, port = _name_and_port(host)
    if name.lower() not in _HOSTS or (port and not port.isdecimal()):
        return "the Host of the request is not this machine"
    if origin is not None and origin != f"http://{host}":
        return "the Origin of the request is another site"
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
    return _text(document(value))


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode(errors="backslashreplace")


def _error(request: Request, status: int, sentence: str) -> Response:
    headers = {**_headers(), "cache-control": "no-store"}
    if _PAGE in request.headers:
        headers[_STATUS] = str(status)
        status = 200
    return Response(_json({"error": sentence}), status, headers, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    """Return the answer to a request that cannot be met."""
    if isinstance(error, HTTPException):
        found = _error(request, error.status_code, str(error.detail))
        found.headers.update(error.headers or {})
        return found
    if isinstance(error, MeantimeError):
        return _error(request, 400, str(error))
    return _error(request, 404, str(error.args[0]) if error.args else "there is no such thing")


async def _failed(request: Request, error: Exception) -> Response:
    """Return the answer to a request that met a defect of meantime; its text goes to the log."""
    return _error(request, 500, f"{type(error).__name__}: {error}"[:MOST_TEXT])


class _Served:
    """The endpoints of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # the recordings of a demo are part of the package
        self._notes = Notes("" if session.tour else session.files[0].path)
        # not by importlib.resources, which imports zipfile and takes 8 ms
        self._assets = Path(__file__).parents[1] / "views" / "static" / "viewer"
        # a long answer must not keep a tile waiting, so tiles have threads of their own
        self._tiles = anyio.CapacityLimiter(max(2, os.cpu_count() or 1))
        self._answers = anyio.CapacityLimiter(2)
        # and neither must what is under the pointer wait for a statistic
        self._short, self._long = Answers(2, waits=False), Answers(2, waits=True)
        self._statements = anyio.CapacityLimiter(1)
        # the tags of tiles that were sent, by what identifies them in this session
        self._tags: dict[str, str] = {}
        # the compressed files of the page, by their tags
        self._compressed: dict[str, bytes] = {}
        self._questions: ModuleType | None = None

    async def page(self, request: Request) -> Response:
        """Return the page with the answers that it needs first, each of which would be a trip."""
        if not (self._assets / "viewer.html").is_file():
            raise HTTPException(404, "there is no such page")
        first: dict[str, Any] = {"session.json": document(self._session_document())}
        for file in self._session.files:
            if file.shown is not None:
                address = f"lanes/{file.index}/{file.shown.layout}"
                first[address] = await run_sync(_lanes, file.shown, limiter=self._answers)
        data = _text(first).replace(b"<", b"\\u003c")
        html = (self._assets / "viewer.html").read_bytes()
        if len(data) <= _MOST_FIRST_BYTES:
            element = b'<script type="application/json" id="meantime-first">%s</script>' % data
            html = html.replace(_MARK, element)
        return await self._tagged(request, html, _TYPES["html"])

    async def named(self, request: Request) -> Response:
        """Return a file of the page, or the answer to a question about a file of the session."""
        name = request.path_params["name"]
        if "." in name:
            return await self._static(request, name)
        if self._questions is None:
            # in a thread, since tiles are sent meanwhile
            self._questions = await run_sync(import_module, "meantime.server.questions")
        questions = self._questions
        if name in questions.QUESTIONS:
            question = questions.QUESTIONS[name]
            return await self._answered(
                request, lambda _file, tree, asked, _progress: question(tree, asked), self._short
            )
        if name in questions.LONG:
            return await self._answered(request, questions.LONG[name], self._long)
        raise HTTPException(404, "there is no such page")

    async def _static(self, request: Request, name: str) -> Response:
        kind = _TYPES.get(name.rpartition(".")[2])
        # a name of the package's own folder, never a path
        names = {each.name for each in self._assets.iterdir()} if self._assets.is_dir() else set()
        if kind is None or name not in names:
            raise HTTPException(404, "there is no such page")
        data = (self._assets / name).read_bytes()
        etag = _tag(data)
        if _has(request, etag):
            return self._unchanged(etag)
        if not _takes_gzip(request):
            return await self._reply(request, data, kind, etag)
        if etag not in self._compressed:
            self._compressed[etag] = await run_sync(_compressed, data, _WELL)
        headers = {**_headers(), "etag": f"W/{etag}", **_GZIPPED}
        return Response(self._compressed[etag], 200, headers, media_type=kind)

    async def session(self, request: Request) -> Response:
        return await self._tagged(request, _json(self._session_document()), "application/json")

    def _session_document(self) -> dict[str, Any]:
        shown = self._session.document()
        reason = self._notes.reason()
        shown["notes"] = {"writable": reason is None, "reason": reason}
        shown["sql"] = is_installed()
        shown["session"] = self._session.token
        return shown

    async def lanes(self, request: Request) -> Response:
        file = self._file(request.path_params["file"])
        shown = self._shown(file, request.path_params["layout"])
        etag = self._etag("lanes", file.index, shown.layout)
        if _has(request, etag):
            return self._unchanged(etag)
        data = await self._run(request, lambda: _text(_lanes(shown)), self._answers)
        if isinstance(data, Response):
            return data
        return await self._reply(request, data, "application/json", etag)

    async def names(self, request: Request) -> Response:
        tree = self._shown(
            self._file(request.path_params["file"]), request.path_params["layout"]
        ).tree
        asked = request.query_params
        if any(len(text) > MOST_TEXT for _, text in asked.multi_items()):
            raise UsageError(f"a text has at most {MOST_TEXT} characters")

        def found() -> bytes:
            lanes: Sequence[int]
            if "within" in asked:
                lanes = part_of(asked, tree)
            elif "text" in asked:
                lanes = tree.containing(asked["text"])
            else:
                lanes = tree.at_paths(asked.getlist("path"))
            return _text({"lane": list(lanes), **tree.names(lanes)})

        data = await self._run(request, found, self._answers)
        if isinstance(data, Response):
            return data
        return await self._tagged(request, data, "application/json")

    async def tile(self, request: Request) -> Response:
        asked = request.path_params
        file = self._file(asked["file"])
        shown = self._shown(file, asked["layout"])
        place = Place(asked["level"], whole(asked, "index"))
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
        reply = await self._tagged(request, data, "application/octet-stream")
        if key is not None:
            self._tags[key] = reply.headers["etag"].removeprefix("W/")
            if len(self._tags) > _MOST_TAGS:
                self._tags.pop(next(iter(self._tags)))
        return reply

    async def sql(self, request: Request) -> Response:
        asked = request.query_params
        file = self._file(whole(asked, "file", 0))
        shown = self._shown(file, optional(asked, "layout"))
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
        return await self._tagged(request, found, "application/json")

    async def progress(self, request: Request) -> Response:
        data = _text({"running": self._long.progress()})
        return await self._tagged(request, data, "application/json")

    async def _answered(
        self,
        request: Request,
        question: Callable[[OpenFile, LaneTree, Mapping[str, str], Progress], Any],
        threads: Answers,
    ) -> Response:
        """Return the answer to a question about a file, unless the page has it already."""
        asked = request.query_params
        file = self._file(whole(asked, "file", 0))
        shown = self._shown(file, optional(asked, "layout"))
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
            return await self._tagged(request, data, "application/json")
        return await self._reply(request, data, "application/json", key)

    async def notes(self, request: Request) -> Response:
        if request.method in {"GET", "HEAD"}:
            notes, digest = self._notes.read()
            etag = f'"{digest}"'
            if _has(request, etag):
                return self._unchanged(etag)
            # as they are: a page's own numbers are not times of this server
            data = json.dumps({"notes": notes}).encode()
            return await self._reply(request, data, "application/json", etag)
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise HTTPException(415, "notes are application/json")
        expected = request.headers.get("if-match", "").removeprefix("W/").strip('"')
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
        return await self._reply(request, b"{}", "application/json", f'"{digest}"')

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

    async def _tagged(self, request: Request, data: bytes, kind: str) -> Response:
        """Return content with a tag of it, or only that the page has it already."""
        etag = _tag(data)
        if _has(request, etag):
            return self._unchanged(etag)
        return await self._reply(request, data, kind, etag)

    async def _reply(self, request: Request, data: bytes, kind: str, etag: str) -> Response:
        """Return content, compressed for those who take that: `ssh -L` may be slow."""
        headers = {**_headers(), "etag": etag}
        if len(data) >= _SMALL_BYTES and _takes_gzip(request):
            headers |= {"etag": f"W/{etag}", **_GZIPPED}
            if len(data) < _LARGE_BYTES:
                data = _compressed(data, _QUICK)
            else:
                data = await run_sync(_compressed, data, _QUICK, limiter=self._answers)
        return Response(data, 200, headers, media_type=kind)

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


def _lanes(shown: Shown) -> dict[str, Any]:
    # columns have no times, which take a while to look for in millions of values
    return {"layout": shown.layout, **packed_columns(shown.tree.columns(every_name=False))}


def _tag(data: bytes) -> str:
    return f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'


def _takes_gzip(request: Request) -> bool:
    accepted = request.headers.get("accept-encoding", "").split(",")
    return any(each.partition(";")[0].strip() == "gzip" for each in accepted)


def _compressed(data: bytes, level: int) -> bytes:
    return gzip.compress(data, level, mtime=0)
