"""Where the recorder cannot be compiled, everything else is installed, and recording says why."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    BuildScript = Callable[[Path], dict[str, Any]]

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


def modules(given: dict[str, Any]) -> set[str]:
    return {extension.name for extension in given["ext_modules"]}


def test_only_the_recorder_is_optional(root: Path, build_script: BuildScript) -> None:
    given = build_script(root)

    assert [each.name for each in given["ext_modules"] if each.optional] == [RECORDER]


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (("version_info", Version(3, 99)), "cpython 3.99 is not supported"),
        (("platform", "darwin"), "darwin is not supported"),
        (("abiflags", "t"), "free-threaded Python 3."),
    ],
)
def test_everything_else_is_compiled_where_the_recorder_is_not_supported(
    root: Path,
    *,
    monkeypatch: pytest.MonkeyPatch,
    build_script: BuildScript,
    capfd: pytest.CaptureFixture[str],
    patch: tuple[str, object],
    reason: str,
) -> None:
    everywhere = modules(build_script(root))
    assert capfd.readouterr().err == ""
    with monkeypatch.context() as patched:
        patched.setattr(sys, *patch)
        here = modules(build_script(root))

    assert everywhere - here == {RECORDER}
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(WITHOUT_RECORDER + reason)


@pytest.mark.parametrize("broken", [RECORDER, "meantime.kernels.records"])
def test_only_the_recorder_may_fail_to_compile(
    root: Path,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    build_script: BuildScript,
    capfd: pytest.CaptureFixture[str],
    broken: str,
) -> None:
    given = build_script(root)
    monkeypatch.chdir(tmp_path)
    extensions = []
    for each in given["ext_modules"]:
        if each.name in {RECORDER, "meantime.kernels.records", "meantime.kernels.tasks"}:
            source = tmp_path / f"{each.name}.c"
            init = each.name.rpartition(".")[2]
            source.write_text("#error\n" if each.name == broken else f"int PyInit_{init};\n")
            each.sources, each.depends = [source.name], []
            extensions.append(each)
    monkeypatch.setitem(
        given["cmdclass"]["build_ext"].build_extensions.__globals__,
        "translate_core",
        lambda extensions, _: {each.name: each.sources[0] for each in extensions},
    )
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


def test_a_version_without_a_recorder_is_told_which_have_one(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    last = runpy.run_path(str(root / "setup.py"))["RECORDED_VERSIONS"][1]
    for version in (last, (last[0], last[1] + 1)):
        code = f"""
import sys
sys.version_info = (*{version}, 0, "final", 0)
from meantime import collect
from meantime.errors import MeantimeError
try:
    collect._recorder
except MeantimeError as error:
    print(error)
"""
        done = subprocess.run(
            [sys.executable, "-c", HIDDEN.format(error="ModuleNotFoundError('none')") + code],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        said = "meantime was installed without its recorder" if version == last else "yet: it needs"
        assert said in done.stdout
    assert done.stdout.endswith(f"Python 3.11 to {last[0]}.{last[1]}\n")


def test_everything_else_works_without_the_recorder(root: Path) -> None:
    code = HIDDEN.format(error="ModuleNotFoundError('none')") + (
        "from meantime.cli import main\n"
        "sys.argv = ['meantime', 'info', 'examples/postgres.statemap.gz']\nmain()"
    )

    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=root)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["record", "true"], "recording is not possible on darwin yet: it needs Linux"),
        (
            ["record-system", "cpu", "-o", "x.statemap"],
            "recording a system is not possible on darwin: it needs Linux",
        ),
    ],
)
def test_commands_that_record_report_that_they_need_linux(
    tmp_path: Path, words: list[str], said: str
) -> None:
    code = (
        "import sys; sys.platform = 'darwin'; from meantime.cli import main;"
        f"sys.argv = {['meantime', *words]}; main()"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert done.returncode == 1
    assert done.stderr == f"meantime: {said}\n"
    assert not list(tmp_path.iterdir())


def test_the_message_names_the_last_version_that_setup_compiles_for(root: Path) -> None:
    declared = re.search(
        r"RECORDED_VERSIONS = .*, \((\d+, \d+)\)\)", (root / "setup.py").read_text()
    )
    message = (root / "src/meantime/collect/__init__.py").read_text()

    assert declared is not None
    assert f"_LAST_RECORDED = ({declared[1]})" in message
