"""A small server under load, whose loop is sometimes blocked; a recording shows by what.

meantime record -o blocked.mtr --no-follow -- python examples/blocked_server.py
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress

SECONDS = 1.5
CONNECTIONS = 12
DATABASE = asyncio.Semaphore(4)


async def look_up(number: int) -> int:
    """Ask the database, which takes four questions at a time."""
    async with DATABASE:
        await asyncio.sleep(0.002)
    return number * number


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one client until it leaves."""
    with suppress(ConnectionError):
        while line := await reader.readline():
            writer.write(f"{await look_up(int(line))}\n".encode())
            await writer.drain()
    writer.close()


async def report() -> None:
    """Write a report every 300 ms, in one go: nothing else runs meanwhile."""
    while True:
        await asyncio.sleep(0.3)
        json.dumps([{"row": row, "text": "x" * 20} for row in range(80_000)])


async def serve() -> None:
    """Serve clients that run in a process of their own."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reporting = asyncio.create_task(report(), name="report")
    clients = await asyncio.create_subprocess_exec(sys.executable, __file__, str(port))
    await clients.wait()
    reporting.cancel()
    server.close()
    await asyncio.sleep(0.01)  # the last answers see that nobody is there


async def ask(port: int) -> None:
    """Ask one question after another."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for number in range(1_000_000):
            writer.write(f"{number}\n".encode())
            await reader.readline()
    finally:
        writer.close()


async def load(port: int) -> None:
    """Ask from several connections at once for a while."""
    asking = [asyncio.create_task(ask(port)) for _ in range(CONNECTIONS)]
    await asyncio.wait(asking, timeout=SECONDS)
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)


if __name__ == "__main__":
    asyncio.run(load(int(sys.argv[1])) if len(sys.argv) > 1 else serve())
