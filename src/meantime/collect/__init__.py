"""Records the activity of a running program's tasks, event loops, pools and threads.

Modules that run inside the program import only the standard library and `_recorder`, the compiled
part. `docs/reference/recording-format.md` specifies the files that they write.

- `session`, `launch`, `bootstrap/`, `enabling`, `messages`: the life of a recording; how it gets
  into a program that `meantime record` starts, or `meantime attach` switches on.
- `hooks`, `attaching`, `imports`, `pools`, `requests`: what is replaced in asyncio, uvloop, trio,
  thread pools and web servers, and when.
- `proxy.h`, `hooks.h`, `loops.h`, `locations.h`: steps of tasks, calls, turns of loops; the code
  that they belong to.
- `waits.h`, `threads.h`, `gil.h`, `pools.h`: waits of threads for locks, the GIL, files and
  processes, by replaced entries of the C library; items of pools.
- `internals.h`: the interpreter's internal headers, which only this file includes.
- `sampler.h`: the thread that takes samples, and the stack of a step that blocks its loop; it has
  descriptors of its own, since the kernel is slower where threads share them.
- `stream.h`, `ring.h`, `clock.h`, `own_files.h`, `recording.h`: records on their way to a file,
  and when they were made.

The recorder reads the interpreter's own structures, so it is an optional extension: where it is
not supported or does not compile, `meantime.collect` raises a `MeantimeError` with the reason when
the recorder is imported, and nothing else depends on it.

The sampler reads frames of its own process, of the one version that it was compiled for, and
without the GIL. `inspection` reads frames of another process, of any version, and rarely, so it is
in Python and its offsets are a table. The two share the reasons of waits, and the rule for what a
library is.
"""

from __future__ import annotations

import sys

# without typing, which a recorded program may not have imported
TYPE_CHECKING = False

__all__ = ["OTHER_INTERPRETER"]

# Why nothing is recorded in an interpreter that a program creates; also in the recording.
OTHER_INTERPRETER = "recording is not possible in another interpreter than the main one"
# The last version that the recorder is compiled for; also in setup.py.
_LAST_RECORDED = (3, 15)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import the recorder, which is missing where it could not be compiled.

        Raises:
            MeantimeError: If it cannot be imported: with the reason.
        """
        if name != "_recorder":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return __import__(f"{__name__}._recorder", fromlist=[name])
        except ImportError as error:
            from meantime.errors import MeantimeError  # noqa: PLC0415 - only where it is missing

            raise MeantimeError(_why_missing(error)) from error


def _is_other_interpreter() -> bool:
    try:
        name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
        interpreters = __import__(name)
    except ImportError:
        return False
    return bool(interpreters.get_current() != interpreters.get_main())


def _why_missing(error: ImportError) -> str:
    version = ".".join(map(str, sys.version_info[:2]))
    if not sys.platform.startswith("linux"):
        return f"recording is not possible on {sys.platform} yet: it needs Linux"
    if not isinstance(error, ModuleNotFoundError):
        if _is_other_interpreter():
            return OTHER_INTERPRETER
        return f"recording is not possible: the recorder cannot be loaded: {error}"
    if "t" in sys.abiflags:
        return "recording is not possible in a free-threaded Python yet"
    if sys.version_info[:2] > _LAST_RECORDED:
        needed = f"it needs Python 3.11 to {'.'.join(map(str, _LAST_RECORDED))}"
        return f"recording is not possible in Python {version} yet: {needed}"
    return (
        f"recording is not possible: meantime was installed without its recorder for Python "
        f"{version}; `pip install -v --force-reinstall meantime` shows why it was not compiled"
    )
