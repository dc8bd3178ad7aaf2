"""`meantime.view`: traces on a page, served on this machine or written as one file."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, ClassVar

from meantime.errors import UsageError
from meantime.model.extent import current_zone, in_zone
from meantime.model.units import duration_ns
from meantime.server.session import Session
from meantime.view_functions.sources import listed
from meantime.views.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from meantime.model.units import Duration
    from meantime.view_functions.sources import Source
    from meantime.views.comparison.view import ComparisonView

__all__ = ["FIRST_PORT", "MOST_BYTES", "View", "view"]

FIRST_PORT = 8643
# The size of a page in one file, unless another one is given.
MOST_BYTES = 100_000_000
_NOTEBOOK_HEIGHT_PX = 640


class View(Picture):
    """Traces on one page, which is saved as one file, shown by a notebook, or served."""

    noun: ClassVar[str] = "page of traces"
    formats: ClassVar[tuple[str, ...]] = ("html",)

    def __init__(self, session: Session, most_bytes: int) -> None:
        self._session = session
        self._most_bytes = most_bytes

    def render(self, form: str) -> Iterable[bytes]:
        """Return the content of the page in one file; it is read first.

        Raises:
            MeantimeError: If a file cannot be read.
            OutputError: If the page would be larger than allowed even without short detail.
        """
        from meantime.server.onefile import page  # noqa: PLC0415 - a page that is served needs none

        del form
        self._session.start()
        self._session.wait()
        return page(self._session, most_bytes=self._most_bytes)

    def serve(
        self,
        *,
        port: int = FIRST_PORT,
        browser: bool = True,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        """Serve the page to browsers on this machine until Ctrl-C.

        Args:
            port: The first port that is tried; 0 is any.
            browser: Open the page in a browser.
            notify: Called with the address of the page; None prints it.

        Raises:
            OutputError: If no port is free.
        """
        from meantime.server.run import serve  # noqa: PLC0415 - a page in one file needs no server

        serve(self._session, port=port, browser=browser, notify=notify or print)

    def _repr_html_(self) -> str:
        # not as a data: address, of which browsers allow some 2 MB; the page of the notebook is out
        # of its reach
        page = escape(b"".join(self.render("html")).decode())
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{page}"'
            f' style="width:100%;height:{_NOTEBOOK_HEIGHT_PX}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        names = ", ".join(repr(file.name) for file in self._session.files)
        return f"<View of {names}>"


def view(
    sources: Source | Sequence[Source] | ComparisonView,
    *,
    offsets: Mapping[int, Duration] | None = None,
    follow: bool = False,
    zone: str | None = None,
    most_bytes: int = MOST_BYTES,
) -> View:
    """Return traces on one page, aligned by their clocks.

    >>> from meantime.testing import history_from_picture
    >>> view(history_from_picture("disk0  aab."))
    <View of 'history'>

    A notebook shows the result of a cell in a frame: the page in one file.

    Of what `diff` returns, the page has the run of each side that is nearest to the mean of its
    side: each lane above its counterpart, aligned as there, and between both where the selected row
    of the comparison has more or less.

    Args:
        sources: Paths or histories, of which the first has the time axis; or what `diff` returns.
        offsets: By index of a source, the time to add to its times.
        follow: Show what is added to the files while the page is served.
        zone: The time zone of the axis, by its name in the database of IANA; None is the zone of
            `meantime.in_zone`, or as before without one.
        most_bytes: The size of a page in one file above which short detail is merged.

    Raises:
        InputError: If a file does not exist.
        UsageError: If an offset is not a time, or runs that are compared include a summary, are to
            be moved, or to be followed.
    """
    # what a comparison needs is loaded with the first one
    if isinstance(sources, Picture):
        if offsets or follow:
            raise UsageError("offsets and follow are not for runs that are compared")
        return _side_by_side(sources, zone, most_bytes)
    offsets_ns = {index: duration_ns(time) for index, time in (offsets or {}).items()}
    with in_zone(zone):
        session = Session(
            listed(sources), offsets_ns=offsets_ns, follow=follow, zone=current_zone()
        )
    return View(session, most_bytes).made_of(listed(sources))


def _side_by_side(compared: ComparisonView, zone: str | None, most_bytes: int) -> View:
    """Return the page of a run of each side of a comparison.

    Raises:
        MeantimeError: If a run has nothing of the name that runs are aligned by.
        UsageError: If a run is a summary.
    """
    from meantime.server.side_by_side import SideBySide  # noqa: PLC0415 - few pages compare

    found = SideBySide.of(compared)
    sources: list[Source] = [
        history if path is None else path
        for path, history in zip(found.paths, found.histories, strict=True)
    ]
    offsets_ns = {0: 0, 1: found.offset_ns}
    with in_zone(zone):
        session = Session(sources, offsets_ns=offsets_ns, side_by_side=found, zone=current_zone())
    return View(session, most_bytes).made_of(sources)
