"""ASGI 3.0 and its HTTP spec 2.5, rule by rule: scope, receive, send, lifespan, state; and bad apps."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import fastapi
import httpx
import pytest
from erlang._apps import LifespanError
from serving import (
    App,
    Receive,
    Scope,
    Send,
    body_of,
    echo,
    get,
    http,
    read,
    respond,
    run,
    serving,
    showing,
    status_of,
    talk,
)
from starlette.responses import StreamingResponse


async def shown(show: Any, request: bytes) -> str:
    async with serving(showing(show)) as server:
        return body_of(await talk(server, request)).decode()


def test_a_scope_has_every_key_of_its_type() -> None:
    expected = {
        "type": str,
        "asgi": dict,
        "http_version": str,
        "method": str,
        "scheme": str,
        "path": str,
        "raw_path": bytes,
        "query_string": bytes,
        "root_path": str,
        "headers": list,
        "client": tuple,
        "server": tuple,
        "state": dict,
        "extensions": dict,
    }

    async def main() -> None:
        text = await shown(
            lambda scope: {key: type(value) for key, value in scope.items()} == expected, get()
        )
        assert text == "True"
        asgi = await shown(lambda scope: scope["asgi"], get())
        assert asgi == "{'version': '3.0', 'spec_version': '2.5'}"
        assert await shown(lambda scope: scope["client"][0], get()) == "'127.0.0.1'"

    run(main())


@pytest.mark.parametrize(
    ("target", "path", "raw_path", "query"),
    [
        ("/a%20b?c=%20", "/a b", b"/a%20b", b"c=%20"),
        ("/%C3%A9", "/é", b"/%C3%A9", b""),
        ("/%2Fx%zz", "//x%zz", b"/%2Fx%zz", b""),
        ("/a?b?c", "/a", b"/a", b"b?c"),
        ("http://other/x?y", "/x", b"/x", b"y"),
        ("*", "*", b"*", b""),
    ],
)
def test_a_path_is_decoded_and_a_raw_path_is_not(
    target: str, path: str, raw_path: bytes, query: bytes
) -> None:
    async def main() -> None:
        text = await shown(
            lambda scope: (scope["path"], scope["raw_path"], scope["query_string"]),
            get(target, method="OPTIONS"),
        )
        assert text == repr((path, raw_path, query))

    run(main())


def test_headers_keep_their_order_and_duplicates() -> None:
    async def main() -> None:
        request = get("/", "X-B: 1", "accept: a", "x-b:  2 ", "x-c: \xe9")
        text = await shown(lambda scope: scope["headers"][1:-1], request)
        assert text == repr([(b"x-b", b"1"), (b"accept", b"a"), (b"x-b", b"2"), (b"x-c", "\xe9".encode())])

        @http
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await respond(send, headers=[(b"X-B", b"1"), [b"a", b"2"], (b"x-b", b"3")])

        async with serving(app) as server:
            assert b"\r\nX-B: 1\r\na: 2\r\nx-b: 3\r\n" in await talk(server, get())

    run(main())


def test_a_root_path_goes_before_the_path() -> None:
    async def main() -> None:
        app = showing(lambda scope: (scope["root_path"], scope["path"], scope["raw_path"]))
        async with serving(app, root_path="/api") as server:
            assert body_of(await talk(server, get("/x"))) == repr(("/api", "/api/x", b"/x")).encode()

    run(main())


def test_no_disconnect_is_invented_and_one_comes_after_the_response() -> None:
    async def main() -> None:
        received = []

        @http
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await read(receive)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    received.append(await receive())
            await respond(send)
            received.append(await receive())

        async with serving(app) as server:
            assert body_of(await talk(server, get())) == b""
            assert received == [{"type": "http.disconnect"}]

    run(main())


def test_a_client_that_goes_is_heard_of_and_sending_to_it_fails() -> None:
    async def main() -> None:
        outcome: asyncio.Future[tuple[str, bool]] = asyncio.get_running_loop().create_future()

        @http
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await read(receive)
            await send({"type": "http.response.start", "status": 200})
            message = await receive()
            try:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
            except OSError:
                outcome.set_result((message["type"], True))
                raise

        async with serving(app) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(get())
            await reader.readuntil(b"\r\n\r\n")
            writer.close()
            assert await outcome == ("http.disconnect", True)

    run(main())


def test_an_app_waits_for_a_slow_client_and_a_client_for_a_slow_app() -> None:
    async def main() -> None:
        sent, taken = 0, 0
        go = asyncio.Event()

        @http
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal sent, taken
            if scope["method"] == "PUT":
                await go.wait()
                while True:
                    message = await receive()
                    taken += len(message["body"])
                    if not message["more_body"]:
                        return await respond(send, b"%d" % taken)
            await send({"type": "http.response.start", "status": 200})
            for _ in range(1000):
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                sent += 65536
            return await send({"type": "http.response.body"})

        async with serving(app) as server:
            reader, writer = await asyncio.open_connection(*server.address, limit=65536)
            writer.write(get())
            await reader.readuntil(b"\r\n\r\n")
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.05)
            assert sent < 1000 * 65536
            while await reader.read(1 << 20):
                pass
            assert sent == 1000 * 65536
            writer.close()
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(get("/", f"content-length: {1000 * 65536}", method="PUT"))
            for _ in range(1000):
                writer.write(b"x" * 65536)
            try:
                async with asyncio.timeout(0.2):
                    while writer.transport.get_write_buffer_size():
                        await asyncio.sleep(0.01)
            except TimeoutError:
                pass
            assert writer.transport.get_write_buffer_size() > 0
            go.set()
            assert (await reader.read()).endswith(b"\r\n\r\n65536000")
            writer.close()

    run(main())


BAD: dict[str, list[Any]] = {
    "body first": [{"type": "http.response.body"}],
    "two starts": [{"type": "http.response.start", "status": 200}] * 2,
    "no dict": ["http.response.start"],
    "no type": [{"status": 200}],
    "unknown": [{"type": "http.response.push"}],
    "status as text": [{"type": "http.response.start", "status": "200"}],
    "no status": [{"type": "http.response.start"}],
    "low status": [{"type": "http.response.start", "status": 99}],
    "headers as text": [{"type": "http.response.start", "status": 200, "headers": [("a", "b")]}],
    "split header": [{"type": "http.response.start", "status": 200, "headers": [(b"a", b"b\r\nc: d")]}],
    "body as text": [
        {"type": "http.response.start", "status": 200},
        {"type": "http.response.body", "body": "text"},
    ],
    "too long": [
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]},
        {"type": "http.response.body", "body": b"ab"},
    ],
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("swallows", [False, True])
def test_bad_messages_are_errors_and_never_hang(name: str, swallows: bool, caplog: Any) -> None:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in BAD[name]:
            try:
                await send(message)
            except Exception:
                if not swallows:
                    raise

    async def main() -> None:
        async with serving(app) as server:
            answer = await talk(server, get())
            assert answer == b"" or status_of(answer) == 500 or b"\r\n\r\n" in answer
            assert not answer.endswith(b"0\r\n\r\n")

    with caplog.at_level(logging.ERROR, "erlang.asgi"):
        run(main())
    assert any(record.exc_info for record in caplog.records)


def raising(when: str) -> App:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if when == "at once":
            raise LookupError(when)
        if when == "later":
            await asyncio.sleep(0)
            raise LookupError(when)
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"half", "more_body": when != "after the end"})
        raise LookupError(when)

    return app


@pytest.mark.parametrize("when", ["at once", "later", "in the middle", "after the end"])
def test_an_app_that_raises_is_logged_with_its_traceback(when: str, caplog: Any) -> None:
    async def main() -> None:
        async with serving(raising(when)) as server:
            answer = await talk(server, get())
            if when in ("at once", "later"):
                assert status_of(answer) == 500 and b"LookupError" not in answer
            elif when == "after the end":
                assert body_of(answer) == b"half"
            else:
                assert not answer.endswith(b"0\r\n\r\n")

    with caplog.at_level(logging.ERROR, "erlang.asgi"):
        run(main())
    assert [record.exc_info[1].args for record in caplog.records] == [(when,)]


def test_what_is_no_app_is_a_500() -> None:
    def app(scope: Scope, receive: Receive, send: Send) -> Any:
        return 7

    async def main() -> None:
        async with serving(app, lifespan="off") as server:
            assert status_of(await talk(server, get())) == 500

    run(main())


def test_a_lifespan_comes_first_and_its_state_is_copied_to_each_request() -> None:
    async def main() -> None:
        events = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan":
                while True:
                    events.append((await receive())["type"])
                    scope["state"]["shared"] = []
                    await send({"type": f"{events[-1]}.complete"})
                    if events[-1] == "lifespan.shutdown":
                        return
            seen = scope["state"].setdefault("mine", 0)
            scope["state"]["mine"] += 1
            scope["state"]["shared"].append(seen)
            await respond(send, repr(scope["state"]["shared"]).encode())

        async with serving(app) as server:
            assert events == ["lifespan.startup"]
            await talk(server, get())
            assert body_of(await talk(server, get())) == b"[0, 0]"
        assert events == ["lifespan.startup", "lifespan.shutdown"]

    run(main())


def test_an_app_that_does_not_start_is_not_served() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    async def main() -> None:
        with pytest.raises(LifespanError, match="no database"):
            async with serving(app):
                pass
        with pytest.raises(LifespanError):
            async with serving(echo, lifespan="on"):
                pass

    run(main())


def test_current_task_timeouts_and_task_groups_work() -> None:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.sleep(60)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0.001)
        assert asyncio.current_task() is task
        start = send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await asyncio.create_task(start)  # type: ignore[arg-type]
        await asyncio.wait_for(send({"type": "http.response.body", "body": b"ok"}), 1)

    async def main() -> None:
        async with serving(app) as server:
            assert body_of(await talk(server, get())) == b"ok"

    run(main())


def test_sync_endpoints_run_on_threads_and_delay_nobody() -> None:
    site = fastapi.FastAPI()
    gate = threading.Event()

    @site.get("/blocks")
    def blocks() -> bool:
        return gate.wait(60)

    @site.get("/quick")
    async def quick() -> str:
        return "quick"

    @site.get("/stream")
    async def stream() -> StreamingResponse:
        async def pieces() -> AsyncIterator[str]:
            for number in range(100):
                yield f"{number},"
                await asyncio.sleep(0)

        return StreamingResponse(pieces())

    async def main() -> None:
        async with serving(site) as server, httpx.AsyncClient(timeout=60) as client:
            url = "http://{}:{}".format(*server.address)
            blocked = asyncio.create_task(client.get(f"{url}/blocks"))
            for _ in range(20):
                assert (await client.get(f"{url}/quick")).json() == "quick"
            assert (await client.get(f"{url}/stream")).text == "".join(f"{n}," for n in range(100))
            assert not blocked.done()
            gate.set()
            assert (await blocked).json() is True

    run(main())
