"""Begins to record a Python that `meantime record` has started, directly or not.

It runs in any Python 3 that the command starts, so it is plain and never fails:
what goes wrong costs one line on standard error, and the program runs unrecorded.
"""

import os
import sys
from importlib import import_module


def _begin(text: str) -> None:
    import json  # noqa: PLC0415 - nothing is imported in a Python that is not recorded

    settings = json.loads(text)
    sys.path.insert(0, settings["home"])
    try:
        from meantime.collect.launch import begin_here  # noqa: PLC0415 - as above
    finally:
        sys.path.remove(settings["home"])
    begin_here(settings)


def _go_on() -> None:
    """Run the sitecustomize that this one stands before, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100,PTH120 - plain, see above
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]  # noqa: PTH100 - plain, see above
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import_module("sitecustomize")
    except ImportError as error:
        if getattr(error, "name", None) != "sitecustomize":
            raise
        # what has just been imported must still be there
        sys.modules["sitecustomize"] = ours  # type: ignore[assignment] # it was there


_settings = os.environ.get("MEANTIME_RECORDING")
if _settings:
    try:
        _begin(_settings)
    except Exception as _error:  # noqa: BLE001 - the program must run whatever happens here
        sys.stderr.write(f"meantime: not recording process {os.getpid()}: {_error}\n")
_go_on()
