"""What limited a trace, or one of its activities."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal, NamedTuple

from meantime.errors import MeantimeError
from meantime.history.host_parts import host_parts
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Explanation
from meantime.query.explain.roles import Roles
from meantime.query.explain.subject import Subject
from meantime.query.parts import extent_of, range_of
from meantime.query.statistics import state_quarks

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history.history import History
    from meantime.model.units import Time
    from meantime.query.ranges import Range

__all__ = ["explain", "explain_briefly"]

# More changes and spans are explained only when that is asked for: it takes seconds.
_MOST_ROWS = 2 * 10**7


class _Family(NamedTuple):
    """A kind of trace.

    Attributes:
        content: What such a trace has, so that the module of another one is not imported.
        module: The module in `families`.
        function: The function in it that explains such a trace; None for another.
        explains_one: Whether it explains one activity by its name, too.
    """

    content: Literal["states", "spans", "samples"]
    module: str
    function: str
    explains_one: bool = False


# The first that answers.
_FAMILIES = (
    _Family("states", "recordings", "explain_recording"),
    _Family("spans", "gpu", "explain_gpus"),
    _Family("spans", "services", "explain_services", explains_one=True),
    _Family("spans", "builds", "explain_compiler"),
    _Family("spans", "builds", "explain_bazel"),
    _Family("spans", "builds", "explain_ninja"),
    _Family("spans", "tests", "explain_tests"),
    _Family("spans", "tests", "explain_jobs"),
    _Family("spans", "task_graphs", "explain_task_graph"),
    _Family("states", "go", "explain_go"),
    _Family("spans", "jvm", "explain_jvm"),
    _Family("spans", "page", "explain_page"),
    _Family("spans", "system_calls", "explain_system_calls"),
    _Family("states", "states", "explain_states", explains_one=True),
    _Family("samples", "profiles", "explain_samples"),
    _Family("spans", "profiles", "explain_spans"),
)


def explain(
    history: History,
    activity: str | None = None,
    *,
    start: Time | None = None,
    end: Time | None = None,
    roles: Roles | None = None,
    progress: Callable[[float], None] | None = None,
) -> Explanation:
    """Return where the time of a trace, or of one activity, went, and what limited it.

    >>> from meantime import HistoryBuilder
    >>> builder = HistoryBuilder()
    >>> first, second = builder.quark("first"), builder.quark("second")
    >>> for time_ns, quark, state in [
    ...     (0, first, "running"), (0, second, "runnable"),
    ...     (60, first, "runnable"), (60, second, "running"),
    ... ]:
    ...     builder.modify(time_ns, quark, state)
    >>> found = explain(builder.close(100))
    >>> found.sentences[0]
    'At least 1 CPU was busy all 100 ns, most with first (60 %) and second (40 %): on average 1 of 2
    entities was ready and waited, one of them for 60 ns.'
    >>> [(row.kind.text, row.label, row.total_ns) for row in found.budget.rows]
    [('work', 'running', 100), ('ready', 'CPU', 100)]

    Args:
        history: The history. One that is still growing is explained as it is now.
        activity: The name of an activity: a thread, a request, a step. By default all of the trace.
        start: Where the range begins, in nanoseconds or as text; by default all of it.
        end: Where it ends.
        roles: What states mean; by default what their names say.
        progress: Called now and then with the share that is done; what it raises ends the search.

    Raises:
        MeantimeError: If an activity is named that is not there, or that has no path.
        TimeRangeError: If the range is empty.
        UsageError: If a text is not a time.
    """
    history = history.snapshot()
    range_ns = range_of(history, start, end)
    if extent_of(history).misses(*range_ns):
        return _unexplained(range_ns)
    subject = Subject(history, range_ns, roles or Roles({}), activity, progress)
    if host_parts(history):
        from meantime.query.explain.families.hosts import explain_hosts  # noqa: PLC0415 - few traces are joined

        if (found := explain_hosts(subject, _explain_one)) is not None:
            return found
    return _explain_one(subject)


def explain_briefly(
    history: History, range_ns: Range, progress: Callable[[float], None] | None = None
) -> Explanation | None:
    """Return what limited a range, as `explain` does, beside what else is shown of it.

    None if nothing in it has a duration, or if it would take long.
    """
    if range_ns[0] >= range_ns[1] or extent_of(history).misses(*range_ns):
        return None
    states = history.snapshot().without_derived()
    changes = states.estimate_count(state_quarks(states), *range_ns)
    if changes + len(history.spans()) > _MOST_ROWS:
        return None
    try:
        found = explain(history, start=range_ns[0], end=range_ns[1], progress=progress)
    except MeantimeError:
        return None
    return found if found.budget.rows or found.measures else None


def _explain_one(subject: Subject) -> Explanation:
    history = subject.history
    lasts = subject.range_ns[0] < subject.range_ns[1]
    contents = {
        "states": lasts and bool(subject.kinds),
        "spans": lasts and len(history.spans()) > 0,
        "samples": lasts and len(history.samples()) > 0,
    }
    for content, name, function, explains_one in _FAMILIES:
        if contents[content] and (subject.activity is None or explains_one):
            module = import_module(f"meantime.query.explain.families.{name}")
            found: Explanation | None = getattr(module, function)(subject)
            # what says nothing of how time was used leaves it to others
            if found is not None and (found.budget.rows or found.measures):
                return found
    if subject.activity is not None:
        raise MeantimeError(
            f"{subject.activity!r} cannot be explained by itself: this trace has no states of"
            " threads and no requests; leave it out, or choose a range with --from and --to"
        )
    return _unexplained(subject.range_ns)


def _unexplained(range_ns: Range) -> Explanation:
    """Return the explanation of a range in which nothing has a duration."""
    return Explanation(
        "events",
        "activity",
        0,
        range_ns,
        (),
        Budget.of_rows([]),
        missing=("how long anything took: nothing in this range has a duration.",),
    )
