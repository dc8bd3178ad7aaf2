"""The server of `meantime view`: what a page gets, and who gets nothing."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
import threading
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest
from click.testing import CliRunner

import meantime
from meantime.cli import cli
from meantime.errors import UsageError
from meantime.history import HistoryBuilder
from meantime.history.store import Store
from meantime.model.column_mapping import mapping_of
from meantime.model.input_path import input_path
from meantime.query.durations import span_statistics
from meantime.query.handles import choose_lanes
from meantime.query.threads import thread_quarks
from meantime.server import app, questions, session, span_overview, sql, tiles
from meantime.server.app import application
from meantime.server.demo import demo_session
from meantime.server.session import Session
from meantime.testing import history_from_picture, history_from_samples, history_from_spans

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

GOOD_HOST = "127.0.0.1:8643"
TOKEN = "0123456789abcdef"  # noqa: S105 - of the servers of these tests


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Page:
    """Asks an application as a page does, without a network."""

    def __init__(
        self, *sources: str | History, session: Session | None = None, **options: Any
    ) -> None:
        self.session = session or Session(sources, **options)
        self.session.start()
        assert self.session.wait(600)
        self.app = application(self.session, TOKEN)
        self.is_gone = False

    def ask(self, target: str, method: str = "GET", body: bytes = b"", /, **headers: str) -> Reply:
        return asyncio.run(self._ask(target, method, body, headers))

    async def _ask(self, target: str, method: str, body: bytes, headers: dict[str, str]) -> Reply:
        parts = urlsplit(target)
        given = {
            "host": GOOD_HOST,
            "cookie": f"other=1; meantime-8643={TOKEN}",
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(k.lower().encode(), v.encode()) for k, v in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8643),
        }
        sent: list[Any] = []
        waiting = [{"type": "http.request", "body": body, "more_body": False}]
        if self.is_gone:
            waiting = [{"type": "http.disconnect"}]

        async def receive() -> Any:
            if waiting:
                return waiting.pop()
            while not self.is_gone:  # noqa: ASYNC110 - set by other threads
                await asyncio.sleep(0.02)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        reply = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        return Reply(sent[0]["status"], reply, b"".join(m.get("body", b"") for m in sent[1:]))

    def get(self, target: str) -> Any:
        reply = self.ask(target)
        assert reply.status == 200, reply.body
        return reply.json

    def tile(self, target: str) -> tuple[dict[str, Any], dict[str, Any]]:
        reply = self.ask(f"/tile/{target}")
        assert reply.status == 200, reply.body
        return decoded(reply.body)


def decoded(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the directory and the arrays of a tile, read as its format is described."""
    assert data[:4] == b"MTT1"
    size = int.from_bytes(data[4:8], "little")
    directory = json.loads(data[8 : 8 + size])
    arrays = {}
    for name, array in directory["arrays"].items():
        assert array["at"] % 8 == 0
        count = int(np.prod(array["shape"]))
        flat = np.frombuffer(data, f"<{array['type']}", count, array["at"])
        arrays[name] = flat.reshape(array["shape"])
    return directory, arrays


@pytest.fixture(scope="module")
def states() -> Page:
    return Page(history_from_picture("cpu0  aab.bbc\ncpu1  .aaaacc"))


@pytest.fixture(scope="module")
def spans() -> Page:
    history = history_from_spans(
        {"main": [("work", 0, 1000), ("read", 10, 400), ("tick", 500, 503), ("tick", 520, 523)]}
    )
    return Page(history)


@pytest.fixture(scope="module")
def samples() -> Page:
    rows = [(time, "t", ["main", "a" if time < 50 else "b"], 1) for time in range(0, 100, 10)]
    return Page(history_from_samples(rows))


def test_a_session_says_what_is_open(states: Page) -> None:
    found = states.get("/session.json")

    (file,) = found["files"]
    assert (file["status"], file["start_ns"], file["end_ns"]) == ("ready", "0", "7")
    assert (file["offset_ns"], file["aligned"]) == ("0", "first")
    assert found["axis"] == {"start_ns": "0", "end_ns": "7"}
    assert found["notes"]["writable"] is False


def test_lanes_are_a_tree_in_columns(states: Page) -> None:
    found = states.get("/lanes/0/1")

    assert found["kind"] == ["group", "state", "state"]
    assert found["parent"] == [-1, 0, 0]
    assert found["handle"] == ["", "cpu0", "cpu1"]
    assert {len(found[name]) for name in ("name", "rows", "block", "quark")} == {found["count"]}


def test_a_tile_of_states_has_their_shares(states: Page) -> None:
    directory, arrays = states.tile("0/1/state/0/1/0")

    assert (directory["bin_ns"], directory["lanes"]) == ("2", [1, 2])
    shares, codes = arrays["shares"], arrays["codes"]
    assert shares.shape == (2, 512, 5)
    # cpu0: aa b. bb c
    assert shares[0, :4].tolist() == [
        [0, 255, 0, 0, 0],
        [127, 127, 0, 0, 0],
        [0, 255, 0, 0, 0],
        [127, 127, 0, 0, 0],
    ]
    assert [directory["states"][code] for code in codes[0, :4, 0]] == ["a", "b", "b", "c"]
    assert (shares[:, 4:, 0] == 255).all()


def test_a_group_has_how_many_are_in_each_state(states: Page) -> None:
    directory, arrays = states.tile("0/1/group/0/0/0")

    load = dict(zip(directory["states"], arrays["load"], strict=True))
    assert load["a"][:7].tolist() == [1, 2, 1, 1, 1, 0, 0]
    assert load["c"][:7].tolist() == [0, 0, 0, 0, 0, 1, 2]


def test_a_tile_of_spans_has_the_long_ones_and_what_the_others_cover(spans: Page) -> None:
    directory, arrays = spans.tile("0/1/stack/0/6/0")

    names = directory["names"]
    wide = [
        (names[name], start, end, row)
        for name, start, end, row in zip(
            *(arrays[each].tolist() for each in ("name", "start", "end", "row")), strict=True
        )
    ]
    assert wide == [("work", 0, 1000, 0), ("read", 10, 400, 1)]
    # 500 to 503 and 520 to 523, in bins of 64
    assert arrays["cell_bin"].tolist() == [7, 8]
    assert arrays["cell_row"].tolist() == [1, 1]
    assert arrays["cell_ns"].tolist() == [3, 3]
    assert arrays["cell_count"].tolist() == [1, 1]
    assert [names[each] for each in arrays["cell_name"].tolist()] == ["tick", "tick"]


def test_a_tile_begins_at_a_multiple_of_its_width(spans: Page) -> None:
    directory, arrays = spans.tile("0/1/stack/0/1/-1")
    assert directory["start_ns"] == "-1024"
    assert [array.size for array in arrays.values()] == [0] * len(arrays)

    directory, arrays = spans.tile("0/1/stack/0/0/1")
    assert directory["start_ns"] == "512"
    assert arrays["start"].tolist() == [-512, 8]


def test_samples_are_lanes_of_density_and_of_estimated_stacks(samples: Page) -> None:
    lanes = samples.get("/lanes/0/1")
    assert lanes["kind"] == ["group", "density", "stack"]
    assert lanes["estimated"] == [0, 0, 1]

    _, density = samples.tile("0/1/density/0/4/0")
    assert density["count"][0, :7].tolist() == [2, 2, 1, 2, 1, 2, 0]
    directory, group = samples.tile("0/1/group/0/4/0")
    assert group["count"].tolist() == density["count"][0].tolist()
    assert group["weight"].tolist() == density["weight"][0].tolist()
    assert directory["classes"][directory["states"].index("main")] == "span"
    directory, stacks = samples.tile("0/1/stack/0/0/0")
    drawn = [directory["names"][each] for each in stacks["name"].tolist()]
    assert sorted(drawn) == ["a", "b", "main"]


