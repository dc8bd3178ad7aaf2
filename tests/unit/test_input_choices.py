"""What is given about reading an input: its format, and whether what is private is copied."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

LINES = b"main;work 3\nmain 1\n"


def field(number: int, content: bytes | int) -> bytes:
    """Return a field of protobuf; numbers and lengths are below 128."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    return bytes([number << 3 | 2, len(content)]) + content


def write(path: Path, content: bytes | str | list[Any] | dict[str, Any]) -> Path:
    if isinstance(content, list | dict):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, out, err


def test_a_format_is_read_although_the_content_is_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # every line is also a line of folded stacks, which are recognised by ; alone
    path = write(tmp_path / "stacks", b"main 3\nmain 1\n")

    with pytest.raises(InputError, match="--format NAME"):
        meantime.open(path)
    history = meantime.open(path, format="folded")
    status, out, _ = run(capsys, "info", path, "--format", "folded", "--json")

    assert history.metadata.format == json.loads(out)["format"] == "folded"
    assert sum(history.samples().weight.tolist()) == 4
    assert status == 0


@pytest.mark.parametrize(
    "command",
    ["info FILE", "stats FILE", "dump FILE", "flame FILE -o OUT.svg", "heatmap FILE -o OUT.svg",
     "build FILE -o OUT.mth", "convert FILE OUT.folded", "view FILE -o OUT.html",
     "statemap FILE -o OUT.svg", "query FILE tree", "findings FILE", "why FILE --thread x",
     "sql FILE select"],
)  # fmt: skip
def test_every_command_that_reads_lists_the_formats_for_an_unknown_one(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "stacks.folded", LINES)
    words = command.replace("FILE", str(path)).replace("OUT", str(tmp_path / "out")).split()

    status, out, err = run(capsys, *words, "--format", "pict")

    assert status == (1 if command.startswith("view") else 2)
    assert "unknown format 'pict'; choose one of access-log, art, callgrind, chrome" in err
    assert not out


def test_a_format_applies_to_traces_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.folded", LINES)
    built = tmp_path / "a.mth"
    meantime.build(path, path=built)

    with pytest.raises(InputError, match="finished history; --format applies to traces"):
        meantime.open(built, format="folded")
    with pytest.raises(InputError, match="finished history; --include applies to traces"):
        meantime.open(built, include="env")
    with pytest.raises(UsageError, match="'ctf' is one of directories"):
        meantime.open(path, format="ctf")
    with pytest.raises(UsageError, match="its format is ctf or recording"):
        meantime.open(tmp_path, format="folded")
    with pytest.raises(InputError, match="tables and to logs of JSON lines, not folded"):
        meantime.open(path, format="folded", columns="time=t")
    with pytest.raises(UsageError, match="unknown part 'all'; choose env"):
        meantime.open(path, include=["all"])


def test_a_cached_history_of_another_format_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write(tmp_path / "a.folded", LINES)
    said: list[str] = []

    meantime.open(path, cache=True)
    history = meantime.open(path, cache=True, format="folded", notify=said.append)

    assert said == [f"{path}: rebuilding: format changed from none to folded"]
    assert history.provenance["format"] == "folded"


def test_messages_that_fit_two_formats_are_not_guessed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    span = b"\x0a\x10" + b"t" * 16 + b"\x12\x08" + b"s" * 8
    packet = field(2, field(1, field(1, 7) + field(3, span))) + field(8, 5)
    path = write(tmp_path / "trace", field(1, packet) * 3)

    with pytest.raises(InputError, match=r"fits perfetto \(.*\) and otlp \(") as caught:
        meantime.open(path)
    # the command that it prints works as it stands
    command = str(caught.value).rpartition(", such as `")[2].removesuffix("`")
    assert shlex.split(command)[0] == "meantime"
    status, out, _ = run(capsys, *shlex.split(command)[1:], "--json")
    assert (status, json.loads(out)["format"]) == (0, "perfetto")
    assert meantime.open(path, format="perfetto").metadata.format == "perfetto"


