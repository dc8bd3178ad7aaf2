"""The options of `meantime heatmap`, which are the keywords of `meantime.heatmap`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from meantime.errors import UsageError
from meantime.options import Range, names_option, option
from meantime.query.filtering import Filtered
from meantime.view_functions.sources import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from meantime.model.units import Duration, Time
    from meantime.query.offsets.axis import AxisKind, Spacing
    from meantime.shards import Failure
    from meantime.views.heatmap.color import Method

__all__ = ["HeatmapArguments", "Measure"]

Measure: TypeAlias = Literal[
    "count", "ns", "weight", "starts", "ends", "concurrency", "utilisation"
]


def _hues(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(hue) for hue in text.split(",") if hue)
    except ValueError:
        raise UsageError(f"invalid hues {text!r}; write degrees such as 21,203") from None


def _scale(text: str) -> str | float:
    try:
        return text if text in {"auto", "lock"} else float(text)
    except ValueError:
        return text


class HeatmapArguments(Range, Filtered, Reading):
    """What is mapped and drawn, and how the paths among the inputs are read."""

    y: AxisKind = option(
        "--y",
        default="offset",
        choices=("offset", "duration", "utilisation", "row", "weekday"),
        help="What rows are: offsets in the column, durations, shares of the column's time,"
        " entities, or days of the week.",
        more="`duration` counts states, spans or requests by how long they are, `utilisation`"
        " entities by their share of `--state` or of spans, `row` has a row for each entity, and"
        " `weekday` adds up the hours of all weeks.",
    )
    spacing: Spacing | None = option(
        "--y-scale",
        absent="log",
        choices=("log", "linear"),
        help="Rows of durations: each a tenth of a power of ten, or all of one width.",
    )
    period: Duration | None = option(
        "--period",
        metavar="TIME",
        absent="1s; 100 to 240 columns unless rows are offsets",
        help="Width of a column.",
    )
    rows: int | None = option(
        "--rows",
        metavar="N",
        parse=int,
        absent="50; 60 for a minute or hour, 96 for a day, 168 for a week",
        help="Number of rows in a column.",
        more="Of durations, how many a power of ten has, or the most that linear ones may be.",
    )
    origin: Time | None = option(
        "--origin",
        metavar="TIME",
        absent="whole periods of the trace's clock",
        help="Start of a column: a time, `first` for the first event, or `wall` for whole UTC"
        " periods.",
        more="Weeks begin on Mondays where dates are known.",
    )
    by: str | None = option(
        "--by",
        metavar="WHAT",
        help="Group by name, thread, process, cpu, event, host, state or tag:FIELD.",
        more="Of a joined history, `host` is each of its hosts; for states, `cpu` is their tag of"
        " that name. Unless given, samples and spans are grouped by name, states by state.",
    )
    highlight: str | Sequence[str] = names_option(
        "--highlight",
        help="Draw these names, comma-separated, in their own colours.",
        more=r"A comma in a name is `\,`. Not for JSON.",
    )
    isolate: str | Sequence[str] = names_option(
        "--isolate",
        help="Draw only these names.",
    )
    exclude: str | Sequence[str] = names_option(
        "--exclude",
        help="Draw everything except these names.",
    )
    decompose: bool = option(
        "--decompose",
        default=False,
        help="Draw every name in its own colour.",
        more="Not for JSON.",
    )
    idle: bool = option(
        "--idle",
        default=False,
        help="Draw samples of idle CPUs, too.",
        more="They are those of thread 0 whose innermost frame is a function in which a CPU"
        " waits, or that show no frame.",
    )
    states: str | Sequence[str] = option(
        "--state",
        default=(),
        metavar="PATTERN",
        repeated=True,
        help="Measure the states that match this pattern (* and ? are wildcards).",
        more="`perf script` text with `sched:sched_switch` and CPUs has states too: `--state"
        " running --by name` shows exactly when each thread ran. With a provider all states are"
        " measured unless states or an event are given.",
    )
    event: str | None = option(
        "--event",
        metavar="NAME",
        help="Count only samples of this event, or spans of this name.",
        more="Samples of several events are grouped by event, and grouping by anything else needs"
        " one of them.",
    )
    value: Measure | None = option(
        "--value",
        choices=get_args(Measure),
        absent="count; ns for spans, states",
        help="Value of a cell; concurrency and utilisation need .json.",
        more="`weight` is perf's sample period; the last two are ratios to the width of a cell.",
    )
    color: Method | None = option(
        "--color",
        choices=("rank", "linear"),
        absent="linear for times, else rank",
        help="Colour by rank or in proportion.",
        more="The rank is that among all cells drawn, the proportion that to the largest value."
        " If the values are times, ranks would make all busy cells alike. Not for JSON.",
    )
    palette: str = option(
        "--palette",
        default="even",
        choices=("even", "cloud-analytics", "flamescope", "flamescope-enhanced"),
        help="Colour palette.",
        more="Not for JSON.",
    )
    hues: Sequence[float] = option(
        "--hues",
        default=(),
        metavar="DEGREES",
        parse=_hues,
        write=lambda hues: ",".join(f"{hue:g}" for hue in hues),
        help="Hues of the palette cloud-analytics, comma-separated.",
    )
    scale: str | float = option(
        "--scale",
        default="auto",
        metavar="SCALE",
        parse=_scale,
        help="Value of the strongest colour: a number, `auto` for the largest drawn, `lock` for the"
        " largest of the unfiltered map.",
        more="With a number, pictures can be compared. Only for pages and pictures.",
    )
    title: str | None = option("--title", metavar="TEXT", help="Title of the picture.")
    stacks: bool = option(
        "--no-stacks",
        default=True,
        help="Leave flame graphs and tables of selected cells out of a page.",
        keyword="Read the stacks of samples and spans and the entities of states, for the flame"
        " graphs and tables of pages.",
    )
    names: Sequence[str] | None = option(help="The names of the inputs, in order.")
    offsets: Mapping[int, Duration] | None = option(
        help="By index of an input, a time to add to its times, regardless of its clock."
    )
    assume_aligned: bool = option(default=False, help="Treat unrelated clocks as synchronised.")
    zone: str | None = option(
        absent="the zone of `meantime.in_zone`, or UTC without one",
        help="Fold the local times of this time zone, by its name in the database of IANA: days"
        " have 23, 24 or 25 hours. Dates without a zone are of it, too.",
    )
    jobs: int = option(default=1, help="The number of files to read in parallel.")
    client: Any = option(
        absent="processes of this machine",
        help="A `distributed.Client`, whose workers read the files but the first.",
    )
    failed: Callable[[Failure], None] | None = option(
        absent="raise its error",
        help="Called with each file that cannot be read or mapped, which is then left out.",
    )
    done: Callable[[int, int], None] | None = option(
        help="Called now and then with the number of inputs that are mapped, and that of all."
    )
