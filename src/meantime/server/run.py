"""Serving a session on loopback until it is interrupted."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import webbrowser
from typing import TYPE_CHECKING

from meantime.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import uvicorn

    from meantime.server.session import Session

__all__ = ["serve"]

_TRIED = 100
_LOOPBACK = "127.0.0.1"


def serve(
    session: Session,
    *,
    port: int,
    browser: bool,
    notify: Callable[[str], None],
) -> None:
    """Serve a session to pages on this machine until Ctrl-C.

    Args:
        session: The session; its files are read while it is served.
        port: The first port that is tried; 0 is any.
        browser: Open the page in a browser.
        notify: Called with the address of the page.

    Raises:
        OutputError: If no port is free.
    """
    with _listening(port) as listener:
        address = f"http://{_LOOPBACK}:{listener.getsockname()[1]}/"
        try:
            # the server ends itself by the signal that it received
            with contextlib.suppress(KeyboardInterrupt):
                session.start(prepare=True)
                notify(address)
                if browser:
                    # some browsers keep the call until they are closed
                    threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
                _server(session).run(sockets=[listener])
        finally:
            session.stop()
            session.wait(1.0)


def _server(session: Session) -> uvicorn.Server:
    """Return the server of a session.

    Its modules are loaded here, for 80 ms: files are read meanwhile and the browser starts. What it
    asks for waits in the socket.
    """
    import uvicorn  # noqa: PLC0415 - see above

    from meantime.server.app import application  # noqa: PLC0415 - see above

    return uvicorn.Server(
        uvicorn.Config(
            application(session),
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
