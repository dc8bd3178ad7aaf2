"""Writes tour.json: what the tour of the demo says, with the figures of its recordings.

python examples/demo/make_tour.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import meantime

# What is worth a mention of a second session that waits.
LONG_NS = 50_000_000
MARGIN_NS = 40_000_000
FILES = ["server.mtr", "postgres.statemap.gz", "cpu.perf.gz"]


class State(NamedTuple):
    """A state of an attribute."""

    path: str
    name: Any
    start_ns: int
    end_ns: int
    tag: dict[str, Any]


def states(history: meantime.History, pattern: str, range_ns: tuple[int, int]) -> list[State]:
    """Return the states of attributes that overlap a range."""
    quarks = history.quarks(pattern)
    found = history.intervals(quarks, *range_ns)
    tags = [history.tags[tag] if tag >= 0 else {} for tag in found.tag.tolist()]
    paths = [history.attributes.text(quark) for quark in found.quark.tolist()]
    times = zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True)
    return [
        State(path, value, start_ns, end_ns, tag)
        for path, value, (start_ns, end_ns), tag in zip(
            paths, found.value, times, tags, strict=True
        )
        if value is not None
    ]


def longest(found: list[State], name: str) -> State:
    """Return the longest of the states with a name."""
    return max(
        (each for each in found if each.name == name), key=lambda each: each.end_ns - each.start_ns
    )


def ms(length_ns: float) -> str:
    """Return a duration in milliseconds."""
    return f"{length_ns / 1e6:.3g} ms"


def step(  # noqa: PLR0917 - what a step has
    title: str,
    text: str,
    file: int,
    tab: str,
    range_ns: tuple[int, int],
    at: State | str | None = None,
) -> dict[str, Any]:
    """Return a step: it shows a range of a file, and selects a state or the range of a lane."""
    handle = at
    if isinstance(at, State):
        handle = f"{at.path}@abs:{max(at.start_ns, range_ns[0])}"
    return {
        "title": title,
        "text": text,
        "file": file,
        "tab": tab,
        "range_ns": list(range_ns),
        "handle": handle,
    }


def requests(server: meantime.History) -> dict[str, tuple[int, int]]:
    """Return when the task of each request ran."""
    lives: dict[str, tuple[int, int]] = {}
    for each in states(server, "Tasks/*/*", server.bounds):
        if "run_asgi" not in each.path:
            continue
        first, last = lives.get(each.path, (each.start_ns, each.end_ns))
        lives[each.path] = min(first, each.start_ns), max(last, each.end_ns)
    return lives


def tour(folder: Path) -> dict[str, Any]:
    """Return the steps."""
    server, postgres, cpu = (meantime.open(folder / name) for name in FILES)
    worst = meantime.findings(server)[0]
    blocked_ns = worst.ranges[0]
    loop, task = worst.rows
    lives = requests(server)
    life_ns = lives[task]
    usual_ns = median(end_ns - start_ns for start_ns, end_ns in lives.values())
    offset_ns = server.clock.utc_at_origin_ns - postgres.clock.utc_at_origin_ns
    in_postgres = blocked_ns[0] + offset_ns, blocked_ns[1] + offset_ns
    offset_ns = server.clock.utc_at_origin_ns - cpu.clock.utc_at_origin_ns
    in_cpu = blocked_ns[0] + offset_ns, blocked_ns[1] + offset_ns
    sessions = states(postgres, "*", in_postgres)
    # that of the other orders has begun its transaction only
    updated = [each for each in sessions if each.tag.get("statement", "").startswith("update")]
    idle = longest(updated, "idle in transaction")
    locked = longest(sessions, "waiting for a lock")
    waits = [each for each in sessions if each.name == locked.name]
    others = [
        each for each in waits if each.path != locked.path and each.end_ns - each.start_ns > 50e6
    ]
    also = "".join(f", and {each.path} for {ms(each.end_ns - each.start_ns)}" for each in others)
    samples = cpu.samples(start_ns=in_cpu[0], end_ns=in_cpu[1])
    stacks = [samples.stacks.frames_of(stack) for stack in samples.stack.tolist() if stack >= 0]
    count = sum("sre_" in " ".join(stack) for stack in stacks)
    of_task = states(server, task, life_ns)
    tag = next(each.tag for each in of_task if "path" in each.tag)
    running = longest(states(server, loop, blocked_ns), "running")
    around = life_ns[0] - MARGIN_NS, life_ns[1] + MARGIN_NS
    later_ns = in_postgres[0] - blocked_ns[0]
    sessions_ns = around[0] + later_ns, around[1] + later_ns
    function = worst.sentence.partition(" blocked")[0]
    waiting = worst.sentence.rpartition("; ")[2].removesuffix(" were waiting")
    return {
        "title": "Why was one order slow?",
        "files": FILES,
        "steps": [
            step(
                f"One request took {ms(life_ns[1] - life_ns[0])}",
                f"{tag['method']} {tag['path']} is one of {len(lives):,} requests of this server;"
                f" half of them took less than {ms(usual_ns)}. The server, its database and the"
                " CPU were recorded at the same time. Which of them was slow?",
                *(0, "over", around, longest(of_task, "running")),
            ),
            step(
                "The event loop did nothing else",
                f"Its task ran without a pause for {ms(blocked_ns[1] - blocked_ns[0])}:"
                f" {function}. The loop could run nothing else, and {waiting} waited.",
                *(0, "stats", around, running),
            ),
            step(
                "The database waited for the server",
                f"The session of the order was idle in transaction for"
                f" {ms(idle.end_ns - idle.start_ns)}: it had done the update, and the next"
                " statement did not come.",
                *(
                    1,
                    "stats",
                    sessions_ns,
                    idle,
                ),
            ),
            step(
                "Others waited for its lock",
                f"The open transaction kept the lock on a row of stock. {locked.path} waited for it"
                f" for {ms(locked.end_ns - locked.start_ns)}{also}.",
                *(
                    1,
                    "stats",
                    sessions_ns,
                    locked,
                ),
            ),
            step(
                "The CPU matched a regular expression",
                f"{count:,} of {len(stacks):,} CPU samples of this time are in the functions of"
                " Python's module re, such as sre_ucs1_match.",
                *(2, "stats", in_cpu, cpu.attributes.text(int(samples.thread[0]))),
            ),
            step(
                "One note without a full stop",
                r"order() checks the customer's note with (\w+\s?)+\. inside the transaction. Of a"
                " note without a full stop it tries every split of the words, which takes twice as"
                " long for each further letter or two. The first finding names the function.",
                *(0, "over", server.bounds),
            ),
        ],
    }


if __name__ == "__main__":
    target = Path(sys.argv[1])
    text = json.dumps(tour(target), indent=1, ensure_ascii=False)
    (target / "tour.json").write_text(text + "\n", encoding="utf-8")
