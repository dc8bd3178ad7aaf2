"""The commands that read or write files, each with a small input."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from corpus import FORMATS

import meantime
from meantime.system.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["COMMANDS", "Command"]

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Command:
    """A command line that is tried.

    Attributes:
        arguments: Those of `meantime`, run in the folder.
        prepare: Puts the inputs into a folder.
        directory: The history that it builds, which a failed command may leave unfinished.
        has_cache: Whether it uses the cache of histories.
        status: Its exit status.
        varies: Whether it makes more or fewer calls each time.
        program: A Python program that runs meanwhile, as `{pid}` among the arguments. It prints
            `ready`, and gets a line once the command has ended.
        prints: What the program prints, or the one that the command runs, whatever fails.
        tasks: How many tasks a recording of it has.
        client: Uses the command while it runs, by the address that it prints; returns what is
            wrong with the answers, and lets it end.
        within: What is changed in the process of the command, before it runs.
    """

    arguments: tuple[str, ...]
    prepare: Callable[[Path], None]
    directory: str | None = None
    has_cache: bool = False
    status: int = 0
    varies: bool = False
    program: str | None = None
    prints: str = ""
    tasks: int = 0
    client: Callable[[str], list[str]] | None = None
    within: Callable[[Path], None] | None = None


def _of_format(name: str, folder: Path) -> None:
    """Write the first small input of a format, as `in`."""
    kind = FORMATS[name]
    for file, data in kind.samples()[0].items():
        path = folder / (f"in/{file}" if kind.is_directory else _input(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _statemap(folder: Path) -> None:
    shutil.copy2(_ROOT / "tests/samples/statemap/tst.io.in", folder / "in.statemap")


def _built(folder: Path) -> None:
    _statemap(folder)
    meantime.build(folder / "in.statemap", None, folder / "in.mth")


def _spans(folder: Path) -> None:
    shutil.copy2(
        _ROOT / "tests/samples/chrome/simultaneous-anonymous-calls.json", folder / "in.json"
    )


def _built_spans(folder: Path) -> None:
    _spans(folder)
    meantime.build(folder / "in.json", None, folder / "in.mth")


def _samples(folder: Path) -> None:
    shutil.copy2(_ROOT / "tests/samples/profiles/cppbench.pb.gz", folder / "in.pb.gz")


def _events(folder: Path) -> None:
    for name in ("files.jsonl", "files.toml"):
        shutil.copy2(_ROOT / "examples" / name, folder / name)


def _older(name: str, folder: Path) -> None:
    shutil.copytree(_ROOT / "tests/samples/history" / name, folder / "in.mth")


def _recording(folder: Path) -> None:
    for name, data in FORMATS["mtr"].samples()[0].items():
        (folder / "in.mtr" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in.mtr" / name).write_bytes(data)


def _nothing(folder: Path) -> None:
    """Make no input."""


def _with(prepare: Callable[[Path], None], *outputs: str) -> Callable[[Path], None]:
    """Return what also makes outputs, which are replaced."""

    def prepared(folder: Path) -> None:
        prepare(folder)
        for output in outputs:
            (folder / output).write_bytes(b"as before\n")

    return prepared


def _input(name: str) -> str:
    kind = FORMATS[name]
    if kind.is_directory:
        return "in" if kind.opened is None else f"in/{kind.opened}"
    return f"in{Path(next(iter(kind.samples()[0]))).suffix}"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# What is recorded: its end is the same, whatever fails for what records it.
_RECORDED = """
import asyncio, sys
{begin}
async def main():
    ticking = [asyncio.create_task(asyncio.sleep(0.001 * number)) for number in range({tasks})]
    await asyncio.to_thread({wait})
    await asyncio.gather(*ticking)
