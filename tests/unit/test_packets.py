"""Packets of TCP that two hosts traced: instants of both, and the messages that align them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import meantime
from meantime.query.aligning import Message
from meantime.query.aligning_histories import align_histories
from meantime.query.packets import packets_between, packets_seen

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

# a CPU that idles, and one that runs the thread that sends
_SWITCH = (
    "  a-7 [000] 1.000000: sched_switch: prev_comm=b prev_pid=8 prev_prio=1 prev_state=S ==>"
    " next_comm=a next_pid=7 next_prio=1\n"
)
_END = "  a-7 [000] 2.000000: x: y=1\n"


def _host(path: Path, *lines: str) -> History:
    path.write_text("cpus=2\n" + _SWITCH + "".join(f"{line}\n" for line in lines) + _END)
    return meantime.open(path)


def _socket(time: str, event: str, fields: str, who: str = "a-7 [000]") -> str:
    return f"  {who} {time}: inet_sock_local_{event}: sk=0xFF81 {fields} check=0x8ECA window=5"


def test_packets_are_instants_of_their_threads(tmp_path: Path) -> None:
    history = _host(
        tmp_path / "a",
        _socket("1.100000", "out", "seq=0xFFFFFFFF ack_seq=0") + " flags=6152",
        _socket("1.200000", "in", "seq=9 ack_seq=4294967295", "<idle>-0 [001]") + " flags=0x4010",
        "  a-7 [000] 1.300000: net_dev_queue: dev=eth0 skbaddr=00000000abcd len=66",
        "  a-7 [000] 1.400000: net_dev_queue: skbaddr=0x1 len=66 name=eth0 network_header="
        "{ipv4={ttl=64,transport_header={tcp={source_port=22,seq=5,ack_seq=6,flags=16}}}}",
        _socket("1.500000", "out", "seq=1") + " flags=1",
    )

    points = history.points()

    assert [history.attributes.text(quark) for quark in points.quark.tolist()] == [
        "Threads/7", "CPUs/1", "Threads/7",
    ]  # fmt: skip
    assert points.name.to_list() == ["inet_sock_local_out", "inet_sock_local_in", "net_dev_queue"]
    assert [points.arguments(row) for row in range(3)] == [
        '{"seq":4294967295,"ack_seq":0,"flags":6152}',
        '{"seq":9,"ack_seq":4294967295,"flags":16400}',
        '{"seq":5,"ack_seq":6,"flags":16}',
    ]
    assert points.time_ns.tolist() == [1_100_000_000, 1_200_000_000, 1_400_000_000]


def test_packets_align_what_two_kernels_traced(tmp_path: Path) -> None:
    one = _host(
        tmp_path / "one",
        _socket("1.100000", "out", "seq=1 ack_seq=7") + " flags=2",
        # its answer is sent 3 s later by the clock of the other, and takes 2 ms at most
        _socket("1.102000", "in", "seq=7 ack_seq=2") + " flags=2",
        _socket("1.200000", "out", "seq=5 ack_seq=5") + " flags=2",
        _socket("1.300000", "out", "seq=5 ack_seq=5") + " flags=2",
        _socket("1.400000", "out", "seq=8 ack_seq=8") + " flags=2",
    )
    other = _host(
        tmp_path / "other",
        _socket("1.900000", "in", "seq=1 ack_seq=7") + " flags=2",
        _socket("1.900500", "out", "seq=7 ack_seq=2") + " flags=2",
        # sent twice: which of both arrived?
        _socket("1.901000", "in", "seq=5 ack_seq=5") + " flags=2",
        # another packet of the same number
        _socket("1.902000", "in", "seq=8 ack_seq=8") + " flags=3",
    )

    seen = packets_seen(one), packets_seen(other)
    assert packets_between(seen) == [
        Message(0, 1_100_000_000, 1, 1_900_000_000),
        Message(1, 1_900_500_000, 0, 1_102_000_000),
    ]
    found = align_histories([one, other])[1]
    assert (found.offset_ns, found.how, found.error_ns) == (-799_250_000, "messages", 750_000)
    assert packets_between([seen[0], seen[0]]) == []
