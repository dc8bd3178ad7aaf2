"""Read files, build a history, draw and serve; if asked to, without what only POSIX systems have.

A program: its arguments are `posix` or `none`, a folder to write into, and files to read. It writes
what it found, the same in both cases.
"""

from __future__ import annotations

# The standard library and what is installed choose for themselves what they use of the system, and
# do so when they are imported.
import asyncio
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

for _name in (
    *("asyncio", "concurrent.futures.process", "multiprocessing.connection", "shutil", "sqlite3"),
    *("subprocess", "tempfile", "click", "numpy", "rich.console", "starlette.applications"),
    *("starlette.responses", "uvicorn"),
):
    importlib.import_module(_name)


# names that Python does not have on Windows, of those that a program like this may use
MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
CALLS = (
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "chown", "fchmod", "fchown", "fork", "forkpty"),
    *("geteuid", "getpgid", "getuid", "getgid", "killpg", "mkfifo", "nice", "pipe2", "posix_spawn"),
    *("posix_fadvise", "posix_spawnp", "pread", "preadv", "pwrite", "pwritev", "readv", "writev"),
    *("register_at_fork", "sched_getaffinity", "sendfile", "setsid", "statvfs", "sysconf", "uname"),
    *("WIFSTOPPED", "WNOHANG", "WUNTRACED", "memfd_create", "copy_file_range", "openpty"),
)
SIGNALS = (
    *("SIGKILL", "SIGSTOP", "SIGCONT", "SIGCHLD", "SIGPIPE", "SIGBUS", "SIGHUP", "SIGQUIT"),
    *("SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU", "SIGXFSZ"),
    *("SIGTRAP", "SIGSYS", "SIGVTALRM", "SIGPROF", "SIGWINCH", "pthread_sigmask", "sigtimedwait"),
    *("sigwaitinfo", "sigpending", "setitimer", "alarm", "pthread_kill"),
)
# of these the first two record, which Linux alone can; the others use optional packages
NOT_TRIED = (
    *("meantime.collect", "meantime.cli.child_process", "meantime.fleet", "meantime.plugins"),
    "meantime.testing",
)


def remove_posix() -> None:
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails
    for module, names in ((os, CALLS), (signal, SIGNALS)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


def figures(path: str, provider: str) -> list[Any]:
    import meantime  # noqa: PLC0415 - after what it may not use is gone

    try:
        history = meantime.open(path, provider=provider or None)
    except meantime.MeantimeError as error:
        return [str(error)]
    intervals, spans = history.intervals(range(len(history.attributes))), history.spans()
    return [
        len(history.attributes),
        *(int(each.sum()) for each in (intervals.start_ns, intervals.end_ns, spans.start_ns)),
        [
            spans.text.decode(*map(int, at))
            for at in zip(spans.arguments_offset[:50], spans.arguments_length[:50], strict=True)
        ],
        history.start_ns,
        history.end_ns,
    ]


async def served(session: Any) -> int:
    from meantime.server.app import application  # noqa: PLC0415 - as above

    status = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": "GET",
        "path": "/session.json",
        "raw_path": b"/session.json",
        "query_string": b"",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8643),
        "headers": [(b"host", b"127.0.0.1:8643"), (b"cookie", b"meantime-8643=secret")],
    }
    await application(session, "secret")(scope, receive, send)
    return int(status[0])


def main() -> None:
    has, folder, *paths = sys.argv[1:]
    if has == "none":
        remove_posix()
    import meantime  # noqa: PLC0415 - as above
    from meantime.server.session import Session  # noqa: PLC0415 - as above

    found: dict[str, Any] = {}
    for path in paths:
        found[path] = figures(*path.split("="))
    meantime.build("examples/postgres.statemap.gz", path=f"{folder}/built")
    stored = meantime.open(f"{folder}/built")
    found["stored"] = [len(stored.attributes), stored.start_ns, stored.end_ns]
    found["drawn"] = b"".join(meantime.statemap(stored).render("svg")).decode()
    session = Session([stored])
    session.start()
    assert session.wait(600)
    found["served"] = asyncio.run(served(session))
    package = Path(meantime.__file__).parent
    for source in sorted(package.rglob("*.py")):
        name = ".".join(("meantime", *source.relative_to(package).with_suffix("").parts))
        if not name.startswith((*NOT_TRIED, "meantime.__main__")):
            importlib.import_module(name.removesuffix(".__init__"))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
