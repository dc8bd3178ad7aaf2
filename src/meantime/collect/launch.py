"""Passes the options of a recording through the environment to each Python of a command."""

from __future__ import annotations

import os
import sys
import time

from meantime.collect.session import Options, begin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["begin_here", "environment"]

VARIABLE = "MEANTIME_RECORDING"


def environment(
    path: str, options: Options, *, follow: bool, base: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment in which a command's Pythons record themselves into `path`.

    Args:
        path: A directory that exists.
        options: What to record; its duration begins now, for all processes.
        follow: Whether processes that the command starts are recorded, too.
        base: The environment without a recording.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100,PTH120 - no pathlib inside the program
    settings: dict[str, object] = {
        **options.values(),
        "path": os.path.abspath(path),  # noqa: PTH100 - no pathlib inside the program
        "home": os.path.dirname(package),  # noqa: PTH120 - no pathlib inside the program
        "python": ".".join(map(str, sys.version_info[:2])),
        "cache_tag": sys.implementation.cache_tag,
        "follow": int(follow),
        "until_ns": time.monotonic_ns() + options.duration_ns if options.duration_ns else 0,
    }
    changed = dict(base)
    # lines rather than JSON, since a recorded Python must not import a parser
    changed[VARIABLE] = "\n".join(f"{name}={_escaped(value)}" for name, value in settings.items())
    bootstrap = os.path.join(package, "collect", "bootstrap")  # noqa: PTH118 - no pathlib inside the program
    before = base.get("PYTHONPATH")
    changed["PYTHONPATH"] = bootstrap + os.pathsep + before if before else bootstrap
    return changed


def _escaped(value: object) -> str:
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return text.replace("%", "%p").replace("\n", "%n")


def begin_here(settings: Mapping[str, str]) -> None:
    """Begin to record this process with the settings of `environment`."""
    if settings["follow"] == "0":
        _forget()
    duration_ns = 0
    # an absolute monotonic time, which all processes share: the duration is one for the command
    if settings["until_ns"] != "0":
        duration_ns = int(settings["until_ns"]) - time.monotonic_ns()
        if duration_ns <= 0:
            return
    options = Options.parsed({**settings, "duration_ns": str(duration_ns)})
    begin(settings["path"], options, fresh=False)


def _forget() -> None:
    del os.environ[VARIABLE]
    # the first entry is the bootstrap directory that `environment` added
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)[1:]
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        os.environ.pop("PYTHONPATH", None)