def test_what_is_at_a_place_of_a_state(states: Page) -> None:
    found = states.get("/at?file=0&lane=1&time=3&width=2")

    assert found["handle"] == "cpu0@abs:3"
    assert found["item"] is None
    assert found["shares"] == [
        {"state": "b", "time_ns": "1", "share": 0.5},
        {"state": None, "time_ns": "1", "share": 0.5},
    ]


def test_what_is_at_a_place_of_a_span(spans: Page) -> None:
    found = spans.get("/at?file=0&lane=1&row=1&time=500&width=24")

    assert found["in_width"] == {"count": 2, "covered_ns": "6", "share": 0.25}
    item = found["item"]
    assert (item["name"], item["start_ns"], item["end_ns"]) == ("tick", "500", "503")
    again = spans.get(f"/span?file=0&span={item['span']}")
    assert (again["item"], again["lane"], again["row"]) == (item, 1, 1)
    outer = spans.get(f"/span?file=0&span={item['parent']}")
    assert (outer["item"]["name"], outer["item"]["self_ns"]) == ("work", "604")


def test_spans_that_arrive_in_another_order_keep_their_numbers(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    # as profilers write them: each when it ends, the outermost last, and another thread between
    events = [
        {"ph": "X", "pid": 1, "tid": tid, "ts": start, "dur": length, "name": name}
        for tid, start, length, name in (
            (2, 5, 1, "other"),
            (1, 2, 1, "first"),
            (1, 4, 2, "second"),
            (1, 1, 6, "outer"),
            (1, 8, 1, "late"),
        )
    ]
    trace.write_text(json.dumps(events))
    page = Page(str(trace))
    handles = page.get("/lanes/0/1")["handle"]
    lane = handles.index("Processes/1/Threads/1")

    directory, arrays = page.tile("0/1/stack/0/4/0")

    names = [directory["names"][each] for each in arrays["name"].tolist()]
    drawn = dict(zip(names, arrays["start"].tolist(), strict=True))
    starts = {"outer": 1000, "first": 2000, "second": 4000, "late": 8000}
    assert {name: start for name, start in drawn.items() if name in starts} == starts
    numbers = dict(zip(names, arrays["span"].tolist(), strict=True))
    for name, number in numbers.items():
        assert page.get(f"/span?file=0&span={number}")["item"]["name"] == name
        (hit,) = page.get(f"/search?file=0&text={name}")["hits"]
        assert (hit["span"], hit["start_ns"]) == (number, str(int(drawn[name])))
    at = page.get(f"/at?file=0&lane={lane}&row=1&time=4000")
    found = at["item"]
    assert (found["span"], found["parent"]) == (numbers["second"], numbers["outer"])
    states, spans = (
        [json.loads(line) for line in CliRunner().invoke(cli, words).stdout.splitlines()]
        for words in (["query", str(trace), each["handle"], "--json"] for each in (at, found))
    )
    assert [row["value"] for row in states if row["value"]] == ["outer", "second"]
    assert [row["name"] for row in spans] == ["second"]
    near = page.get(f"/neighbors?file=0&lane={lane}&row=1&time=4000")
    assert near["previous"]["span"] == numbers["first"]


def test_entities_that_share_rows_are_counted_together() -> None:
    page = Page(session=demo_session())
    lanes = page.get("/lanes/0/1")
    lane = next(
        number
        for number, kind in enumerate(lanes["kind"])
        if kind == "packed" and lanes["rows"][number] > 2
    )
    (group,) = [each for each in [lanes["parent"][lane]] if each >= 0]
    at_ns = 3_600_000_000
    moment = page.get(f"/moment?file=0&time={at_ns}")
    alive = sum(
        thing["lane"] == lane
        for each in moment["groups"]
        if each["kind"] == "packed"
        for thing in each["things"]
    )

    found = page.get(f"/at?file=0&lane={lane}&row=all&time={at_ns}&width=1")
    of_group = page.get(f"/at?file=0&lane={group}&row=all&time={at_ns}&width=1")

    assert alive > 1
    assert sum(each["share"] for each in found["shares"]) == alive
    assert sum(each["share"] for each in of_group["shares"]) > alive
    assert found["item"] is None
    assert None not in [each["state"] for each in found["shares"]]


def test_statistics_of_groups_are_those_of_the_command() -> None:
    page = Page(session=demo_session())
    (server, *_) = page.session.files
    (described, *_) = page.get("/session.json")["files"]

    assert described["groupings"] == ["function", "site"]
    for by in described["groupings"]:
        shown = page.get(f"/statistics?file=0&by={by}&from=1000000000&to=4000000000")
        words = ["stats", server.path, "--by", by, "--from", "1s", "--to", "4s", "--json"]
        printed = json.loads(CliRunner().invoke(cli, words).stdout)["rows"]
        assert [
            (row["kind"], row["key"], row["count"], row["failed"], int(row["p99_ns"]))
            for row in shown["rows"]
        ] == [
            (row["kind"], row["key"], row["count"], row["failed"], row["p99_ns"]) for row in printed
        ]
        for row, other in zip(shown["rows"], printed, strict=True):
            times = {each["state"]: int(each["time_ns"]) for each in row["states"]}
            assert times == other["state_ns"]
        tasks = [row["share"] for row in shown["rows"] if row["kind"] == "Tasks"]
        assert sum(tasks) == pytest.approx(1)
    refused = page.ask("/statistics?file=0&by=site&lanes=1")
    assert (refused.status, refused.json["error"]) == (400, "statistics by site are of all lanes")


def test_samples_of_a_function_are_counted_over_the_range() -> None:
    samples = [(time, "t", ["main", "ab"[time >= 48]], 1 + time % 2) for time in range(64)]
    page = Page(history_from_samples(samples))

    rows = page.get("/statistics?file=0&by=name&from=0&to=64")["rows"]

    bars = {row["key"]: row["bars"] for row in rows}
    assert bars["a"] == [50, 100] * 24 + [0] * 16
    assert bars["b"] == [0] * 48 + [50, 100] * 8
    assert bars["main"] == [0] * 64


def test_a_summary_has_what_loops_and_requests_did() -> None:
    page = Page(session=demo_session())
    (server, *_) = page.session.files
    words = ["stats", server.path, "--by", "state", "--from", "1s", "--to", "4s", "--json"]
    printed = json.loads(CliRunner().invoke(cli, words).stdout)["rows"]
    loops = {row["key"]: row["total_ns"] for row in printed if row["kind"] == "Event loops"}

    found = page.get("/summary?file=0&from=1000000000&to=4000000000")

    assert int(found["running_ns"]) == loops["running"]
    assert int(found["loop_ns"]) == sum(loops.values())
    assert found["requests"] is None
    states = Page(history_from_picture("a  xx"))
    assert states.get("/summary?file=0") == {
        "loop_ns": None,
        "running_ns": None,
        "requests": None,
    }


def test_a_search_describes_the_longest_or_those_around_a_time() -> None:
    spans = [("a", time, time + 1) for time in range(100)] + [("a", 200, 250), ("ab", 300, 400)]
    page = Page(history_from_spans({"main": spans}))

    longest = page.get("/search?file=0&text=a&whole=1&longest=1&limit=2")
    around = page.get("/search?file=0&text=a&around=50&limit=4")

    assert longest["count"] == 101
    assert [hit["start_ns"] for hit in longest["hits"]] == ["200", "0"]
    # the lane `main` begins with the file
    assert [hit["start_ns"] for hit in around["hits"]] == ["48", "49", "50", "51"]
    assert (around["count"], around["first"], around["rest"]) == (103, 49, 99)
    assert page.get("/search?file=0&text=&whole=1&longest=1")["count"] == 0
    assert page.ask("/search?file=0&text=").status == 400


def test_where_nearly_everything_is_leaves_out_a_hundredth_of_it() -> None:
    near = [("a", 10**9 + 100 * at, 10**9 + 100 * at + 50) for at in range(199)]

    def core(spans: list[tuple[str, int, int]]) -> dict[str, Any] | None:
        page = Page(history_from_spans({"main": spans}))
        found: dict[str, Any] | None = page.get("/session.json")["files"][0]["core"]
        return found

    expected = {"start_ns": str(10**9), "end_ns": str(10**9 + 19_850), "count": 200}
    assert core([("a", 0, 1), *near]) == {**expected, "before": 1, "after": 0}
    assert core([*near, ("a", 10**10, 10**10 + 1)]) == {**expected, "before": 0, "after": 1}
    assert core(near) is None
    # a tenth is not few
    assert core([("a", at, at + 1) for at in range(20)] + near) is None
    # one that lasts on from early to late is where it begins
    assert core([("a", 0, 2 * 10**9), *near]) == {**expected, "before": 1, "after": 0}


def test_activity_of_work_counts_what_runs() -> None:
    builder = HistoryBuilder()
    for name, running in (("a", 3), ("b", 7)):
        quark = builder.quark(name)
        builder.modify(0, quark, "running")
        builder.modify(running, quark, "sleeping")
    builder.modify(10, builder.quark("a"), None)
    builder.modify(10, builder.quark("b"), None)
    builder.close()
    page = Page(builder.history)
    names = page.get("/lanes/0/1")["name"]
    work = dict(zip(names, page.get("/activity?work=1")["time_ns"], strict=True))
    whole = dict(zip(names, page.get("/activity?")["time_ns"], strict=True))
    assert (work["a"], work["b"], whole["a"], whole["b"]) == ("3", "7", "10", "10")


def test_a_search_is_of_some_lanes_and_has_their_arguments(tmp_path: Path) -> None:
    events: list[dict[str, object]] = [
        {"ph": "X", "pid": 1, "tid": tid, "ts": at, "dur": 2, "name": "get", "args": {"path": at}}
        for tid, at in ((1, 1), (1, 5), (2, 1), (2, 2))
    ]
    events.append({"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "io"}})
    events.append({"ph": "i", "pid": 1, "tid": 2, "ts": 3, "name": "get", "s": "t"})
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps(events))
    page = Page(str(trace))
    names, kinds = (page.get("/lanes/0/1")[column] for column in ("name", "kind"))

    def found(options: str) -> list[tuple[str, str, str | None]]:
        hits = page.get(f"/search?text=get&{options}")["hits"]
        return [(names[hit["lane"]], hit["start_ns"], hit.get("arguments")) for hit in hits]

    everything = found("")
    groups = ",".join(str(lane) for lane, each in enumerate(kinds) if each == "group")
    assert len(everything) == 5
    assert found(f"lanes={groups}") == everything
    # the two overlap, and so are in two lanes
    inside = [each for each in everything if "io" in each[0]]
    assert len(inside) == 3
    assert found("filter=IO") == inside
    assert found("filter=thread+1&texts=8") == [
        ("1", "1000", '{"path":'),
        ("1", "5000", '{"path":'),
    ]
    first, other = (at for at, each in enumerate(kinds) if each == "stack" and "," not in names[at])
    # all that overlaps is of the thread
    assert found(f"lanes={other}") == [each for each in inside if "/" not in each[0]]
    assert found(f"lanes={first}&filter=io") == []
    assert page.ask(f"/search?text=get&filter={'a' * 1001}").status == 400


def test_a_hit_without_an_end_says_so(tmp_path: Path) -> None:
    trace = tmp_path / "open.json"
    events = [
        {"ph": ph, "pid": 1, "tid": 1, "ts": ts, "name": "get"}
        for ph, ts in (("B", 0), ("E", 2), ("B", 3))
    ]
    events.append({"ph": "X", "pid": 1, "tid": 1, "ts": 4, "dur": 5, "name": "other"})
    trace.write_text(json.dumps(events))

    hits = Page(str(trace)).get("/search?text=get&longest=1")["hits"]

    assert [(hit["start_ns"], hit.get("unfinished", False)) for hit in hits] == [
        ("3000", True),
        ("0", False),
    ]


def test_states_tasks_and_samples_are_searched_by_lane() -> None:
    states = Page(
        history_from_picture("""
        a  xx..
        b  .xxx
    """)
    )
    (hit,) = states.get("/search?text=x&filter=b")["hits"]
    assert (hit["start_ns"], hit["end_ns"]) == ("1", "4")
    assert states.get("/search?text=b&filter=a")["count"] == 0
    rows = [(at, name, ["main", "work"], 1) for at in range(3) for name in ("a", "b")]
    samples = Page(history_from_samples(rows))
    every = samples.get("/search?text=main")["count"]
    counts = [samples.get(f"/search?text=main&filter={name}")["count"] for name in ("s/a", "s/b")]
    assert min(counts) > 0
    assert sum(counts) == every


def test_times_are_read_in_every_form_that_commands_take(tmp_path: Path) -> None:
    trace = tmp_path / "trace.statemap"
    start = {"start": [1_528_482_355, 0], "title": "t", "states": {"on": {"value": 0}}}
    data = [{"time": str(at), "entity": "a", "state": 0} for at in (0, 10**10)]
    trace.write_text("\n".join(map(json.dumps, [start, *data])))
    page = Page(str(trace))

    def ends(text: str, zone: str = "") -> tuple[str, str | None]:
        found = page.get("/time?" + urlencode({"text": text, "zone": zone}))
        return found["start_ns"], found["end_ns"]

    assert ends("1.5s") == ("1500000000", None)
    assert ends(" 1s to 1.5s ") == ("1000000000", "1500000000")
    assert ends("1ms..2ms") == ("1000000", "2000000")
    assert ends("abs:3us") == ("3000", None)
    assert ends("@1528482356.5") == ("1500000000", None)
    assert ends("2018-06-08T18:25:56Z") == ("1000000000", None)
    assert ends("2018-06-08 20:25:56", "Europe/Berlin") == ("1000000000", None)
    for wrong in ("soon", "1s to", "2s to 1s", "1s to 2s to 3s"):
        assert page.ask("/time?" + urlencode({"text": wrong})).status == 400
    assert page.ask("/time?text=1s&zone=Nowhere").status == 400


def test_only_what_is_missing_of_samples_is_told_apart() -> None:
    class Stub:
        def __init__(self, *anomalies: str) -> None:
            self.anomalies = dict.fromkeys(anomalies, 1)

    def lost_of(*anomalies: str) -> object:
        return session._lost_of(Stub(*anomalies))  # type: ignore[arg-type] # all that it reads

    assert lost_of("samples_skipped", "zero_length_state") == "samples"
    assert lost_of("samples_skipped", "records_lost") is None
    assert lost_of("lost_events") is None


def test_how_a_file_was_read_is_part_of_its_commands(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("a,b,who\n0,5,x\n")
    given = input_path(path, mapping_of("start=a:s,end=b:s,entity=who"), "table", ["env"])
    page = Page(given)  # type: ignore[arg-type] # as the command line gives it

    (file,) = page.get("/session.json")["files"]

    options = ["--columns", "start=a:s,end=b:s,entity=who", "--format", "table", "--include", "env"]
    assert file["options"] == options
    printed = CliRunner().invoke(cli, ["info", file["path"], *options])
    assert "entities    1 (who)" in printed.stdout


def test_statistics_are_those_of_the_command(spans: Page, states: Page) -> None:
    shown = spans.session.files[0].shown
    assert shown is not None
    history = shown.tree.history
    expected = span_statistics(history, quarks=thread_quarks(history), start_ns=0, end_ns=1000)

    found = spans.get("/statistics?file=0&by=name")

    assert [row["key"] for row in found["rows"]] == list(expected.keys)
    assert [int(row["total_ns"]) for row in found["rows"]] == expected.total_ns.tolist()
    tick = next(row for row in found["rows"] if row["key"] == "tick")
    assert tick["histogram"] == [1, [2]]
    read = next(row for row in found["rows"] if row["key"] == "read")
    # the range has 64 parts of 15.625 ns
    assert read["bars"] == [36, *[100] * 24, 60, *[0] * 38]
    one = states.get("/statistics?file=0&by=state&lanes=1&from=0&to=4")
    assert [(row["key"], row["total_ns"]) for row in one["rows"]] == [("a", "2"), ("b", "1")]


def test_a_flame_graph_and_a_heat_map_are_of_the_chosen_lanes(spans: Page, states: Page) -> None:
    found = spans.get("/flame?file=0&lanes=0&from=0&to=450")
    tree = list(zip(found["parent"], found["total"], found["self"], strict=True))
    assert (found["unit"], tree) == ("ns", [(-1, 450, 60), (0, 390, 390)])

    heat = states.get("/heat?file=0&lanes=2&period=4&rows=2")
    assert heat["cells"] == [[0, 0, 1], [0, 1, 2], [1, 0, 2], [1, 1, 1]]
    heat = states.get("/heat?file=0&lanes=2&period=4&rows=2&state=c")
    assert (heat["states"], heat["cells"]) == (["c"], [[1, 0, 1], [1, 1, 1]])


def test_what_stands_out_has_a_place_to_go_to() -> None:
    calls = [("query", 100 * n, 100 * n + 9 + n % 3) for n in range(99)]
    page = Page(history_from_spans({"main": [*calls, ("query", 9900, 10_900)]}))

    (found,) = page.get("/findings?file=0")["findings"]

    assert (found["start_ns"], found["ranges"]) == ("9900", [["9900", "10900"]])
    assert (found["lanes"][0], found["lane_rows"][0]) == (1, 0)
    assert page.get("/findings?file=0&from=0&to=9000")["findings"] == []
    assert page.get("/findings?file=0&from=20000&to=90000")["findings"] == []


def test_a_statement_reads_the_tables_and_nothing_else(
    states: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb", reason="the extra [sql] is not installed")

    def ask(statement: str) -> Reply:
        return states.ask("/sql?" + urlencode({"statement": statement}))

    text = "select path, sum(end_ns - start_ns) ns, null from intervals join attributes using"
    found = ask(f"{text} (quark) where value = 'a' group by path order by path").json
    assert found["columns"] == [["path", "text"], ["ns", "number"], ["NULL", "text"]]
    assert found["rows"] == [["cpu0", "2", None], ["cpu1", "4", None]]
    assert found["more"] is False
    many = ask("select 9007199254740993 n from range(5000)").json
    assert (len(many["rows"]), many["rows"][0], many["more"]) == (1000, ["9007199254740993"], True)
    (tmp_path / "x.csv").write_text("a\n1\n")
    for wrong in (
        f"from '{tmp_path}/x.csv'",
        f"copy (select 1) to '{tmp_path}/y.csv'",
        f"attach '{tmp_path}/z.db'",
        "set enable_external_access = true",
        "select * from history",
        "install httpfs",
        "create table t (a int)",
        "select 1; select 2",
        "selec",
        "x" * 10_001,
    ):
        assert ask(wrong).status == 400, wrong
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x.csv"]

    slow = "select sum(a.range * b.range) from range(1000000) a, range(1000000) b"
    # its time may be over before it begins to be executed
    for most_s in (0.1, 0.0, 0.001, 0.002, 0.005):
        monkeypatch.setattr(sql, "_MOST_S", most_s)
        assert "more than" in ask(slow).json["error"]


def test_a_statement_ends_when_its_page_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="the extra [sql] is not installed")
    page = Page(history_from_picture("cpu0  aab."))
    stopped: list[str] = []
    run = sql.Statement.run

    def watched(self: sql.Statement, history: History) -> dict[str, Any]:
        page.is_gone = True
        try:
            return run(self, history)
        except UsageError as error:
            stopped.append(str(error))
            raise

    monkeypatch.setattr(sql.Statement, "run", watched)
    slow = "select sum(a.range * b.range) from range(1000000) a, range(1000000) b"
    page.ask("/sql?" + urlencode({"statement": slow}))
    assert stopped


def test_any_range_can_be_searched(spans: Page) -> None:
    found = spans.get(f"/search?text=tick&from={1 - 2**63}&to={2**63 - 1}")

    assert sum(found["bins"]) == found["count"] == 2


def test_searching_finds_names_and_arguments(spans: Page, tmp_path: Path) -> None:
    found = spans.get("/search?file=0&text=TIC")
    assert found["count"] == 2
    assert [hit["start_ns"] for hit in found["hits"]] == ["500", "520"]
    assert (sum(found["bins"]), found["rest"]) == (2, 0)

    trace = tmp_path / "trace.json"
    events = [
        {"ph": "X", "pid": 1, "tid": 1, "ts": at, "dur": 1, "name": "get", "args": {"path": path}}
        for at, path in ((1, "/cart"), (5, "/home"), (9, "/Cart/2"))
    ]
    trace.write_text(json.dumps(events))
    page = Page(str(trace))
    found = page.get("/search?file=0&text=/cart")
    assert [hit["start_ns"] for hit in found["hits"]] == ["1000", "9000"]
    at = page.get("/at?file=0&lane=1&row=0&time=1000")
    assert at["item"]["arguments"] == {"path": "/cart"}


def test_the_next_and_the_previous(spans: Page, states: Page) -> None:
    found = states.get("/neighbors?file=0&lane=1&time=2")
    assert (found["previous"]["name"], found["next"]["start_ns"]) == ("a", "4")
    found = spans.get("/neighbors?file=0&lane=1&row=1&time=500&name=tick")
    assert (found["previous"], found["next"]["start_ns"]) == (None, "520")


def test_what_all_lanes_do_at_a_time(spans: Page, states: Page) -> None:
    (group,) = spans.get("/moment?file=0&lane=1&time=150")["groups"]
    assert (group["name"], group["count"]) == ("read", 1)
    assert (group["things"][0]["start_ns"], group["things"][0]["row"]) == ("10", 1)
    (group,) = states.get("/moment?file=0&time=1")["groups"]
    assert (group["lane"], group["name"], group["count"]) == (0, "a", 2)
    assert [(each["lane"], each["start_ns"]) for each in group["things"]] == [(1, "0"), (2, "1")]
    assert states.get("/moment?file=0&time=1000")["groups"] == []


def test_when_and_for_how_long_lanes_are_active(spans: Page, states: Page) -> None:
    found = spans.get("/activity?file=0&from=0&to=500")
    assert (found["first_ns"], found["time_ns"]) == ([None, "0"], ["0", "500"])
    found = states.get("/activity?file=0&state=b")
    assert (found["first_ns"], found["time_ns"]) == ([None, "0", "1"], ["0", "3", "0"])


def test_the_critical_path_of_a_thread_is_that_of_the_command(root: Path) -> None:
    history = meantime.open(root / "examples" / "sched.perf.gz")
    page = Page(history)
    lanes = page.get("/lanes/0/1")
    lane = lanes["handle"].index("Threads/9092/Status")
    expected = meantime.critical_path(history, "9092").as_json()

    found = page.get(f"/why?lane={lane}")

    title = [each["title"] for each in found["threads"]]
    assert title[found["thread"]] == expected["thread"]
    assert found["threads"][found["thread"]] == {
        "title": "pgbench (9092)", "tid": "9092", "lane": lane,
    }  # fmt: skip
    assert found["range_ns"] == [str(each) for each in expected["range_ns"]]
    shares = [
        {**row, "thread": title[row["thread"]]}
        | {key: int(row[key]) for key in ("total_ns", "max_ns")}
        for row in found["shares"]
    ]
    assert shares == expected["shares"]
    assert found["parts"] == len(expected["path"])
    path = found["path"]
    drawn = {
        (int(start), int(end), title[thread], path["states"][state], path["reasons"][because])
        for start, end, thread, state, because in zip(
            path["start_ns"], path["end_ns"], path["thread"], path["state"], path["because"],
            strict=True,
        )
    }  # fmt: skip
    parts = {
        (part["start_ns"], part["end_ns"], part["thread"], part["state"], part["because"])
        for part in expected["path"]
    }
    assert len(drawn) == 2000
    assert drawn <= parts
    assert page.get("/why?thread=9092") == found
    assert page.ask("/why").status == page.ask("/why?lane=0").status == 400
    assert page.ask("/why?thread=none").json["error"] == "no thread has the id or the name 'none'"
    assert page.ask("/why?lane=100000").status == 404


def test_requests_of_services_are_tiled_by_what_they_depended_on(root: Path) -> None:
    page = Page(str(root / "tests" / "samples" / "services" / "orders.otlp.jsonl.gz"))
    found = page.get("/requests")
    kinds, rows = found["kinds"], found["requests"]
    shown = page.session.files[0].shown
    assert shown is not None
    explained = meantime.explain(shown.tree.history)

    assert (
        found["count"] == len(rows) == sum(kind["count"] for kind in kinds) == explained.activities
    )
    lengths = [int(row["end_ns"]) - int(row["start_ns"]) for row in rows]
    assert lengths == sorted(lengths, reverse=True)
    worst = rows[0]
    assert (worst["name"], worst["critical"]) == ("GET /orders/2", "orders GET /reserve")
    usual = [length for length, row in zip(lengths, rows, strict=True) if row["of"] == worst["of"]]
    assert int(kinds[worst["of"]]["median_ns"]) in usual
    one = page.get(f"/request?span={worst['span']}")
    assert sum(int(call["own_ns"]) for call in one["calls"]) == lengths[0]
    assert one["sentence"] == "1.02 s more waiting for orders GET /reserve"
    assert one["sentence"] in str(explained.conclusions[0])
    path = one["path"]
    assert (path["start_ns"][0], path["end_ns"][-1]) == (worst["start_ns"], worst["end_ns"])
    assert path["start_ns"][1:] == path["end_ns"][:-1]
    # the spans of all requests, and which failed
    assert [call["depth"] for call in one["calls"]][:2] == [0, 1]
    assert len(one["calls"]) == worst["spans"]
    inside = page.get(f"/request?span={one['calls'][-1]['span']}")
    assert inside == one
    assert sum(row["failed"] > 0 for row in rows) > 0
    assert page.ask("/request?span=100000").status == 404
    assert page.get(f"/requests?from=0&to={int(worst['start_ns'])}")["count"] < found["count"]


def test_content_that_a_page_has_is_not_sent_again(states: Page) -> None:
    for target in ("/session.json", "/lanes/0/1", "/tile/0/1/state/0/0/0", "/statistics?file=0"):
        etag = states.ask(target).headers["etag"]
        again = states.ask(target, if_none_match=etag)
        assert (again.status, again.body) == (304, b"")


def test_answers_are_compressed_for_those_who_take_that(states: Page) -> None:
    for target in ("/viewer.js", "/", "/tile/0/1/state/0/0/0"):
        plain = states.ask(target)
        packed = states.ask(target, accept_encoding="br, gzip;q=1.0")

        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == plain.body
        assert len(packed.body) < 0.6 * len(plain.body)
        assert packed.headers["etag"] == f"W/{plain.headers['etag']}"
        assert states.ask(target, if_none_match=packed.headers["etag"]).status == 304


def test_a_page_has_its_first_answers_inside(states: Page) -> None:
    html = states.ask("/").body.decode()
    text = re.search(r'id="meantime-first">(.*?)</script>', html)

    assert text is not None
    first = json.loads(text[1])
    assert first == {each: states.get(f"/{each}") for each in ("session.json", "lanes/0/1")}


def test_what_a_page_expects_is_no_error_of_the_browser(states: Page) -> None:
    session = states.get("/session.json")["session"]
    for target, status in [("/lanes/0/2", 410), ("/at?lane=99&time=1", 404), ("/flame?of=x", 400)]:
        reply = states.ask(target, meantime_page=session)

        assert (reply.status, reply.headers["meantime-status"]) == (200, str(status))
        assert reply.headers["cache-control"] == "no-store"
        assert list(reply.json) == ["error"]
    assert "meantime-status" not in states.ask("/lanes/0/1", meantime_page=session).headers
    stranger = states.ask("/", cookie="", meantime_page=session)
    assert stranger.headers["meantime-status"] == "403"
    # nothing is answered to a page of the server before, which may have shown other files
    assert states.ask("/lanes/0/1", meantime_page="another").headers["meantime-status"] == "410"
    assert states.get("/session.json") == states.ask("/session.json", meantime_page="another").json


@pytest.mark.parametrize("change", ["deleted", "replaced", "cut", "changed"])
def test_what_happens_to_a_file_that_was_read_is_said(tmp_path: Path, change: str) -> None:
    trace = tmp_path / "t.json"
    event = '{"ph":"X","ts":0,"dur":1,"pid":1,"tid":1,"name":"a"}'
    trace.write_text(f"[{event},{event}]")
    page = Page(str(trace))
    if change == "deleted":
        trace.unlink()
    elif change == "replaced":
        (tmp_path / "new").write_text("[]")
        (tmp_path / "new").replace(trace)
    else:
        trace.write_text(f"[{event}]" if change == "cut" else f"[{event},{event},{event}]")

    assert change in page.get("/session.json")["files"][0]["changed"]
    assert page.get("/statistics?by=name")["rows"]


def test_the_tag_of_a_tile_is_that_of_its_content() -> None:
    target = "/tile/0/1/state/0/0/0"
    tags = [
        Page(history_from_picture(picture)).ask(target).headers["etag"]
        for picture in ("cpu0  aab", "cpu0  aab", "cpu0  abb")
    ]

    assert tags[0] == tags[1] != tags[2]


def test_tiles_below_the_end_of_a_growing_history_are_not_computed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choose = random.Random(5)  # noqa: S311 - a seed
    builder = HistoryBuilder()
    quarks = [builder.quark("cpu", name) for name in "abc"]
    builder.lanes("cpu/*", states=["x", "y", "z"])
    # each attribute is as far as it is: some lag behind the others
    times = [0, 0, 0]
    for quark in quarks:
        builder.modify(0, quark, "x")

    def grow(steps: int) -> None:
        for _ in range(steps):
            which = choose.randrange(3)
            times[which] += choose.randrange(1, 400)
            builder.modify(times[which], quarks[which], choose.choice("xyz"))

    grow(60)
    page = Page(builder.history.snapshot())
    file = page.session.files[0]
    computed: list[object] = []

    def counted(*asked: Any) -> tiles.Tile:
        computed.append(asked)
        return tiles.tile(*asked)

    monkeypatch.setattr(app, "tile", counted)
    known: dict[str, Reply] = {}
    unchanged = 0
    for _ in range(12):
        assert file.shown
        layout = file.shown.layout
        for kind, block in (("state", 0), ("group", 0)):
            for index in range(0, max(times) // 512 + 1, 2):
                target = f"/tile/0/{layout}/{kind}/{block}/0/{index}"
                before = known.get(target)
                computed.clear()
                tag = before.headers["etag"] if before else ""
                is_known = page.ask(target, if_none_match=tag).status == 304
                unchanged += is_known and not computed
                known[target] = page.ask(target)
                if before:
                    assert is_known == (before.body == known[target].body), target
                    assert is_known == (tag == known[target].headers["etag"])
        grow(15)
        file._show(builder.history.snapshot())
    assert unchanged > 50


def test_an_answer_is_computed_once_for_all_who_wait_and_ends_when_they_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, ended, allowed = [], [], threading.Event()

    def adds_up(*arguments: Any) -> dict[str, int]:
        begun.append(1)
        try:
            while not allowed.wait(0.01):
                arguments[-1](0.25)
        finally:
            ended.append(1)
        return {"total_ns": 7}

    monkeypatch.setitem(questions.LONG, "flame", adds_up)
    page = Page(history_from_picture("cpu0  ab"))

    async def ask(*targets: str) -> list[Any]:
        return await asyncio.gather(*(page._ask(each, "GET", b"", {}) for each in targets))

    async def two_and_how_far() -> list[Any]:
        both = asyncio.ensure_future(ask("/flame?from=1", "/flame?from=1"))
        running: list[dict[str, Any]] = []
        while not running or not running[0]["share"]:
            await asyncio.sleep(0.01)
            running = (await page._ask("/progress", "GET", b"", {})).json["running"]
        assert running == [{"question": "flame?from=1", "share": 0.25}]
        allowed.set()
        return await both

    assert [reply.json for reply in asyncio.run(two_and_how_far())] == [{"total_ns": "7"}] * 2
    assert asyncio.run(ask("/flame?from=1"))[0].json == {"total_ns": "7"}
    assert len(begun) == 1
    assert page.get("/progress") == {"running": []}

    allowed.clear()

    async def gone() -> Any:
        asked = asyncio.ensure_future(ask("/flame?from=0", "/flame?from=0"))
        while len(begun) < 2:  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.01)
        page.is_gone = True
        return await asked

    assert [reply.status for reply in asyncio.run(gone())] == [499, 499]
    assert len(ended) == 2


def test_what_nobody_waits_for_any_more_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(history_from_picture("a  xy"))
    computed = []
    monkeypatch.setattr(app, "tile", lambda *_: computed.append(_))
    page.is_gone = True

    assert page.ask("/tile/0/1/state/0/0/0").status == 499
    assert computed == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:8643"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": ""}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"host": "localhost:8643", "origin": "http://localhost:8643"}, 200),
        ({"host": "[::1]:8643"}, 200),
    ],
)
def test_only_pages_of_this_server_are_answered(
    states: Page, headers: dict[str, str], status: int
) -> None:
    reply = states.ask("/session.json", **headers)

    assert reply.status == status
    assert "access-control-allow-origin" not in reply.headers


