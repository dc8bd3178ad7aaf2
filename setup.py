"""Builds the compiled core; everything else is in pyproject.toml.

With MEANTIME_SANITIZE set, for example to `address,undefined`, the core is compiled to stop at the
first bad access instead of to be fast: see "Fuzz the readers" in CONTRIBUTING.md.
"""

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import BaseError, CCompilerError

SOURCE = Path("src")
# What makes a Python that is started with MEANTIME=1 wait for `meantime attach`.
AT_START = "meantime_enable.pth"
# It reads the interpreter's own structures, which differ from version to version: it is optional.
RECORDER = "meantime.collect._recorder"
RECORDED_VERSIONS = ((3, 11), (3, 13))
# What the recorder writes, and these kernels read.
READ_RECORDS = {"record_kinds", "records", "tasks"}
RECORD_KINDS = SOURCE / "meantime" / "collect" / "record_kinds.h"
# Cython's support for typed memoryviews is larger than most kernels. It is compiled once, into a
# module that the kernels import; otherwise every kernel would carry a copy of it.
SHARED = "meantime.kernels._shared"
# Measured: the loops of the first are 5 to 15 % faster with -O3, looking codes up three times as
# fast; those of the second are 5 to 40 % faster with -O2. The others gain nothing, and compile in
# two thirds of the time with -O1 and inlining.
FASTER_WITH_O3 = {
    "gather",
    "heat",
    "pyramid",
    "seal",
    "shares",
    "shares_cells",
    "shares_edges",
    "shares_rows",
    "shares_totals",
    "tail",
}
FASTER_WITH_O2 = {
    "_recorder",
    "calls",
    "chrome",
    "coalesce",
    "csv_rows",
    "ctf",
    "ctf_packets",
    "export_rows",
    "jfr",
    "linux_records",
    "nest",
    "overview",
    "perf",
    "perfetto",
    "pixel_columns",
    "scan_statemap",
    "service_rows",
    "spall",
    "span_search",
    "sqlite_rows",
    "strace",
    "tasks",
    "text",
}
COMPILED_SOON = ["-O1", "-finline-small-functions"]
# Their methods are called once for each change, name, event or state asked for, so what converts
# the arguments of calls matters too.
CALLED_OFTEN = {"_recorder", "attribute_tree", "event_cells", "event_rows", "search", "tail"}
# Elsewhere, what Cython adds to a module runs once in a call or an import. Not to optimize it takes
# a quarter off the compiler's time. clang does not know the pragma.
WRAPPER = re.compile(r"^/\* Python wrapper \*/\n.*?^}\n", re.MULTILINE | re.DOTALL)
AFTER_LOOPS = "/* #### Code section: module_exttypes ### */"
IMPORT = "/* #### Code section: init_module ### */"
UTILITIES = "/* #### Code section: utility_code_def ### */"
GCC_ONLY = "#if defined(__GNUC__) && !defined(__clang__)\n{}\n#endif\n"
UNOPTIMIZED = '#pragma GCC optimize ("O0")'
BEFORE = GCC_ONLY.format(f"#pragma GCC push_options\n{UNOPTIMIZED}")
AFTER = GCC_ONLY.format("#pragma GCC pop_options")
# How many objects Cython makes before those without references are looked for. Nearly all of them
# stay until their module is translated: with Python's own number, a third of the time goes into it.
COLLECT_AFTER = 1_000_000
PROCESSORS = len(os.sched_getaffinity(0))
SANITIZE = os.environ.get("MEANTIME_SANITIZE", "")
DIRECTIVES = {
    # Arrays that share one allocation, as those of a segment do, are out of sight of the address
    # sanitizer: an index that leaves one for the next is caught here.
    "boundscheck": bool(SANITIZE),
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
    # Neither is used, and both are compiled for each function or class: they take a tenth of an
    # installation. Functions then have no signature but that in their docstring.
    "auto_pickle": False,
    "binding": False,
}


def compile_flags(name: str) -> list[str]:
    if not SANITIZE:
        if name in FASTER_WITH_O3:
            return ["-O3", "-g0"]
        return [*(["-O2"] if name in FASTER_WITH_O2 else COMPILED_SOON), "-g0"]
    flags = ["-O1", "-g1", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}"]
    if "undefined" in SANITIZE:
        # Of `undefined`, alignment, bounds, null, object-size and shifts by too much always matter.
        # - Signed overflow: with -fwrapv, which is among Python's own flags, it is defined, so the
        #   compiler would not check it. But a time that wraps is a wrong figure.
        # - What a left shift loses of a signed number: gcc and clang define it, and kernels drop
        #   the sign of a double's bits that way.
        # - A double that does not fit the integer it becomes: undefined, but a check of its own.
        flags += [
            *("-fno-wrapv", "-fno-sanitize=shift-base", "-fsanitize=float-cast-overflow"),
            "-fno-sanitize-recover=all",
        ]
        if "clang" in os.environ.get("CC", ""):
            # It objects to NULL + 0, which is in the wrappers that Cython makes.
            flags.append("-fno-sanitize=pointer-overflow")
    return flags


def unsupported() -> str | None:
    """Return why the recorder cannot be compiled here; None if it can."""
    version = ".".join(map(str, sys.version_info[:2]))
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} is not supported"
    if "t" in sys.abiflags:
        return f"free-threaded Python {version} is not supported"
    first, last = RECORDED_VERSIONS
    if sys.implementation.name != "cpython" or not first <= sys.version_info[:2] <= last:
        return f"{sys.implementation.name} {version} is not supported"
    return None


