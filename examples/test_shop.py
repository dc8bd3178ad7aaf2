"""Tests that assert what an event loop did: pytest examples/test_shop.py --meantime recordings."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


def seal(order: bytes) -> str:
    """Take long over an order."""
    return hashlib.pbkdf2_hmac("sha256", order, b"salt", 20_000).hex()


async def sell(orders: asyncio.Queue[bytes]) -> list[str]:
    """Seal all orders, each in a thread."""
    return [await asyncio.to_thread(seal, orders.get_nowait()) for _ in range(orders.qsize())]


@pytest.mark.usefixtures("no_pending_tasks")
def test_selling_does_not_block_the_loop(
    max_blocked: Callable[[str], AbstractContextManager[None]],
) -> None:
    """No step takes longer than a second, and no task is left when the loop is closed."""

    async def main() -> None:
        orders = asyncio.Queue[bytes]()
        for number in range(3):
            orders.put_nowait(b"order %d" % number)
        with max_blocked("1s"):
            assert len(await sell(orders)) == 3

    asyncio.run(main())