ROUTES = [
    *("/", "/viewer.js", "/viewer.css", "/session.json", "/lanes/0/1", "/names/0/1?within=0"),
    *("/tile/0/1/state/0/0/0", "/notes", "/progress", "/sql?statement=select+1", "/statistics"),
    *("/nothing", "/?token=", "/?token=0", f"/session.json?token={TOKEN}", "/?token=%ff%ed%a0%80"),
]


@pytest.mark.parametrize("target", ROUTES)
@pytest.mark.parametrize(
    "cookie", ["", f"meantime-8642={TOKEN}", "meantime-8643=0", "meantime-8643=", "meantime-8643=é"]
)
def test_nothing_is_answered_without_the_token(states: Page, target: str, cookie: str) -> None:
    reply = states.ask(target, cookie=cookie)

    assert (reply.status, list(reply.json)) == (403, ["error"])
    assert "set-cookie" not in reply.headers


def test_without_the_token_no_notes_are_written(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_text('[{"ph":"X","ts":0,"dur":1,"pid":1,"tid":1,"name":"a"}]')
    page = Page(str(trace))
    tag = page.ask("/notes").headers["etag"]

    reply = page.ask(
        "/notes", "PUT", b'{"notes":[]}', content_type="application/json", if_match=tag, cookie=""
    )

    assert (reply.status, sorted(tmp_path.iterdir())) == (403, [trace])


@pytest.mark.parametrize("site", ["none", "same-origin", "cross-site"])
@pytest.mark.parametrize(("host", "port"), [("127.0.0.1:8643", 8643), ("localhost:9", 9)])
def test_the_token_is_exchanged_for_a_cookie(states: Page, site: str, host: str, port: int) -> None:
    reply = states.ask(f"/?token={TOKEN}", cookie="", host=host, sec_fetch_site=site)

    assert reply.status == 200
    assert reply.headers["set-cookie"] == (
        f"meantime-{port}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    )
    assert TOKEN not in reply.body.decode()
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["referrer-policy"] == "no-referrer"
    cookie = reply.headers["set-cookie"].partition(";")[0]
    assert states.ask("/", host=host, cookie=cookie).status == 200


def test_the_token_is_of_no_use_to_another_host(states: Page) -> None:
    assert states.ask(f"/?token={TOKEN}", host="evil.example:8643").status == 403


def test_statistics_of_a_range_outside_are_empty(states: Page) -> None:
    for by in ("state", "entity", "name"):
        reply = states.ask(f"/statistics?from=900&to=901&by={by}")

        assert (reply.status, reply.json["rows"]) == (200, [])


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/nothing", 404),
        ("/../../etc/passwd", 404),
        ("/..%2f..%2fetc%2fpasswd", 404),
        ("/session.json/more", 404),
        ("/lanes/9/1", 404),
        ("/lanes/0/2", 410),
        ("/tile/0/1/state/1/0/0", 404),
        ("/tile/0/1/nothing/0/0/0", 404),
        ("/tile/0/1/group/1/0/0", 404),
        ("/tile/0/1/state/0/54/0", 400),
        ("/tile/0/1/state/0/53/2", 400),
        ("/tile/0/1/state/0/0/9223372036854775807", 400),
        ("/tile/0/1/state/0/0/99999999999999999999999", 400),
        ("/tile/0/1/state/0/0/1e3", 400),
        ("/tile/0/2/state/0/0/0", 410),
        ("/at", 400),
        ("/at?lane=1&time=x", 400),
        ("/at?lane=99&time=1", 404),
        ("/at?lane=1&row=1&time=1", 404),
        ("/at?lane=1&time=1&width=0", 400),
        ("/at?lane=1&time=9223372036854775807&width=9", 400),
        ("/at?file=-1&lane=1&time=1", 404),
        ("/span?span=0", 404),
        ("/statistics?by=nothing", 400),
        ("/statistics?by=name&of=nothing", 400),
        ("/flame?of=states", 400),
        ("/statistics?lanes=7", 404),
        ("/statistics?lanes=1,,2", 400),
        ("/statistics?from=5&to=5", 400),
        ("/heat?period=0", 400),
        ("/heat?period=1&rows=9", 400),
        ("/search?text=", 400),
        ("/flows?limit=many", 400),
    ],
)
def test_a_wrong_request_is_refused_in_one_sentence(states: Page, target: str, status: int) -> None:
    reply = states.ask(target)

    assert reply.status == status
    assert list(reply.json) == ["error"]
    assert "Traceback" not in reply.body.decode()


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "OPTIONS"])
def test_other_methods_are_refused(states: Page, method: str) -> None:
    assert states.ask("/session.json", method).status == 405


