"""The process of a command: the script `meantime`, and `python -m meantime`."""

# All of them are compiled into Python: an interrupt of their import would be a traceback.
import _signal as signal  # type: ignore[import-not-found]  # mypy knows `signal` only
import gc
import sys

# How many objects may be made before those without references are looked for.
_COLLECT_AFTER = 200_000
# Modules that report what is not freed at exit; frozen objects are not.
_REPORT_LEAKS = frozenset({"duckdb"})


def main() -> None:
    """Run the command line and leave the process with its exit status."""
    # Nearly all objects of a command are modules and functions, which stay: walking them each time
    # that 700 more were made is 5 % of a short command, and at exit another 5 %. So this comes
    # before the first import.
    gc.set_threshold(_COLLECT_AFTER)
    # Until a command begins, and after it has ended, Ctrl-C has nothing to clean up: it ends the
    # process, instead of a traceback through imports. A shell may have said to ignore it.
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if "--session" in sys.argv:
        from meantime.session import main as ask_session  # noqa: PLC0415 - as above

        ask_session()
    from meantime.cli import main as run_command_line  # noqa: PLC0415 - as above

    try:
        run_command_line(interrupt=interrupt)
    finally:
        if _REPORT_LEAKS.isdisjoint(sys.modules):
            gc.freeze()


if __name__ == "__main__":
    main()
