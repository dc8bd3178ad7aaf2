"""Packets of CTF 1.8: every type in both byte orders, losses, cuts, damage, other readings."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import pytest
from ctf_traces import Packet, metadata_packets, perf_trace, trace

import meantime
from meantime.errors import InputError
from meantime.kernels.ctf_packets import CtfPackets
from meantime.readers.contract import ReadOptions
from meantime.readers.ctf import babeltrace, program
from meantime.readers.ctf.packets import PacketText
from meantime.readers.ctf.program import Program
from meantime.readers.ctf.tsdl import UnsupportedError, parse
from meantime.readers.ctf_metadata import metadata_heads

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from meantime.readers.ctf import EventText

BASE_NS = 1_457_111_225_001_000_007
ORDERS = pytest.mark.parametrize("order", ["le", "be"])


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def packets(folder: Path, *, is_lenient: bool = False) -> PacketText:
    folders = [each for each, _ in metadata_heads(folder)]
    return PacketText(str(folder), folders, is_old=False, is_lenient=is_lenient)


def text_of(running: EventText) -> list[bytes]:
    room = memoryview(bytearray(5000))
    text = bytearray()
    while count := running.readinto(room):
        text += room[:count]
    running.close()
    return bytes(text).splitlines()


@ORDERS
def test_every_type_is_decoded(tmp_path: Path, order: str) -> None:
    lines = text_of(packets(written(tmp_path, trace(order))))

    assert len(lines) == 11
    assert lines[0] == (
        b"w-7-7 [000] 1457111225.001000007: sched_switch: prev_comm=swapper/0 prev_pid=0"
        b" prev_prio=20 prev_state=R ==> next_comm=app one next_pid=7 next_prio=20"
    )
    assert lines[1] == (
        b"w-7-7 [000] 1457111225.001000507: app.types: port=0x1F90 octal=077767"
        b' binary=0b0000101 nibbles=0xFD half=1.5 whole=-2.25e-300 text=a "q"? \\ \xc3\xa9'
        b' kind=("low":container=-2) count=3 numbers=[[0]=1,[1]=2147483648,[2]=7]'
        b' pairs=[[0]=-5,[1]=6] points=[[0]={x=1,s="ab"},[1]={x=2,s="\\""}] choice={"low"}'
        b" letters=ab"
    )
    assert b"text=tab here  kind=" in lines[3]
    assert b'kind=("_none","high":container=9)' in lines[9]
    assert b"choice={{a=3,b=30}}" in lines[9]


@ORDERS
def test_times_wrap_and_streams_are_merged(tmp_path: Path, order: str) -> None:
    history = meantime.open(written(tmp_path, trace(order)))

    samples = history.samples()
    steps = [0, 500, 700, 900, 1300, 1400, 3000, 5000, (1 << 27) + 4999, (1 << 28) + 4991, 1 << 29]
    assert samples.time_ns.tolist() == [BASE_NS + step for step in steps]
    assert samples.cpu.tolist() == [0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0]
    assert history.clock.host == "web1"


def test_losses_are_counted_with_their_stretches(tmp_path: Path) -> None:
    history = meantime.open(written(tmp_path, trace()))

    # of the first packet of a stream, and 5 and a packet of the other one
    assert dict(history.anomalies) == {"lost_events": 2 + 5 + 1, "unknown_time": 1}
    assert [(begin - BASE_NS, end - BASE_NS) for begin, end in history.lost] == [
        (700, 1400),
        (3000, (1 << 28) + 4991),
        ((1 << 28) + 4991, 1 << 29),
    ]


def test_a_number_of_lost_events_that_cannot_be_right_counts_once(tmp_path: Path) -> None:
    switch = (1_000_700, 9, 0, (b"swapper/1", 0, 0, b"db", 9))
    files = trace() | {"channel0_1": Packet(1, 0, 2**64 - 25_763, [switch]).data("le")}

    history = meantime.open(written(tmp_path, files))

    assert dict(history.anomalies) == {"lost_events": 1 + 5 + 1, "unknown_time": 1}


def test_other_frequencies_are_exact(tmp_path: Path) -> None:
    folder = written(tmp_path, trace(frequency=3_293_841_647))
    lines = text_of(packets(folder))

    cycles = 1_000_000 + 1400 + 7
    nanoseconds = cycles * 10**9 // 3_293_841_647
    assert lines[5].startswith(b"w-9-9 [001] 1457111225.%09d: " % nanoseconds)


@ORDERS
def test_metadata_may_be_in_packets(tmp_path: Path, order: str) -> None:
    files = trace(order)
    plain = text_of(packets(written(tmp_path / "plain", files)))
    files["metadata"] = metadata_packets(files["metadata"], order)

    assert text_of(packets(written(tmp_path / "packed", files))) == plain


@ORDERS
def test_what_perf_writes_has_its_own_names(tmp_path: Path, order: str) -> None:
    lines = text_of(packets(written(tmp_path, perf_trace(order))))

    assert lines[0] == (
        b"<...>-18 [001] 979.417057183: sched_wakeup: comm=perf tool pid=18 prio=120 target_cpu=000"
    )


def test_a_stream_may_be_in_several_files(tmp_path: Path) -> None:
    files = trace()
    parts = [
        Packet(0, number, 0, [(time, 7, 41, ())]).data("le")
        for number, time in enumerate((2_000_000, 3_000_000, 4_000_000))
    ]
    files |= {"channel0_0": parts[2], "channel0_0_1": parts[0], "channel0_0_2": parts[1]}
    del files["channel0_1"]
    running = packets(written(tmp_path, files))

    assert [line.split(b"] ")[1][:20] for line in text_of(running)] == [
        b"1457111225.002000007", b"1457111225.003000007", b"1457111225.004000007",
    ]  # fmt: skip
    assert not running.lost


def test_a_session_with_two_traces_is_merged(tmp_path: Path) -> None:
    written(tmp_path / "kernel", trace())
    written(tmp_path / "ust", perf_trace("be"))

    assert len(text_of(packets(tmp_path))) == 13


def test_traces_of_several_hosts_are_not_mixed(tmp_path: Path) -> None:
    files = trace()
    written(tmp_path / "one", files)
    metadata = files["metadata"].replace(b'"web1"', b'"web2"')
    written(tmp_path / "two", {**files, "metadata": metadata})
    with pytest.raises(InputError, match=r"2 hosts \(web1, web2\): open each directory"):
        meantime.open(tmp_path)


def test_a_cut_stream_is_read_up_to_there(tmp_path: Path) -> None:
    files = trace()
    whole = text_of(packets(written(tmp_path, files)))
    data = files["channel0_0"]
    counts = []
    for size in range(0, len(data), 41):
        running = packets(written(tmp_path, {**files, "channel0_0": data[:size]}))
        lines = text_of(running)
        assert set(lines) <= set(whole)
        counts.append(len(lines))
        is_between = size in {0, len(Packet.data(_first(), "le"))}
        assert dict(running.anomalies) == ({} if is_between else {"truncated": 1})
    assert counts == sorted(counts)
    assert counts[0] == 3
    assert counts[-1] > 6


def _first() -> Packet:
    return Packet(0, 0, 0, [(1, 1, 41, ())])


def damaged(files: dict[str, bytes], at: int, data: bytes) -> dict[str, bytes]:
    whole = bytearray(files["channel0_1"])
    whole[at : at + len(data)] = data
    return {**files, "channel0_1": bytes(whole)}


@pytest.mark.parametrize(
    ("at", "data", "message"),
    [
        (0, b"x", "byte 0: no packet begins here"),
        (20, struct.pack("<I", 9), "byte 0: the metadata have no stream of the number 9"),
        (
            48,
            struct.pack("<Q", 2**63),
            "byte 0: a packet of .* bits with 9,223,372,036,854,775,808",
        ),
        (56, struct.pack("<Q", 0), "byte 0: a packet of 0 bits"),
        (56, struct.pack("<Q", 8), "byte 0: a packet of 8 bits"),
        (84, b"\x02", "byte 84: the metadata have no event of this number"),
        (48, struct.pack("<Q", 8 * 150), "a field ends after the content of its packet"),
    ],
)
def test_damage_is_one_line_or_counted(tmp_path: Path, at: int, data: bytes, message: str) -> None:
    folder = written(tmp_path, damaged(trace(), at, data))
    with pytest.raises(InputError, match=f"channel0_1: .*{message}"):
        meantime.open(folder)

    history = meantime.open(folder, lenient=True)
    assert history.anomalies["bad_record"] == 1
    assert len(history.samples().time_ns) >= 8


def test_without_events_what_is_said_is_one_line(tmp_path: Path) -> None:
    files = {**trace(), "channel0_0": b"", "channel0_1": b""}
    with pytest.raises(InputError, match="this CTF trace has no events"):
        meantime.open(written(tmp_path, files))


HEAD = """trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000; };
typealias integer { size = 8; } := u8;
"""
STREAM = """stream { event.header := struct {
  integer { size = 64; map = clock.c.value; } timestamp;
}; };
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense;", r"line 1 of the metadata: 'nonsense' is not a declaration"),
        ("event {", "line 1 of the metadata: '' instead of a name"),
        ("`", "unknown character '`'"),
        (HEAD, "no stream"),
        (HEAD + "event { fields := struct { integer { size = 65; } x; }; };", "1 to 64 bits"),
        (HEAD + "event { fields := struct { u9 x; }; };", "line 4 of the metadata: unknown type"),
        (HEAD + "event { fields := struct { u8 x; u8 x; }; };", "'x' is declared twice"),
        (HEAD + "struct { u8 x; } align(3);", "not a power of two"),
        (HEAD + "struct {" * 99, "nested too deeply"),
        (HEAD + STREAM + "event { fields := struct { u8 x[later]; }; };", "later is not declared"),
        (HEAD + STREAM + "event { fields := struct { variant { u8 a; } v; }; };", "has no tag"),
        (HEAD + STREAM + "event { id = 1; };" * 2, "two events of the stream 0 have one number"),
        (HEAD + "stream { event.header := struct { u8 id; }; };", "events have no time"),
    ],
)
def test_metadata_that_are_not_read_say_why(text: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Program().add(parse(text))


def test_types_that_multiply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_MOST_NODES", 2000)
    text = HEAD + STREAM + "typedef struct { u8 a; u8 b; } t0;"
    for each in range(30):
        text += f"typedef struct {{ t{each} a; t{each} b; }} t{each + 1};"
    with pytest.raises(UnsupportedError, match=r"too many fields|nested too deeply"):
        Program().add(parse(text + "event { fields := struct { t30 x; }; };"))


def test_an_event_that_grows_without_end_is_refused(tmp_path: Path) -> None:
    body = "event { fields := struct { u8 n; struct { } nothing[4000000000]; }; };"
    metadata = ("/* CTF 1.8 */\n" + HEAD + STREAM + body).encode()
    folder = written(tmp_path, {"metadata": metadata, "stream": bytes(900)})
    with pytest.raises(InputError, match=r"stream: byte 0: an event (?:is longer|has no bits)"):
        meantime.open(folder)


def test_the_kernel_checks_its_program() -> None:
    described = Program()
    described.add(parse(HEAD + STREAM + "event { fields := struct { string s; u8 a[3]; }; };"))
    arrays = described.arrays()
    nodes = arrays[0]
    CtfPackets(*arrays, is_old=False)
    refused = 0
    for at in range(len(nodes)):
        for value in (-2, 77, 2**40):
            changed = nodes.copy()
            changed[at] = value
            try:
                CtfPackets(changed, *arrays[1:], is_old=False)
            except ValueError:
                refused += 1
    assert refused > 2 * len(nodes)


@pytest.mark.skipif(shutil.which("babeltrace2") is None, reason="babeltrace2 is not installed")
@pytest.mark.parametrize("name", ["le", "be", "perf-le", "perf-be"])
def test_babeltrace2_prints_the_same(tmp_path: Path, name: str) -> None:
    order = name[-2:]
    files = perf_trace(order) if name.startswith("perf") else trace(order)
    folder = written(tmp_path, files)
    own = packets(folder)
    other = babeltrace.run(folder, is_old=False, is_ctf_2=False, reason="")

    assert text_of(own) == text_of(other)
    # how many events a first packet lost, babeltrace2 does not say
    assert [each[:2] for each in own.lost] == [each[:2] for each in sorted(other.lost)]


def test_events_have_the_fields_of_the_trace(tmp_path: Path) -> None:
    from meantime.readers.ctf import read  # noqa: PLC0415 - one test reads batches

    found = read(written(tmp_path, trace()), ReadOptions(events=True))
    assert len(list(found.batches)) == 1
    assert found.records == 11