def test_notes_are_kept_beside_the_trace(tmp_path: Path, root: Path) -> None:
    trace = tmp_path / "pg.statemap.gz"
    trace.write_bytes((root / "examples" / "postgres.statemap.gz").read_bytes())
    page = Page(str(trace))
    before = page.ask("/notes")
    body = json.dumps({"notes": [{"text": "</script>", "start_ns": "5"}]}).encode()

    def put(etag: str, content: bytes = body, kind: str = "application/json") -> int:
        return page.ask("/notes", "PUT", content, if_match=etag, content_type=kind).status

    assert before.json == {"notes": []}
    assert put(before.headers["etag"], kind="text/plain") == 415
    assert put(before.headers["etag"], b"[]") == 400
    assert put(before.headers["etag"], b" " * (2 << 20)) == 413
    assert put(before.headers["etag"]) == 200
    # another page wrote meanwhile
    assert put(before.headers["etag"]) == 412
    after = page.ask("/notes")
    assert after.json["notes"][0]["text"] == "</script>"
    assert put(after.headers["etag"], b'{"notes": []}') == 200
    assert json.loads((tmp_path / "pg.statemap.gz.notes.json").read_text()) == {"notes": []}


def test_notes_that_could_not_be_read_again_are_refused(tmp_path: Path, root: Path) -> None:
    trace = tmp_path / "pg.statemap.gz"
    trace.write_bytes((root / "examples" / "postgres.statemap.gz").read_bytes())
    page = Page(str(trace))
    etag = page.ask("/notes").headers["etag"]
    # less than a megabyte, but not as the file has it
    body = json.dumps({"notes": [{"text": "\u00e4" * 400_000}]}, ensure_ascii=False).encode()

    reply = page.ask("/notes", "PUT", body, if_match=etag, content_type="application/json")

    assert (reply.status, reply.json["error"]) == (400, "these notes have more than 1 MB")
    assert page.ask("/notes").json == {"notes": []}
    (tmp_path / "pg.statemap.gz.notes.json").write_bytes(b" " * (3 << 20))
    assert page.ask("/notes").status == 400


