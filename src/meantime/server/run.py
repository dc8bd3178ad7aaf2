"""Serving a session on loopback until it is interrupted."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import uvicorn

    from meantime.server.session import Session

__all__ = ["serve"]

_TRIED = 100
_TOKEN_BYTES = 24
# How many objects may be made before those without references are looked for.
_COLLECT_AFTER = 5_000
_LOOPBACK = "127.0.0.1"


def serve(
    session: Session,
    *,
    port: int,
    browser: bool,
    notify: Callable[[str], None],
) -> None:
    """Serve a session to pages on this machine that have its token until Ctrl-C.

    Args:
        session: The session; its files are read while it is served.
        port: The first port that is tried; 0 is any.
        browser: Open the page in a browser.
        notify: Called with the address of the page, which has the token.

    Raises:
        OutputError: If no port is free.
    """
    token = os.urandom(_TOKEN_BYTES).hex()
    with _listening(port) as listener, contextlib.ExitStack() as stack:
        address = f"http://{_LOOPBACK}:{listener.getsockname()[1]}/?token={token}"
        try:
            # the server ends itself by the signal that it received
            with contextlib.suppress(KeyboardInterrupt), _collecting_sooner():
                session.start(prepare=True)
                notify(address)
                if browser:
                    _open(address, stack)
                _server(session, token).run(sockets=[listener])
        finally:
            session.stop()
            session.wait(1.0)


@contextlib.contextmanager
def _collecting_sooner() -> Iterator[None]:
    """Look for unused objects more often than a command does.

    Each connection leaves some that refer to each other. A command that ends soon looks for them
    rarely, and so they would take 5 MB for 1,000 requests, up to hundreds.
    """
    before = gc.get_threshold()
    gc.set_threshold(min(before[0], _COLLECT_AFTER) or before[0], *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _open(address: str, stack: contextlib.ExitStack) -> None:
    """Open an address in a browser, by a private file that exists until the stack is closed.

    Every account of the machine can read the arguments of programs, so the address is in none.
    """
    import tempfile  # noqa: PLC0415 - not without a browser
    import webbrowser  # noqa: PLC0415 - as above

    handle, path = tempfile.mkstemp(prefix="meantime-", suffix=".html")
    stack.callback(Path(path).unlink, missing_ok=True)
    with os.fdopen(handle, "w", encoding="ascii") as page:
        page.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">')
    # some browsers keep the call until they are closed
    threading.Thread(target=webbrowser.open, args=[Path(path).as_uri()], daemon=True).start()


def _server(session: Session, token: str) -> uvicorn.Server:
    """Return the server of a session.

    Its modules are loaded here, for 80 ms: files are read meanwhile and the browser starts. What it
    asks for waits in the socket.
    """
    import uvicorn  # noqa: PLC0415 - see above

    from meantime.server.app import application  # noqa: PLC0415 - see above

    return uvicorn.Server(
        uvicorn.Config(
            application(session, token),
            loop="asyncio",
            http="h11",
            # nothing is logged
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
    )


def _listening(first: int) -> socket.socket:
    """Return a socket at the first free port from this one on.

    Raises:
        OutputError: If none is free.
    """
    for port in range(first, min(first + _TRIED, 2**16)):
        listener = socket.socket()
        # so that a port can be used again at once after the last server
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_LOOPBACK, port))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                continue
            raise
        return listener
    last = min(first + _TRIED, 2**16) - 1
    raise OutputError(f"no port from {first} to {last} is free: choose another, or 0 for any")
