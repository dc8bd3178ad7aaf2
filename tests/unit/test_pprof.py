"""pprof, read and written, against what its messages say when they are decoded without meantime."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError
from meantime.kernels import varints
from meantime.query.stacks import CallTree, sample_tree
from meantime.query.trees import by_name
from meantime.testing import history_from_spans
from meantime.views.export import export

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from meantime.history.history import History

NAMES = ("cppbench.pb.gz", "go-cpu.pb.gz", "go-heap.pb.gz", "node-wall.pb.gz")


def number(value: int) -> bytes:
    value %= 2**64
    found = []
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def field(which: int, content: int | bytes) -> bytes:
    if isinstance(content, int):
        return number(which << 3) + number(content)
    return number(which << 3 | 2) + number(len(content)) + content


def numbers(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def decoded(data: bytes) -> dict[int, list[Any]]:
    """Return the contents of a message's fields, of which there are only numbers and bytes."""
    found: dict[int, list[Any]] = {}
    at = 0

    def next_number() -> int:
        nonlocal at
        end = at
        while data[end] > 127:
            end += 1
        at, begin = end + 1, at
        return next(numbers(data[begin:at]))

    while at < len(data):
        tag = next_number()
        value: Any = next_number()
        if tag & 7 == 2:
            at, value = at + value, data[at : at + value]
            assert at <= len(data)
        found.setdefault(tag >> 3, []).append(value)
    return found


def listed(contents: list[Any]) -> list[int]:
    """Return the numbers of a field, which may be packed or not."""
    packed = (numbers(each) if isinstance(each, bytes) else [each] for each in contents)
    return [value for each in packed for value in each]


def rows_of(data: bytes) -> Counter[tuple[str, ...]]:
    """Return the sums by stack and sample type, from the outermost frame, as pprof reads them."""
    profile = decoded(data)
    texts = [text.decode() for text in profile[6]]
    types = [texts[decoded(each)[1][0]] for each in profile[1]]
    functions = {decoded(each)[1][0]: texts[decoded(each)[2][0]] for each in profile[5]}
    places = {}
    for each in map(decoded, profile[4]):
        assert each[1][0] not in places
        lines = [functions[decoded(line)[1][0]] for line in each[4]]
        places[each[1][0]] = lines[::-1]
    found = Counter[tuple[str, ...]]()
    for each in map(decoded, profile[2]):
        stack = [name for place in reversed(listed(each.get(1, []))) for name in places[place]]
        values = listed(each[2])
        assert len(values) == len(types)
        for kind, value in zip(types, values, strict=True):
            found[(kind, *stack)] += value - 2**64 if value >= 2**63 else value
    return found


def profile(
    samples: list[tuple[list[int], list[int]]],
    *,
    types: tuple[str, ...] = ("cpu",),
    more: bytes = b"",
) -> bytes:
    """Return a profile with the functions a to e, and a location for each."""
    texts = ["", "nanoseconds", "a", "b", "c", "d", "e", *types]
    parts = [field(1, field(1, 7 + row) + field(2, 1)) for row in range(len(types))]
    for locations, values in samples:
        packed = b"".join(map(number, locations)), b"".join(map(number, values))
        parts.append(field(2, field(1, packed[0]) + field(2, packed[1])))
    for each in range(1, 6):
        parts.append(field(4, field(1, each) + field(4, field(1, each))))
        parts.append(field(5, field(1, each) + field(2, each + 1)))
    return b"".join([*parts, *(field(6, text.encode()) for text in texts), more])


def named(function: str) -> str:
    """Return the name of a frame without the mapping of an address."""
    return function.partition(" (")[0] if function.startswith("0x") else function


def opened(tmp_path: Path, data: bytes, *, lenient: bool = False) -> History:
    (tmp_path / "some.pb").write_bytes(data)
    return meantime.open(tmp_path / "some.pb", lenient=lenient)