def test_a_defect_of_a_reader_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("meantime.readers.open_trace", fail)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    (tmp_path / "x.jsonl").write_text('{"time_ns": 1, "name": "a"}\n')

    (file,) = Page(str(tmp_path / "x.jsonl")).get("/session.json")["files"]

    assert (file["status"], file["error"]) == ("failed", "KeyError: 'x'")


def test_notes_of_a_history_in_memory_cannot_be_kept(states: Page) -> None:
    etag = states.ask("/notes").headers["etag"]
    reply = states.ask(
        "/notes", "PUT", b'{"notes": []}', if_match=etag, content_type="application/json"
    )
    assert reply.status == 409
    assert "none was" in reply.json["error"]


def test_several_files_are_on_one_axis(root: Path) -> None:
    examples = root / "examples"
    page = Page(
        str(examples / "postgres.statemap.gz"),
        str(examples / "training.json.gz"),
        history_from_picture("a  xy"),
        offsets_ns={2: 500},
    )

    first, second, third = page.get("/session.json")["files"]

    assert (first["aligned"], second["aligned"], third["aligned"]) == ("first", "utc", "given")
    utc = [int(each["clock"]["utc_at_origin_ns"]) for each in (first, second)]
    assert int(second["offset_ns"]) == utc[1] - utc[0]
    assert third["offset_ns"] == "500"


