"""The statemap format, defined slowly in plain Python; the reader must agree on any bytes."""

from __future__ import annotations

import codecs
import io
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from meantime.errors import InputError
from meantime.model.trace import Points, StateChanges
from meantime.readers import statemap
from meantime.readers.contract import ReadOptions
from meantime.readers.decompress import compression_of
from meantime.readers.source import Source
from meantime.readers.statemap import reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_NS = 2**63 - 2
DEPTH = 128


class CutError(Exception):
    """The text ends inside a value."""


class BadError(Exception):
    """A payload cannot be; the argument is the sort of reason."""


# What JSON is


FULL_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
PART_OF_NUMBER = re.compile(
    r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*|(?:\.[0-9]+)?(?:[eE][+-]?[0-9]*)?)?)?\Z"
)
ESCAPE = re.compile(r"\\(?:[\"\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|"
                    r"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})")  # fmt: skip
PART_OF_ESCAPE = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?"
    r")?)?)?)?)?\Z"
)


def string_end(text: str, at: int) -> int:
    """Where a string ends whose quote is at `at`; bytes that are not UTF-8 are lone surrogates."""
    at += 1
    while at < len(text):
        char = text[at]
        if char == '"':
            return at + 1
        if char == "\\":
            if match := ESCAPE.match(text, at):
                at = match.end()
                continue
            raise CutError if PART_OF_ESCAPE.match(text, at) else BadError("json")
        if char < " ":
            raise BadError("json")
        if "\ud800" <= char <= "\udfff":
            rest = text[at:].encode(errors="surrogateescape")
            try:
                codecs.getincrementaldecoder("utf-8")().decode(rest)
            except UnicodeDecodeError:
                raise BadError("json") from None
            raise CutError
        at += 1
    raise CutError


def skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    if at == len(text):
        raise CutError
    return at


def value_end(text: str, at: int, depth: int = 0) -> int:
    """Where the value ends that begins at `at`, inside `depth` others."""
    if text[at] == '"':
        return string_end(text, at)
    if text[at] in "{[":
        return container_end(text, at, depth)
    for word in ("true", "false", "null"):
        if text.startswith(word, at):
            return at + len(word)
        if word.startswith(text[at:]):
            raise CutError
    if PART_OF_NUMBER.match(text, at):
        raise CutError
    match = FULL_NUMBER.match(text, at)
    if not match or text[match.end()] in "0123456789" or math.isinf(float(match[0])):
        raise BadError("json")
    return match.end()


def container_end(text: str, at: int, depth: int) -> int:
    if depth == DEPTH:
        raise BadError("json")
    is_object = text[at] == "{"
    at = skip(text, at + 1)
    if text[at] == "]}"[is_object]:
        return at + 1
    while True:
        if is_object:
            at = skip(text, string_end(text, expect('"', text, at)))
            at = skip(text, expect(":", text, at) + 1)
        at = skip(text, value_end(text, at, depth + 1))
        if text[at] == "]}"[is_object]:
            return at + 1
        at = skip(text, expect(",", text, at) + 1)


def expect(char: str, text: str, at: int) -> int:
    if text[at] != char:
        raise BadError("json")
    return at


class Pairs(list[tuple[str, Any]]):
    pass


def flat(value: Any) -> Any:
    if isinstance(value, Pairs):
        return {key: flat(inner) for key, inner in value}
    return [flat(inner) for inner in value] if isinstance(value, list) else value


# What a payload is


def is_unsigned(value: Any, bits: int) -> bool:
    return type(value) is int and 0 <= value < 2**bits


def time_of(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"\+?[0-9]+", value):
        value = int(value)
    return value if is_unsigned(value, 64) else None


