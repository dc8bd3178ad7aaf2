"""What the path of one activity says: where its time went, and what would make it shorter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import Coded
from meantime.model.units import rounded_ns
from meantime.query.explain.activity_path import path_of
from meantime.query.explain.conclusion import Conclusion, Evidence, Explanation
from meantime.query.explain.lanes import TimeClass
from meantime.query.explain.paths import MOST_PARTS, Activities, shortest_ns
from meantime.query.sentences import listed, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from meantime.query.explain.activity_path import ActivityPath, Step
    from meantime.query.explain.lanes import Lanes
    from meantime.query.explain.subject import Subject
    from meantime.query.ranges import Range

__all__ = ["explain_path"]

_SAID = 0.1
_NAMED, _LISTED = 3, 20


def explain_path(  # noqa: PLR0917 - what an activity is
    subject: Subject,
    family: str,
    noun: str,
    lanes: Lanes,
    titles: Sequence[str],
    lane: int,
    range_ns: Range,
    what: Mapping[str, str],
) -> Explanation:
    """Return what the path of an activity says.

    Args:
        subject: What is explained.
        family: The family of the trace.
        noun: What such an activity is called.
        lanes: The lanes, connected.
        titles: By lane, what it is called.
        lane: The lane that the activity ends on.
        range_ns: From when to when it is.
        what: How what is waited for is called in a sentence, by label.
    """
    activity = Activities(
        np.array([lane], np.int32),
        np.array([range_ns[0]], np.int64),
        np.array([range_ns[1]], np.int64),
        Coded.of([titles[lane]]),
    )
    path = path_of(lanes, titles, activity, subject.history.attributes, subject.progress)
    measures = tuple(_measures(subject, lanes, path, activity, what))
    return Explanation(family, noun, 1, range_ns, measures, path.budget(), path=path)


def _measures(
    subject: Subject,
    lanes: Lanes,
    path: ActivityPath,
    activity: Activities,
    what: Mapping[str, str],
) -> Iterator[Conclusion]:
    """Yield what a path says, by class and thing."""
    whole_ns = path.range_ns[1] - path.range_ns[0]
    lane = int(activity.lane[0])
    for step in path.steps():
        share = step.total_ns / whole_ns
        bound_ns = None
        if step.kind in {TimeClass.READY, TimeClass.WAIT, TimeClass.WORK}:
            bound_ns = step.total_ns
            if len(lanes.start_ns) <= MOST_PARTS:
                is_free = lanes.chosen(step.kind, label=step.label)
                bound_ns = whole_ns - int(shortest_ns(lanes, activity, is_free)[0])
        label = (step.label or "unknown").lower().replace(" ", "_")
        place = Evidence(
            subject.at(int(lanes.quark[step.longest_lane]), step.longest[0]),
            subject.statemap(step.longest).arguments,
        )
        yield Conclusion(
            f"path.{step.kind.text}.{label}",
            _sentence(step, path, lane, share, what, bound_ns),
            step.total_ns,
            share,
            bound_ns,
            evidence=(place,),
            ranges=(step.longest,),
            rows=tuple(subject.path(int(lanes.quark[each])) for each, _ in step.by_lane[:_NAMED]),
            parts={
                "by": [
                    {"name": path.lane.names[each], "ns": time_ns}
                    for each, time_ns in step.by_lane[:_LISTED]
                ]
            },
            is_notable=share >= _SAID,
        )


def _sentence(  # noqa: PLR0917 - what is known of a step
    step: Step,
    path: ActivityPath,
    lane: int,
    share: float,
    what: Mapping[str, str],
    bound_ns: int | None,
) -> str:
    is_own = [each for each, _ in step.by_lane] == [lane]
    who = path.title if is_own else f"{path.title}, or what it waited for,"
    thing = what.get(step.label, step.label) or "something"
    match step.kind:
        case TimeClass.WORK:
            did = "ran" if step.label in {"", "running"} else f"was in {thing}"
        case TimeClass.READY:
            did = f"was ready and waited for {thing}"
        case TimeClass.WAIT:
            did = f"waited for {thing}"
        case TimeClass.HAND_OFF:
            did = "could have gone on, and had not yet"
        case TimeClass.IDLE:
            did = "was idle"
        case _:
            did = "was not recorded"
    text = f"For {rounded_ns(step.total_ns)} ({percent(share)}) {who} {did}"
    if not is_own:
        text += ": " + listed(
            [
                f"{'itself' if each == lane else path.lane.names[each]} {rounded_ns(time_ns)}"
                for each, time_ns in step.by_lane
            ],
            _NAMED,
        )
    whole_ns = path.range_ns[1] - path.range_ns[0]
    if bound_ns is not None and step.kind is not TimeClass.WORK and bound_ns < step.total_ns:
        text += f"; without that, at most {percent(bound_ns / whole_ns)} less"
    return f"{text}."