@pytest.mark.parametrize("name", NAMES)
def test_weights_agree_with_independent_sums(samples: Path, name: str) -> None:
    facts = json.loads((samples / "profiles" / "facts.json").read_text())[name]
    history = meantime.open(samples / "profiles" / name)

    assert history.metadata.records == facts["samples"]
    for kind, total in facts["sum_by_type"].items():
        of_type = history.samples(event=kind.partition("/")[0])
        assert int(of_type.weight.sum()) == total
        rows = {named(row.name): row for row in by_name(sample_tree(of_type))}
        for function, own in facts["self_by_type"][kind].items():
            assert own == 0 or rows[function].own == own
        for function, all_of in facts["total_by_type"][kind].items():
            assert all_of == 0 or rows[function].total == all_of


def test_the_last_type_counts_and_others_can_be_chosen(
    samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(samples / "profiles" / "go-heap.pb.gz")
    history = meantime.open(path)
    assert set(history.samples().event.to_list()) == {"inuse_space"}

    with pytest.raises(SystemExit):
        main(["stats", path, "--event", "alloc_objects", "--json"])
    assert json.loads(capsys.readouterr().out)["unit"] == "count"
    with pytest.raises(SystemExit):
        main(["stats", path, "--event", "x"])
    assert "choose one of alloc_objects, alloc_space" in capsys.readouterr().err
    drawn = meantime.flame(history, event="alloc_space")
    assert drawn.unit == "bytes"


def test_labels_with_few_values_are_lanes(samples: Path) -> None:
    history = meantime.open(samples / "profiles" / "go-cpu.pb.gz")
    lanes = Counter(history.names[quark] for quark in history.samples().thread.tolist())
    assert lanes["endpoint=/zip method=GET"] == 128
    assert lanes["(no labels)"] == 9


def test_inlined_lines_repeated_stacks_and_dropped_frames(tmp_path: Path) -> None:
    inlined = field(4, field(1, 9) + field(4, field(1, 3)) + field(4, field(1, 2)))
    samples = [([9, 1], [5]), ([9, 1], [6]), ([4, 9], [7]), ([], [8])]
    history = opened(tmp_path, profile(samples, more=inlined))
    found = history.samples()
    stacks = [tuple(found.stacks.frames_of(row)) for row in found.stack.tolist()]
    assert Counter(stacks) == {("a", "b", "c"): 2, ("b", "c", "d"): 1, (): 1}
    assert int(found.weight.sum()) == 26

    pattern = field(7, 8) + field(6, b"b|x.*")
    dropped = opened(tmp_path, profile(samples, more=inlined + pattern)).samples()
    stacks = [tuple(dropped.stacks.frames_of(row)) for row in dropped.stack.tolist()]
    # nothing before the first frame that is kept
    assert Counter(stacks) == {("a",): 2, ("b", "c", "d"): 1, (): 1}


def test_a_difference_of_profiles_keeps_its_decreases(tmp_path: Path) -> None:
    history = opened(tmp_path, profile([([1], [5]), ([2, 1], [-3])]))
    assert history.anomalies["negative_weight"] == 1
    rows = {row.name: row.total for row in by_name(sample_tree(history.samples()))}
    assert rows == {"a": 2, "b": -3}
    lost: Counter[str] = Counter()
    document = json.loads(b"".join(export(history, "speedscope", lost)))
    assert [each["weights"] for each in document["profiles"]] == [[5]]
    assert lost["samples whose weight is negative"] == 1
    drawn = meantime.flame(history)
    assert isinstance(drawn.data, CallTree)
    assert drawn.data.total.tolist() == [5]
    assert any("1 decreases, 3ns" in each for each in drawn._chosen)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (profile([([7], [1])]), "location 7 is missing"),
        (profile([([1], [1, 2])]), "sample 0 has 2 values, but there are 1 types"),
        (profile([], more=field(4, field(1, 1))), "location 1 is defined twice"),
        (profile([], more=field(5, field(1, 6) + field(2, 99))), "string 99 is missing"),
        (profile([([1], [2**62]), ([1], [2**62])]), "add up to more than 2^62"),
        (
            profile(
                [([1] * 100, [1])] * 10,
                more=field(4, field(1, 8) + field(4, field(1, 1)) * 4000)
                + field(2, field(1, b"\x08" * 4000) + field(2, 1)),
            ),
            "frames, too many",
        ),
    ],
)
def test_malformed_profiles_are_one_line(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=problem.replace("^", r"\^")):
        opened(tmp_path, data)