def as_object(array: list[Any]) -> Pairs:
    """The object that an array stands for: a description, an event or a datum."""
    keys: tuple[str, ...] = ()
    if len(array) == 2:
        keys = "entity", "description"
    elif len(array) == 4 and isinstance(array[2], str):
        keys = "time", "entity", "event", "target"
    elif len(array) == 4:
        keys = "time", "entity", "state", "tag"
    return Pairs(zip(keys, array, strict=False))


def is_datum(fields: dict[str, Any]) -> bool:
    value = fields.get("value")
    return (
        time_of(fields["time"]) is not None
        and isinstance(fields["entity"], str)
        and (isinstance(fields["state"], str) or is_unsigned(fields["state"], 32))
        and isinstance(fields.get("tag"), str | None)
        and (value is None or type(value) in (int, float))
    )


def is_description(fields: dict[str, Any]) -> bool:
    return isinstance(fields["entity"], str) and isinstance(fields["description"], str)


def is_event(fields: dict[str, Any]) -> bool:
    return (
        (isinstance(fields["time"], str) or time_of(fields["time"]) is not None)
        and isinstance(fields["entity"], str)
        and isinstance(fields["event"], str)
        and isinstance(fields.get("target"), str | None)
    )


SHAPES = {
    "datum": ({"time", "entity", "state"}, {"tag", "value"}, is_datum),
    "description": ({"entity", "description"}, set[str](), is_description),
    "event": ({"time", "entity", "event"}, {"target"}, is_event),
}


def classify(record: Any) -> tuple[str, Any]:
    """What sort of payload a JSON value is, and its fields."""
    record = record if isinstance(record, Pairs) else as_object(record)
    fields = dict(record)
    counts = Counter(key for key, _ in record)
    for sort, (required, optional, fits) in SHAPES.items():
        known = required <= counts.keys() <= required | optional
        if known and len(record) == len(fields) and fits(fields):
            return sort, fields
    once = counts["state"] == counts["tag"] == 1
    if once and is_unsigned(fields["state"], 32) and isinstance(fields["tag"], str):
        return "definition", flat(record)
    if counts.keys() & {"start", "title", "host", "entityKind", "states"}:
        return "metadata", record
    return "bad", None


def take_metadata(metadata: dict[str, Any], record: Pairs) -> dict[str, Any]:
    """The metadata so far with what one payload adds."""
    for key, value in record:
        good = key not in metadata
        match key:
            case "start":
                good &= (
                    type(value) is list
                    and len(value) == 2
                    and all(is_unsigned(part, 64) for part in value)
                )
            case "title":
                good &= isinstance(value, str)
            case "host" | "entityKind":
                good &= value is None or isinstance(value, str)
            case "states":
                good &= isinstance(value, Pairs) and are_states(value)
                value = flat(value)  # noqa: PLW2901 - what is kept of it
            case _:
                good = False
        if not good:
            raise BadError("metadata")
        metadata = {**metadata, key: value}
    return metadata


def are_states(value: Pairs) -> bool:
    for _, said in value:
        keys = sorted(key for key, _ in said) if isinstance(said, Pairs) else []
        if keys not in (["value"], ["color", "value"]):
            return False
        if not is_unsigned(dict(said)["value"], 64):
            return False
        if not isinstance(dict(said).get("color"), str | None):
            return False
    values = sorted(said["value"] for said in flat(value).values())
    return bool(values) and values == list(range(len(values)))


# What a file tells


@dataclass
class Outcome:
    """All that a trace holds, with names instead of codes."""

    changes: list[tuple[Any, ...]] = field(default_factory=list)
    points: list[tuple[Any, ...]] = field(default_factory=list)
    entities: list[str] = field(default_factory=list)
    tags: list[dict[str, Any]] = field(default_factory=list)
    descriptions: dict[str, str] = field(default_factory=dict)
    anomalies: dict[str, int] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)
    last_ns: int | None = None
    records: int = 0
    refused: tuple[int | None, str] | None = None


