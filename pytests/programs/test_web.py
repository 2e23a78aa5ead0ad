"""uvicorn with FastAPI, and httpx and websockets against it; aiohttp's server and client; all on one loop."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import aiohttp.web
import httpx
import loops
import pytest
import tls
import uvicorn
import web
import websockets
from running import LOCAL, Run, type_of


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[int]:
    """uvicorn in a task of the running loop, on a port the kernel chose."""
    config = uvicorn.Config(web.app, host=LOCAL, port=0, log_level="warning", lifespan="on", **options)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        assert not task.done(), "the server ended"
        await asyncio.sleep(0.001)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


@pytest.mark.parametrize("http", ["h11"])
def test_fastapi_over_uvicorn(run: Run, factory: loops.Factory, http: str) -> None:
    async def main() -> None:
        web.events.clear()
        async with serving(http=http) as port, httpx.AsyncClient(base_url=f"http://{LOCAL}:{port}") as client:
            assert (await client.get("/loop")).json() == {"loop": type_of(factory).__name__}
            body = bytes(range(256)) * 4000
            answers = await asyncio.gather(*(client.post("/echo", content=body) for _ in range(20)))
            assert all(answer.json() == {"size": len(body), "sum": sum(body)} for answer in answers)
            stream = await client.get("/stream")
            assert stream.content == b"".join(b"%04d" % number * 250 for number in range(100))
            assert (await client.get("/thread")).json() == {"thread": True}
            assert (await client.get("/nothing")).status_code == 404
        assert web.events == ["startup", "shutdown"]

    run(main())


def test_websockets_against_fastapi(run: Run) -> None:
    async def main() -> None:
        async with serving() as port, websockets.connect(f"ws://{LOCAL}:{port}/socket") as client:
            for size in (1, 1000, 200_000):
                await client.send("x" * size)
                assert await client.recv() == "X" * size

    run(main())


def test_https_over_uvicorn(run: Run, tmp_path: Path) -> None:
    certificates = tls.make(tmp_path)

    async def main() -> None:
        files = {"ssl_keyfile": certificates.server_pem, "ssl_certfile": certificates.server_pem}
        async with serving(**files) as port:
            context = certificates.client()
            async with httpx.AsyncClient(base_url=f"https://localhost:{port}", verify=context) as client:
                answers = await asyncio.gather(*(client.get("/stream") for _ in range(5)))
                assert all(len(answer.content) == 100_000 for answer in answers)

    run(main())


def test_websockets_server_and_client(run: Run) -> None:
    async def echo(connection: Any) -> None:
        async for message in connection:
            await connection.send(message)

    async def main() -> None:
        async with websockets.serve(echo, LOCAL, 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]

            async def talk(number: int) -> None:
                async with websockets.connect(f"ws://{LOCAL}:{port}") as client:
                    for index in range(20):
                        message = b"%d-%d" % (number, index) * 1000
                        await client.send(message)
                        assert await client.recv() == message

            await asyncio.gather(*(talk(number) for number in range(10)))

    run(main())


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_aiohttp_server_and_client(run: Run, tmp_path: Path, secure: bool) -> None:
    certificates = tls.make(tmp_path)

    async def echo(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        response = aiohttp.web.StreamResponse()
        await response.prepare(request)
        async for part in request.content.iter_chunked(10_000):
            await response.write(part)
        return response

    async def socket(request: aiohttp.web.Request) -> aiohttp.web.WebSocketResponse:
        answer = aiohttp.web.WebSocketResponse()
        await answer.prepare(request)
        async for message in answer:
            await answer.send_str(message.data[::-1])
        return answer

    async def main() -> None:
        app = aiohttp.web.Application()
        app.router.add_post("/echo", echo)
        app.router.add_get("/socket", socket)
        (tmp_path / "static").mkdir()
        (tmp_path / "static/file").write_bytes(b"static" * 100_000)
        app.router.add_static("/static", tmp_path / "static")
        runner = aiohttp.web.AppRunner(app)
        await runner.setup()
        server_tls: ssl.SSLContext | None = certificates.server() if secure else None
        site = aiohttp.web.TCPSite(runner, LOCAL, 0, ssl_context=server_tls)
        await site.start()
        port = runner.addresses[0][1]
        base = f"{'https' if secure else 'http'}://localhost:{port}"
        connector = aiohttp.TCPConnector(ssl=certificates.client() if secure else False)
        async with aiohttp.ClientSession(connector=connector) as session:
            body = bytes(range(256)) * 2000

            async def post() -> bytes:
                async with session.post(f"{base}/echo", data=body) as response:
                    return bytes(await response.read())

            assert set(await asyncio.gather(*(post() for _ in range(10)))) == {body}
            async with session.get(f"{base}/static/file") as response:
                assert await response.read() == b"static" * 100_000
            async with session.ws_connect(f"{base}/socket") as ws:
                await ws.send_str("abc")
                assert (await ws.receive()).data == "cba"
        await runner.cleanup()

    run(main())
