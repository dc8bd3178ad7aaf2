"""Builds the compiled core; everything else is in pyproject.toml.

With MEANTIME_SANITIZE set, for example to `address,undefined`, the core is compiled to stop at the
first bad access instead of to be fast: see "Fuzz the readers" in CONTRIBUTING.md.

With MEANTIME_PYTHONS set, to interpreters as in PATH, one wheel is built for all of them: see
docs/release.md.
"""

import gc
import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Callable
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import BaseError, CCompilerError, CompileError
from setuptools.modified import newer_group

# A build does not look for modules beside this script.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from stubs import write_stubs

SOURCE = Path("src")
# What makes a Python that is started with MEANTIME=1 wait for `meantime attach`.
AT_START = "meantime_enable.pth"
# It reads the interpreter's own structures, which differ from version to version: it is optional.
RECORDER = "meantime.collect._recorder"
RECORDED_VERSIONS = ((3, 11), (3, 15))
NO_COMPILER = (
    "meantime's core is written in C, and {program} cannot be run: install a C compiler "
    "(apt-get install build-essential, or xcode-select --install), or a wheel, which needs none"
)
NO_HEADERS = (
    "{program} does not find Python.h: install the headers of Python {version} "
    "(apt-get install python{version}-dev), or a wheel, which needs none"
)
NO_WIDE_INTEGERS = (
    "{program} has no 128-bit integers, which meantime's core needs to divide times exactly: "
    "use gcc or clang (on Windows, that of MinGW-w64), or a wheel, which needs none"
)
# How a source names the files that it is compiled with.
INCLUDED = re.compile(r'^\s*(?:#\s*include|cdef extern from|include)\s+"([^"]+)"', re.MULTILINE)
CIMPORTED = re.compile(r"^\s*from meantime\.kernels\.(\w+) cimport", re.MULTILINE)
TRANSLATED = {".pyx", ".pxd", ".pxi"}
# Cython's support for typed memoryviews is larger than most kernels. It is compiled once, into a
# module that the kernels import; otherwise every kernel would carry a copy of it.
SHARED = "meantime.kernels._shared"
# A source distribution has the translations, made once, so that who installs it only compiles.
SHIPPED = Path("translated")
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
    "state_lengths",
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
    "dithered_rows",
    "export_rows",
    "jfr",
    "linux_records",
    "nest",
    "overview",
    "perf",
    "perf_data",
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
    "trace_dat",
    "tracepoints",
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
PROCESSORS = (
    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
)
# For one wheel that several Pythons install, kernels are compiled for the part of Python's
# interface that never changes, as it was in the oldest of them: small calls take up to a third
# longer. The recorder needs the other part, so there is one for each of these Pythons, and an
# import takes the one whose name fits.
PYTHONS = [each for each in os.environ.get("MEANTIME_PYTHONS", "").split(os.pathsep) if each]
LIMITED = {
    "define_macros": [("Py_LIMITED_API", "0x030b0000")],
    "py_limited_api": True,
}
LIMITED_OPTIONS = {
    "bdist_wheel": {"py_limited_api": "cp311"},
    # Not where modules for one Python or for others are, which a wheel would have as well; and
    # the same whichever of them builds it.
    "build": {
        "build_base": "build/limited",
        "build_lib": "-".join(["build/limited/lib", *(Path(each).name for each in PYTHONS)]),
    },
}
PLACES = "import sysconfig as s; print(s.get_path('include'), s.get_config_var('EXT_SUFFIX'))"
# processes that are not forked would run this script again, which begins another build
CAN_FORK = sys.platform == "linux"
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
    # Annotations are for the stubs.
    "annotation_typing": False,
}


def compile_flags(name: str) -> list[str]:
    if not SANITIZE:
        flags = ["-O3"] if name in FASTER_WITH_O3 else COMPILED_SOON
        flags = ["-O2"] if name in FASTER_WITH_O2 else flags
        return [*flags, "-g0"]
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


def report(line: str) -> None:
    # written as one, since several modules are compiled at once
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def report_no_recorder(reason: str) -> None:
    report(f"meantime is installed without its recorder, so all but recording works: {reason}")


def sources() -> list[Path]:
    """Return what is to be compiled: all, but for a recorder that is not supported here."""
    found = sorted(SOURCE.rglob("*.pyx"))
    if reason := unsupported():
        report_no_recorder(reason)
        found = [path for path in found if module_name(path) != RECORDER]
    return found


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def included(path: Path) -> set[Path]:
    """Return the project's files that a source is compiled with, directly or through others."""
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        source = waiting.pop()
        text = source.read_text(encoding="utf-8")
        named = [source.parent / name for name in INCLUDED.findall(text)]
        named += [
            SOURCE / "meantime" / "kernels" / f"{name}.pxd" for name in CIMPORTED.findall(text)
        ]
        own = [Path(os.path.normpath(file)) for file in (*named, source.with_suffix(".pxd"))]
        new = {file for file in own if file.exists()} - found
        found |= new
        waiting += new
    return found