def test_the_demo_leads_to_the_cause_of_a_slow_request() -> None:
    page = Page(session=demo_session())
    session = page.get("/session.json")
    steps = session["tour"]["steps"]
    lanes = [
        page.get(f"/lanes/{index}/{file['layout']}") for index, file in enumerate(session["files"])
    ]
    (finding,) = page.get("/findings?file=0")["findings"]

    assert [each["aligned"] for each in session["files"]] == ["first", "utc", "utc"]
    assert finding["sentence"].startswith("order (shop.py:44) blocked the event loop for 553 ms")
    assert not session["notes"]["writable"]
    assert {each["file"] for each in steps} == {0, 1, 2}
    found = []
    for step in steps:
        if step["time_ns"] is None:
            continue
        target = "/at?file={file}&lane={lane}&row={row}&time={time_ns}".format(**step)
        item = page.get(target)["item"]
        state = item if lanes[step["file"]]["kind"][step["lane"]] == "state" else item["state"]
        found.append(state["name"])
    assert found == ["running", "running", "idle in transaction", "waiting for a lock"]
    (sampled,) = (each for each in steps if each["file"] == 2)
    asked = "file=2&by=name&from={start_ns}&to={end_ns}".format(**sampled)
    rows = {each["key"]: each for each in page.get(f"/statistics?{asked}")["rows"]}
    assert lanes[2]["handle"][sampled["lane"]] == "Processes/322/Threads/322"
    assert max(rows, key=lambda name: float(rows[name]["self"])) == "sre_ucs1_match"
    assert "523 of 537" in sampled["text"]