def test_a_cut_profile_is_refused(samples: Path, tmp_path: Path) -> None:
    data = (samples / "profiles" / "go-cpu.pb.gz").read_bytes()
    with pytest.raises(InputError, match="cut"):
        opened(tmp_path, data[:-2000])
    assert len(opened(tmp_path, data[:-2000], lenient=True).samples())


def test_the_kernel_reads_no_byte_outside_a_message() -> None:
    data = np.frombuffer(profile([([1], [1])]), np.uint8)
    for end in range(len(data)):
        with_cut = np.array([[0, end]], np.int64)
        try:
            _, _, ranges = varints.fields(data, with_cut)
        except ValueError:
            continue
        assert not len(ranges) or int(ranges.max()) <= end
    for bad in ([[5, 3]], [[-1, 3]], [[0, len(data) + 1]]):
        for read in (varints.fields, varints.numbers_of):
            with pytest.raises(ValueError, match=r"-?[0-9]+"):
                read(data, np.array(bad, np.int64))


@pytest.mark.parametrize("name", ["go-cpu.pb.gz", "go-heap.pb.gz", "node-wall.pb.gz"])
def test_what_is_written_says_the_same_to_another_reader(samples: Path, name: str) -> None:
    path = samples / "profiles" / name
    lost = Counter[str]()
    written = b"".join(export(meantime.open(path), "pprof", lost))

    before, after = rows_of(gzip.decompress(path.read_bytes())), rows_of(gzip.decompress(written))
    assert +after == +before
    assert lost["times of samples"]


def test_spans_are_written_with_their_self_time(tmp_path: Path) -> None:
    history = history_from_spans({"t": [("a", 0, 10), ("b", 2, 5), ("b", 6, 7)]})
    written = gzip.decompress(b"".join(export(history, "pprof", Counter())))
    assert rows_of(written) == {
        ("wall", "a"): 6, ("spans", "a"): 1, ("wall", "a", "b"): 4, ("spans", "a", "b"): 2,
    }  # fmt: skip
    again = opened(tmp_path, written)
    assert {row.name: row.own for row in by_name(sample_tree(again.samples()))} == {"a": 6, "b": 4}


@pytest.mark.parametrize(
    "beginning",
    [
        b"heap profile:  1: 2 [ 3: 4] @ heap_v2/524288\n",
        b"--- heapz 1 ---\n",
        b"--- contentionz 1 ---\n",
        bytes(8) + b"\3" + bytes(15),
        bytes(4) + b"\3" + bytes(7),
    ],
)
def test_legacy_profiles_are_refused_by_name(tmp_path: Path, beginning: bytes) -> None:
    (tmp_path / "old").write_bytes(beginning + b"\x10\x27" + bytes(30))
    with pytest.raises(InputError, match=r"legacy pprof profile.*go tool pprof -proto"):
        meantime.open(tmp_path / "old")


@pytest.mark.parametrize("index", [2**63, 2**64 - 1])
def test_an_index_of_64_bits_is_that_of_a_missing_string(tmp_path: Path, index: int) -> None:
    texts = field(6, b"") + field(6, b"cpu")
    profile = field(1, field(1, index) + field(2, 1)) + texts
    (path := tmp_path / "x.pb").write_bytes(profile)

    with pytest.raises(InputError, match=f"string {index} is missing"):
        meantime.open(path, format="pprof")
