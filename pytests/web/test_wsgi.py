"""WSGI apps (PEP 3333) behind the web server: on threads, piece by piece, both ways."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from serving import App, Server, get, run, serving, status_of, talk


def wsgi(app: Any) -> Any:
    return serving(cast(App, app), interface="wsgi")


def test_a_wsgi_app_is_served_from_threads() -> None:
    loop_thread = threading.get_ident()

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        assert threading.get_ident() != loop_thread
        start_response("201 Made", [("x-a", "1")])
        return [environ["PATH_INFO"].encode("latin-1"), environ["wsgi.input"].read()]

    async def main() -> None:
        async with wsgi(app) as server:
            answer = await talk(server, get("/%C3%A9", "content-length: 3"), b"abc")
            assert status_of(answer) == 201 and answer.endswith("\r\n\r\n/éabc".encode())
            assert b"content-length: 6\r\n" in answer

    run(main())


def test_a_piece_is_sent_before_the_next_is_asked_for() -> None:
    may_go_on = threading.Semaphore(0)
    closed = threading.Event()

    class Pieces:
        def __iter__(self) -> Iterator[bytes]:
            for number in range(5):
                yield b"piece %d" % number
                assert may_go_on.acquire(timeout=60)

        def close(self) -> None:
            closed.set()

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        write = start_response("200 OK", [])
        write(b"written")
        return Pieces()

    async def main() -> None:
        async with wsgi(app) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(get())
            await reader.readuntil(b"7\r\nwritten\r\n")
            for number in range(5):
                await reader.readuntil(b"7\r\npiece %d\r\n" % number)
                may_go_on.release()
            assert await reader.read() == b"0\r\n\r\n"
            writer.close()

    run(main())
    assert closed.is_set()


def test_a_request_is_read_piece_by_piece_and_its_client_waits() -> None:
    total = 50_000_000

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        yield b"go"
        size, stream = 0, environ["wsgi.input"]
        while piece := stream.read(100_000):
            size += len(piece)
        assert stream.read() == b""
        yield b" %d" % size

    async def main() -> None:
        async with wsgi(app) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(get("/", f"content-length: {total}", method="PUT"))
            await reader.readuntil(b"go\r\n")
            for _ in range(500):
                writer.write(b"x" * (total // 500))
                await writer.drain()
            assert b" %d" % total in await reader.read()
            writer.close()

    run(main())


def test_a_request_in_chunks_has_a_length() -> None:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        return [environ["CONTENT_LENGTH"].encode(), b" ", environ["wsgi.input"].read()]

    async def main() -> None:
        async with wsgi(app) as server:
            chunks = (b"3\r\nabc\r\n", b"2\r\nde\r\n", b"0\r\n\r\n")
            answer = await talk(server, get("/", "transfer-encoding: chunked", method="PUT"), *chunks)
            assert answer.endswith(b"\r\n\r\n5 abcde")

    run(main())


def test_a_client_that_goes_ends_its_app() -> None:
    closed = threading.Event()

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        try:
            while True:
                yield b"x" * 10_000
        finally:
            closed.set()

    async def main() -> None:
        async with wsgi(app) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(get())
            await reader.readexactly(100_000)
            writer.transport.abort()
            await asyncio.get_running_loop().run_in_executor(None, closed.wait, 60)

    run(main())
    assert closed.is_set()


def test_a_server_that_ends_does_not_wait_for_a_thread_that_waits_for_it() -> None:
    waiting, told = threading.Event(), threading.Event()

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        yield b"begun"
        waiting.set()
        try:
            environ["wsgi.input"].read()
        except OSError:
            told.set()
            raise

    async def main() -> None:
        async with wsgi(app) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(get("/", "content-length: 100000", method="PUT") + b"x")
            await reader.readuntil(b"begun\r\n")
            await asyncio.get_running_loop().run_in_executor(None, waiting.wait, 60)
            await server.stop(0)
            await asyncio.get_running_loop().run_in_executor(None, told.wait, 60)
            writer.close()

    run(main())
    assert told.is_set()


@pytest.mark.parametrize("late", [False, True])
def test_an_app_that_fails_is_a_500_or_is_cut_off(late: bool, caplog: Any) -> None:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        yield b"begun" if late else b""
        raise LookupError("as you wish")

    async def ask(server: Server) -> bytes:
        try:
            return await talk(server, get())
        except ConnectionResetError:
            return b""

    async def main() -> None:
        async with wsgi(app) as server:
            answer = await ask(server)
            if late:
                assert not answer.endswith(b"0\r\n\r\n")
            else:
                assert status_of(answer) == 500

    with caplog.at_level(logging.ERROR, "erlang.asgi"):
        run(main())
    assert "as you wish" in caplog.text
