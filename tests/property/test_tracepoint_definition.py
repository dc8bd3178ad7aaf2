"""The kernel reads the fields of tracepoints as their definition in regular expressions does."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from meantime.model.trace import Samples, Trace
from meantime.readers.perf_events import events_of, fields_of

NAMES = st.sampled_from(["sched:sched_switch", "syscalls:sys_exit_read", "block:block_rq"])
PIECES = st.sampled_from(
    [
        *(
            "a=",
            "_b1=",
            "1x=",
            "=",
            "a: ",
            "b:",
            ", ",
            ",",
            " ",
            "  ",
            "\t",
            "==>",
            " ==> ",
            "word",
        ),
        *("1", "-7", "0x1f", "0x", "0xFG", "9" * 18, "9" * 19, "0x" + "f" * 16, "[x]", " [ab]"),
        *("é", "\x1f", "\x7f"),
    ]
)
TAILS = st.one_of(
    st.lists(PIECES, max_size=10).map("".join), st.text(alphabet="ab=: ,x0-[]>", max_size=12)
)


@given(st.lists(st.tuples(NAMES, TAILS), min_size=1, max_size=5))
@example([("sched:sched_switch", "prev_comm=a b prev_pid=3 ==> next_comm=c next_pid=0x1f x=3 [y]")])
@example(
    [("block:block_rq", "a=1 a=2"), ("block:block_rq", "a= ==> b="), ("block:block_rq", "a=1 ==>")]
)
def test_fields_are_those_of_the_definition(named_texts: list[tuple[str, str]]) -> None:
    trace = Trace("x", "perf", iter(()))
    trace.paths.append(("Processes", "4", "Threads", "5"))
    block, tail = b"", []
    for _, text in named_texts:
        begin = len(block)
        block += text.encode()
        tail.append((begin, len(block)))
        block += b"\n"
    trace.values.extend(sorted({name for name, _ in named_texts}))
    rows = len(named_texts)
    batch = Samples(
        time_ns=np.arange(rows),
        thread=np.zeros(rows, np.int32),
        stack=np.full(rows, -1, np.int32),
        weight=np.ones(rows, np.int64),
        event=np.array([trace.values.index(name) for name, _ in named_texts], np.int32),
        cpu=np.zeros(rows, np.int32),
    )

    events = events_of(trace, batch, memoryview(block), np.array(tail, np.int64))

    assert events is not None
    assert [(event.name, event.fields) for event in events] == [
        (name, fields_of(name, text)) for name, text in named_texts
    ]
    assert {(event.cpu, event.pid, event.tid) for event in events} == {(0, 4, 5)}
