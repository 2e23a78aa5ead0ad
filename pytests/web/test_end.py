"""The end of a server: what is served comes to its end or is cancelled, and nothing is left behind."""

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import websockets
from serving import Receive, Scope, Send, body_of, echo, get, http, read, respond, run, serving


def test_what_is_served_comes_to_its_end() -> None:
    async def main() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        @http
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            begun.set()
            await go.wait()
            await respond(send, b"done")

        async with serving(app) as server:
            idle = await asyncio.open_connection(*server.address)
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(get(close=False))
            await begun.wait()
            stopping = asyncio.create_task(server.stop(60))
            # Connections without a request are closed at once, and there are no new ones.
            assert await idle[0].read() == b""
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*server.address)
            go.set()
            answer = await reader.read()
            assert body_of(answer) == b"done" and b"connection: close" in answer
            await stopping
            assert not server.connections
            writer.close()
            idle[1].close()

    run(main())


def test_what_takes_too_long_is_cancelled() -> None:
    async def main() -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        @http
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            begun.set()
            try:
                await asyncio.sleep(600)
            finally:
                cancelled.set()

        async with serving(app) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(get())
            await begun.wait()
            await server.stop(0.01)
            assert await reader.read() == b""
            await cancelled.wait()
            assert not server.connections
            writer.close()

    run(main())


def test_websockets_are_told_that_the_server_goes() -> None:
    async def main() -> None:
        @http
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await send({"type": "websocket.accept"})
            assert (await receive())["code"] == 1012

        async with serving(app) as server:
            client = await websockets.connect("ws://{}:{}/".format(*server.address))
            await server.stop(60)
            await client.wait_closed()
            assert client.close_code == 1012

    run(main())


CLIENTS = 1000


def test_a_thousand_clients_get_every_token_and_one_that_goes_stops_its_generator() -> None:
    # Both ends are here.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    async def main() -> None:
        running = 0
        waiting = CLIENTS
        everybody = asyncio.Event()

        async def tokens(count: int) -> AsyncIterator[bytes]:
            nonlocal running
            running += 1
            try:
                for number in range(count):
                    yield b"data: %d\n\n" % number
                    await everybody.wait()
                    await asyncio.sleep(0.001)
            finally:
                running -= 1

        @http
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            source = tokens(int(scope["query_string"]))
            try:
                async for token in source:
                    await send({"type": "http.response.body", "body": token, "more_body": True})
            finally:
                await source.aclose()  # type: ignore[attr-defined]
            await send({"type": "http.response.body"})

        async with serving(app) as server:

            async def client(killed: bool) -> None:
                nonlocal waiting
                reader, writer = await asyncio.open_connection(*server.address)
                writer.write(get("/?1000000" if killed else "/?10"))
                await reader.readuntil(b"data: 0\n\n")
                waiting -= 1
                if not waiting:
                    assert running == CLIENTS
                    everybody.set()
                await everybody.wait()
                if killed:
                    writer.transport.abort()
                    return
                rest = await reader.read()
                found = [line for line in rest.split(b"\r\n") if line.startswith(b"data: ")]
                assert found == [b"data: %d\n\n" % number for number in range(1, 10)]
                writer.close()

            await asyncio.gather(*(client(number % 5 == 0) for number in range(CLIENTS)))
            while running:
                await asyncio.sleep(0.001)

    run(main())


def test_no_response_crosses_connections_when_clients_come_and_go() -> None:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        name = await read(receive)
        await asyncio.sleep(0.001 * (name[-1] % 3))
        await respond(send, name)

    async def main() -> None:
        async with serving(app) as server:

            async def client(number: int) -> None:
                reader, writer = await asyncio.open_connection(*server.address)
                for turn in range(10):
                    name = b"%d-%d" % (number, turn)
                    writer.write(get("/", f"content-length: {len(name)}", close=False) + name)
                    if (number + turn) % 17 == 0:
                        writer.transport.abort()
                        return
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                    assert await reader.readexactly(length) == name
                writer.close()

            await asyncio.gather(*(client(number) for number in range(200)))

    run(main())


def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    (tmp_path / "site_here.py").write_text(
        "async def app(scope, receive, send):\n"
        "    assert scope['type'] == 'http'\n"
        "    await send({'type': 'http.response.start', 'status': 200})\n"
        "    await send({'type': 'http.response.body', 'body': b'from the command'})\n"
    )
    command = [sys.executable, "-m", "erlang", "serve", "site_here:app", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("serving at http://127.0.0.1:")
        fetched = subprocess.run(["curl", "-s", said.split()[-1]], capture_output=True, check=True)
        assert fetched.stdout == b"from the command"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_server_leaves_nothing_behind() -> None:
    async def main() -> None:
        for _ in range(3):
            async with serving(echo) as server:
                reader, writer = await asyncio.open_connection(*server.address)
                writer.write(get(close=False))
                await reader.readuntil(b"\r\n\r\n")
            assert await reader.read() == b""
            writer.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())
