"""HTTP/1.1 as RFC 9112 has it: framing both ways, connections that are kept, limits, what is refused."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import h11
import httpx
import pytest
import tls
from serving import (
    LOCAL,
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


def test_requests_that_come_together_are_answered_in_order() -> None:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # The first is the slowest.
        await asyncio.sleep({"/0": 0.02, "/1": 0.01}.get(scope["path"], 0))
        await respond(send, scope["path"].encode() + await read(receive))

    async def main() -> None:
        async with serving(app) as server:
            one = get("/0", "content-length: 3", close=False) + b"abc"
            several = one + get("/1", close=False) + get("/2", close=False) + get("/3")
            for size in (1, 7, len(several)):
                parts = [several[at : at + size] for at in range(0, len(several), size)]
                answers = (await talk(server, *parts)).split(b"HTTP/1.1 200 OK")
                assert [answer.split(b"\r\n\r\n")[-1] for answer in answers[1:]] == [
                    b"/0abc",
                    b"/1",
                    b"/2",
                    b"/3",
                ]

    run(main())


def test_a_body_comes_in_chunks_or_by_its_length() -> None:
    async def main() -> None:
        async with serving(echo) as server:
            chunks = b"5\r\nhello\r\n1;ext=1\r\n,\r\n0\r\ntrailer: x\r\n\r\n"
            sent = get("/", "transfer-encoding: chunked") + chunks
            for size in (1, 3, len(sent)):
                parts = [sent[at : at + size] for at in range(0, len(sent), size)]
                assert body_of(await talk(server, *parts)) == b"hello,"
            assert body_of(await talk(server, get("/", "content-length: 5"), b"he", b"llo")) == b"hello"
            large = bytes(range(256)) * 8000
            answer = await talk(server, get("/", f"content-length: {len(large)}"), large)
            assert body_of(answer) == large

    run(main())


def test_a_response_ends_as_its_client_can_see() -> None:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"6")] if scope["path"] == "/known" else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b"def"})

    async def main() -> None:
        async with serving(app) as server:
            chunked = await talk(server, get())
            assert b"transfer-encoding: chunked" in chunked
            assert chunked.endswith(b"\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n")
            known = await talk(server, get("/known"))
            assert b"chunked" not in known and body_of(known) == b"abcdef"
            old = await talk(server, b"GET / HTTP/1.0\r\n\r\n")
            assert b"chunked" not in old and b"connection: close" in old and body_of(old) == b"abcdef"
            head = await talk(server, get("/known", method="HEAD"))
            assert b"content-length: 6" in head and body_of(head) == b""

    run(main())


@pytest.mark.parametrize("status", [204, 304])
def test_some_responses_have_no_body(status: int) -> None:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, b"", status)

    async def main() -> None:
        async with serving(app) as server:
            answer = await talk(server, get())
            assert status_of(answer) == status
            assert answer.endswith(b"\r\n\r\n") and b"transfer-encoding" not in answer

    run(main())


def test_a_client_that_asks_is_told_to_go_on_when_its_body_is_wanted() -> None:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/no":
            return await respond(send, b"", 401)
        return await respond(send, await read(receive))

    async def main() -> None:
        async with serving(app) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(get("/", "content-length: 3", "expect: 100-continue"))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"abc")
            assert body_of(await reader.read()) == b"abc"
            writer.close()
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(get("/no", "content-length: 3", "expect: 100-continue"))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 401 ")
            writer.close()

    run(main())


def test_a_body_that_the_app_does_not_want_is_dropped() -> None:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, scope["path"].encode())

    async def main() -> None:
        async with serving(app) as server:
            first = get("/1", "content-length: 300000", close=False)
            answers = await talk(server, first, b"x" * 300000, get("/2"))
            assert answers.count(b"HTTP/1.1 200 OK") == 2 and answers.endswith(b"/2")

    run(main())


MALFORMED = {
    b"nonsense\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\n\r\n": 400,
    b"GET / HTTP/2.0\r\nhost: a\r\n\r\n": 505,
    b"GET  / HTTP/1.1\r\nhost: a\r\n\r\n": 400,
    get("/", "host: b"): 400,
    get("/", "content-length: x"): 400,
    get("/", "content-length: 1", "content-length: 2"): 400,
    get("/", "content-length: 1", "transfer-encoding: chunked"): 400,
    get("/", "transfer-encoding: chunked, chunked"): 501,
    get("/", "bad name: 1"): 400,
    get("/", "content-length: 2000"): 413,
    get("/", "transfer-encoding: chunked") + b"xyz\r\n": 400,
    get("/", "transfer-encoding: chunked") + b"7d1\r\n": 413,
    get("/", *(["a: b"] * 101)): 431,
    get("/" + "a" * 5000): 431,
    b"x" * 5000: 431,
}


@pytest.mark.parametrize("sent", MALFORMED)
def test_what_is_no_request_is_refused_and_costs_nothing_else(sent: bytes) -> None:
    async def main() -> None:
        async with serving(echo, max_body=1000, max_head=4000) as server:
            kept = await asyncio.open_connection(*server.address)
            answer = await talk(server, sent)
            assert status_of(answer) == MALFORMED[sent]
            assert b"connection: close" in answer
            kept[1].write(get())
            assert body_of(await kept[0].read()) == b""
            kept[1].close()

    run(main())


def test_who_is_slow_on_purpose_is_not_waited_for() -> None:
    async def main() -> None:
        timeouts = {"head_timeout": 0.05, "keep_alive": 0.05, "body_timeout": 0.05}
        async with serving(echo, **timeouts) as server:
            assert await talk(server) == b""
            assert status_of(await talk(server, b"GET / HT")) == 408
            assert status_of(await talk(server, get("/", "content-length: 3"), b"a")) == 408
            # A connection that nobody uses any more is closed.
            assert (await talk(server, get(close=False))).startswith(b"HTTP/1.1 200 ")

    run(main())


def test_a_response_may_take_longer_than_all_timeouts() -> None:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.3)
        await respond(send, b"at last")

    async def main() -> None:
        timeouts = {"head_timeout": 0.05, "keep_alive": 0.05, "body_timeout": 0.05}
        async with serving(app, **timeouts) as server:
            assert body_of(await talk(server, get())) == b"at last"

    run(main())


def test_the_head_of_a_response_does_not_wait_for_its_body() -> None:
    async def main() -> None:
        go = asyncio.Event()

        @http
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] == "/later":
                await asyncio.sleep(0)
            await send({"type": "http.response.start", "status": 200})
            await go.wait()
            await send({"type": "http.response.body", "body": b"x"})

        async with serving(app) as server:
            for path in ("/", "/later"):
                go.clear()
                reader, writer = await asyncio.open_connection(*server.address)
                writer.write(get(path))
                assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
                go.set()
                assert await reader.read() == b"1\r\nx\r\n0\r\n\r\n"
                writer.close()

    run(main())


def test_other_clients_agree() -> None:
    async def main() -> None:
        async with serving(echo) as server:
            url = "http://{}:{}/a".format(*server.address)
            body = bytes(range(256)) * 4000
            async with httpx.AsyncClient() as client:
                answers = await asyncio.gather(*(client.post(url, content=body) for _ in range(20)))
                assert all(answer.content == body for answer in answers)

                async def pieces() -> Any:
                    for _ in range(5):
                        yield b"piece"

                assert (await client.post(url, content=pieces())).content == b"piece" * 5
            command = [
                "curl",
                "--silent",
                "--show-error",
                "--max-time",
                "50",
                "--data-binary",
                "@-",
                url,
                url,
            ]
            curl = await asyncio.create_subprocess_exec(
                *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            output, _ = await curl.communicate(b"from curl")
            assert output == b"from curl" * 2

    run(main())


def test_h11_reads_every_response() -> None:
    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1"), (b"x-a", b"2")]}
        )
        for _ in range(3):
            await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body"})

    async def main() -> None:
        async with serving(app) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            client = h11.Connection(h11.CLIENT)
            for _ in range(3):
                writer.write(client.send(h11.Request(method="GET", target="/", headers=[("host", "a")])))
                writer.write(client.send(h11.EndOfMessage()))
                body, found = b"", []
                while True:
                    event = client.next_event()
                    if event is h11.NEED_DATA:
                        client.receive_data(await reader.read(65536))
                    elif isinstance(event, h11.Response):
                        found = [value for name, value in event.headers if name == b"x-a"]
                    elif isinstance(event, h11.Data):
                        body += event.data
                    elif isinstance(event, h11.EndOfMessage):
                        break
                assert body == b"abcabcabc" and found == [b"1", b"2"]
                client.start_next_cycle()
            writer.close()

    run(main())


def test_a_client_behind_tls_is_served(tmp_path: Path) -> None:
    made = tls.make(tmp_path)

    async def main() -> None:
        async with (
            serving(showing(lambda scope: scope["scheme"]), ssl=made.server()) as server,
            httpx.AsyncClient(verify=made.client()) as client,
        ):
            assert (await client.get(f"https://{LOCAL}:{server.address[1]}/")).text == "'https'"

    run(main())


def test_the_server_is_where_it_says() -> None:
    async def main() -> None:
        async with serving(echo) as server:
            assert server.address[0] == LOCAL

    run(main())