SPAN = {
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174",
    "name": "GET",
    "startTimeUnixNano": "1700000000000000000",
    "endTimeUnixNano": "1700000000000001000",
    "attributes": [
        {"key": "http.request.header.authorization", "value": {"stringValue": "secret"}},
        {"key": "http.route", "value": {"stringValue": "/"}},
    ],
}
STRACE = (
    '1 1700000000.000000 execve("/bin/app", ["app", "--key=secret"], ["A=secret"]) = 0 <0.000100>\n'
    "1 1700000000.000200 close(3) = 0 <0.000100>\n"
)
PROCESS = field(1, field(1, 7) + field(3, b"/bin/app") + field(3, b"--key=secret"))
PRIVATE: list[tuple[str, Any]] = [
    ("a.otlp.json", {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}),
    (
        "a.json",
        {
            "traceEvents": [{"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": 0, "dur": 4}],
            "metadata": {"os": "x", "command_line": "app --key=secret"},
            "command_line": "app secret",
        },
    ),
    (
        "arguments.json",
        {
            "traceEvents": [
                {
                    "ph": ph,
                    "name": "a",
                    "dur": 0,
                    "id": 1,
                    "pid": 1,
                    "tid": 1,
                    "ts": ts,
                    "args": arguments,
                }
                for ts, (ph, arguments) in enumerate(
                    [
                        ("X", {"n": [{"Request-Headers": {"x": "secret"}}]}),
                        ("B", {"env": "secret", "rows": 1}),
                        ("E", {"argv": ["secret"]}),
                        ("i", {"commandLine": "secret", "headers": 4}),
                        ("b", {"cookies": "secret"}),
                        ("e", {}),
                        ("M", {"environment": "secret"}),
                    ]
                )
            ]
        },
    ),
    ("a.strace", STRACE),
    ("a.pftrace", field(1, field(8, 5) + field(2, PROCESS)) * 2),
]


@pytest.mark.parametrize(("name", "content"), PRIVATE, ids=[name for name, _ in PRIVATE])
def test_what_is_private_is_copied_only_if_it_is_asked_for(
    name: str, content: Any, tmp_path: Path
) -> None:
    path = write(tmp_path / name, content)

    def stored(**choices: Any) -> bytes:
        built = tmp_path / f"{len(choices)}.mth"
        meantime.build(path, path=built, **choices)
        files = sorted(each for each in built.rglob("*") if each.is_file())
        return b"".join(each.read_bytes() for each in files)

    public, private = meantime.open(path), meantime.open(path, include="env")

    assert public.anomalies["private_field"] > 0
    assert "private_field" not in private.anomalies
    assert b"secret" not in stored()
    assert b"secret" in stored(include="env")
    # leaving out what is private is no fault of the input
    meantime.open(path, strict=True)


def test_arguments_of_chrome_events_lose_only_what_is_private(tmp_path: Path) -> None:
    (content,) = (each for name, each in PRIVATE if name == "arguments.json")
    history = meantime.open(write(tmp_path / "a.json", content))

    spans, points = history.spans(), history.points()
    found = [spans.arguments(row) for row in range(len(spans))]
    assert [text and json.loads(text) for text in found] == [{"n": [{}]}, {"rows": 1}, None]
    assert json.loads(points.arguments(0) or "") == {"headers": 4}
    assert history.anomalies["private_field"] == 6


def test_a_recording_has_no_arguments_of_its_program(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "meantime", "record", "--include", "command", "-o", "run.mtr",
         "--", sys.executable, "-c", "import asyncio; asyncio.run(asyncio.sleep(0))",
         "--key=secret"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip

    public = meantime.open(tmp_path / "run.mtr")
    private = meantime.open(tmp_path / "run.mtr", include="env")

    assert "secret" not in f"{public.facts} {public.title}"
    assert public.facts["arguments left out"].startswith("1 ")
    assert private.facts["command"].endswith("--key=secret")
