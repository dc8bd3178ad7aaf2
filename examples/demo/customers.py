"""Customers of the shop: they look at products and order some. One writes a note without an end."""

from __future__ import annotations

import asyncio
import json
import random

SECONDS = 3.0
CUSTOMERS = 8
PRODUCTS = 8
NOTE = "Please ring twice."
# one more word doubles the time of a pattern that goes back over them
LONG_NOTE = "leave it at the door behind the shed"
ODD_CUSTOMER, ODD_AFTER_S = 2, 1.5


async def send(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, path: str, body: str
) -> None:
    """Send a request and read the answer."""
    head = f"{method} {path} HTTP/1.1\r\nHost: shop\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write((head + body).encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in answer.splitlines()
        if line.lower().startswith(b"content-length")
    )
    await reader.readexactly(length)


async def shop(customer: int) -> None:
    """Look at products and order some of them until the time is over."""
    loop = asyncio.get_running_loop()
    choose = random.Random(customer)  # noqa: S311 - the same load in every run
    reader, writer = await asyncio.open_connection("127.0.0.1", 8090)
    began, odd = loop.time(), customer == ODD_CUSTOMER
    while (now := loop.time() - began) < SECONDS:
        await asyncio.sleep(choose.uniform(0.01, 0.05))
        product = choose.randrange(PRODUCTS)
        await send(reader, writer, "GET", f"/products/{product}", "")
        if choose.random() < 0.4:
            note = NOTE
            if odd and now > ODD_AFTER_S:
                note, odd = LONG_NOTE, False
            await send(
                reader, writer, "POST", "/orders", json.dumps({"product": product, "note": note})
            )
    writer.close()


async def main() -> None:
    """Send all customers at once."""
    await asyncio.gather(*(shop(customer) for customer in range(CUSTOMERS)))


if __name__ == "__main__":
    asyncio.run(main())
