"""The Chrome scanner reads a text in blocks: where they are cut changes nothing."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from meantime.kernels.chrome import ChromeScanner
from meantime.readers.chrome.phases import DEFAULT_ID, KINDS

SAMPLES = sorted(Path("tests/samples/chrome").glob("*.json"))

TEXTS = [
    b"",
    b"  \n ",
    b"\xef\xbb\xbf [",
    b'[{"ph":"X","name":"a","ts":1.25,"dur":3,"pid":1,"tid":"x","args":{"b":[1,"]}"]}}]',
    b'{"a":[1,{"x":"\\"}"}],"traceEvents":[{"ph":"B","ts":1},{"ph":"E","ts":"2e3"}],"z":0} \n\0 x',
    b'{"traceEvents":[{"ph":"X","ts":1,"dur":1,"pid":[1],"name":"\\u0041"}]',
    b'{"traceEvents":[{"ph":"i","ts":5}',
    b'{"otherData":{"v":1}}',
    b'\xef\xbb\xbf{"ph":"B","ts":1,"name":"a"}\n{"ph":"E","ts":2}\n{"ph":"i","ts":3,"s":"g"}',
    b'[1, "text", null, {"ph":"M","name":"n"}, -3.5e3, [{"ph":"X"}], {"ph":"?","ts":1}]',
    b'[{"ph":"X","ts":1}, garbage {"ph":"i","ts":2}, }, {"ph":"i","ts":3}]',
    b'[{"ph":"i","ts":1},\n{"ph" "i"},\n{"ph":"i","ts":2},\n{ph:[}\n,\n{"ph":"i","ts":3}\n{broken',
    b'[{"pid":{"a":1},"ph":"b","ts":1,"id":"0x1","id2":{"local":"2"},"scope":"s","bind_id":3}]',
    b'{"x":1 "y":2}',
    b"{]",
    b"nothing",
]


def _scanned(text: bytes, size: int, *, lenient: bool) -> Any:
    """Return everything that the scanner found."""
    scanner = ChromeScanner(len(text), kinds=KINDS, default_id=DEFAULT_ID, lenient=lenient)
    wanted, more = size, True
    try:
        while more:
            offset = scanner.position
            # a copy, so that what is read outside of the block is outside of its memory
            more = scanner.scan_block(bytes(text[offset : offset + wanted]), offset)
            if scanner.position == offset:
                wanted *= 2
    except ValueError as error:
        return error.args
    text_of_ids, ends = scanner.ids(0)
    begins = [0, *ends.tolist()]
    ids = [text_of_ids[begin:end] for begin, end in pairwise(begins)]
    columns = [scanner.spans(), scanner.marks(), scanner.records(), scanner.threads()]
    listed = [{key: column.tolist() for key, column in table.items()} for table in columns]
    # the codes of ids differ: those of records wait for what comes after them in the same block
    for table in listed:
        for key in table.keys() & {"id", "scope", "pid", "tid"}:
            table[key] = [ids[code] if code >= 0 else None for code in table[key]]
    return (
        listed,
        (scanner.names(0), scanner.categories(0), sorted(ids)),
        (scanner.top(), scanner.oddities(), scanner.events, scanner.saw_events),
    )


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_a_block_may_end_anywhere(text: bytes, *, lenient: bool) -> None:
    whole = _scanned(text, max(len(text), 1), lenient=lenient)

    for size in (3, 4, 7, 16, 31, 64):
        assert _scanned(text, size, lenient=lenient) == whole


@pytest.mark.parametrize("lenient", [False, True])
def test_a_text_cut_anywhere_is_the_same_in_blocks(*, lenient: bool) -> None:
    for text in TEXTS:
        for end in range(len(text)):
            whole = _scanned(text[:end], max(end, 1), lenient=lenient)
            assert _scanned(text[:end], 5, lenient=lenient) == whole


def test_mutated_texts_are_the_same_in_blocks() -> None:
    chosen = random.Random(1)  # noqa: S311 - the same texts every time
    for _ in range(3_000):
        text = bytearray(chosen.choice([text for text in TEXTS if len(text) > 10]))
        for _ in range(chosen.randint(1, 3)):
            text[chosen.randrange(len(text))] = chosen.choice(b'{}[]",:\\ 0e.-pX')
        whole = _scanned(bytes(text), len(text), lenient=True)
        assert _scanned(bytes(text), chosen.randint(3, 40), lenient=True) == whole


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples_are_the_same_in_blocks(path: Path) -> None:
    text = path.read_bytes()

    assert _scanned(text, 1000, lenient=False) == _scanned(text, len(text) or 1, lenient=False)