def extension(path: Path) -> Extension:
    return Extension(
        module_name(path),
        [str(path)],
        include_dirs=[str(path.parent)],
        extra_compile_args=compile_flags(path.stem),
        extra_link_args=[f"-fsanitize={SANITIZE}"] if SANITIZE else [],
        depends=sorted(map(str, included(path))),
        # a wheel that is published must have all
        optional=module_name(path) == RECORDER and not PYTHONS,
        **(LIMITED if PYTHONS and module_name(path) != RECORDER else {}),
    )


def check_compiler(compiler: Any) -> None:
    """Compile nothing but Python's headers, before half a minute goes into translating the core.

    Raises:
        CompileError: If there is no compiler, it has no integers of 128 bits, as Microsoft's, or it
            does not find the headers; what to do.
    """
    program = next(iter(getattr(compiler, "compiler_so", None) or ["the C compiler"]))
    version = "{}.{}".format(*sys.version_info)
    with TemporaryDirectory() as folder:
        source = Path(folder, "headers.c")
        for text, lacking in (
            ("int here;", NO_COMPILER),
            ("__int128 here;", NO_WIDE_INTEGERS),
            ("#include <Python.h>", NO_HEADERS),
        ):
            source.write_text(f"{text}\n", encoding="utf-8")
            try:
                compiler.compile([str(source)], folder)
            except (BaseError, CCompilerError, OSError):
                raise CompileError(lacking.format(program=program, version=version)) from None


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


def is_translated(source: Path, translation: Path) -> bool:
    """Return whether a translation is newer than all that it was made of.

    Cython also compares it with its own files, which pip installs again for each build. Headers
    are not part of it: only the compiler reads them.
    """
    if not translation.exists():
        return False
    read = [source, *(path for path in included(source) if path.suffix in TRANSLATED)]
    newest = max(path.stat().st_mtime_ns for path in (*read, Path(__file__)))
    return translation.stat().st_mtime_ns > newest


def generate_shared(path: str) -> None:
    subprocess.run([sys.executable, "-m", "cython", f"--generate-shared={path}"], check=True)


def translate(extensions: list[Extension], generated: Path, shared: str | None) -> None:
    from Cython.Build import cythonize

    translated = cythonize(
        extensions,
        force=True,
        nthreads=PROCESSORS if CAN_FORK and len(extensions) > 1 else 0,
        build_dir=str(generated),
        emit_linenums=bool(SANITIZE),  # reports name lines of the .pyx, not of the C
        language_level=3,
        # The recorder's functions become methods of other classes.
        compiler_directives=DIRECTIVES if shared else DIRECTIVES | {"binding": True},
        shared_utility_qualified_name=shared,
    )
    if not SANITIZE:
        for each in translated:
            called_often = each.name.rpartition(".")[2] in CALLED_OFTEN
            leave_unoptimized(Path(*each.sources), called_often=called_often)


class Beside:
    """A call in a process of its own, or at once where processes cannot be forked."""

    def __init__(self, function: Callable[..., None], *args: object) -> None:
        self._process = None
        if CAN_FORK:
            self._process = multiprocessing.get_context("fork").Process(target=function, args=args)
            self._process.start()
        else:
            function(*args)

    def wait(self) -> None:
        if self._process is not None:
            self._process.join()
            if self._process.exitcode:
                raise CompileError("a module cannot be translated; Cython's message is above")


def translation_paths(extensions: list[Extension], folder: Path) -> dict[str, Path]:
    return {
        each.name: folder / Path(*(each.sources or ["_shared"])).with_suffix(".c")
        for each in extensions
    }


def translate_core(extensions: list[Extension], before: Callable[[], None]) -> dict[str, Path]:
    """Return the translation of each module; `before` is called before any is made."""
    own = [each for each in extensions if each.name != SHARED]
    shipped = translation_paths(extensions, SHIPPED)
    if not SANITIZE and all(is_translated(Path(*each.sources), shipped[each.name]) for each in own):
        return shipped
    # Imported here, since nothing above needs it.
    import Cython

    # The processes of cythonize inherit it. Nearly all objects stay until their module is
    # translated: a third of the time would go into the search for others, which saves 200 MB.
    gc.disable()
    if CAN_FORK:
        multiprocessing.set_start_method("fork", force=True)
    variant = "-sanitized" if SANITIZE else ""
    generated = Path("build") / f"cython-{Cython.__version__}{variant}"
    generated.mkdir(parents=True, exist_ok=True)
    translations = translation_paths(extensions, generated)
    stale = [
        each for each in own if not is_translated(Path(*each.sources), translations[each.name])
    ]
    recorders = [each for each in stale if each.name == RECORDER]
    kernels = [each for each in stale if each.name != RECORDER]
    beside = []
    if stale:
        before()
    if not translations[SHARED].exists():
        beside.append(Beside(generate_shared, str(translations[SHARED])))
    # The recorder is loaded into other programs, so it imports nothing of the kernels. One
    # module occupies one processor: its translation goes on beside those of the kernels.
    if recorders:
        beside.append(Beside(translate, recorders, generated, None))
    if kernels:
        translate(kernels, generated, SHARED)
    for process in beside:
        process.wait()
    # Cython copies headers beside its translations, where the compiler would find them first
    # and not see that theirs were edited since.
    for copied in generated.rglob("*.h"):
        copied.unlink()
    return translations


