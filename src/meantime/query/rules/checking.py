"""Whether rules hold for a history, and what breaks them."""

from __future__ import annotations

from collections.abc import Sequence as SequenceType
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import MeantimeError, UsageError
from meantime.history.history import History
from meantime.model.columns import distinct, exact_sum, named
from meantime.model.durations import FIGURES, PERCENTS, Durations
from meantime.model.names import without_addresses
from meantime.model.units import format_ns
from meantime.query.durations import clipped
from meantime.query.handles import choose_lanes
from meantime.query.lifetimes import lifetimes
from meantime.query.parts import extent_of, range_of
from meantime.query.rules.figures import Breach, Verdict, figure_verdict, is_time
from meantime.query.rules.grammar import Rule, parse_rules
from meantime.query.sampled_states import with_sampled_states
from meantime.query.scope import Scope
from meantime.query.sentences import percent
from meantime.query.state_durations import StateDurations
from meantime.query.statistics import state_quarks
from meantime.query.threads import sampled_or_spanned, thread_quarks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.units import Time
    from meantime.query.compare import Summary
    from meantime.query.ranges import Range
    from meantime.query.rules.own_time import OwnTime

__all__ = ["Breach", "Verdict", "check_rules", "rule_lanes"]

_MOST_BREACHES = 3
# A batch of so many intervals stays in the processor's caches.
_BATCH_ROWS = 1 << 17
# Figures of a name that follow from one pass over all intervals.
_WITHOUT_ROWS = {"count", "total_ns", "mean_ns", "min_ns", "max_ns", "rate"}
_BLOCKED = "blocked"
# A step of a loop that is blocked, if a rule does not say how long it may be.
BLOCKED_NS = 10**7
# The own time of so many is looked up, the longest first; others count as they are.
_MOST_LOOKED_UP = 10_000


class _Found(NamedTuple):
    """When something with a name was there: a state, a span or an event, in order of lane, time."""

    quark: Int32s
    start_ns: Int64s
    end_ns: Int64s

    @property
    def length_ns(self) -> Int64s:
        return self.end_ns - self.start_ns

    def part(self, rows: slice) -> _Found:
        return _Found(self.quark[rows], self.start_ns[rows], self.end_ns[rows])


class _States:
    """The states of all lanes, by name.

    Figures of each name are those of one pass over the intervals, which takes the rows of the names
    along of which rules need them.

    Args:
        scope: The history.
        wanted: The names of which rows are needed.

    Attributes:
        names: The names.
    """

    def __init__(self, scope: Scope, wanted: Iterable[str]) -> None:
        self._scope = scope
        self._quarks = state_quarks(scope.history)
        self._counted = StateDurations(
            (scope.start_ns, scope.end_ns), len(scope.history.attributes), bits=0
        )
        # states whose tag changes go on, which are one row, and several intervals
        self._has_tags = False
        self._rows: dict[str, _Found] = {}
        self._read({*wanted}, is_first=True)
        self.names: Sequence[str] = self._counted.names

    def figures(self, name: str) -> tuple[int, int, int, int] | None:
        """Return the count, the sum, the least and the greatest duration of a name.

        None if they are not known without its rows.
        """
        if name not in self.names or self._has_tags:
            return None
        return self._counted.totals()[self.names.index(name)]

    def of(self, name: str) -> _Found:
        """Return when there was a state with this name."""
        if name not in self._rows and name in self.names:
            self._read({name}, is_first=False)
        return self._rows.get(name, _NOTHING)

    def _read(self, wanted: set[str], *, is_first: bool) -> None:
        scope = self._scope
        range_ns = scope.start_ns, scope.end_ns
        parts: dict[str, list[_Found]] = {name: [] for name in wanted}
        if scope.length_ns <= 0 or not len(self._quarks):
            return
        for batch in scope.history.interval_batches(self._quarks, *range_ns, rows=_BATCH_ROWS):
            column = named(batch.value)
            if is_first:
                self._counted.add(batch)
                self._has_tags |= bool((batch.tag >= 0).any())
            for code, name in enumerate(column.names):
                if name not in wanted:
                    continue
                rows = np.flatnonzero(column.codes == code)
                if len(rows):
                    start_ns = np.maximum(batch.start_ns[rows], range_ns[0])
                    end_ns = np.minimum(batch.end_ns[rows], range_ns[1])
                    parts[name].append(_Found(batch.quark[rows], start_ns, end_ns))
        for name, found in parts.items():
            self._rows[name] = _merged(found) if found else _NOTHING