asyncio.run(main())
print("unharmed", file=sys.stderr, flush=True)
sys.exit(3)
"""
_TASKS = 20
_RUN = _RECORDED.format(begin="", wait="sum, range(100)", tasks=_TASKS)
_ATTACHED = _RECORDED.format(
    begin="import meantime; meantime.enable()\nprint('ready', flush=True)",
    wait="input",
    tasks=_TASKS,
)


def _page(address: str) -> list[str]:
    """Ask a served page for what it shows, and write notes; return what is wrong with answers."""
    parts = urlsplit(address)
    wrong = []

    def ask(target: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Any:
        connection = HTTPConnection(str(parts.hostname), parts.port, timeout=20)
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except OSError as error:
            wrong.append(f"{method} {target}: {error}")
            return None
        finally:
            connection.close()
        is_error = answer.status >= 400
        if is_error and (answer.status == 500 or "error" not in json.loads(content or b"{}")):
            wrong.append(f"{method} {target}: {answer.status} {content[:200]!r}")
        return answer

    if (entered := ask(f"/?{parts.query}")) is None:
        return wrong
    cookie = str(entered.headers["set-cookie"]).partition(";")[0]
    for target in ("/", "/session.json", "/lanes/0/0", "/tile/0/0/span/0/20/0", "/progress"):
        ask(target, Cookie=cookie)
    if (notes := ask("/notes", Cookie=cookie)) is not None and notes.status == 200:
        headers = {
            "Cookie": cookie, "If-Match": notes.headers["etag"], "Content-Type": "application/json"
        }  # fmt: skip
        ask("/notes", "PUT", b'{"notes":[{"text":"x","start_ns":"5"}]}', **headers)
    return wrong


def _machine(folder: Path) -> None:
    """Make a machine on which bpftrace can record, in a folder in which no call fails."""
    root = folder.parent / "machine"
    for kind in KINDS.values():
        for event in kind.probes:
            (root / "sys/kernel/tracing/events" / event.replace(":", "/")).mkdir(
                parents=True, exist_ok=True
            )
    (root / "sys/kernel/btf").mkdir(parents=True, exist_ok=True)
    (root / "sys/kernel/btf/vmlinux").touch()
    head = '{"start":[1,1500000000],"title":"CPUs","entityKind":"CPU","states":{"a":{"value":0}}}'
    lines = (f'{{"time":"{time}","entity":"0","state":0}}' for time in range(300))
    (root / "printed").write_text("\n".join((head, *lines)) + "\n")
    program = root / "bpftrace"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "bpftrace v0.17.0" && exit\n'
        f"exec cat {root}/printed\n"
    )
    program.chmod(0o755)


def _on_machine(folder: Path) -> None:
    """Let this process record that machine, as root."""
    root = folder.parent / "machine"
    setattr(import_module("meantime.system.checks"), "_SYSTEM", root)  # noqa: B010 - mypy
    os.geteuid = lambda: 0
    os.environ["PATH"] = f"{root}{os.pathsep}/usr/bin{os.pathsep}/bin"


_STATEMAP_OUT = _with(_statemap, "out.svg")
COMMANDS = {
    "statemap": Command(_words("statemap in.statemap -o out.svg"), _STATEMAP_OUT),
    "statemap on stdout": Command(_words("statemap in.statemap -o -"), _statemap),
    "heatmap": Command(_words("heatmap in.json -o out.svg"), _with(_spans, "out.svg")),
    "flame": Command(_words("flame in.pb.gz -o out.svg"), _with(_samples, "out.svg")),
    "chart": Command(_words("flame --chart in.json -o out.svg"), _spans),
    "view": Command(_words("view in.mth -o out.html"), _with(_built_spans, "out.html")),
    "build": Command(_words("build in.statemap -o out.mth"), _statemap, directory="out.mth"),
    "build spans": Command(_words("build in.json -o out.mth"), _spans, directory="out.mth"),
    "build events": Command(
        _words("build files.jsonl --provider files.toml -o out.mth"), _events, directory="out.mth"
    ),
    "build again": Command(_words("build in.statemap --force -o in.mth"), _built),
    "cache": Command(_words("stats files.jsonl --provider files.toml"), _events, has_cache=True),
    "convert to spall": Command(_words("convert in.json out.spall"), _with(_spans, "out.spall")),
    "convert to perfetto": Command(_words("convert in.json out.pftrace"), _spans),
    "convert to pprof": Command(_words("convert in.pb.gz out.pb.gz"), _samples),
    "convert to statemap": Command(_words("convert in.mtr out.statemap --only tasks"), _recording),
    "convert history": Command(_words("convert in.mth out.trace.json"), _built_spans),
    "join": Command(_words("join in.mth in.json -o out.mtj"), _with(_built_spans, "out.mtj")),
    "pack": Command(_words("pack in.mtr -o out.mtrz"), _with(_recording, "out.mtrz")),
    "record": Command(
        ("record", "-o", "out.mtr", "--", sys.executable, "-P", "-c", _RUN),
        _nothing,
        status=3,
        varies=True,
        prints="unharmed",
        tasks=_TASKS,
    ),
    "record again": Command(
        ("record", "-q", "--force", "-o", "in.mtr", "--", sys.executable, "-P", "-c", _RUN),
        _recording,
        status=3,
        varies=True,
        prints="unharmed",
        tasks=_TASKS,
    ),
    "attach": Command(
        _words("attach {pid} -o out.mtr --for 50ms"),
        _nothing,
        varies=True,
        program=_ATTACHED,
        prints="unharmed",
        tasks=_TASKS,
    ),
    "top": Command(_words("top in.mtr --once"), _recording),
    "serve": Command(_words("view in.json --no-open --port 0"), _spans, varies=True, client=_page),
    "serve history": Command(
        _words("view in.mth --no-open --port 0"), _built_spans, varies=True, client=_page
    ),
    "record system": Command(
        _words("record-system cpu -o out.statemap --for 1s"),
        _with(_machine, "out.statemap"),
        varies=True,
        within=_on_machine,
    ),
    "check": Command(_words("check in.mth"), _built),
    "check older": Command(_words("check in.mth"), partial(_older, "version-1.mth")),
    "check unfinished": Command(_words("check in.mth"), partial(_older, "unfinished-1.mth")),
    "salvage": Command(
        _words("check in.mth --salvage out.mth"),
        partial(_older, "unfinished-1.mth"),
        directory="out.mth",
    ),
    "sql to parquet": Command(
        ("sql", "in.mth", "select * from spans", "--parquet", "out.parquet"),
        _with(_built_spans, "out.parquet"),
    ),
    "query to arrow": Command(_words("query in.mth intervals * --arrow out.arrow"), _built),
    "query as csv": Command(_words("query in.mth intervals * --csv"), _built),
    "dump": Command(_words("dump in.statemap"), _statemap),
    "dump history": Command(_words("dump in.mth --kind intervals"), _built_spans),
    "stats": Command(_words("stats in.mth"), _built_spans),
    "diff": Command(_words("diff in.json in.mth -o out.svg"), _with(_built_spans, "out.svg")),
    "summary": Command(_words("summary in.statemap -o out.mts"), _with(_statemap, "out.mts")),
    "assert": Command(
        ("assert", "in.statemap", "--rule", 'no * in "none"', "--junit", "out.xml"),
        _with(_statemap, "out.xml"),
    ),
    "explain": Command(_words("explain in.json"), _spans),
    "findings": Command(_words("findings in.mth --json"), _built_spans),
    **{
        f"read {name}": Command(("info", "--json", _input(name)), partial(_of_format, name))
        for name in FORMATS
        if name != "ctf"  # text of another program, which commands do not read
    },
}
