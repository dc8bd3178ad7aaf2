"""The guide for agents: short, and every command line in it answers."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from meantime.cli import COMMANDS, main
from meantime.cli.guide import guide

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = {
    "trace.json": "training.json.gz",
    "states.gz": "postgres.statemap.gz",
    "sched.perf": "sched.perf.gz",
}


def command_lines() -> list[str]:
    blocks = guide().split("```sh\n")[1:]
    return [line for block in blocks for line in block.split("```")[0].splitlines()]


@pytest.mark.parametrize("line", command_lines())
def test_a_command_line_of_the_guide_answers(
    line: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, sample in SAMPLES.items():
        (tmp_path / name).symlink_to(root / "examples" / sample)
    monkeypatch.chdir(tmp_path)
    program, *words = shlex.split(line)

    with pytest.raises(SystemExit) as stopped:
        main(words)

    out, err = capsys.readouterr()
    assert (program, stopped.value.code) == ("meantime", 0), err
    assert "there is nothing" not in err
    if "--json" in words:
        answers = [json.loads(each) for each in out.splitlines()]
        assert answers
        assert len(out) <= 65_000
        rows = ("rows", "shares", "findings", "counts")
        assert all(answers[0].get(name, True) for name in rows)
    else:
        assert (tmp_path / words[-1]).stat().st_size > 0


def test_the_guide_is_short_and_is_the_skill_file(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for words in (["guide"], ["guide", "--skill"]):
        with pytest.raises(SystemExit):
            main(words)
        printed.append(capsys.readouterr().out)

    short, skill = printed
    assert short == guide()
    assert len(short.encode()) < 8_000
    assert skill.endswith(short)
    head = skill.removesuffix(short)
    assert head.startswith("---\nname: meantime\ndescription: ")
    assert head.endswith("\n---\n")
    assert {each.split()[1] for each in command_lines()} <= set(COMMANDS)