def test_the_pattern_of_a_lane_selects_what_its_figures_are_of(samples: Page) -> None:
    files = [*samples.session.files, *Page(session=demo_session()).session.files]
    kinds = set()
    for file in files:
        assert file.shown
        tree = file.shown.tree
        for number, lane in enumerate(tree.lanes):
            pattern = lane.pattern or tree.path(number)
            if not pattern or lane.kind in {"counter", "points"}:
                continue
            chosen = choose_lanes(tree.history, [pattern])
            assert chosen.tolist() == tree.quarks([number]).tolist(), lane
            kinds.add(lane.kind)
    assert kinds == {"group", "state", "packed", "density", "stack"}


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('[{"ph": "X", "ts": 1]')
    page = Page(str(bad), history_from_picture("a  xy"))

    failed, good = page.get("/session.json")["files"]

    assert (failed["status"], failed["layout"]) == ("failed", None)
    assert "bad.json" in failed["error"]
    assert good["status"] == "ready"
    assert page.ask("/lanes/0/1").status == 503


def test_a_damaged_segment_is_said_on_its_tiles(tmp_path: Path) -> None:
    path = tmp_path / "disks.mth"
    builder = meantime.HistoryBuilder(path)
    disk = builder.quark("disk0")
    for time_ns in range(5_000):
        builder.modify(time_ns, disk, "abc"[time_ns % 3])
    builder.close()
    (segment,) = (path / "segments").glob("*.seg")
    data = bytearray(segment.read_bytes())
    data[-40] ^= 0xFF
    segment.write_bytes(data)
    page = Page(str(path))

    directory, arrays = page.tile("0/1/state/0/4/0")

    assert segment.name in directory["damaged"]
    # what is after the history can be read: it has no states
    ((first, last),) = directory["damaged_bins"]
    assert (first, last) == (0, -(-5_000 // 16))
    assert not arrays["shares"][:, :last, 1:].any()
    assert page.get("/statistics?file=0")["rows"] == []
    (file,) = page.get("/session.json")["files"]
    assert segment.name in file["error"]
    assert file["lost_ns"] == [["0", "5000"]]


@pytest.mark.parametrize("situation", ["finished", "unfinished", "unfinished, removed"])
def test_a_tile_around_a_damaged_segment_has_what_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, situation: str
) -> None:
    monkeypatch.setattr(Store.__init__, "__defaults__", (100,))
    is_finished = situation == "finished"
    unfinished = []

    def write(path: Path) -> Path:
        builder = HistoryBuilder(path)
        disk = builder.quark("disk0")
        for time_ns in range(500):
            builder.modify(time_ns, disk, "abc"[time_ns % 3] + str(time_ns // 200))
        if is_finished:
            builder.close()
        else:
            builder.flush()
            unfinished.append(builder)
        return path

    whole, damaged = write(tmp_path / "whole.mth"), write(tmp_path / "damaged.mth")
    segment = sorted((damaged / "segments").glob("*.seg"))[2]
    data = bytearray(segment.read_bytes())
    data[-40] ^= 0xFF
    segment.unlink()
    if "removed" not in situation:
        segment.write_bytes(data)

    good, all_arrays = Page(str(whole)).tile("0/1/state/0/0/0")
    bad, arrays = Page(str(damaged)).tile("0/1/state/0/0/0")

    assert segment.name in bad["damaged"]
    ((first, last),) = bad["damaged_bins"]
    # the next segment has the last state in it, if it is full
    assert 100 <= first < last <= (400 if is_finished else 500)
    assert not arrays["shares"][:, first:299, 1:].any()
    last = min(last, 301)
    for bins in (slice(0, first), slice(last, 512)):
        assert np.array_equal(arrays["shares"][:, bins], all_arrays["shares"][:, bins])
        longest = arrays["shares"][0, bins, 1] > 0
        names = [
            np.array(each["states"])[found["codes"][0, bins, 0]][longest].tolist()
            for each, found in ((good, all_arrays), (bad, arrays))
        ]
        assert names[0] == names[1]


def test_a_history_without_anything_opens() -> None:
    page = Page(meantime.HistoryBuilder().close())

    assert page.get("/lanes/0/1")["count"] == 0
    assert page.get("/statistics?file=0")["rows"] == []


def test_times_of_104_days_and_of_3_ns_are_exact() -> None:
    builder = meantime.HistoryBuilder()
    late_ns = 2**62 + 1
    builder.modify(0, builder.quark("a"), "x")
    builder.modify(late_ns, builder.quark("a"), "y")
    page = Page(builder.close(late_ns + 3))

    assert page.get("/session.json")["files"][0]["end_ns"] == str(late_ns + 3)
    _, arrays = page.tile(f"0/1/state/0/0/{late_ns // 512}")
    assert arrays["shares"][0, :5, 1].tolist() == [255, 255, 255, 255, 0]
    item = page.get(f"/at?file=0&lane=1&time={late_ns}")["item"]
    assert (item["name"], item["start_ns"]) == ("y", str(late_ns))


def test_tiles_of_many_spans_are_the_same_from_their_overview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(7)
    events = []
    for thread in range(3):
        ends = np.cumsum(random.integers(1, 40_000, 800))
        for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            length = int(random.integers(0, end - start + 1))
            inner = start + length // 3
            for ts, dur in ((start, length), (inner, length // 5)):
                events.append(
                    {"ph": "X", "pid": 1, "tid": thread, "ts": ts / 1000, "dur": dur / 1000}
                    | {"name": f"f{random.integers(0, 30)}"}
                )
    trace = tmp_path / "spans.json"
    trace.write_text(json.dumps(events))
    history = meantime.open(trace)
    addresses = [
        f"0/1/stack/0/{level}/{index}"
        for level in range(12, 20)
        for index in {-1, 0, 1, 2, (16_000_000 >> level + 9) + 1}
    ]
    plain = Page(history)
    expected = {address: plain.tile(address) for address in addresses}
    monkeypatch.setattr(span_overview, "_FEWEST_SPANS", 1)
    monkeypatch.setattr(span_overview, "_SPANS_OF_A_CELL", 1)
    page = Page(history)
    levels = []
    made = span_overview.SpanOverview.tile

    def counted(self: span_overview.SpanOverview, *place: int) -> object:
        levels.append(self.level)
        return made(self, *place)

    monkeypatch.setattr(span_overview.SpanOverview, "tile", counted)

    for address, (directory, arrays) in expected.items():
        found, found_arrays = page.tile(address)
        assert found["names"] == directory["names"]
        for name, column in arrays.items():
            assert np.array_equal(found_arrays[name], column), (name, address)
    assert 10 < len(levels) < len(addresses)


def test_names_of_lanes_in_a_part_of_a_large_group() -> None:
    page = Page(history_from_spans({f"pool-{n}": [("work", n, n + 2)] for n in range(2_001)}))
    lanes = page.get("/lanes/0/1")["kind"]["runs"]
    assert lanes[:4] == ["group", 2, "stack", 1_000]

    named = page.get("/names/0/1?within=1")

    assert named["lane"] == [*range(2, 1_002)]
    assert all(name.startswith("pool-") for name in named["name"])
    assert page.get(f"/names/0/1?{urlencode({'path': named['handle'][7]})}")["lane"] == [9]
    assert page.get("/names/0/1?text=POOL-1999")["name"] == ["pool-1999"]
    for address in ("0/1?within=0", "0/1?within=x", f"0/1?text={'a' * 2_000}", "0/2", "9/1"):
        assert page.ask(f"/names/{address}").status in {400, 404, 410}, address


def test_counters_are_called_by_what_differs_in_their_paths() -> None:
    def names(*paths: tuple[str, ...]) -> list[str]:
        builder = HistoryBuilder()
        for path in paths:
            builder.modify(0, builder.quark("Processes", *path), 3_000)
        table = Page(builder.close()).get("/lanes/0/1")
        lanes = zip(table["kind"], table["name"], strict=True)
        return [name for kind, name in lanes if kind == "counter"]

    requests = ("Counters", "Open requests", "requests")
    assert names(("shop", *requests), ("cart", *requests)) == ["cart", "shop"]
    assert names(("1", "Counters", "memory", "heap"), ("1", "Counters", "memory", "free")) == [
        "free",
        "heap",
    ]
    assert names(("1", "Counters", "memory", "heap")) == ["heap"]


def test_no_parameter_is_a_defect() -> None:
    page = Page(history_from_spans({"main": [("a", 0, 10), ("b", 2, 5)]}))
    asked = {"file": "0", "lane": "1", "time": "5", "text": "a", "span": "0", "period": "10"}
    values = ("-1", "nan", str(2**63 - 1))
    for endpoint in (*questions.QUESTIONS, *questions.LONG):
        for name in (*asked, "lanes", "row", "width", "from", "to", "by", "rows", "limit"):
            for value in values:
                reply = page.ask(f"/{endpoint}?{urlencode({**asked, name: value})}")
                assert reply.status in {200, 400, 404, 410}, (endpoint, name, value)
                if reply.status != 200:
                    assert "\n" not in reply.json["error"]
