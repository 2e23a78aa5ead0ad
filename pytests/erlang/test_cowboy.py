"""`make run-cowboy`: the example site behind Cowboy, with requests, events and WebSockets of real clients."""

import asyncio
import json
import os
import urllib.error
import urllib.request
from pathlib import Path

import httpx
import pytest
import websockets
from conftest import serving

LIMIT = 120.0


def test_the_example_site_is_served_by_cowboy(application: Path) -> None:
    with serving("run_cowboy.sh") as at:
        requests(f"http://{at}")
        asyncio.run(asyncio.wait_for(tokens(f"http://{at}"), LIMIT))
        asyncio.run(asyncio.wait_for(sockets(f"ws://{at}"), LIMIT))


def requests(url: str) -> None:
    with urllib.request.urlopen(f"{url}/hello/y%C3%A9", timeout=LIMIT) as answer:
        assert json.load(answer)["hello"] == "yé"
        assert answer.headers["content-type"] == "application/json"
    with urllib.request.urlopen(f"{url}/sync", timeout=LIMIT) as answer:
        assert json.load(answer) == {"slept": "on a thread"}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{url}/nowhere", timeout=LIMIT)
    large = os.urandom(2_000_000)
    request = urllib.request.Request(f"{url}/length", data=large, method="POST")
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        assert json.load(answer) == {"length": len(large)}


async def tokens(url: str) -> None:
    """Each event comes when it is there, not with the others; to many clients at once."""
    words = ["every", "token", "is", "sent", "as", "soon", "as", "it", "is", "there"]

    async def client(session: httpx.AsyncClient) -> None:
        async with session.stream("GET", f"{url}/tokens") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            pieces = [piece async for piece in response.aiter_raw()]
        assert "".join(f"data: {word}\n\n" for word in words).encode() == b"".join(pieces)
        assert len(pieces) > 1

    async with httpx.AsyncClient(timeout=LIMIT) as session:
        await asyncio.gather(*(client(session) for _ in range(20)))


async def sockets(url: str) -> None:
    async def client(number: int) -> None:
        async with websockets.connect(f"{url}/socket") as socket:
            for turn in range(20):
                await socket.send(f"hello {number} {turn}")
                assert await socket.recv() == f"HELLO {number} {turn}"

    await asyncio.gather(*(client(number) for number in range(10)))
    # Nothing is accepted before the app accepts.
    with pytest.raises(websockets.InvalidStatus, match="403"):
        await websockets.connect(f"{url}/nowhere")
