"""A site with FastAPI, served from inside the Erlang VM by `make run-web`."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import erlang
from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import HTMLResponse, StreamingResponse

PAGE = """<!doctype html><title>erlang_python</title>
<h1>FastAPI in the Erlang VM</h1>
<ul>
<li><a href="/hello/you">/hello/you</a>: JSON
<li><a href="/counter">/counter</a>: a number that Erlang keeps
<li><a href="/sync">/sync</a>: code that blocks, on a thread
<li><a href="/tokens">/tokens</a>: server-sent events
<li>/length: how long what you post is, piece by piece
<li>/socket: a WebSocket that answers in capitals
</ul>
"""


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, float]]:
    """Begun once on each event loop; what it yields is in the state of every request."""
    yield {"started": time.time()}


app = FastAPI(title="erlang_python", lifespan=lifespan)


@app.get("/", response_class=HTMLResponse)
async def page() -> str:
    return PAGE


@app.get("/hello/{name}")
async def hello(name: str, request: Request) -> dict[str, object]:
    return {"hello": name, "up for": round(time.time() - request.state.started, 3)}


@app.get("/counter")
async def counter() -> dict[str, int]:
    return {"counter": erlang.state_incr("visits")}


@app.get("/sync")
def sync() -> dict[str, str]:
    time.sleep(0.1)
    return {"slept": "on a thread"}


@app.post("/length")
async def length(request: Request) -> dict[str, int]:
    return {"length": sum([len(piece) async for piece in request.stream()])}


@app.get("/tokens")
async def tokens() -> StreamingResponse:
    async def stream() -> AsyncIterator[str]:
        for word in "every token is sent as soon as it is there".split():
            yield f"data: {word}\n\n"
            await asyncio.sleep(0.2)

    return StreamingResponse(stream(), media_type="text/event-stream")


@app.websocket("/socket")
async def socket(websocket: WebSocket) -> None:
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text.upper())
