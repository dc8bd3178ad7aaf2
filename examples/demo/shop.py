"""A shop: orders are written to PostgreSQL. The notes of customers are checked on the way."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import Route

from meantime.collect.asgi import RequestTags

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

NOTE = re.compile(r"^(\w+\s?)+\.$")


@asynccontextmanager
async def connected(app: Starlette) -> AsyncIterator[None]:
    """Keep connections to the database while the shop is open."""
    settings = {"application_name": "shop"}
    pool = asyncpg.create_pool(database="shop", min_size=4, max_size=4, server_settings=settings)
    async with pool:
        app.state.pool = pool
        yield


async def product(request: Request) -> JSONResponse:
    """Return how many of a product there are."""
    number = request.path_params["number"]
    async with request.app.state.pool.acquire() as connection:
        count = await connection.fetchval("select count from stock where product = $1", number)
    return JSONResponse({"product": number, "count": count})


async def order(request: Request) -> JSONResponse:
    """Sell one of a product."""
    asked = await request.json()
    async with request.app.state.pool.acquire() as connection, connection.transaction():
        await connection.execute(
            "update stock set count = count - 1 where product = $1", asked["product"]
        )
        # words up to a full stop: a note without one is tried in every split of its words
        is_plain = NOTE.match(asked["note"]) is not None
        await connection.execute(
            "insert into orders (product, note, plain) values ($1, $2, $3)",
            *(asked["product"], asked["note"], is_plain),
        )
    return JSONResponse({"plain": is_plain})


app = Starlette(
    routes=[
        Route("/products/{number:int}", product),
        Route("/orders", order, methods=["POST"]),
    ],
    lifespan=connected,
    middleware=[Middleware(RequestTags)],
)

if __name__ == "__main__":
    uvicorn.run(app, port=8090, log_level="warning", http="h11", loop="asyncio")
