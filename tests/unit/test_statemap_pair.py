from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest

from meantime.errors import InputError
from meantime.readers import statemap
from meantime.readers.contract import ReadOptions
from meantime.readers.source import Source
from meantime.readers.statemap import pair, reader
from meantime.trace import StateChanges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.trace import Trace

META = b'{"start": [3, 7], "states": {"off": {"value": 0}, "on": {"value": 1}}}\n'


@pytest.fixture(autouse=True)
def two_processors() -> Iterator[None]:
    with (
        mock.patch.object(reader, "_processors", return_value=2),
        mock.patch.object(reader, "PAIR_FROM_BYTES", 0),
        mock.patch.object(pair, "MIN_BYTES", 100),
    ):
        yield


def datum(time: int, entity: int, *, tag: int = 0) -> bytes:
    return b'{"time": "%d", "entity": "e%d", "state": 1, "tag": "t%d"}\n' % (time, entity, tag)


def read(data: bytes, *, threads: int, **options: Any) -> tuple[Trace, list[Any]]:
    stored_bytes = len(data) if threads == 2 else None
    trace = statemap.read(
        Source("x", io.BytesIO(data), stored_bytes=stored_bytes),
        ReadOptions(**options),
    )
    batches = [batch for batch in trace.batches if isinstance(batch, StateChanges)]
    return trace, [
        np.concatenate([getattr(batch, name) for batch in batches]).tolist()
        for name in ("time_ns", "entity", "state", "tag")
    ]


@pytest.mark.parametrize("block_bytes", [5_000, 70_000, 8 << 20])
def test_two_threads_read_what_one_reads(block_bytes: int) -> None:
    data = META + b"".join(datum(i // 3, i * i % 1009, tag=i % 89) for i in range(30_000))

    with (
        mock.patch.object(reader, "PAIR_BLOCK_BYTES", block_bytes),
        mock.patch.object(reader, "BATCH_ROWS", 7_000),
    ):
        one, one_columns = read(data, threads=1)
        two, two_columns = read(data, threads=2)

    assert two_columns == one_columns
    assert (two.paths, two.tags) == (one.paths, one.tags)
    assert (two.bounds, two.records) == (one.bounds, one.records)
    assert dict(two.anomalies) == dict(one.anomalies)


def test_an_entity_that_goes_back_over_the_cut_is_refused_at_its_line() -> None:
    lines = [datum(1_000 + i, i) for i in range(200)]
    lines[170] = datum(1_004, 5)
    data = META + b"".join(lines)

    with pytest.raises(InputError) as caught:
        read(data, threads=2)

    assert str(caught.value) == (
        "x:172: illegal datum: time 1004 is out of order with respect to prior time 1005 "
        'of entity "e5"'
    )


def test_a_cut_inside_a_payload_is_noticed() -> None:
    inner = b",\n".join(b'{"time": "1", "entity": "not one", "state": 0}' for _ in range(100))
    data = (
        META + datum(1, 1) + b'{"state": 1, "tag": "t", "data": [\n' + inner + b"]}\n" + datum(2, 2)
    )

    trace, columns = read(data, threads=2)

    assert trace.paths == [("e1",), ("e2",)]
    assert columns[0] == [1, 2]
    assert len(trace.tags[1]["data"]) == 100


def test_anomalies_in_the_second_half_are_reported_as_usual() -> None:
    lines = [datum(i, i) for i in range(100)]
    lines[80] = b'{"host": "h"}\n'
    lines[90] = b'{"time": "1", "entity": "a", "state": 7}\n'

    with pytest.raises(InputError, match=r'^x:92: illegal datum: "state" is 7'):
        read(META + b"".join(lines), threads=2)
    trace, columns = read(META + b"".join(lines[:90]), threads=2)

    assert trace.clock.host == "h"
    assert len(columns[0]) == 89