def payloads(text: str, outcome: Counter[str]) -> Iterator[tuple[int, Any]]:
    """The values in a text with where they begin; a `BadError` instead of broken JSON."""
    at = 1 if text.startswith("\ufeff") else 0
    while True:
        try:
            at = skip(text, at)
        except CutError:
            return
        try:
            end = value_end(text, expect("[" if text[at] == "[" else "{", text, at))
            yield at, json.loads(text[at:end], object_pairs_hook=Pairs)
            at = end
        except CutError:
            outcome["truncated"] += 1
            return
        except BadError as error:
            yield at, error
            inside = r"\n[ \t\r]*\{|[}\]][ \t\r\n]*[{\[]"
            pattern = re.compile(inside if text[at] in "{[" else r"[{\[]")
            match = pattern.search(text, at + 1)
            begin, at = at, match.end() - 1 if match else len(text)
            outcome["skipped_bytes"] += len(text[begin:at].encode(errors="surrogateescape"))


class Definition:
    """Reads one payload after another, keeping everything in dictionaries."""

    def __init__(
        self, text: str, *, lenient: bool, until_ns: int, keep: Callable[[str], bool]
    ) -> None:
        self.text, self.lenient, self.until_ns, self.keep = text, lenient, until_ns, keep
        self.outcome = Outcome()
        self.anomalies: Counter[str] = Counter()
        self.metadata: dict[str, Any] = {}
        self.prior: dict[str, int] = {}
        self.tag_ids: dict[tuple[int, str], int] = {}

    def read(self) -> Outcome:
        """Read twice, as states may be used before they are defined."""
        states = self._find_states()
        if self.outcome.refused is None:
            self._run(states)
        if self.outcome.refused is None and not {"states", "start"} <= self.metadata.keys():
            self.outcome.refused = None, "missing"
        is_nothing_left = self.anomalies["bad_record"] and not self.outcome.records
        if self.outcome.refused is None and is_nothing_left:
            self.outcome.refused = None, "nothing left"
        if self.anomalies["sorted_record"]:
            self.outcome.changes.sort(key=lambda change: change[0])
        if self.outcome.last_ns is not None:
            late = [point for point in self.outcome.points if point[0] >= self.outcome.last_ns]
            self.anomalies["event_after_end"] += len(late)
            beyond = [time_ns for time_ns in self.prior.values() if time_ns > self.outcome.last_ns]
            self.anomalies["state_after_end"] += len(beyond)
        self.outcome.anomalies = dict(self.anomalies)
        return self.outcome

    def _find_states(self) -> dict[str, int] | None:
        ahead = Definition(self.text, lenient=self.lenient, until_ns=self.until_ns, keep=self.keep)
        ahead._run(None)
        if "states" not in ahead.metadata:
            self.outcome.refused = ahead.outcome.refused or (None, "missing")
            return None
        states = ahead.metadata["states"]
        self.outcome.states = sorted(states, key=lambda name: int(states[name]["value"]))
        return {name: said["value"] for name, said in states.items()}

    def _run(self, states: dict[str, int] | None) -> None:
        for at, record in payloads(self.text, self.anomalies):
            try:
                if isinstance(record, BadError):
                    raise record
                self._take(record, states)
            except BadError as error:
                if not self.lenient:
                    self.outcome.refused = 1 + self.text.count("\n", 0, at), error.args[0]
                    return
                self.anomalies["bad_record"] += 1
            if states is None and "states" in self.metadata:
                return

    def _take(self, record: Any, states: dict[str, int] | None) -> None:
        sort, fields = classify(record)
        match sort:
            case "datum":
                self._take_datum(fields, states)
            case "event":
                self._take_event(fields)
            case "description":
                if self._has(fields["entity"]):
                    self.outcome.descriptions[fields["entity"]] = fields["description"]
            case "definition":
                self.outcome.tags[self._tag(fields["state"], fields["tag"])] = fields
                if {"time", "entity"} <= fields.keys():
                    self.anomalies["definition_with_time"] += 1
            case "metadata":
                if self.lenient:
                    record = self._understood(record)
                self.metadata = take_metadata(self.metadata, record)
                return
            case _:
                raise BadError("record")
        self.outcome.records += 1

    def _understood(self, record: Pairs) -> Pairs:
        """What of metadata lenient reading takes, colors as they are read."""
        kept = Pairs()
        for key, value in record:
            known = key in {"start", "title", "host", "entityKind", "states"}
            if not known or (key == "title" and value is None):
                self.anomalies["ignored_metadata"] += 1
                continue
            if key == "states" and isinstance(value, Pairs):
                value = Pairs((name, self._state(said)) for name, said in value)  # noqa: PLW2901
            kept.append((key, value))
        return kept

    def _state(self, said: Any) -> Any:
        kept = Pairs()
        for key, value in said if isinstance(said, Pairs) else ():
            color = value.lower() if isinstance(value, str) else ""
            if re.fullmatch("#[0-9a-f]{3}", color):
                color = "#" + "".join(2 * digit for digit in color[1:])
            good = re.fullmatch("#[0-9a-f]{6}", color) or color.isalpha()
            if key == "value" or (key == "color" and good):
                kept.append((key, value if key == "value" else color))
            else:
                self.anomalies["ignored_metadata"] += 1
        return kept if isinstance(said, Pairs) else said

    def _take_datum(self, datum: dict[str, Any], states: dict[str, int] | None) -> None:
        time, entity, state = time_of(datum["time"]), datum["entity"], datum["state"]
        assert time is not None
        if time > MAX_NS:
            raise BadError("time")
        if time > self.until_ns or not self.keep(entity):
            self.outcome.last_ns = time
            return
        if states is not None:
            state = states.get(state, -1) if isinstance(state, str) else state
            if not 0 <= state < len(states):
                raise BadError("state")
        is_late = time < self.prior.get(entity, 0)
        self.anomalies["sorted_record"] += is_late
        self._has(entity)
        if not is_late:
            self.prior[entity] = self.outcome.last_ns = time
        tag = datum.get("tag")
        if states is not None:
            if tag is not None:
                self._tag(state, tag)
            value = datum.get("value")
            self.outcome.changes.append(
                (time, entity, state, tag, None if value is None else float(value))
            )

    def _take_event(self, said: dict[str, Any]) -> None:
        time = time_of(said["time"])
        if time is None or time > MAX_NS:
            self.anomalies["event_without_time"] += 1
        elif time <= self.until_ns and self._has(said["entity"]):
            target = said.get("target")
            self.outcome.points.append(
                (
                    time,
                    said["entity"],
                    said["event"],
                    target if target is not None and self._has(target) else None,
                )
            )

    def _has(self, entity: str) -> bool:
        if not self.keep(entity):
            return False
        if entity not in self.outcome.entities:
            self.outcome.entities.append(entity)
        return True

    def _tag(self, state: int, tag: str) -> int:
        if (state, tag) not in self.tag_ids:
            self.tag_ids[state, tag] = len(self.tag_ids)
            self.outcome.tags.append({"state": state, "tag": tag})
        return self.tag_ids[state, tag]


