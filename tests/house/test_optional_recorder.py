"""Where the recorder cannot be compiled, everything else is installed, and recording says why."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from pathlib import Path

setuptools: Any = import_module("setuptools")  # it comes without types

RECORDER = "meantime.collect._recorder"
WITHOUT_RECORDER = "meantime is installed without its recorder, so all but recording works: "
# the finder is asked first, as the file is there
HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path, target=None):
        if name == "meantime.collect._recorder":
            raise {error}
sys.meta_path.insert(0, Hidden())
"""


class Version(NamedTuple):
    major: int
    minor: int
    micro: int = 0


def build_script(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what setup.py gives to `setup`."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", given.update)
    monkeypatch.chdir(root)
    runpy.run_path("setup.py")
    return given


def test_a_translation_is_used_if_it_is_newer_than_all_sources(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    monkeypatch.chdir(tmp_path)
    is_newer = runpy.run_path(str(root / "setup.py"))["is_newer"]
    source, translated = tmp_path / "src" / "kernel.pyx", tmp_path / "kernel.c"
    source.parent.mkdir()
    assert not is_newer([translated])

    for path, modified_s in ((source, 2**32), (translated, 2**32 + 1)):
        path.touch()
        os.utime(path, (modified_s, modified_s))
    assert is_newer([translated])

    source.with_suffix(".pxd").touch()
    os.utime(source.with_suffix(".pxd"), (2**32 + 1, 2**32 + 1))
    assert not is_newer([translated])


def modules(given: dict[str, Any]) -> set[str]:
    return {extension.name for extension in given["ext_modules"]}


def test_only_the_recorder_is_optional(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = build_script(root, monkeypatch)

    assert [each.name for each in given["ext_modules"] if each.optional] == [RECORDER]


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (("version_info", Version(3, 14)), "cpython 3.14 is not supported"),
        (("platform", "darwin"), "darwin is not supported"),
        (("abiflags", "t"), "free-threaded Python 3."),
    ],
)
def test_everything_else_is_compiled_where_the_recorder_is_not_supported(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    patch: tuple[str, object],
    reason: str,
) -> None:
    everywhere = modules(build_script(root, monkeypatch))
    assert capfd.readouterr().err == ""
    with monkeypatch.context() as patched:
        patched.setattr(sys, *patch)
        here = modules(build_script(root, patched))

    assert everywhere - here == {RECORDER}
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(WITHOUT_RECORDER + reason)


@pytest.mark.parametrize("broken", [RECORDER, "meantime.kernels.records"])
def test_only_the_recorder_may_fail_to_compile(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    broken: str,
) -> None:
    given = build_script(root, monkeypatch)
    monkeypatch.chdir(tmp_path)
    extensions = []
    for each in given["ext_modules"]:
        if each.name in {RECORDER, "meantime.kernels.records", "meantime.kernels.tasks"}:
            source = tmp_path / f"{each.name}.c"
            init = each.name.rpartition(".")[2]
            source.write_text("#error\n" if each.name == broken else f"int PyInit_{init};\n")
            each.sources, each.depends = [source.name], []
            extensions.append(each)
    monkeypatch.setattr(given["cmdclass"]["build_ext"], "_translate", lambda _: None)
    distribution = setuptools.Distribution({**given, "ext_modules": extensions})
    command = distribution.get_command_obj("build_ext")
    command.ensure_finalized()

    if broken != RECORDER:
        with pytest.raises(setuptools.errors.CompileError):
            command.run()
        return
    command.run()

    built = {path.name.split(".")[0] for path in tmp_path.rglob("*.so")}
    assert built == {"records", "tasks"}
    said = capfd.readouterr().err
    assert said.count(WITHOUT_RECORDER + "it cannot be compiled; ") == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("ModuleNotFoundError('none')", "meantime was installed without its recorder for Python"),
        ("ImportError('undefined symbol: x')", "the recorder cannot be loaded: undefined symbol"),
    ],
)
@pytest.mark.parametrize(
    "code",
    [
        "from meantime.cli import main; sys.argv = ['meantime', 'record', 'true']; main()",
        """
from meantime.errors import MeantimeError
import meantime
try:
    meantime.record('x.mtr')
except MeantimeError as error:
    sys.exit(f'meantime: {error}')
""",
    ],
    ids=["command", "function"],
)
def test_recording_reports_why_it_is_not_possible(
    tmp_path: Path, error: str, said: str, code: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN.format(error=error) + code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "recording is not possible: " + said in line
    assert not list(tmp_path.iterdir())


def test_everything_else_works_without_the_recorder(root: Path) -> None:
    code = HIDDEN.format(error="ModuleNotFoundError('none')") + (
        "from meantime.cli import main\n"
        "sys.argv = ['meantime', 'info', 'examples/postgres.statemap.gz']\nmain()"
    )

    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=root)