def report_no_recorder(reason: str) -> None:
    print(
        f"meantime is installed without its recorder, so all but recording works: {reason}",
        file=sys.stderr,
        flush=True,
    )


def sources() -> list[Path]:
    """Return what is to be compiled: all, but for a recorder that is not supported here."""
    found = sorted(SOURCE.rglob("*.pyx"))
    if reason := unsupported():
        report_no_recorder(reason)
        found = [path for path in found if module_name(path) != RECORDER]
    return found


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def extension(path: Path) -> Extension:
    return Extension(
        module_name(path),
        [str(path)],
        include_dirs=[str(path.parent)],
        extra_compile_args=compile_flags(path.stem),
        extra_link_args=[f"-fsanitize={SANITIZE}"] if SANITIZE else [],
        depends=[
            *map(str, path.parent.glob("*.h")),
            *([str(RECORD_KINDS)] if path.stem in READ_RECORDS else []),
        ],
        optional=module_name(path) == RECORDER,
    )


def leave_unoptimized(source: Path, *, called_often: bool) -> None:
    """Mark what gcc need not optimize in a translated module: what runs in an import or a call."""
    text = source.read_text(encoding="utf-8")
    if UNOPTIMIZED in text:
        return
    if called_often:
        text = text.replace(IMPORT, BEFORE + IMPORT).replace(UTILITIES, AFTER + UTILITIES)
    else:
        text = WRAPPER.sub(lambda wrapper: f"{BEFORE}{wrapper[0]}{AFTER}", text)
        text = text.replace(AFTER_LOOPS, GCC_ONLY.format(UNOPTIMIZED) + AFTER_LOOPS)
    source.write_text(text, encoding="utf-8")


def is_newer(translated: list[Path]) -> bool:
    """Return whether all of a translation is newer than any of its sources.

    Cython also compares it with its own files, which pip installs again for each build.
    """
    if not all(path.exists() for path in translated):
        return False
    read = [path for path in SOURCE.rglob("*") if path.suffix in {".pyx", ".pxd", ".pxi", ".h"}]
    newest = max(path.stat().st_mtime_ns for path in [*read, Path(__file__)])
    return min(path.stat().st_mtime_ns for path in translated) > newest


class BuildCore(build_ext):
    """Translate and compile the core, printing each step: this is most of an installation."""

    def run(self) -> None:
        self._translate()
        super().run()

    def build_extension(self, ext: Extension) -> None:
        print(f"compiling {ext.name}", file=sys.stderr, flush=True)
        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError):
            if not ext.optional:
                raise
            report_no_recorder("it cannot be compiled; the compiler's message is above")

    def _translate(self) -> None:
        # Imported here, so that making a source distribution translates nothing.
        import Cython
        from Cython.Build import cythonize

        gc.set_threshold(COLLECT_AFTER)  # the processes of cythonize have it too
        variant = "-sanitized" if SANITIZE else ""
        generated = Path("build") / f"cython-{Cython.__version__}{variant}"
        by_name = {each.name: each for each in self.extensions}
        shared = by_name.pop(SHARED)
        recorders = [by_name.pop(name) for name in (RECORDER,) if name in by_name]
        shared.sources = [str(generated / "_shared.c")]
        if not Path(shared.sources[0]).exists():
            generated.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "cython", f"--generate-shared={shared.sources[0]}"]
            subprocess.run(command, check=True)
        # The recorder is loaded into other programs, so it imports nothing of the kernels.
        for extensions, name in (([*by_name.values()], SHARED), (recorders, None)):
            results = [generated / Path(*each.sources).with_suffix(".c") for each in extensions]
            if is_newer(results):
                for each, result in zip(extensions, results, strict=True):
                    each.sources = [str(result)]
                continue
            translated = cythonize(
                extensions,
                nthreads=PROCESSORS,
                build_dir=str(generated),
                emit_linenums=bool(SANITIZE),  # reports name lines of the .pyx, not of the C
                language_level=3,
                # The recorder's functions become methods of other classes.
                compiler_directives=DIRECTIVES if name else DIRECTIVES | {"binding": True},
                shared_utility_qualified_name=name,
            )
            for each, result in zip(extensions, translated, strict=True):
                each.sources = result.sources
                if not SANITIZE:
                    called_often = each.name.rpartition(".")[2] in CALLED_OFTEN
                    leave_unoptimized(Path(*each.sources), called_often=called_often)


class BuildModules(build_py):
    """Add the file that Python reads at its start, beside the package and not in it."""

    def run(self) -> None:
        super().run()
        # an editable installation has modules where they are, and all else in its wheel
        wheel = self.get_finalized_command("install").install_lib
        directory = wheel if self.editable_mode else self.build_lib
        self.copy_file(str(SOURCE / AT_START), str(Path(directory, AT_START)))


setup(
    ext_modules=[
        Extension(SHARED, [], extra_compile_args=["-O1", "-g0"]),
        *map(extension, sources()),
    ],
    cmdclass={"build_ext": BuildCore, "build_py": BuildModules},
    options={"build_ext": {"parallel": PROCESSORS}},
)
