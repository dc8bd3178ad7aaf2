"""The warehouse: it puts one of each product in turn into the stock of the shop."""

from __future__ import annotations

import asyncio

import asyncpg

SECONDS = 3.5


async def main() -> None:
    """Fill the stock for a while."""
    connection = await asyncpg.connect(
        database="shop", server_settings={"application_name": "warehouse"}
    )
    loop = asyncio.get_running_loop()
    began, turn = loop.time(), 0
    while loop.time() - began < SECONDS:
        await connection.execute("update stock set count = count + 1 where product = $1", turn % 8)
        turn += 1
        await asyncio.sleep(0.03)
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