REASONS = {
    "json": "illegal datum: invalid JSON: ",
    "state": 'illegal datum: "state" is .*, but this trace defines ',
    "time": 'illegal datum: "time" is .*, which exceeds the largest possible time',
    "record": "illegal datum: ",
    "missing": "missing metadata payload",
    "nothing left": "all of its records were skipped; the first is line ",
    "metadata": "",
}


def reason_of(error: InputError) -> str:
    return next(sort for sort, text in REASONS.items() if re.match(text, error.reason))


def told_by_reader(data: bytes, **options: Any) -> Outcome:
    trace = statemap.read(
        Source("x", io.BytesIO(data), stored_bytes=len(data)),
        ReadOptions(**options),
    )
    outcome = Outcome()
    try:
        batches = list(trace.batches)
    except InputError as error:
        outcome.refused = error.line, reason_of(error)
        return outcome

    def path(code: int) -> str | None:
        return trace.paths[code][0] if code >= 0 else None

    for batch in batches:
        if isinstance(batch, StateChanges):
            values = batch.magnitude
            for i in range(len(batch.time_ns)):
                tag = trace.tags[batch.tag[i]]["tag"] if batch.tag[i] >= 0 else None
                value = None if values is None or np.isnan(values[i]) else float(values[i])
                outcome.changes.append(
                    (int(batch.time_ns[i]), path(batch.entity[i]), int(batch.state[i]), tag, value)
                )
        elif isinstance(batch, Points):
            outcome.points += [
                (int(time), path(entity), trace.values[name], path(target))
                for time, entity, name, target in zip(
                    batch.time_ns, batch.entity, batch.name, batch.target, strict=True
                )
            ]
    outcome.entities = [path[0] for path in trace.paths]
    outcome.tags = trace.tags
    outcome.descriptions = {trace.paths[code][0]: text for code, text in trace.descriptions.items()}
    outcome.anomalies = {name: trace.anomalies[name] for name in trace.anomalies}
    outcome.states = [state.name for state in trace.lanes[0].states]
    outcome.last_ns = trace.bounds[1] if trace.bounds else None
    outcome.records = trace.records
    return outcome


