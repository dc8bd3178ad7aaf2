"""`Fleet`: the traces of many hosts, queried as one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, cast, overload

from meantime.errors import HistoryError, InputError, UsageError
from meantime.fleet.tasks import (
    Asked,
    Compared,
    Counted,
    Read,
    Shared,
    Tree,
    added_compared,
    added_counted,
    added_known,
    added_tree,
    label_of,
)
from meantime.history.grouped_shares import added_shares
from meantime.model.clocks import Clock, ClockShift
from meantime.model.extent import Extent
from meantime.model.units import duration_ns
from meantime.query import HOST_BINS
from meantime.query.aligning import Clocked, align_all
from meantime.query.aligning_histories import messages_of
from meantime.query.host_shares import common_range
from meantime.query.hosts import compare_hosts
from meantime.shards import Failure, client_of, total
from meantime.stores import store_url
from meantime.view_functions.joining import host_names, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from meantime.errors import MeantimeError
    from meantime.fleet.tasks import Grouping, Source, StatisticsGrouping
    from meantime.history.grouped_shares import GroupedShares
    from meantime.history.history import History
    from meantime.model.attributes import Pattern
    from meantime.model.units import Duration, Time
    from meantime.providers.loading import ProviderLike
    from meantime.query.aligning import Alignment
    from meantime.query.duration_sums import Keep
    from meantime.query.durations import SpanStatistics
    from meantime.query.hosts import HostComparison
    from meantime.query.stacks import CallTree
    from meantime.query.statistics import StateStatistics
    from meantime.views.heatmap.view import HeatmapView

__all__ = ["Answer", "Fleet", "Host", "HostAnomaly"]

T = TypeVar("T")
_UNMOVED = ClockShift(0)
_UNKNOWN = Clock()


class Host(NamedTuple):
    """A host that could be read.

    Attributes:
        name: Its name: that of the machine if these are known and different, or that of the file.
        source: Its history or trace.
        alignment: How its times become those of the first host.
        bounds: The range that it covers, in the times of the first host.
        parts: The same of each host in it, if it is a joined history; otherwise only of itself.
    """

    name: str
    source: Source
    alignment: Alignment
    bounds: tuple[int, int]
    parts: tuple[tuple[int, int], ...]

    def moved(self, alignment: Alignment, shift: ClockShift) -> Host:
        """Return it with another alignment, by which its times are converted so."""
        parts = tuple(shift.of_range(each) for each in self.parts)
        return Host(self.name, self.source, alignment, shift.of_range(self.bounds), parts)


class HostAnomaly(NamedTuple):
    """A host that is missing in an answer, or in doubt.

    Attributes:
        host: Its name, or its path if it could not be read.
        reason: Why.
    """

    host: str
    reason: str


class Answer(NamedTuple, Generic[T]):
    """An answer of all hosts that could give one.

    Attributes:
        result: The sum.
        anomalies: The hosts that are not in it, or in doubt, and why.
    """

    result: T
    anomalies: tuple[HostAnomaly, ...]


@dataclass(frozen=True, slots=True)
class _Survey:
    """The hosts that could be read, and what is wrong with any; the first gives the times."""

    hosts: list[Host]
    extent: Extent
    anomalies: tuple[HostAnomaly, ...]


class Fleet:
    """The traces of many hosts, of which each is asked where it is, and the answers are added up.

    There is one task for each host, and sums of 16 results at a time; maps and tables travel, never
    events. Traces are built into the cache of the machine that reads them, so what is finished
    remains if the work is interrupted. A sum is equal to what one machine would have computed, to
    the bit. A host that cannot be read is an anomaly of the answer, and the rest is whole.

    Where processes are used, the main module is imported by each: a script calls methods below
    `if __name__ == "__main__":`.

    >>> from meantime.testing import history_from_picture
    >>> fleet = Fleet([history_from_picture(f"cpu0  {line}") for line in ("aabb", "abbb")],
    ...     names=["web", "db"], assume_aligned=True)
    >>> fleet.shares(by="host").result.cell("db", 0)
    {'b': 3, 'a': 1}
    >>> fleet.statistics().result.rows[0].total_ns
    5

    Args:
        inputs: Histories, or paths of histories and traces. Histories in memory are asked in this
            process, all others in that case, too.
        client: A `distributed.Client`, or the address of a scheduler: its workers do the work, and
            read the paths. None: processes of this machine.
        names: The names of the hosts; by default those of the machines if these are known and
            different, otherwise those of the files. Equal names are numbered.
        offsets: By index of an input, a time to add to its times, regardless of its clock.
        assume_aligned: Treat unrelated clocks as synchronised. Otherwise a host whose clock cannot
            be related to that of the first one is not in answers about times.
        provider: Derives states from the events of a trace.
        lenient: Skip and count records that cannot be read.
        strict: Fail at the first host that cannot be read, or has an anomaly.
        jobs: The number of processes; by default one for each processor.
        done: Called now and then with the number of hosts that have answered, and that of all.

    Raises:
        UsageError: If there are no inputs.
    """

    def __init__(
        self,
        inputs: Iterable[Source],
        client: Any = None,
        *,
        names: Sequence[str] | None = None,
        offsets: Mapping[int, Duration] | None = None,
        assume_aligned: bool = False,
        provider: ProviderLike = None,
        lenient: bool = False,
        strict: bool = False,
        jobs: int | None = None,
        done: Callable[[int, int], None] | None = None,
    ) -> None:
        self._inputs = [store_url(each) for each in inputs]
        if not self._inputs:
            raise UsageError("a fleet needs at least one host")
        if names is not None and len(names) != len(self._inputs):
            raise UsageError(f"there are {len(self._inputs)} hosts and {len(names)} names")
        self._names, self._assume_aligned = names, assume_aligned
        self._offsets_ns = {index: duration_ns(each) for index, each in (offsets or {}).items()}
        if not self._offsets_ns.keys() <= set(range(len(self._inputs))):
            raise UsageError(f"the keys of offsets are indices: 0 to {len(self._inputs) - 1}")
        self._provider, self._lenient, self._strict = provider, lenient, strict
        is_sent = all(map(_can_be_sent, self._inputs))
        self._jobs = jobs if is_sent else 1
        self._client = client_of(client) if isinstance(client, str) else client
        if not is_sent:
            self._client = None
        self._done = done
        self._known: _Survey | None = None

    def build(self) -> Answer[list[Host]]:
        """Open all hosts, which builds the histories of traces into the cache.

        Raises:
            InputError: If no host can be read; or if one cannot, and the fleet is strict.
        """
        survey = self._survey()
        return Answer(survey.hosts, survey.anomalies)

    @property
    def extent(self) -> Extent:
        """The range of the first host that can be read, in whose times answers are."""
        return self._survey().extent

    def join(self) -> Answer[History]:
        """Return all hosts as one history, in which each has the prefix `Hosts/<name>`.

        Raises:
            InputError: If no host can be read; or if one cannot, and the fleet is strict.
        """
        survey = self._aligned() if self._assume_aligned else self._survey()
        offsets = {
            index: host.alignment.offset_ns
            for index, host in enumerate(survey.hosts)
            if host.alignment.how == "given"
            or (self._assume_aligned and not host.alignment.aligned)
        }
        names = [host.name for host in survey.hosts]
        sources = [self._asked(host.source, host.name).own_history() for host in survey.hosts]
        return Answer(join(sources, names, offsets=offsets), survey.anomalies)

    def shares(
        self,
        pattern: Pattern | None = None,
        start: Time | None = None,
        end: Time | None = None,
        bins: int = 1,
        *,
        by: Grouping = "lane",
    ) -> Answer[GroupedShares]:
        """Return how long each value lasted in each bin.

        Args:
            pattern: The attributes of each host; None for those with a state lane.
            start: Where the range begins, in the times of the first host; by default where the
                first of all hosts begins.
            end: Where it ends; by default where the last of all hosts ends.
            bins: The number of bins.
            by: Group by `lane` (`Hosts/<name>/` and the path), by `path` (those of the same path on
                all hosts together), or by `host`.

        Raises:
            InputError: If no host has an answer; or if one has none, and the fleet is strict.
            TimeRangeError: If the range is empty.
        """
        aligned = self._aligned()
        first = min(host.bounds[0] for host in aligned.hosts)
        last = max(host.bounds[1] for host in aligned.hosts)
        range_ns = _range(aligned.extent, start, end, (first, last))
        task = Shared(pattern, by, range_ns, bins)
        return self._ask(task, added_shares, aligned)

    @overload
    def statistics(
        self,
        by: Literal["state", "entity", "host"] = "state",
        start: Time | None = None,
        end: Time | None = None,
        *,
        keep: Keep = "exact",
    ) -> Answer[StateStatistics]: ...
    @overload
    def statistics(
        self,
        by: Literal["name", "category"],
        start: Time | None = None,
        end: Time | None = None,
        *,
        keep: Keep = "exact",
    ) -> Answer[SpanStatistics]: ...
    def statistics(
        self,
        by: StatisticsGrouping = "state",
        start: Time | None = None,
        end: Time | None = None,
        *,
        keep: Keep = "exact",
    ) -> Answer[StateStatistics] | Answer[SpanStatistics]:
        """Return how long states lasted, or spans if by `name` or `category`.

        Args:
            by: `state`, `entity` (those of the same name on all hosts are one), `host` (a row for
                each state of each host), or of spans `name` or `category`.
            start: Where the range begins, in the times of the first host.
            end: Where it ends.
            keep: `exact`, or `sketch`: quantiles are within 2^-8, and what travels is small.

        Raises:
            InputError: If no host has an answer; or if one has none, and the fleet is strict.
            TimeRangeError: If the range is empty.
        """
        survey, range_ns = self._part(start, end)
        found = self._ask(Counted(by, keep, range_ns), added_counted, survey)
        whole = Answer(found.result.with_quantiles(), found.anomalies)
        return cast("Answer[StateStatistics] | Answer[SpanStatistics]", whole)

    def tree(
        self, start: Time | None = None, end: Time | None = None
    ) -> Answer[tuple[CallTree, str]]:
        """Return the call tree of all hosts, and the unit of its weights.

        Raises:
            InputError: If no host has an answer; or if one has none, and the fleet is strict.
            TimeRangeError: If the range is empty.
            UsageError: If the weights of hosts have different units.
        """
        survey, range_ns = self._part(start, end)
        found = self._ask(Tree(range_ns), added_tree, survey)
        tree, units = found.result
        return Answer((tree, next(iter(units), "ns")), found.anomalies)

    def compare(
        self, start: Time | None = None, end: Time | None = None, bins: int = HOST_BINS
    ) -> Answer[HostComparison]:
        """Return which hosts are unlike the rest, in which state, and since when.

        Args:
            start: Where the range begins, in the times of the first host; by default where half of
                the hosts have begun.
            end: Where it ends; by default where half of them have ended.
            bins: The number of bins: the resolution of stretches.

        Raises:
            InputError: If no host has an answer; or if one has none, and the fleet is strict.
            TimeRangeError: If the range is empty.
            UsageError: If there are fewer than three hosts.
        """
        aligned = self._aligned()
        common = common_range([part for host in aligned.hosts for part in host.parts])
        range_ns = _range(aligned.extent, start, end, common)
        found = self._ask(Compared(range_ns, bins), added_compared, aligned)
        return Answer(compare_hosts(found.result), found.anomalies)

    def heatmap(self, **options: Any) -> Answer[HeatmapView]:
        """Return the heat map of all hosts; options are those of `meantime.heatmap`.

        Raises:
            InputError: If no host has an answer; or if one has none, and the fleet is strict.
            UsageError: If an option is wrong.
        """
        from meantime.view_functions.heatmap import heatmap  # noqa: PLC0415 - only for pictures

        failures: list[Failure] = []
        view = heatmap(
            self._inputs,
            names=self._names,
            offsets=self._offsets_ns,
            assume_aligned=self._assume_aligned,
            provider=self._provider,
            lenient=self._lenient,
            strict=self._strict,
            jobs=self._jobs or os.cpu_count() or 1,
            client=self._client,
            failed=None if self._strict else failures.append,
            done=self._done,
            **options,
        )
        return Answer(view, tuple(self._anomaly(each) for each in failures))

    def _survey(self) -> _Survey:
        """Return what is known of all hosts, once they were opened.

        Each reports what it sent and received, which checks the clocks, and relates those that are
        unrelated: their histories are not here.
        """
        if self._known is not None:
            return self._known
        asked = [
            (index, self._asked(each, label_of(each))) for index, each in enumerate(self._inputs)
        ]
        found = total(
            Read(),
            asked,
            added_known,
            client=self._client,
            jobs=self._jobs,
            done=self._progress(len(asked)),
        )
        # a range without any time has nothing to add
        empty = {each.number for each in found.value or () if each.bounds[0] >= each.bounds[1]}
        failures = [
            *found.failures,
            *(Failure(number, InputError(asked[number][1].name, "is empty")) for number in empty),
        ]
        known = [each for each in found.value or () if each.number not in empty]
        self._check(known or None, sorted(failures, key=_number), self._inputs)
        sources = [self._inputs[each.number] for each in known]
        paths = [os.fspath(each) if isinstance(each, str | os.PathLike) else "" for each in sources]
        given = self._names and [self._names[each.number] for each in known]
        names, repeated = host_names([each.clock for each in known], paths, given)
        offsets_ns = {
            index: self._offsets_ns[each.number]
            for index, each in enumerate(known)
            if each.number in self._offsets_ns
        }
        clocked = [Clocked(each.clock, each.bounds[0]) for each in known]
        messages = messages_of([each.exchanged for each in known])
        alignments = align_all(clocked, offsets_ns, messages)
        hosts = [
            Host(name, source, alignment, each.bounds, each.parts).moved(alignment, alignment.shift)
            for name, source, alignment, each in zip(names, sources, alignments, known, strict=True)
        ]
        extent = Extent(*known[0].bounds, known[0].clock)
        anomalies = [self._anomaly(each) for each in sorted(failures, key=_number)]
        anomalies += [
            HostAnomaly(name, "is numbered: another host has its name") for name in repeated
        ]
        anomalies += [
            HostAnomaly(host.name, host.alignment.note)
            for host in hosts
            if host.alignment.contradicted_ns
        ]
        self._known = _Survey(hosts, extent, tuple(anomalies))
        return self._known

    def _aligned(self) -> _Survey:
        """Return the hosts whose times are those of the first one; the others are anomalies."""
        survey = self._survey()
        hosts, anomalies = [], list(survey.anomalies)
        for host in survey.hosts:
            if host.alignment.aligned:
                hosts.append(host)
            elif self._assume_aligned:
                by_itself = host.alignment._replace(offset_ns=0)
                hosts.append(host.moved(by_itself, ClockShift(-host.alignment.offset_ns)))
            else:
                reason = "its clock cannot be related to that of the first host; give its offset"
                if self._strict:
                    raise InputError(label_of(host.source), reason)
                anomalies.append(HostAnomaly(host.name, reason))
        return _Survey(hosts, survey.extent, tuple(anomalies))

    def _part(self, start: Time | None, end: Time | None) -> tuple[_Survey, tuple[int, int] | None]:
        """Return the hosts to ask about a range; without one, alignment makes no difference."""
        if start is None and end is None:
            return self._survey(), None
        aligned = self._aligned()
        low = min(host.bounds[0] for host in aligned.hosts)
        high = max(host.bounds[1] for host in aligned.hosts)
        return aligned, _range(aligned.extent, start, end, (low, high))

    def _ask(
        self,
        task: Callable[[Asked], T],
        added: Callable[[Sequence[T]], T],
        survey: _Survey,
    ) -> Answer[T]:
        found = total(
            task,
            [
                self._asked(host.source, host.name, host.alignment.shift, survey.extent.clock)
                for host in survey.hosts
            ],
            added,
            client=self._client,
            jobs=self._jobs,
            done=self._progress(len(survey.hosts)),
        )
        self._check(found.value, found.failures, [host.source for host in survey.hosts])
        failed = [
            HostAnomaly(survey.hosts[each.number].name, _reason(each.error))
            for each in found.failures
        ]
        return Answer(cast("T", found.value), (*survey.anomalies, *failed))

    def _asked(
        self, source: Source, name: str, shift: ClockShift = _UNMOVED, clock: Clock = _UNKNOWN
    ) -> Asked:
        return Asked(source, name, shift, clock, self._provider, self._lenient, self._strict)

    def _anomaly(self, failure: Failure) -> HostAnomaly:
        number = failure.number
        name = self._names[number] if self._names else label_of(self._inputs[number])
        return HostAnomaly(name, _reason(failure.error))

    def _check(self, found: object, failures: Sequence[Failure], sources: Sequence[Source]) -> None:
        """Raise the first failure if the fleet is strict, or if no host has an answer."""
        if failures and (self._strict or found is None):
            first = failures[0]
            source = label_of(sources[first.number])
            if isinstance(first.error, InputError | UsageError):
                raise first.error
            raise InputError(source, str(first.error)) from first.error

    def _progress(self, hosts: int) -> Callable[[int], None] | None:
        done = self._done
        return None if done is None else lambda count: done(count, hosts)

    def __repr__(self) -> str:
        return f"<Fleet of {len(self._inputs):,} hosts>"


def _can_be_sent(source: Source) -> bool:
    """Return whether another process can open a source: not a history in memory."""
    if isinstance(source, str | os.PathLike):
        return True
    try:
        source.__reduce__()
    except HistoryError:
        return False
    return True


def _range(
    extent: Extent, start: Time | None, end: Time | None, default: tuple[int, int]
) -> tuple[int, int]:
    """Return a range in the times of the first host."""
    start_ns = default[0] if start is None else extent.time_ns(start)
    end_ns = default[1] if end is None else extent.time_ns(end)
    extent.check_order(start_ns, end_ns)
    return start_ns, end_ns


def _number(failure: Failure) -> int:
    return failure.number


def _reason(error: MeantimeError) -> str:
    return error.reason if isinstance(error, InputError) else str(error)