class BuildCore(build_ext):
    """Translate and compile the core, printing each step: this is most of an installation."""

    def finalize_options(self) -> None:
        write_stubs(SOURCE / "meantime" / "kernels")
        super().finalize_options()

    def build_extensions(self) -> None:
        translations = translate_core(self.extensions, lambda: check_compiler(self.compiler))
        for each in self.extensions:
            each.sources = [str(translations[each.name])]
        # What takes long begins first, or one processor would wait at the end.
        self.extensions.sort(key=lambda each: -Path(*each.sources).stat().st_size)
        super().build_extensions()

    def is_stale(self, ext: Extension) -> bool:
        """Return whether a module must be compiled: any of its files is newer than it is."""
        read = [*ext.sources, *ext.depends]
        return bool(self.force or newer_group(read, self.get_ext_fullpath(ext.name), "newer"))

    def build_extension(self, ext: Extension) -> None:
        if PYTHONS and ext.name == RECORDER:
            self._compile_for_others(ext)
        if self.editable_mode:
            self._keep_module_in_place(ext)
        if not self.is_stale(ext):
            return
        report(f"compiling {ext.name}")
        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError):
            if not ext.optional:
                raise
            report_no_recorder("it cannot be compiled; the compiler's message is above")

    def _compile_for_others(self, ext: Extension) -> None:
        path, compiler = Path(self.get_ext_fullpath(ext.name)), copy(self.compiler)
        compiler.include_dirs = []  # the headers of this Python
        for python in PYTHONS:
            found = subprocess.run(
                [python, "-c", PLACES], check=True, capture_output=True, text=True
            )
            include, suffix = found.stdout.split()
            module = path.with_name(path.name.partition(".")[0] + suffix)
            if module == path or not newer_group(
                [*ext.sources, *ext.depends], str(module), "newer"
            ):
                continue
            report(f"compiling {ext.name} for {python}")
            objects = compiler.compile(
                ext.sources,
                output_dir=str(Path(self.build_temp, module.stem)),
                include_dirs=[*ext.include_dirs, include],
                extra_postargs=ext.extra_compile_args,
            )
            compiler.link_shared_object(objects, str(module), extra_postargs=ext.extra_link_args)

    def _keep_module_in_place(self, ext: Extension) -> None:
        """Use what `build_ext --inplace` compiled: an editable installation starts without."""
        place, built = SOURCE / self.get_ext_filename(ext.name), self.get_ext_fullpath(ext.name)
        if place.exists() and not newer_group([*ext.sources, *ext.depends], str(place), "newer"):
            self.mkpath(str(Path(built).parent))
            self.copy_file(str(place), built)


class BuildModules(build_py):
    """Add the file that Python reads at its start, beside the package and not in it."""

    def finalize_options(self) -> None:
        write_stubs(SOURCE / "meantime" / "kernels")
        super().finalize_options()

    def run(self) -> None:
        super().run()
        # an editable installation has modules where they are, and all else in its wheel
        wheel = self.get_finalized_command("install").install_lib
        directory = wheel if self.editable_mode else self.build_lib
        self.copy_file(str(SOURCE / AT_START), str(Path(directory, AT_START)))


class Wheel(bdist_wheel):
    """Pack files with one mode, whatever those of a checkout are."""

    def write_wheelfile(self, wheelfile_base: str, **given: Any) -> None:
        super().write_wheelfile(wheelfile_base, **given)
        for path in Path(self.bdist_dir).rglob("*"):
            # the same sources are the same bytes
            path.chmod(0o755 if path.is_dir() or path.suffix == ".so" else 0o644)


class SourceDistribution(sdist):
    """Add the translated core, which takes a quarter of an installation to make."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        extensions = self.distribution.ext_modules
        shipped = translation_paths(extensions, Path(base_dir, SHIPPED))
        for name, translation in translate_core(extensions, before=lambda: None).items():
            self.mkpath(str(shipped[name].parent))
            self.copy_file(str(translation), str(shipped[name]))


setup(
    ext_modules=[
        Extension(SHARED, [], extra_compile_args=["-O1", "-g0"], **(LIMITED if PYTHONS else {})),
        *map(extension, sources()),
    ],
    cmdclass={
        "build_ext": BuildCore,
        "build_py": BuildModules,
        "bdist_wheel": Wheel,
        "sdist": SourceDistribution,
    },
    options={"build_ext": {"parallel": PROCESSORS}, **(LIMITED_OPTIONS if PYTHONS else {})},
)