def _merged(parts: Sequence[_Found]) -> _Found:
    """Return rows of one state, those that touch as one."""
    quark, start_ns, end_ns = (np.concatenate(column) for column in zip(*parts, strict=True))
    begins = np.append(True, (quark[1:] != quark[:-1]) | (start_ns[1:] != end_ns[:-1]))
    if begins.all():
        return _Found(quark, start_ns, end_ns)
    first = np.flatnonzero(begins)
    return _Found(quark[first], start_ns[first], end_ns[np.append(first[1:], len(begins)) - 1])


_NOTHING = _Found(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))


def _with_rows(rules: Iterable[Rule]) -> Iterator[str]:
    """Yield the names of which rules need all rows."""
    for rule in rules:
        if rule.kind in {"at once", "after", "within"}:
            yield from (rule.name, rule.first)
        elif rule.figure in FIGURES and FIGURES[rule.figure].percent is not None:
            yield rule.name


def check_rules(
    history: History | Summary,
    rules: Mapping[str, str] | SequenceType[str] | SequenceType[Rule],
    *,
    start: Time | None = None,
    end: Time | None = None,
) -> list[Verdict]:
    """Return for each rule whether it holds for a history, and where it does not.

    >>> from meantime.testing import history_from_picture
    >>> history = history_from_picture("disk0  aabbba")
    >>> for verdict in check_rules(history, ['no disk* in "b" for over 2 ns']):
    ...     print(verdict.holds, verdict.measured)
    False the longest is 3ns

    Args:
        history: The history, or its summary, which has figures of names.
        rules: Sentences, sentences by their titles, or rules as `read_rules` returns them.
        start: Where the range begins that they are about; by default where the history does.
        end: Where it ends.

    Raises:
        MeantimeError: If a rule is about lanes or names that the history does not have.
        TimeRangeError: If the range is empty.
        UsageError: If a sentence is not a rule, or is about two traces.
    """
    if isinstance(rules, SequenceType):
        parsed = [each if isinstance(each, Rule) else parse_rules([each])[0] for each in rules]
    else:
        parsed = parse_rules(rules)
    if not parsed:
        raise UsageError("there are no rules")
    if not isinstance(history, History):
        from meantime.query.rules.of_summaries import check_summary  # noqa: PLC0415 - few are summaries

        if start is not None or end is not None:
            raise UsageError("a summary is of all of its trace; check ranges of the trace")
        return check_summary(history, parsed)
    history = history.snapshot()
    range_ns = range_of(history, start, end)
    checking = _Checking(with_sampled_states(history), range_ns, parsed)
    return [checking.verdict(rule) for rule in parsed]


