"""Answers that take a while: computed once for all pages that wait, and kept."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
from anyio.to_thread import run_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request

__all__ = ["Answers", "Progress", "StoppedError"]

# Answers of so many bytes are kept.
_KEPT_BYTES = 2**26
# How long to wait for requests for tiles, and how often at most until these are answered.
_ASKED_S = 0.02
_MOST_WAITS = 250


class StoppedError(Exception):
    """Nobody waits for the answer any more."""


class Progress:
    """How far an answer is; the work that computes it calls this now and then.

    Attributes:
        question: The query, as it is in the address.
        share: The part that is done, from 0 to 1.
    """

    def __init__(self, question: str) -> None:
        self.question = question
        self.share: float = 0.0
        self._is_stopped = False

    def __call__(self, share: float) -> None:
        """Report a part that is done.

        Raises:
            StoppedError: If nobody waits any more.
        """
        self.share = share
        if self._is_stopped:
            raise StoppedError

    def stop(self) -> None:
        """End the work when it calls this the next time."""
        self._is_stopped = True


class _Running:
    """An answer that is being computed, and how many requests wait for it."""

    def __init__(self, question: str) -> None:
        self.progress = Progress(question)
        self.waiting = 0
        self.done = anyio.Event()
        self.result: bytes | Exception = StoppedError()

    def leave(self) -> None:
        self.waiting -= 1
        if self.waiting == 0:
            self.progress.stop()


class Answers:
    """Computes answers in threads of their own, each once, and keeps the last ones.

    Args:
        threads: How many are computed at once.
        waits: Whether they wait for tiles that are asked for at the same time.
    """

    def __init__(self, threads: int, *, waits: bool) -> None:
        self._waits = waits
        self._limiter = anyio.CapacityLimiter(threads)
        self._ahead = 0
        self._running: dict[str, _Running] = {}
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0

    @contextmanager
    def behind(self) -> Iterator[None]:
        """Begin no answer meanwhile: what is drawn comes first."""
        self._ahead += 1
        try:
            yield
        finally:
            self._ahead -= 1

    def progress(self) -> list[dict[str, Any]]:
        """Return what is being computed, and how far it is."""
        return [
            {"question": each.progress.question, "share": round(each.progress.share, 3)}
            for each in self._running.values()
        ]

    async def answer(
        self, request: Request, key: str, work: Callable[[Progress], bytes]
    ) -> bytes | None:
        """Return an answer, unless the page goes before it is there.

        Args:
            request: The request, whose page may go.
            key: Identifies the answer.
            work: Computes it; what it raises is raised here.
        """
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        running = self._running.get(key)
        is_own = running is None or running.waiting == 0
        if running is None or is_own:
            query = f"?{request.url.query}" if request.url.query else ""
            running = self._running[key] = _Running(f"{request.url.path.lstrip('/')}{query}")
        running.waiting += 1
        async with anyio.create_task_group() as group:

            async def watch(here: _Running) -> None:
                try:
                    while (await request.receive())["type"] != "http.disconnect":
                        pass
                finally:
                    # also when the server ends
                    here.leave()
                if not is_own:
                    group.cancel_scope.cancel()

            group.start_soon(watch, running)
            if is_own:
                # others may wait for it after this page has gone
                await self._compute(key, running, work)
            else:
                await running.done.wait()
            group.cancel_scope.cancel()
        if isinstance(running.result, StoppedError):
            return None
        if isinstance(running.result, Exception):
            raise running.result
        return running.result

    async def _compute(
        self, key: str, running: _Running, work: Callable[[Progress], bytes]
    ) -> None:
        def begun() -> bytes:
            running.progress(0.0)
            return work(running.progress)

        try:
            if self._waits:
                await self._let_ahead()
            running.result = await run_sync(begun, limiter=self._limiter)
            self._keep(key, running.result)
        except Exception as error:  # noqa: BLE001 - each of those that wait raises it
            running.result = error
        finally:
            if self._running.get(key) is running:
                del self._running[key]
            running.done.set()

    async def _let_ahead(self) -> None:
        """Wait until nothing comes first, but not for ever."""
        for _ in range(_MOST_WAITS):
            # a page asks for tiles and answers at once
            await anyio.sleep(_ASKED_S)
            if not self._ahead:
                return

    def _keep(self, key: str, data: bytes) -> None:
        self._kept_bytes += len(data) - len(self._kept.pop(key, b""))
        self._kept[key] = data
        while self._kept_bytes > _KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])
