"""Begins to record a Python that `meantime record` has started, directly or indirectly.

Every Python that the command starts runs this, 2.7 as well as 3.x, so it uses only syntax that all
of them have, and it imports nothing in one that is not recorded. It never fails: a process that
cannot be recorded is noted in the recording and continues. Only if even the note cannot be written,
one line is printed to standard error.
"""

import os
import sys

_VARIABLE = "MEANTIME_RECORDING"


def _begin(settings):  # type: ignore[no-untyped-def] # noqa: ANN001,ANN202 - Python 2 has no annotations
    implementation = getattr(sys, "implementation", None)
    if getattr(implementation, "cache_tag", None) != settings["cache_tag"]:
        return "meantime is installed for Python " + settings["python"]
    # only while meantime is imported: the program's own imports must not find our packages
    sys.path.insert(0, settings["home"])
    try:
        from meantime.collect.launch import begin_here  # noqa: PLC0415 - see above
    finally:
        sys.path.remove(settings["home"])
    begin_here(settings)
    return None


def _note(path, reason):  # type: ignore[no-untyped-def] # noqa: ANN001,ANN202 - as above
    """Note why this process is not recorded: a line of a file that all processes share."""
    python = ".".join([str(number) for number in sys.version_info[:3]])
    line = "\t".join([str(os.getpid()), python, " ".join(reason.split())])
    try:
        # appending so few bytes is a single write, so lines of several processes do not mix
        with open(os.path.join(path, "unrecorded"), "a+") as file:  # noqa: PTH118,PTH123 - see above
            file.seek(0)
            # a process may have any number of interpreters
            if line[:1000] + "\n" not in file.read(100000):
                file.seek(0, 2)
                file.write(line[:1000] + "\n")
    except (IOError, OSError):  # noqa: UP024 - Python 2 has both
        sys.stderr.write("meantime: not recording process %s\n" % line.replace("\t", ": "))  # noqa: UP031 - see above


def _settings(text):  # type: ignore[no-untyped-def] # noqa: ANN001,ANN202 - as above
    pairs = [line.partition("=") for line in text.split("\n")]
    return {name: value.replace("%n", "\n").replace("%p", "%") for name, _, value in pairs}


def _run_hidden_sitecustomize():  # type: ignore[no-untyped-def] # noqa: ANN202 - as above
    """Run the sitecustomize that this one hides, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100,PTH120 - see above
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]  # noqa: PTH100 - see above
    ours = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        # Python 2 has the name of the missing module in the message only
        name = getattr(error, "name", None) or str(error).split(" ")[-1]
        if name != "sitecustomize":
            raise
        # `site` is still importing this module, and expects to find it
        sys.modules["sitecustomize"] = ours  # type: ignore[assignment] # it was there


if os.environ.get(_VARIABLE):
    _found = _settings(os.environ[_VARIABLE])  # type: ignore[no-untyped-call] # see above
    try:
        _reason = _begin(_found)  # type: ignore[no-untyped-call] # as above
    except Exception as _error:  # noqa: BLE001 - the program must run whatever happens here
        _reason = str(_error) or type(_error).__name__
    if _reason:
        _note(_found["path"], _reason)  # type: ignore[no-untyped-call] # as above
_run_hidden_sitecustomize()  # type: ignore[no-untyped-call] # as above
