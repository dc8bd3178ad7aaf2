"""The core is built once, and an edit recompiles what was made of the edited file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

setuptools: Any = import_module("setuptools")  # it comes without types
commands: Any = import_module("setuptools.command.build_ext")  # as above
cython: Any = import_module("Cython")  # as above
SOURCES = {".pyx", ".pxd", ".pxi", ".h"}
KERNELS = "src/meantime/kernels"
RECORD_KINDS = {"_recorder", "record_kinds", "records", "tasks"}
EARLIER_S = 10**9


class Checkout:
    """A copy of the sources in which all is built, by tools that only touch their results."""

    def __init__(
        self,
        root: Path,
        folder: Path,
        build_script: Callable[[Path], dict[str, Any]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.folder = folder
        self._build_script = build_script
        self.translated: set[str] = set()
        self.compiled: set[str] = set()
        self.damaged: str | None = None
        scripts = {root / "setup.py", root / "stubs.py"}
        for path in (*scripts, *(root / "src").rglob("*")):
            if path.suffix in SOURCES | {".pth"} or path in scripts:
                copy = folder / path.relative_to(root)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
        self.translations = folder / "build" / f"cython-{cython.__version__}"
        self.translations.mkdir(parents=True)
        (self.translations / "_shared.c").touch()

        def cythonize(extensions: Iterable[Any], **_: object) -> list[Any]:
            for each in (extensions := list(extensions)):
                name = each.name.rpartition(".")[2]
                if name == self.damaged:
                    raise ValueError(name)
                self.translated.add(name)
                result = Path(self.translations, *each.sources).with_suffix(".c")
                result.parent.mkdir(parents=True, exist_ok=True)
                result.touch()
                each.sources = [str(result)]
            return extensions

        def compile_extension(command: Any, extension: Any) -> None:
            self.compiled.add(extension.name.rpartition(".")[2])
            module = Path(command.get_ext_fullpath(extension.name))
            module.parent.mkdir(parents=True, exist_ok=True)
            module.write_bytes(b"")

        monkeypatch.setattr("Cython.Build.cythonize", cythonize)
        # it is of the whole process, which runs other tests
        monkeypatch.setattr("multiprocessing.set_start_method", lambda *_, **__: None)
        monkeypatch.setattr(commands.build_ext, "build_extension", compile_extension)
        self.build()
        for path in folder.rglob("*"):
            if path.is_file():
                # of a build, each step is later than the one before
                step = {".c": 1, ".so": 2}.get(path.suffix, 0)
                os.utime(path, (EARLIER_S + step, EARLIER_S + step))

    def build(self, library: str | None = None) -> None:
        given = self._build_script(self.folder)
        command = setuptools.Distribution({**given, "package_dir": {"": "src"}}).get_command_obj(
            "build_ext"
        )
        command.inplace = True
        if library is not None:
            command.editable_mode = True
            command.build_lib = library
        command.ensure_finalized()
        self.translated.clear()
        self.compiled.clear()
        command.run()

    def distribute(self, into: Path) -> None:
        """Make the folder that a source distribution is packed from, with what is given."""
        given = self._build_script(self.folder)
        command = setuptools.Distribution({**given, "package_dir": {"": "src"}}).get_command_obj(
            "sdist"
        )
        command.ensure_finalized()
        self.translated.clear()
        files = [path for path in self.folder.rglob("*") if "build" not in path.parts]
        command.make_release_tree(
            str(into), [str(path.relative_to(self.folder)) for path in files if path.is_file()]
        )

    def edit(self, name: str) -> None:
        os.utime(self.folder / name, (EARLIER_S + 3, EARLIER_S + 3))


@pytest.fixture
def checkout(
    root: Path,
    tmp_path: Path,
    build_script: Callable[[Path], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> Checkout:
    return Checkout(root, tmp_path, build_script, monkeypatch)


@pytest.mark.parametrize(
    ("edited", "translated", "compiled"),
    [
        (f"{KERNELS}/crc.h", set[str](), {"checksum"}),
        # included by a header of two of them
        (f"{KERNELS}/span_flags.h", set[str](), {"chrome", "nest", "spall"}),
        # named in a .pxd that the others cimport
        ("src/meantime/collect/record_kinds.h", set[str](), RECORD_KINDS),
        (f"{KERNELS}/record_kinds.pxd", *[RECORD_KINDS - {"_recorder"}] * 2),
        # .pxd files that cimport one another
        (f"{KERNELS}/shares_totals.pxd", *[{"shares", "shares_totals"}] * 2),
        (f"{KERNELS}/statemap_payload.pxi", *[{"scan_statemap"}] * 2),
        (f"{KERNELS}/heat.pyx", *[{"heat"}] * 2),
    ],
)
def test_an_edit_recompiles_what_was_made_of_the_file(
    checkout: Checkout,
    capfd: pytest.CaptureFixture[str],
    edited: str,
    translated: set[str],
    compiled: set[str],
) -> None:
    checkout.build()
    assert checkout.compiled | checkout.translated == set()

    checkout.edit(edited)
    capfd.readouterr()
    checkout.build()

    assert checkout.translated == translated
    assert checkout.compiled == compiled
    said = {line for line in capfd.readouterr().err.splitlines() if line.startswith("compiling ")}
    assert {line.rpartition(".")[2] for line in said} == compiled


def test_without_a_compiler_or_headers_a_sentence_says_what_to_do(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.edit(f"{KERNELS}/heat.pyx")
    failed: Any = import_module("setuptools.errors").CompileError

    monkeypatch.setenv("CC", str(tmp_path / "missing"))
    with pytest.raises(failed, match=r"written in C, and .*missing cannot be run: install a C com"):
        checkout.build()

    compiler = tmp_path / "cc"
    monkeypatch.setenv("CC", str(compiler))
    for lacking, message in (
        ("<Python.h>", "cc does not find Python.h: install the headers of Python 3"),
        ("__int128", "cc has no 128-bit integers, which .* use gcc or clang "),
    ):
        compiler.write_text(
            f'#!/bin/sh\nfor each; do grep -qs "{lacking}" "$each" && exit 1; done\nexit 0\n'
        )
        compiler.chmod(0o755)
        with pytest.raises(failed, match=message):
            checkout.build()
    assert checkout.translated == set()


def test_a_source_distribution_is_compiled_without_being_translated(
    checkout: Checkout, tmp_path_factory: pytest.TempPathFactory
) -> None:
    checkout.edit(f"{KERNELS}/heat.pyx")
    unpacked = tmp_path_factory.mktemp("unpacked")
    checkout.distribute(unpacked)
    assert checkout.translated == {"heat"}

    checkout.folder = unpacked
    checkout.build()

    modules = {path.stem for path in unpacked.rglob("*.pyx")} | {"_shared"}
    assert (checkout.translated, checkout.compiled) == (set(), modules)

    # then all are, since those of two translators do not fit together
    os.utime(unpacked / KERNELS / "heat.pyx")
    (unpacked / "build" / f"cython-{cython.__version__}").mkdir(parents=True)
    (unpacked / "build" / f"cython-{cython.__version__}" / "_shared.c").touch()
    checkout.translations = unpacked / "build" / f"cython-{cython.__version__}"
    checkout.build()
    # the recorder is translated by a process of its own
    assert checkout.translated == modules - {"_shared", "_recorder"}


def test_a_core_without_the_recorder_is_built(
    root: Path,
    tmp_path: Path,
    build_script: Callable[[Path], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "abiflags", "t")

    checkout = Checkout(root, tmp_path, build_script, monkeypatch)

    kernels = {path.stem for path in (tmp_path / KERNELS).glob("*.pyx")}
    assert checkout.translated == kernels
    assert checkout.compiled == kernels | {"_shared"}


def test_a_wheel_for_several_pythons_has_a_recorder_for_each(
    root: Path,
    tmp_path: Path,
    build_script: Callable[[Path], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = tmp_path / "python3.99"
    other.write_text("#!/bin/sh\necho /usr/include .cpython-399-some.so\n")
    other.chmod(0o755)
    monkeypatch.setenv("MEANTIME_PYTHONS", f"{sys.executable}{os.pathsep}{other}")

    checkout = Checkout(root, tmp_path, build_script, monkeypatch)

    built = {path.name for path in (tmp_path / "build" / "limited").rglob("*.so")}
    kernels = {path.stem for path in (tmp_path / KERNELS).glob("*.pyx")} | {"_shared"}
    abi3 = {f"{name}.abi3.so" for name in kernels}
    own = f"_recorder{sysconfig.get_config_var('EXT_SUFFIX')}"
    # since Python 3.15 these names have the platform, too
    platform = f"-{sysconfig.get_config_var('SOABI_PLATFORM')}"
    assert {name.replace(platform, "") for name in built} == {
        *abi3,
        own.replace(platform, ""),
        "_recorder.cpython-399-some.so",
    }
    checkout.build()
    assert not checkout.compiled


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        # which one wheel for all Pythons needs
        ("gcc", ["-fsyntax-only", "-DPy_LIMITED_API=0x030b0000"]),
        ("aarch64-linux-gnu-gcc", ["-fsyntax-only"]),
        # It has the headers of macOS, and can do no less than compile.
        ("zig", ["cc", "-target", "aarch64-macos", "-c", "-o", "kernel.o"]),
        ("zig", ["cc", "-target", "x86_64-macos", "-c", "-o", "kernel.o"]),
    ],
)
def test_kernels_compile_everywhere(
    root: Path, tmp_path: Path, compiler: str, flags: list[str]
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    translated = sorted((root / "build").glob("cython-*/src/meantime/kernels/*.c"))
    if not translated:
        pytest.skip("nothing was translated here: meantime was installed from elsewhere")
    folder = translated[-1].parent
    sources = [folder / f"{path.stem}.c" for path in sorted((root / KERNELS).glob("*.pyx"))]
    include = sysconfig.get_path("include")
    failed = []
    for source in sources:
        command = [compiler, *flags, "-w", "-Werror=implicit-function-declaration"]
        paths = [f"-I{include}", f"-I{root / KERNELS}"]
        done = subprocess.run(
            [*command, *paths, source], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        if done.returncode:
            failed.append(f"{source.name}: {done.stderr.splitlines()[:3]}")

    assert failed == []


@pytest.mark.parametrize("damaged", ["collect/_recorder", "kernels/heat"])
def test_a_module_that_cannot_be_translated_ends_the_build(
    checkout: Checkout, damaged: str
) -> None:
    checkout.edit(f"src/meantime/{damaged}.pyx")
    checkout.damaged = damaged.rpartition("/")[2]

    with pytest.raises((setuptools.errors.CompileError, ValueError)):
        checkout.build()

    assert not checkout.compiled


def test_the_compiler_finds_no_header_but_the_edited_one(checkout: Checkout) -> None:
    copied = checkout.translations / KERNELS / "crc.h"  # Cython puts it there
    copied.touch()

    checkout.build()

    assert not copied.exists()


def test_an_editable_installation_uses_the_modules_in_place(checkout: Checkout) -> None:
    checkout.edit(f"{KERNELS}/crc.h")

    checkout.build("wheel")

    assert checkout.compiled == {"checksum"}
    named = {path.name.partition(".")[0] for path in (checkout.folder / "wheel").rglob("*.so")}
    assert named == {path.stem for path in checkout.folder.rglob("*.pyx")} | {"_shared"}


# translates in processes, as the real one does
TRANSLATOR = """
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

def translated(name, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"int PyInit_{name};")

def cythonize(extensions, nthreads, build_dir, **options):
    paths = [Path(build_dir, *each.sources).with_suffix(".c") for each in extensions]
    with ProcessPoolExecutor(nthreads) as pool:
        list(pool.map(translated, [path.stem for path in paths], paths))
    for each, path in zip(extensions, paths):
        each.sources = [str(path)]
    return extensions
"""


def test_the_core_is_translated_by_processes_that_do_not_build_it_again(
    root: Path, tmp_path: Path
) -> None:
    files = {
        "setup.py": (root / "setup.py").read_text(),
        "stubs.py": (root / "stubs.py").read_text(),
        "src/meantime/kernels/first.pyx": "",
        "src/meantime/kernels/second.pyx": "",
        "tools/Cython/__init__.py": "__version__ = '0'",
        "tools/Cython/Build.py": TRANSLATOR,
        "tools/cython.py": "import sys; print('int PyInit__shared;', "
        "file=open(sys.argv[1].partition('=')[2], 'w'))",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext"],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "tools")},
        timeout=600,
    )

    built = {path.name.split(".")[0] for path in (tmp_path / "build").rglob("*.so")}
    assert built == {"first", "second", "_shared"}