def settled(changes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The changes without the values that a later one of the same time replaces."""
    last = {}
    for at, (time, entity, _, _, value) in enumerate(changes):
        if value is not None:
            last[time, entity] = at
    return [
        (time, entity, state, tag, value if last.get((time, entity)) == at else None)
        for at, (time, entity, state, tag, value) in enumerate(changes)
    ]


def check(
    data: bytes,
    *,
    block_bytes: int = 1 << 20,
    rows: int = 1 << 10,
    **options: Any,
) -> Outcome:
    """Read with the reader and by definition; both must tell the same."""
    text = data.decode(errors="surrogateescape")
    keep = options.get("keep") or (lambda _: True)
    until_ns = options.get("until_ns")
    expected = Definition(
        text,
        lenient=options.get("lenient", False),
        until_ns=MAX_NS if until_ns is None else until_ns,
        keep=keep,
    ).read()
    expected.anomalies = {name: n for name, n in expected.anomalies.items() if n}

    with (
        mock.patch.object(reader, "BLOCK_BYTES", block_bytes),
        mock.patch.object(reader, "BATCH_ROWS", rows),
    ):
        outcome = told_by_reader(data, **options)

    if expected.refused:
        assert outcome.refused == expected.refused
    else:
        outcome.changes, expected.changes = settled(outcome.changes), settled(expected.changes)
        assert outcome == expected
    return outcome


# Files to try it with


NAMES = [
    "",
    "a",
    "ab",
    "thread-1001",
    "x" * 8,
    "x" * 16,
    "x" * 17,
    "y" * 40,
    'é"\\\n',
    "\U0001f600",
]
METADATA = '{"start": [3, 7], "states": {"off": {"value": 0}, "on": {"value": 1}}}'


def escaped(draw: st.DrawFn, text: str) -> str:
    """The text as a JSON string, at times with escapes that it does not need."""
    written = json.dumps(text, ensure_ascii=draw(st.booleans()))
    if text and draw(st.integers(0, 9)) == 0:
        first = json.dumps(text[0])[1:-1]
        if len(first) == 1:
            written = written.replace(first, f"\\u{ord(first):04X}", 1)
    return written


@st.composite
def payload_formats(draw: st.DrawFn) -> Callable[[int], str]:
    """A way to print one sort of payload, as a tracer has one: keys in an order, with blanks."""
    keys = draw(
        st.sampled_from(
            [
                ["time", "entity", "state"],
                ["time", "entity", "state", "tag"],
                ["entity", "state", "time", "value"],
                ["time", "entity", "event", "target"],
                ["entity", "description"],
                ["state", "tag", "more"],
                ["time", "entity", "state", "stray"],
            ]
        )
    )
    keys = draw(st.permutations(keys))
    blank = draw(st.sampled_from(["", " ", "\n\t", " " * 40]))
    end = draw(st.sampled_from(["\n", "", "\r\n\n", " "]))
    numbered = draw(st.booleans())
    named = draw(st.integers(0, 3)) == 0

    def write(time: int) -> str:
        parts = []
        for key in keys:
            match key:
                case "time":
                    value = str(time) if numbered else f'"{time}"'
                case "state":
                    state = draw(st.integers(0, 1))
                    value = f'"{("off", "on")[state]}"' if named else str(state)
                case "value":
                    value = draw(st.sampled_from(["1", "-2.5", "1e300", "0.1", "null", "3e-320"]))
                case "target" | "tag" if draw(st.integers(0, 4)) == 0 and "more" not in keys:
                    value = "null"
                case "more":
                    value = draw(st.sampled_from(["1", "[1, {}]", '{"x": [null, true]}', '""']))
                case _:
                    value = escaped(draw, draw(st.sampled_from(NAMES)))
            parts.append(f'"{key}":{blank}{value}')
        return "{" + blank + f",{blank}".join(parts) + blank + "}" + end

    return write


SPOILED = [
    '{"time": "0", "entity": "a", "state": 0}',
    '{"time": "9", "entity": "a", "state": 2}',
    '{"time": "9", "entity": "a", "state": "x"}',
    '{"time": "9223372036854775808", "entity": "a", "state": 0}',
    '{"time": "99999999999999999999", "entity": "a", "state": 0}',
    '{"time": "+09", "entity": "zz", "state": 0}',
    '{"time": "9", "time": "9", "entity": "a", "state": 0}',
    '{"time": "9", "entity": "a", "state": 0, "tag": "t", "pid": 1}',
    '{"time": "9", "entity": "a", "state": 00}',
    '{"time": 09, "entity": "a", "state": 0}',
    '{"time": "soon", "entity": "a", "event": "e"}',
    '["9", "zz", 0, null]',
    '["9", "zz", "event", "a"]',
    '["zz", "text"]',
    "[]",
    "{}",
    "{",
    "7",
    '{"host": "h"}',
    '{"title": "t", "entityKind": null}',
    '{"title": 7}',
    '{"entity": "a\x00"}',
    '{"state": 1, "tag": "t", "x": 1e999}',
    '{"state": 1, "tag": "t", "x": "\\ud800"}',
    "\ufeff",
    "x\n",
]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file of mostly good payloads in few formats, with the metadata somewhere."""
    formats = draw(st.lists(payload_formats(), min_size=1, max_size=3))
    time = 0
    parts = []
    for _ in range(draw(st.integers(0, 30))):
        time += draw(st.sampled_from([0, 1, 1, 7, 1000, 10**9, 10**17]))
        parts.append(draw(st.sampled_from(formats))(time))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        place = draw(st.integers(0, len(parts)))
        parts.insert(place, draw(st.sampled_from(SPOILED)) + draw(st.sampled_from(["", "\n"])))
    late = draw(st.integers(0, 5)) == 0
    parts.insert(draw(st.integers(0, len(parts))) if late else 0, METADATA + "\n")
    data = "".join(parts).encode()
    if draw(st.integers(0, 5)) == 0:
        data = data[: draw(st.integers(0, len(data)))]
    return data


options = st.fixed_dictionaries(
    {},
    optional={
        "lenient": st.booleans(),
        "until_ns": st.sampled_from([-1, 0, 5, 1000, 10**10, MAX_NS]),
        "keep": st.sampled_from([lambda name: len(name) < 9, lambda name: "a" in name]),
        "block_bytes": st.sampled_from([4, 64, 200, 1000]),
        "rows": st.integers(1, 9),
    },
)


@settings(max_examples=150, deadline=None)
@given(files(), options)
def test_the_reader_agrees_with_the_definition(data: bytes, how: dict[str, Any]) -> None:
    outcome = check(data, **how)

    event(outcome.refused[1] if outcome.refused else "read")


TELLING_BYTES = b'{}[]",:\\ \n0123456789.eE+-tfn\x00\x1f\x7f\x80\xc0\xe2\xed\xf4\xff'


def is_not_compressed(data: bytes) -> bool:
    return compression_of(data) is None


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A file with a few bytes changed, taken out or put in, or parts of it swapped."""
    data = bytearray(draw(files()))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 3)))
        data[at:end] = draw(
            st.one_of(
                st.sampled_from(TELLING_BYTES).map(lambda byte: bytes([byte])),
                st.binary(max_size=3),
                st.sampled_from([b"\\ud83d", b"\\u0061", b"true", b"1e400", b'"a"', b"\n{"]),
            )
        )  # fmt: skip
    return bytes(data)


@settings(max_examples=200, deadline=None)
@given(mutated().filter(is_not_compressed), options)
def test_the_reader_agrees_on_files_with_a_few_bytes_changed(
    data: bytes, how: dict[str, Any]
) -> None:
    outcome = check(data, **how)

    event(outcome.refused[1] if outcome.refused else "read")


rubbish = st.builds(
    lambda parts, tail: "".join(parts).encode() + tail,
    st.lists(st.sampled_from([*SPOILED, METADATA, "\n", " ", '"', "[", "}", ",", "[" * 127])),
    st.binary(max_size=20),
)


@settings(max_examples=100, deadline=None)
@given(rubbish.filter(is_not_compressed), options)
@example(b'{"state": 0, "tag": "", "x": ' + b"[" * 127 + b"1]", {})
def test_the_reader_agrees_on_rubbish(data: bytes, how: dict[str, Any]) -> None:
    check(data, **how)


SAMPLE = (
    METADATA
    + '\n{"time": "5", "entity": "a\\u00e9\u00e9", "state": 1, "tag": "\\ud83d\\ude00\U0001f600"}\n'
    + '{"time": 6, "entity": "b", "state": "on", "value": -1.5e+3}\n'
    + '{"state": 1, "tag": "x", "deep": [true, false, null, {"a": 0}]}\n'
    + '{"time": "7", "entity": "b", "event": "e", "target": null}["8","b",1,null]\n'
    + '{"entity": "c", "description": "d"}\n'
).encode()


def test_the_reader_agrees_on_a_file_cut_at_every_byte() -> None:
    for end in range(len(SAMPLE) + 1):
        outcome = check(SAMPLE[:end], block_bytes=[4, 100][end % 2])

        if end >= len(METADATA):
            assert outcome.refused is None


def test_the_reader_agrees_when_any_byte_is_another() -> None:
    for at in range(len(SAMPLE)):
        for byte in b'"\\{ 0\xff\n':
            check(SAMPLE[:at] + bytes([byte]) + SAMPLE[at + 1 :], lenient=at % 2 == 0)


# Lines that are alike, of which the scanner expects that the next one is written like the last

TWELVE_STATES = json.dumps(
    {"start": [3, 7], "states": {f"s{value}": {"value": value} for value in range(12)}}
)
LIKE_LINES = [
    '{"time": "TIME", "entity": "NAME", "state": STATE }\n',
    '{"time": "TIME", "entity": "NAME", "state": STATE}',
    '{"time": "TIME", "entity": "NAME", "state": STATE, "tag": null}\r\n',
    '{"time": "TIME", "entity": "NAME", "state": STATE, "tag": "NAME"}\n',
    '{"time": "TIME", "tag": null, "entity": "NAME", "state": STATE }\n',
    '{"time": "TIME", "tag": null, "entity": "NAME", "state": STATE, "tag": null}\r\n',
    '{"time": TIME, "entity": "NAME", "state": STATE }\n',
    '{"time": TIME, "entity": "NAME", "state": STATE, "value": 3}\n',
    '{"time": "0TIME", "entity": "NAME", "state": STATE }\n',
    '{"time": "TIME", "entity": "NAME", "event": "NAME"}\n',
    '{"time": "TIME", "entity": "NAME", "state": "sSTATE"}\n',
    '{"time":"TIME","stray":0,"entity":"NAME","state":STATE}\n',
    '{"time": "TIME"' + " " * 30 + ', "entity": "NAME", "state": STATE }\n',
]


def line_like(pattern: str, time: int, name: str, state: int) -> str:
    written = json.dumps(name)[1:-1]
    return pattern.replace("TIME", str(time)).replace("NAME", written).replace("STATE", str(state))


@st.composite
def files_of_like_lines(draw: st.DrawFn) -> bytes:
    """A file of lines in a few formats that begin or end alike, maybe with a byte changed."""
    patterns = draw(st.lists(st.sampled_from(LIKE_LINES), min_size=1, max_size=3))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
    time = draw(st.sampled_from([0, 10**7, 10**8 - 3, 10**9, 10**11 - 2, 10**16 - 3, 2**63 - 30]))
    lines = []
    for _ in range(draw(st.integers(1, 30))):
        time += draw(st.sampled_from([0, 1, 3, 999, 10**8]))
        state = draw(st.integers(0, 12 if draw(st.integers(0, 20)) == 0 else 11))
        lines.append(
            line_like(draw(st.sampled_from(patterns)), time, draw(st.sampled_from(names)), state)
        )
    data = bytearray("".join(lines).encode())
    if draw(st.booleans()):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.sampled_from(TELLING_BYTES))
    return TWELVE_STATES.encode() + b"\n" + data + b" " * draw(st.sampled_from([0, 300]))


@settings(max_examples=300, deadline=None)
@given(files_of_like_lines(), options)
def test_the_reader_agrees_on_lines_that_are_alike(data: bytes, how: dict[str, Any]) -> None:
    outcome = check(data, **how)

    event(outcome.refused[1] if outcome.refused else "read")


def test_a_line_may_end_like_the_last_one_only_if_it_begins_like_it() -> None:
    late_tag, early_tag, two_tags = LIKE_LINES[2], LIKE_LINES[4], LIKE_LINES[5]
    sequence = [(late_tag, 3), (late_tag, 3), (early_tag, 3), (late_tag, 3), (early_tag, 11)]
    lines = [
        line_like(pattern, 10**10 + n, "a", state)
        for n, (pattern, state) in enumerate([*sequence, (early_tag, 11), (two_tags, 3)])
    ]

    outcome = check(f"{TWELVE_STATES}\n{''.join(lines)}".encode() + b" " * 300)

    assert outcome.refused == (8, "record")


def test_the_reader_agrees_when_any_byte_differs_from_the_line_before() -> None:
    lines = [line_like(LIKE_LINES[0], 10**10 + 7 * n, f"thread-{n % 2}", n) for n in range(6)]
    begin = len(TWELVE_STATES) + 1 + sum(map(len, lines[:3]))
    data = f"{TWELVE_STATES}\n{''.join(lines)}".encode() + b" " * 300
    for at in range(begin, begin + len(lines[3])):
        for byte in b'"\\} 0:\xff\n\x00':
            check(data[:at] + bytes([byte]) + data[at + 1 :], lenient=at % 2 == 0)


def test_no_time_like_the_last_one_is_too_large() -> None:
    lines = [line_like(LIKE_LINES[0], 2**63 - 5 + n, "a", n) for n in range(6)]

    outcome = check(f"{TWELVE_STATES}\n{''.join(lines)}".encode() + b" " * 300)

    assert outcome.refused == (5 + 1, "time")