class _Checking:
    """A history, in which rules are looked up."""

    def __init__(self, history: History, range_ns: Range, rules: Sequence[Rule]) -> None:
        self.history = history
        self.extent = extent_of(history)
        self._range_ns = range_ns
        self._is_part = range_ns != history.bounds
        self._scope = Scope(history, range_ns)
        self._names: set[str] | None = None
        self._rules = rules

    @cached_property
    def _states(self) -> _States:
        """All states of the history, which are read once for all rules."""
        return _States(self._scope, _with_rows(self._rules))

    def _figures(self, name: str, lanes: Int32s | None) -> Durations[int, float] | None:
        """Return figures of what has a name on lanes, without quantiles.

        None if they are not known without looking at each: of spans and events, or some lanes.
        """
        figures = self._states.figures(name)
        if figures is None or name in self._others:
            return None
        if not self._are_all(lanes):
            return None
        count, total_ns, least, most = figures
        return Durations.computed(count, total_ns, least, most, [0] * len(PERCENTS))

    def _are_all(self, lanes: Int32s | None) -> bool:
        """Return whether all states are on some lanes."""
        return lanes is None or not len(np.setdiff1d(state_quarks(self.history), lanes))

    @cached_property
    def _others(self) -> set[str]:
        """The names of spans and events."""
        names = []
        for column in (self.history.spans().name, self.history.points().name):
            # columns of a trace may share all its texts
            names += [column.names[code] for code in distinct(column.codes).tolist() if code >= 0]
        return {*names, *map(without_addresses, names)}

    def verdict(self, rule: Rule) -> Verdict:
        """Return whether a rule holds.

        Raises:
            MeantimeError: If it is about what the history does not have.
            UsageError: If it is about two traces.
        """
        if rule.change is not None:
            raise UsageError(f"{rule.text!r} is about two traces: give it to meantime diff")
        match rule.kind:
            case "no":
                return self._no(rule)
            case "figure":
                return self._figure(rule)
            case "share":
                return self._share(rule)
            case "at once":
                return self._at_once(rule)
            case "after":
                return self._after(rule)
            case _:
                return self._within(rule)

    def _lanes(self, rule: Rule) -> Int32s | None:
        return None if rule.lanes is None else rule_lanes(self.history, rule)

    def _there(self, rule: Rule, name: str, lanes: Int32s | None, *, is_needed: bool) -> _Found:
        """Return when something was there.

        Raises:
            MeantimeError: If it never was, but has to be, or something has nearly this name.
        """
        found = self._found(name, lanes)
        if not len(found.quark) and (is_needed or self._is_misspelt(name)):
            near = self._near(name, 0.6)
            hint = f"; there is {' and '.join(map(repr, near))}" if near else ""
            raise MeantimeError(
                f"the rule {rule.text!r} matches nothing: no state, span or event is called"
                f" {name!r}{hint}"
            )
        return found

    def _is_misspelt(self, name: str) -> bool:
        return name not in self._all_names() and bool(self._near(name, 0.8))

    def _near(self, name: str, cutoff: float) -> list[str]:
        from difflib import get_close_matches  # noqa: PLC0415 - for what is not there

        return get_close_matches(name, self._all_names(), n=3, cutoff=cutoff)

    def _all_names(self) -> set[str]:
        if self._names is None:
            history = self.history
            states = {
                state.name
                for lane in history.lanes
                if lane.declaration.kind == "state"
                for state in lane.declaration.states or ()
            }
            self._names = states | {*self._states.names} | self._others
        return self._names

    def _found(self, name: str, lanes: Int32s | None) -> _Found:
        history = self.history
        parts = []
        states = self._states.of(name)
        chosen = np.ones(len(states.quark), np.bool_)
        if lanes is not None and not self._are_all(lanes):
            chosen = np.isin(states.quark, lanes)
        parts.append((*states, chosen))
        within: dict[str, int] = {}
        if self._is_part:
            within = dict(zip(("start_ns", "end_ns"), self._range_ns, strict=True))
        spans = history.spans(
            None if lanes is None else np.intersect1d(lanes, history.spans().threads), **within
        )
        begins, ends = clipped(spans, within.get("start_ns"), within.get("end_ns"))
        parts.append((spans.thread, begins, ends, _named(spans.name, name)))
        points = history.points(**within)
        is_point = _named(points.name, name)
        if lanes is not None:
            is_point &= np.isin(points.quark, lanes)
        parts.append((points.quark, points.time_ns, points.time_ns, is_point))
        quark, start, end = (
            np.concatenate([part[column][part[3]] for part in parts]) for column in range(3)
        )
        if sum(bool(part[3].any()) for part in parts) > 1:
            order = np.lexsort((start, quark))
            quark, start, end = quark[order], start[order], end[order]
        return _Found(quark.astype(np.int32), start, end)

    def _verdict(
        self, rule: Rule, measured: str, found: _Found, worst: Int64s, after: str = ""
    ) -> Verdict:
        """Return a verdict with the rows of `found` that break it, the worst first."""
        breaches = tuple(
            self._breach(
                found, row, f"`{rule.name}` for {format_ns(int(found.length_ns[row]))}{after}"
            )
            for row in worst[:_MOST_BREACHES].tolist()
        )
        more = max(0, len(worst) - _MOST_BREACHES)
        return Verdict(rule, not len(worst), measured, breaches, more)

    def _breach(self, found: _Found, row: int, sentence: str) -> Breach:
        quark, start_ns = int(found.quark[row]), int(found.start_ns[row])
        name = self._scope.name(quark)
        return Breach(
            self.history.attributes.text(quark),
            start_ns,
            int(found.end_ns[row]),
            f"{name}: {sentence}, from {self.extent.text(start_ns)}",
        )

    def _no(self, rule: Rule) -> Verdict:
        lanes = self._lanes(rule)
        least_ns = int(rule.limit or 0)
        known = self._figures(rule.name, lanes)
        if known is not None and known.max_ns <= least_ns:
            return Verdict(rule, holds=True, measured=f"the longest is {format_ns(known.max_ns)}")
        found = self._there(rule, rule.name, lanes, is_needed=False)
        # other states of a loop are what it did, in full
        are_steps = rule.name == _BLOCKED and not len(found.quark)
        if are_steps:
            found = self._blocked(lanes, least_ns or BLOCKED_NS)
        if not len(found.quark):
            return Verdict(rule, holds=True, measured="there is none")
        length_ns = found.length_ns
        order = np.argsort(-length_ns, kind="stable")
        if not least_ns:
            longest = f"the longest is {format_ns(int(length_ns[order[0]]))}"
            return self._verdict(rule, longest, found, order)
        own_ns = length_ns.copy()
        late = order[:0] if rule.is_wall else order[length_ns[order] > least_ns][:_MOST_LOOKED_UP]
        for row in late.tolist():
            range_ns = int(found.start_ns[row]), int(found.end_ns[row])
            own_ns[row] = self._own_time.of(int(found.quark[row]), range_ns, is_step=are_steps)
        worst = order[own_ns[order] > least_ns]
        worst = worst[np.argsort(-own_ns[worst], kind="stable")]
        top = int(worst[0] if len(worst) else order[0])
        measured = f"the longest is {format_ns(int(own_ns[top]))}"
        if waited_ns := int(length_ns[top] - own_ns[top]):
            measured += f", without {format_ns(waited_ns)} in which its thread waited for a CPU"
        return self._verdict(rule, measured, found, worst)

    @cached_property
    def _own_time(self) -> OwnTime:
        from meantime.query.rules.own_time import OwnTime  # noqa: PLC0415 - only for what is long

        return OwnTime(self._scope)

    def _blocked(self, lanes: Int32s | None, least_ns: int) -> _Found:
        """Return the steps that kept event loops of a recording from anything else."""
        from meantime.query.findings.blocks import long_steps  # noqa: PLC0415 - few rules are about loops

        steps = long_steps(self._scope, least_ns)
        if lanes is not None:
            wanted = {*lanes.tolist()}
            steps = [step for step in steps if step[0] in wanted]
        rows = np.array([(loop, *range_ns) for loop, range_ns in steps], np.int64).reshape(-1, 3)
        return _Found(rows[:, 0].astype(np.int32), rows[:, 1], rows[:, 2])

    def _figure(self, rule: Rule) -> Verdict:
        lanes = self._lanes(rule)
        begin_ns, finish_ns = self._range_ns
        known = self._figures(rule.name, lanes) if rule.figure in _WITHOUT_ROWS else None
        if known is not None:
            verdict = figure_verdict(rule, known, 0, finish_ns - begin_ns)
            if verdict.holds:
                return verdict
        found = self._there(rule, rule.name, lanes, is_needed=True)
        own_ns = self._self_ns(rule.name, lanes) if rule.figure == "self_ns" else 0
        figures: Durations[int, float] = Durations.of(found.length_ns)
        verdict = figure_verdict(rule, figures, own_ns, finish_ns - begin_ns)
        if verdict.holds:
            return verdict
        assert rule.limit is not None
        longest = np.argsort(-found.length_ns, kind="stable")
        is_over = is_time(rule) & (found.length_ns[longest] >= rule.limit)
        worst = longest[is_over] if is_over.any() else longest[:1]
        return self._verdict(rule, verdict.measured, found, worst)

    def _self_ns(self, name: str, lanes: Int32s | None) -> int:
        from meantime.query.durations import span_statistics  # noqa: PLC0415 - only for own time

        threads = thread_quarks(self.history) if lanes is None else lanes
        start_ns, end_ns = self._range_ns if self._is_part else (None, None)
        found = span_statistics(self.history, quarks=threads, start_ns=start_ns, end_ns=end_ns)
        return int(found.self_ns[found.keys.index(name)]) if name in found.keys else 0

    def _share(self, rule: Rule) -> Verdict:
        lanes = self._lanes(rule)
        assert lanes is not None
        assert rule.limit is not None
        begin_ns, finish_ns = self._range_ns
        states = np.intersect1d(lanes, state_quarks(self.history))
        existed_ns = exact_sum(
            lifetimes(self.history, states).within(begin_ns, finish_ns).lasted_ns
        )
        existed_ns += (finish_ns - begin_ns) * (len(lanes) - len(states))

        def verdict(total_ns: int) -> Verdict:
            share = total_ns / max(1, existed_ns)
            assert rule.limit is not None
            holds = share < rule.limit if rule.is_below else share > rule.limit
            return Verdict(rule, holds, f"it is {percent(share)}")

        known = self._figures(rule.name, lanes)
        if known is not None and verdict(known.total_ns).holds:
            return verdict(known.total_ns)
        found = self._there(rule, rule.name, lanes, is_needed=False)
        of_rows = verdict(exact_sum(found.length_ns))
        if of_rows.holds:
            return of_rows
        # the lanes with most of it
        sums: dict[int, int] = {}
        for quark, length in zip(found.quark.tolist(), found.length_ns.tolist(), strict=True):
            sums[quark] = sums.get(quark, 0) + length
        most = sorted(sums, key=lambda quark: (-sums[quark], quark))[:_MOST_BREACHES]
        breaches = tuple(
            Breach(
                self.history.attributes.text(quark),
                begin_ns,
                finish_ns,
                f"{self._scope.name(quark)}: `{rule.name}` for {format_ns(sums[quark])}",
            )
            for quark in most
        )
        return replace(of_rows, breaches=breaches, more=len(sums) - len(most))

    def _at_once(self, rule: Rule) -> Verdict:
        found = self._there(rule, rule.name, self._lanes(rule), is_needed=False)
        times, ends = np.sort(found.start_ns), np.sort(found.end_ns)
        # one that ends makes room for one that begins at the same time
        ended = np.searchsorted(ends, times, side="right")
        number = np.arange(1, len(times) + 1) - ended
        most = int(number.max(initial=0))
        begins = np.flatnonzero(number > (rule.limit or 0))
        begins = begins[np.argsort(-number[begins], kind="stable")]
        order = np.argsort(found.start_ns, kind="stable") if len(begins) else begins
        breaches = []
        for at in begins[:_MOST_BREACHES].tolist():
            time_ns = int(times[at])
            # the next that begins or ends
            until_ns = min([*times[at + 1 : at + 2].tolist(), *ends[ended[at] :][:1].tolist()])
            row = int(order[at])
            quark = int(found.quark[row])
            breaches.append(
                Breach(
                    self.history.attributes.text(quark),
                    time_ns,
                    until_ns,
                    f"{int(number[at])} at once, from {self.extent.text(time_ns)}, when"
                    f" {self._scope.name(quark)} began",
                )
            )
        return Verdict(
            rule,
            not len(begins),
            f"at most {most} at once",
            tuple(breaches),
            max(0, len(begins) - _MOST_BREACHES),
        )

    def _after(self, rule: Rule) -> Verdict:
        lanes = self._lanes(rule)
        first = self._there(rule, rule.first, lanes, is_needed=False)
        found = self._there(rule, rule.name, lanes, is_needed=False)
        # rows are in order of time, so the first of each lane is the earliest
        quarks, rows = np.unique(first.quark, return_index=True)
        known = np.isin(found.quark, quarks)
        earliest = np.zeros(len(found.quark), np.int64)
        earliest[known] = first.start_ns[rows[np.searchsorted(quarks, found.quark[known])]]
        broken = np.flatnonzero(known & (found.start_ns > earliest))
        measured = f"`{rule.name}` after `{rule.first}`: {len(broken):,}"
        return self._verdict(rule, measured, found, broken, f" after `{rule.first}`")

    def _within(self, rule: Rule) -> Verdict:
        lanes = self._lanes(rule)
        first = self._there(rule, rule.first, lanes, is_needed=True)
        then = self._there(rule, rule.name, lanes, is_needed=True)
        assert rule.limit is not None
        late_ns = np.empty(len(first.quark), np.int64)
        finish_ns = self._range_ns[1]
        never = np.iinfo(np.int64).max
        groups = (
            [(slice(None), slice(None))]
            if lanes is None
            else [
                (np.flatnonzero(first.quark == quark), np.flatnonzero(then.quark == quark))
                for quark in np.unique(first.quark).tolist()
            ]
        )
        for own, others in groups:
            starts = np.sort(then.start_ns[others])
            at = np.searchsorted(starts, first.start_ns[own])
            has = at < len(starts)
            wait = np.full(len(at), never)
            wait[has] = starts[at[has]] - first.start_ns[own][has]
            late_ns[own] = wait
        # what may still come after the end of the trace is not late
        is_open = (late_ns == never) & (first.start_ns + int(rule.limit) > finish_ns)
        broken = np.flatnonzero((late_ns > rule.limit) & ~is_open)
        worst = broken[np.argsort(-late_ns[broken], kind="stable")]
        answered = late_ns[late_ns != never]
        longest = format_ns(int(answered.max())) if len(answered) else "never"
        measured = f"the longest is {longest}"
        if is_open.any():
            measured += f"; {int(is_open.sum()):,} were open when the trace ended"
        breaches = tuple(
            self._breach(
                first,
                row,
                f"no `{rule.name}` after `{rule.first}`"
                if late_ns[row] == never
                else f"`{rule.name}` {format_ns(int(late_ns[row]))} after `{rule.first}`",
            )
            for row in worst[:_MOST_BREACHES].tolist()
        )
        return Verdict(
            rule, not len(worst), measured, breaches, max(0, len(worst) - _MOST_BREACHES)
        )


