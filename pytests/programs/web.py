"""Owns the FastAPI application the web tests speak to: plain requests, a stream, a WebSocket, a lifespan."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import StreamingResponse

events: list[str] = []


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    events.append("startup")
    yield {"loop": type(asyncio.get_running_loop()).__name__}
    events.append("shutdown")


app = FastAPI(lifespan=lifespan)


@app.get("/loop")
async def loop_name(request: Request) -> dict[str, str]:
    return {"loop": request.state.loop}


@app.post("/echo")
async def echo(request: Request) -> dict[str, int]:
    body = await request.body()
    return {"size": len(body), "sum": sum(body)}


@app.get("/stream")
async def stream() -> StreamingResponse:
    async def chunks() -> AsyncIterator[bytes]:
        for number in range(100):
            yield b"%04d" % number * 250
            await asyncio.sleep(0)

    return StreamingResponse(chunks(), media_type="application/octet-stream")


@app.get("/thread")
def in_thread() -> dict[str, bool]:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return {"thread": True}
    return {"thread": False}


@app.websocket("/socket")
async def socket(websocket: WebSocket) -> None:
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text.upper())
