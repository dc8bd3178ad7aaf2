"""What `meantime heatmap` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from meantime.errors import UsageError
from meantime.query.offsets import Choice, Fold
from meantime.units import parse_duration, parse_instant

if TYPE_CHECKING:
    from meantime.clocks import Clock
    from meantime.query.offsets import Value

__all__ = ["Request"]

_MINUTE_NS = 60 * 10**9
_ROWS = {_MINUTE_NS: 60, 60 * _MINUTE_NS: 60, 1440 * _MINUTE_NS: 96, 10080 * _MINUTE_NS: 168}


@dataclass(frozen=True, slots=True)
class Request:
    """What of which inputs is mapped, as the command line says it."""

    inputs: tuple[str, ...]
    period_ns: int
    rows: int
    origin: str | None
    choice: Choice
    range_text: tuple[str | None, str | None]
    offsets_ns: dict[str, int]
    assume_aligned: bool
    lenient: bool
    jobs: int

    @classmethod
    def of(cls, options: dict[str, Any]) -> Request:
        """Return what the options ask for.

        Raises:
            UsageError: If they contradict each other.
        """
        period_ns = parse_duration(options["period"])
        if options["weight"] and options["value"] not in {None, "weight"}:
            raise UsageError(f"--weight and --value {options['value']} contradict each other")
        value = "weight" if options["weight"] else options["value"]
        if value in {"concurrency", "utilisation"}:
            value = "ns"
        offsets_ns = {}
        for text in options["offsets"]:
            file, _, offset = text.rpartition("=")
            if file not in options["inputs"]:
                raise UsageError(f"--offset {text!r}: write an input, = and a time")
            offsets_ns[file] = parse_duration(offset)
        rows = options["rows"]
        if rows is None:
            rows = _ROWS.get(period_ns, max(1, min(50, period_ns)))
        Fold(0, period_ns, rows)
        return cls(
            tuple(options["inputs"]),
            period_ns,
            rows,
            options["origin"],
            Choice(
                value=cast("Value | None", value),
                by=options["by"],
                event=options["event"],
                states=tuple(options["states"]),
            ),
            (options["from_"], options["to"]),
            offsets_ns,
            options["assume_aligned"],
            options["lenient"],
            options["jobs"],
        )

    def fold(self, first_ns: int, clock: Clock) -> Fold:
        """Return the cells of a map whose first time this is, or any other one of its clock.

        Raises:
            UsageError: If the origin needs to know what the clock does not say.
        """
        return Fold(self._origin_ns(first_ns, clock), self.period_ns, self.rows)

    def _origin_ns(self, first_ns: int, clock: Clock) -> int:
        match self.origin:
            case None:
                return first_ns // self.period_ns * self.period_ns
            case "first":
                return first_ns
            case "wall":
                if clock.utc_at_origin_ns is None:
                    raise UsageError("--origin wall: this trace does not say when it began")
                wall_ns = first_ns + clock.utc_at_origin_ns
                return first_ns - wall_ns % self.period_ns
            case text:
                instant = parse_instant(text)
                return instant.ns - (clock.utc_at_origin_ns or 0) * instant.absolute
