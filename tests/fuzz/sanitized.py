"""The core compiled with sanitizers, in a copy of the sources, and programs that run with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

__all__ = ["compiled", "environment_of"]

_ROOT = Path(__file__).resolve().parents[2]
_SANITIZERS = "address,undefined"


def compiled(compiler: str, *, guided: bool = False, counted: bool = False) -> Path | None:
    """Compile a copy of the sources; return its folder, or None after a message.

    Args:
        compiler: The C compiler.
        guided: Whether the core also says which of its branches were taken.
        counted: Whether it counts that instead, without sanitizers or optimization: with gcc.
    """
    copy = _ROOT / "build" / f"sanitize-{compiler}{'-guided' if guided else ''}"
    sanitizers = f"fuzzer-no-link,{_SANITIZERS}" if guided else _SANITIZERS
    if counted:
        copy, sanitizers = _ROOT / "build" / "coverage", ""
    _copy_sources(copy)
    if counted:
        # behind what setup.py says, which is for speed
        wrapper = copy / "cc"
        wrapper.write_text(f'#!/bin/sh\nexec {compiler} "$@" -O0 --coverage\n')
        wrapper.chmod(0o755)
        compiler = str(wrapper)
    print(f"compiling in {copy}", flush=True)
    with (copy / "log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace"],
            cwd=copy,
            env={**os.environ, "MEANTIME_SANITIZE": sanitizers, "CC": compiler},
            stdout=log,
            stderr=log,
            check=False,
        )
    if done.returncode:
        print(f"it cannot be compiled: see {copy / 'log'}", file=sys.stderr)
        return None
    return copy


def environment_of(copy: Path, compiler: str, runtime: Path | None = None) -> dict[str, str]:
    """Return the environment of a program that is to use what was compiled.

    Args:
        copy: The folder with the copy.
        compiler: What compiled it.
        runtime: The sanitizer's library; None is the compiler's own.
    """
    # the sanitizer has to find C++'s throw as it starts, which pyarrow's libraries need later
    preloaded = [
        _library(compiler, _runtime_library(compiler)) if runtime is None else str(runtime),
        _library(compiler, "libstdc++.so.6"),
    ]
    return {
        **os.environ,
        "MEANTIME_SANITIZE": _SANITIZERS,
        "PYTHONPATH": str(copy / "src"),
        "LD_PRELOAD": " ".join(preloaded),
        # Python itself leaves memory to the end of the process. What is asked for and cannot be had
        # is for the project to handle, and small freed blocks need not be kept for long.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=2000"
        ":quarantine_size_mb=8:malloc_context_size=5",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # so that Python's own objects are watched, too
    }


def _library(compiler: str, name: str) -> str:
    found = subprocess.run(
        [compiler, f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True, check=True
    )
    return found.stdout.strip()


def _runtime_library(compiler: str) -> str:
    if "clang" in compiler:
        machine = sysconfig.get_platform().rpartition("-")[2]
        return f"libclang_rt.asan-{machine}.so"
    return "libasan.so"


def _copy_sources(copy: Path) -> None:
    """Bring a copy of what is compiled up to date; what did not change is not compiled again."""
    setup = copy / "setup.py"
    if setup.exists() and setup.read_bytes() != (_ROOT / "setup.py").read_bytes():
        shutil.rmtree(copy)  # with other flags everything is to be compiled again
        copy.mkdir()
    for name in ("setup.py", "stubs.py", "pyproject.toml", "README.md", "LICENSE"):
        _copy_if_new(_ROOT / name, copy / name)
    wanted = set()
    for path in (_ROOT / "src").rglob("*"):
        if path.is_file() and path.suffix not in (".so", ".pyc"):
            target = copy / path.relative_to(_ROOT)
            wanted.add(target)
            _copy_if_new(path, target)
    for path in (copy / "src").rglob("*.py"):
        if path not in wanted:
            path.unlink()


def _copy_if_new(path: Path, target: Path) -> None:
    if not target.exists() or target.stat().st_mtime_ns != path.stat().st_mtime_ns:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
