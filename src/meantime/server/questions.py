"""The questions of pages about a file, by the names of their endpoints.

A page is drawn before it asks one: what answers them is imported with the first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from meantime.errors import UsageError
from meantime.model.extent import in_zone
from meantime.query.parts import extent_of
from meantime.server import answers, places
from meantime.server.context import context
from meantime.server.critical_path import why
from meantime.server.lane_shares import lane_shares
from meantime.server.moment import activity, moment
from meantime.server.parameters import (
    MOST_NAME,
    MOST_TEXT,
    lanes_of,
    limit,
    optional,
    range_of,
    whole,
)
from meantime.server.search import search
from meantime.server.service_requests import request, requests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meantime.query.counting import Counted
    from meantime.server.lanes import LaneTree
    from meantime.server.session import OpenFile
    from meantime.server.work import Progress

__all__ = ["LONG", "QUESTIONS"]

# What is between the two times of a range.
_BETWEEN = re.compile(r"\s+to\s+|\s*\.\.\s*")


def _asked(tree: LaneTree, parameters: Mapping[str, str]) -> answers.Asked:
    return answers.Asked(*range_of(parameters), lanes_of(parameters, tree))


def _counted(parameters: Mapping[str, str]) -> Counted | None:
    """Return which of spans and samples are wanted, if that is said.

    Raises:
        UsageError: If it is neither.
    """
    of = parameters.get("of")
    if of is not None and of not in {"spans", "samples"}:
        raise UsageError(f"spans or samples are counted, not {of[:40]!r}")
    return cast("Counted | None", of)


def _spot(parameters: Mapping[str, str]) -> tuple[int, int, int]:
    """Return a lane, a row and a time."""
    return whole(parameters, "lane"), whole(parameters, "row", 0), whole(parameters, "time")


def _at(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    row = None if asked.get("row") == "all" else whole(asked, "row", 0)
    return places.at(
        tree, whole(asked, "lane"), row, whole(asked, "time"), whole(asked, "width", 1)
    )


def _span(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    return places.span(tree, whole(asked, "span"))


def _statistics(
    file: OpenFile, tree: LaneTree, asked: Mapping[str, str], progress: Progress
) -> Any:
    del file
    by, of = asked.get("by", "state"), _counted(asked)
    return answers.statistics(tree, by, _asked(tree, asked), progress, of=of)


def _findings(file: OpenFile, tree: LaneTree, asked: Mapping[str, str], progress: Progress) -> Any:
    about = answers.Asked(*range_of(asked), None)
    return answers.stands_out(tree, file.path or file.name, about, progress)


def _flame(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    return answers.flame(tree, _asked(tree, asked), of=_counted(asked))


def _heat(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    period_ns = whole(asked, "period", 10**9)
    rows = whole(asked, "rows", min(50, max(1, period_ns)))
    if period_ns < 1:
        raise UsageError("the period is at least 1 ns")
    return answers.heat(tree, _asked(tree, asked), period_ns, rows, asked.get("state"))


def _search(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    text = asked.get("text", "")
    is_name = asked.get("whole") == "1"
    if len(text) > (MOST_NAME if is_name else MOST_TEXT) or not (text or is_name):
        raise UsageError(f"the text to search for has from 1 to {MOST_TEXT} characters")
    lanes, wanted = lanes_of(asked, tree), asked.get("filter", "")
    if len(wanted) > MOST_TEXT:
        raise UsageError(f"lanes are filtered by at most {MOST_TEXT} characters")
    if lanes is not None:
        lanes = tree.with_threads(tree.below(lanes))
    if wanted:
        lanes = tree.called(wanted, range(len(tree.lanes)) if lanes is None else lanes)
    return search(
        tree,
        text,
        *range_of(asked),
        limit=limit(asked, 100),
        around_ns=optional(asked, "around"),
        longest=asked.get("longest") == "1",
        whole=is_name,
        lanes=lanes,
        texts=limit(asked, 0, "texts"),
    )


def _time(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    text, zone = asked.get("text", ""), asked.get("zone") or None
    if max(len(text), len(zone or "")) > MOST_TEXT:
        raise UsageError(f"a time has at most {MOST_TEXT} characters")
    extent = extent_of(tree.history)
    with in_zone(zone):
        ends = [extent.time_ns(each) for each in _BETWEEN.split(text.strip(), maxsplit=1)]
    if len(ends) > 1:
        extent.check_order(*ends)
    return {"start_ns": ends[0], "end_ns": ends[1] if len(ends) > 1 else None}


def _neighbors(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    return places.neighbors(tree, *_spot(asked), asked.get("name"))


def _points(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    lanes = lanes_of(asked, tree)
    quarks = None if lanes is None else tree.quarks(lanes)
    return places.points(tree, quarks, *range_of(asked), limit(asked, 1_000))


def _flows(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    return answers.flows(tree, _asked(tree, asked), limit(asked, 1_000))


def _moment(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    return moment(tree, whole(asked, "time"))


def _summary(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    return answers.summary(tree, _asked(tree, asked))


def _activity(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    state, work = asked.get("state") or None, asked.get("work") == "1"
    return activity(tree, _asked(tree, asked), state, work=work)


def _shares(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    name = asked.get("name", "")
    if len(name) > MOST_NAME:
        raise UsageError(f"a name has at most {MOST_NAME} characters")
    bounds_ns = whole(asked, "from"), whole(asked, "to")
    return lane_shares(tree, lanes_of(asked, tree) or (), name, bounds_ns, whole(asked, "bins"))


def _context(tree: LaneTree, asked: Mapping[str, str]) -> Any:
    return context(tree, *_spot(asked))


def _why(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    thread = asked.get("thread", "")
    if len(thread) > MOST_TEXT:
        raise UsageError(f"a thread has at most {MOST_TEXT} characters")
    return why(tree, optional(asked, "lane"), thread, *range_of(asked))


def _requests(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    return requests(tree, *range_of(asked))


def _request(_: OpenFile, tree: LaneTree, asked: Mapping[str, str], __: Progress) -> Any:
    return request(tree, whole(asked, "span"))


QUESTIONS: dict[str, Callable[[LaneTree, Mapping[str, str]], Any]] = {
    "at": _at,
    "span": _span,
    "context": _context,
    "neighbors": _neighbors,
    "points": _points,
    "time": _time,
    "flows": _flows,
    "moment": _moment,
    "shares": _shares,
}
LONG: dict[str, Callable[[OpenFile, LaneTree, Mapping[str, str], Progress], Any]] = {
    "statistics": _statistics,
    "summary": _summary,
    "findings": _findings,
    "flame": _flame,
    "heat": _heat,
    "search": _search,
    "activity": _activity,
    "why": _why,
    "requests": _requests,
    "request": _request,
}
