"""What `import meantime` offers, to programs and to type checkers."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.collect.session import Options, record, start

if TYPE_CHECKING:
    from pathlib import Path


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in meantime.__all__ if getattr(meantime, name, None) is None] == []
    assert meantime.State("idle", 0) == meantime.State(name="idle", value=0, color=None)
    assert meantime.Clock().kind == "unknown"
    with pytest.raises(AttributeError, match="module 'meantime' has no attribute 'Providr'"):
        meantime.Providr  # type: ignore[attr-defined] # noqa: B018 - the mistake under test


def test_importing_meantime_loads_nothing_else() -> None:
    code = (
        "import sys; old = set(sys.modules); import meantime; print(*sorted({*sys.modules} - old))"
    )

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert printed == "__future__ meantime\n"


def test_recording_takes_the_keywords_of_its_options() -> None:
    options = list(inspect.signature(Options).parameters.values())

    for function in (start, record):
        path, *keywords = inspect.signature(function).parameters.values()
        assert path.name == "path"
        assert keywords == options


SNIPPET = """\
import meantime

reveal_type(meantime.heatmap("x"))
reveal_type(meantime.flame("x", start="1s"))
reveal_type(meantime.open("x"))
reveal_type(meantime.State("idle", 0))
meantime.Providr
meantime.record("x.mtr", sample=100)
meantime.start("x.mtr", samples="100")
meantime.heatmap("x", perid="1s")
"""


def test_type_checkers_see_the_public_names_and_no_others(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SNIPPET)

    printed = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", program.name],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    ).stdout

    lines = [line.partition("program.py:")[2] for line in printed.splitlines()]
    assert [line for line in lines if ": note:" in line and "Revealed" in line] == [
        '3: note: Revealed type is "meantime.views.heatmap.view.HeatmapView"',
        '4: note: Revealed type is "meantime.views.flame.view.FlameView"',
        '5: note: Revealed type is "meantime.history.history.History"',
        '6: note: Revealed type is "meantime.model.metadata.State"',
    ]
    assert [line for line in lines if ": error:" in line] == [
        '7: error: Module has no attribute "Providr"  [attr-defined]',
        (
            '8: error: Unexpected keyword argument "sample" for "record"; did you mean "samples"?'
            "  [call-arg]"
        ),
        (
            '9: error: Argument "samples" to "start" has incompatible type "str"; expected "float"'
            "  [arg-type]"
        ),
        (
            '10: error: Unexpected keyword argument "perid" for "heatmap"; did you mean "period"?'
            "  [call-arg]"
        ),
    ]