def rule_lanes(history: History, rule: Rule) -> Int32s:
    """Return the lanes that a rule is about.

    An element such as `db-*` also matches the name that the trace has for a lane: threads have
    numbers in their paths.

    Raises:
        MeantimeError: If there are none.
    """
    assert rule.lanes is not None
    elements = rule.lanes.split("/")
    if all(each in {"*", "**"} or "*" not in each for each in elements):
        try:
            return choose_lanes(history, (rule.lanes,))
        except MeantimeError as error:
            raise MeantimeError(f"the rule {rule.text!r} matches nothing: {error}") from None
    found = []
    for quark in np.union1d(state_quarks(history), sampled_or_spanned(history)).tolist():
        path = history.attributes.path(quark)
        names = (path, (*path[: len(elements) - 1], history.names.get(quark, "")))
        if len(path) >= len(elements) and any(
            all(map(fnmatchcase, each, elements)) for each in names
        ):
            found.append(quark)
    if not found:
        raise MeantimeError(f"the rule {rule.text!r} matches nothing: no lane is {rule.lanes!r}")
    return np.array(found, np.int32)


def _named(column: Any, name: str) -> Any:
    """Return which rows of a column of names have one; addresses of objects do not count."""
    codes = [
        code for code, text in enumerate(column.names) if name in {text, without_addresses(text)}
    ]
    return np.isin(column.codes, codes)
