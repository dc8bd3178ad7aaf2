"""Records the activity of a running program's tasks, event loops, pools and threads.

Modules that run inside the program import only the standard library and `_recorder`, the compiled
part. `docs/reference/recording-format.md` specifies the files that they write.
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
