"""The original statemap command, exactly, in plain Python: what it draws of valid input.

It is the law for what ours must draw where nothing is coalesced, and the rival where something is.
Equal times of one entity are left out: they make the original fail.

Where ours differs on purpose:

- Neighbours with the same state and tag are one rectangle.
- A map that is filtered goes on to where its open states end; the original cuts it at the last
  change of the entities shown, and so hides how an idle one ends.
- A lower map whose window ends exactly at its own time 0 is empty; the original takes an end of 0
  for none and draws beyond the map.
- Entities whose data all lie after the end of the window have a row, an empty one.
- An entity that is in one state again and again after the last datum of an input that is not in
  order of time, and is cut there by the window's end, shows that state up to the last datum only.
- What is merged, and colors that were not given, which are random in the original.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any

__all__ = ["Map", "Rectangle", "ingest", "natural_compare", "stack"]

DIGITS = "0123456789"


@dataclass
class Rectangle:
    """What the original puts into its document: `states` and `tags` hold nanoseconds."""

    start_ns: int
    duration_ns: int
    states: dict[int, int]
    tags: dict[int, int] = field(default_factory=dict)
    left: Rectangle | None = None
    right: Rectangle | None = None
    weight: int = 0

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns

    def weigh(self) -> None:
        self.weight = self.duration_ns
        for neighbour in (self.left, self.right):
            if neighbour is not None:
                self.weight += neighbour.duration_ns


@dataclass
class Entity:
    number: int
    rectangles: list[Rectangle] = field(default_factory=list)
    open_state: tuple[int, int, int | None] | None = None
    description: str | None = None


@dataclass
class Map:
    """One map: its window from the file's own start, and its entities by name.

    `until_ns` is where its data end, which is where those of maps below it do.
    """

    begin_ns: int
    end_ns: int
    until_ns: int
    entities: dict[str, Entity]
    tags: list[dict[str, Any]]

    def rows(self) -> list[str]:
        return sorted(self.entities, key=cmp_to_key(natural_compare))

    def rows_by_state(self, state: int) -> list[str]:
        def total(name: str) -> int:
            held = self.entities[name].rectangles
            return sum(rectangle.states.get(state, 0) for rectangle in held)

        return sorted(self.rows(), key=total, reverse=True)

    def joined(self, name: str) -> list[Rectangle]:
        """The rectangles of an entity with equal neighbours as one, which is what ours draws."""
        joined: list[Rectangle] = []
        for held in self.entities[name].rectangles:
            last = joined[-1] if joined else None
            if last and last.end_ns == held.start_ns and _same(last, held):
                last.duration_ns += held.duration_ns
                for times in (last.states, last.tags):
                    for key in times:
                        times[key] = last.duration_ns
            else:
                joined.append(
                    Rectangle(held.start_ns, held.duration_ns, {**held.states}, {**held.tags})
                )
        return joined


def _same(one: Rectangle, other: Rectangle) -> bool:
    return len(one.states) == 1 and (one.states.keys(), one.tags.keys()) == (
        other.states.keys(),
        other.tags.keys(),
    )


def ingest(
    payloads: list[dict[str, Any]],
    *,
    begin_ns: int = 0,
    end_ns: int = 0,
    target: int = 10**9,
    pattern: str | None = None,
    ignore_tags: bool = False,
) -> Map:
    """Read what follows the metadata; an end of 0 is none."""
    tracer = _Tracer(begin_ns, end_ns, target, pattern, ignore_tags=ignore_tags)
    for payload in payloads:
        tracer.take(payload)
    return tracer.finish()


class _Tracer:
    """What the original holds while it reads."""

    def __init__(
        self, begin_ns: int, end_ns: int, target: int, pattern: str | None, *, ignore_tags: bool
    ) -> None:
        self.begin_ns = begin_ns
        self.end_ns = end_ns
        self.target = target
        self.pattern = pattern
        self.ignore_tags = ignore_tags
        self.entities: dict[str, Entity] = {}
        self.definitions: dict[tuple[int, str], dict[str, Any]] = {}
        self.last_ns = 0
        self.waiting: list[tuple[Rectangle, Entity]] = []

    def take(self, payload: dict[str, Any]) -> None:
        if "event" in payload:
            return
        if "description" in payload:
            self.entity(payload["entity"]).description = payload["description"]
        elif "entity" in payload:
            self.take_datum(payload)
        else:
            self.definitions[payload["state"], payload["tag"]] = payload

    def entity(self, name: str) -> Entity:
        return self.entities.setdefault(name, Entity(len(self.entities)))

    def take_datum(self, datum: dict[str, Any]) -> None:
        time_ns, state = int(datum["time"]), datum["state"]
        self.last_ns = time_ns
        if self.end_ns and time_ns > self.end_ns:
            return
        if self.pattern is not None and datum["entity"] != self.pattern:
            return
        entity = self.entity(datum["entity"])
        tag = self.tag(state, datum["tag"]) if "tag" in datum else None
        if entity.open_state is not None and time_ns > self.begin_ns:
            made = self.close(entity, time_ns)
            self.wait(entity, made.left, made)
        entity.open_state = (time_ns, state, tag)
        self.trim()

    def tag(self, state: int, text: str) -> int:
        self.definitions.setdefault((state, text), {"state": state, "tag": text})
        return list(self.definitions).index((state, text))

    def close(self, entity: Entity, time_ns: int) -> Rectangle:
        assert entity.open_state is not None
        since_ns, state, tag = entity.open_state
        since_ns = max(since_ns, self.begin_ns)
        length_ns = time_ns - since_ns
        tags = {} if tag is None or self.ignore_tags else {tag: length_ns}
        made = Rectangle(since_ns, length_ns, {state: length_ns}, tags)
        if entity.rectangles:
            made.left = entity.rectangles[-1]
            made.left.right = made
        entity.rectangles.append(made)
        return made

    def wait(self, entity: Entity, *changed: Rectangle | None) -> None:
        for rectangle in changed:
            if rectangle is not None:
                self.forget(rectangle)
                rectangle.weigh()
                self.waiting.append((rectangle, entity))

    def forget(self, rectangle: Rectangle) -> None:
        self.waiting = [one for one in self.waiting if one[0] is not rectangle]

    def trim(self) -> None:
        while len(self.waiting) >= self.target:
            victim, entity = min(
                self.waiting, key=lambda one: (one[0].weight, one[0].start_ns, one[1].number)
            )
            self.forget(victim)
            left, right = victim.left, victim.right
            if left and (not right or left.duration_ns < right.duration_ns):
                left.right = right
                self.merge(victim, left, entity)
            elif right:
                right.left = left
                right.start_ns = victim.start_ns
                self.merge(victim, right, entity)

    def merge(self, victim: Rectangle, into: Rectangle, entity: Entity) -> None:
        if into.left:
            into.left.right = into
        if into.right:
            into.right.left = into
        into.duration_ns += victim.duration_ns
        for mine, gone in ((into.states, victim.states), (into.tags, victim.tags)):
            for key, length_ns in gone.items():
                mine[key] = mine.get(key, 0) + length_ns
        entity.rectangles = [one for one in entity.rectangles if one is not victim]
        self.wait(entity, into, into.left, into.right)

    def finish(self) -> Map:
        finish_ns = self.end_ns if 0 < self.end_ns < self.last_ns else self.last_ns
        latest_ns = 0
        for entity in self.entities.values():
            if entity.open_state is not None:
                latest_ns = max(latest_ns, entity.open_state[0])
                if max(entity.open_state[0], self.begin_ns) < finish_ns:
                    self.close(entity, finish_ns)
        return Map(
            self.begin_ns,
            max(self.end_ns, latest_ns),
            max(finish_ns, self.end_ns),
            self.entities,
            list(self.definitions.values()),
        )


def stack(
    files: list[tuple[int, list[dict[str, Any]]]], *, begin_ns: int = 0, end_ns: int = 0
) -> list[Map]:
    """Read several files, each a start and payloads, into maps one above the other."""
    first_start_ns, payloads = files[0]
    maps = [ingest(payloads, begin_ns=begin_ns, end_ns=end_ns)]
    for start_ns, lower in files[1:]:
        shift_ns = first_start_ns - start_ns
        until_ns = maps[0].until_ns + shift_ns
        if until_ns > 0:
            maps.append(ingest(lower, begin_ns=begin_ns + shift_ns, end_ns=until_ns))
        else:
            maps.append(Map(begin_ns + shift_ns, until_ns, until_ns, {}, []))
    return maps


def natural_compare(one: str, other: str) -> int:
    """Compare two names as the original's library does: below, at or above 0."""
    mine, its = _parts(one), _parts(other)
    for part, its_part in zip(mine, its, strict=False):
        if part[0] in DIGITS and its_part[0] in DIGITS and "0" not in (part[0], its_part[0]):
            if int(part) != int(its_part):
                return int(part) - int(its_part)
        elif part != its_part:
            return -1 if part < its_part else 1
    return len(mine) - len(its)


def _parts(name: str) -> list[str]:
    """Runs of digits, and single other characters; white space only keeps runs apart."""
    parts: list[str] = []
    for before, char in zip(" " + name, name, strict=False):
        if char in DIGITS and before in DIGITS:
            parts[-1] += char
        elif not char.isspace():
            parts.append(char)
    return parts
