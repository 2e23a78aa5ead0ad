"""Apps for the tests: in plain ASGI, good and bad."""

import asyncio
import threading
import time

import erlang

said = []
gate = threading.Event()


def respond(body=b"", status=200, headers=()):
    return (
        {"type": "http.response.start", "status": status, "headers": list(headers)},
        {"type": "http.response.body", "body": body},
    )


async def read(receive):
    body = b""
    while True:
        message = await receive()
        assert message["type"] == "http.request", message
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return body


def plain(app):
    """An app without a lifespan."""

    async def wrapped(scope, receive, send):
        assert scope["type"] != "lifespan", "no lifespan"
        await app(scope, receive, send)

    return wrapped


@plain
async def show(scope, receive, send):
    for message in respond(repr(sorted(scope.items())).encode()):
        await send(message)


@plain
async def echo(scope, receive, send):
    body = await read(receive)
    for message in respond(scope["method"].encode() + b" " + body, 201, [(b"X-A", b"1"), (b"x-b", b"2"), (b"x-a", b"3")]):
        await send(message)


@plain
async def types(scope, receive, send):
    """Everything is of the type that ASGI 3.0 says."""
    expected = {
        "type": str, "asgi": dict, "http_version": str, "method": str, "scheme": str, "path": str, "raw_path": bytes,
        "query_string": bytes, "root_path": str, "headers": list,
    }
    wrong = [key for key, kind in expected.items() if type(scope[key]) is not kind]
    wrong += [pair for pair in scope["headers"] if [type(part) for part in pair] != [bytes, bytes]]
    for message in respond(repr(wrong).encode()):
        await send(message)


@plain
async def sleeps(scope, receive, send):
    await asyncio.sleep(float(scope["query_string"]))
    for message in respond(b"slept"):
        await send(message)


@plain
async def meets(scope, receive, send):
    said.append("here")
    while len(said) < int(scope["query_string"]):
        await asyncio.sleep(0.001)
    for message in respond(b"met"):
        await send(message)


@plain
async def spins(scope, receive, send):
    while True:
        pass


@plain
async def after(scope, receive, send):
    for message in respond(b"early"):
        await send(message)
    said.append(("after", (await receive())["type"]))
    while not gate.is_set():
        await asyncio.sleep(0.001)
    said.append("the rest")


@plain
async def waits_for_disconnect(scope, receive, send):
    await read(receive)
    try:
        async with asyncio.timeout(0.05):
            said.append(await receive())
    except TimeoutError:
        pass
    for message in respond(b"nobody left"):
        await send(message)


@plain
async def gathers(scope, receive, send):
    task = asyncio.current_task()
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(asyncio.sleep(0.001 * number))
    assert asyncio.current_task() is task
    for message in respond(b"ok"):
        await send(message)


# Streams.


@plain
async def counts(scope, receive, send):
    start, _ = respond()
    await send(start)
    for number in range(int(scope["query_string"])):
        said.append(number)
        await send({"type": "http.response.body", "body": b"%d" % number, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@plain
async def endless(scope, receive, send):
    start, _ = respond()
    await send(start)
    try:
        while True:
            await send({"type": "http.response.body", "body": b"token", "more_body": True})
            await asyncio.sleep(0)
    finally:
        said.append("stopped")


@plain
async def hears_disconnect(scope, receive, send):
    start, _ = respond()
    await send(start)
    await read(receive)
    message = await receive()
    said.append(message["type"])
    try:
        await send({"type": "http.response.body", "body": b"late", "more_body": True})
    except OSError as error:
        said.append(type(error).__mro__[1].__name__)


@plain
async def uploads(scope, receive, send):
    start, _ = respond()
    await send(start)
    while True:
        message = await receive()
        await send({"type": "http.response.body", "body": message["body"], "more_body": message["more_body"]})
        if not message["more_body"]:
            return


# Lifespans.

lives = {"started": 0, "stopped": 0}


async def living(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                lives["started"] += 1
                scope["state"]["shared"] = {"loop": id(asyncio.get_running_loop()), "requests": 0}
                await asyncio.sleep(0.01)
                await send({"type": "lifespan.startup.complete"})
            else:
                lives["stopped"] += 1
                await send({"type": "lifespan.shutdown.complete"})
                return
    scope["state"]["shared"]["requests"] += 1
    seen = scope["state"].setdefault("mine", 0)
    scope["state"]["mine"] += 1
    assert scope["state"]["shared"]["loop"] == id(asyncio.get_running_loop())
    for message in respond(b"%d" % seen):
        await send(message)


async def refuses_to_start(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})
        return
    said.append("served")


@plain
async def has_no_lifespan(scope, receive, send):
    for message in respond():
        await send(message)


# WebSockets.


@plain
async def ws_echo(scope, receive, send):
    assert (await receive()) == {"type": "websocket.connect"}
    protocols = scope["subprotocols"]
    await send(
        {"type": "websocket.accept", "subprotocol": protocols[-1] if protocols else None, "headers": [(b"x-a", b"1")]}
    )
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            said.append((message["code"], message["reason"]))
            return
        if message.get("text") == "close":
            await send({"type": "websocket.close", "code": 4001, "reason": "as you wish"})
            return
        if message.get("text") == "return":
            return
        await send(
            {"type": "websocket.send", "text": message["text"]}
            if message.get("text") is not None
            else {"type": "websocket.send", "bytes": message["bytes"]}
        )


@plain
async def ws_rejects(scope, receive, send):
    await receive()
    await send({"type": "websocket.close"})
    said.append(await receive())


@plain
async def ws_refuses(scope, receive, send):
    await receive()
    await send({"type": "websocket.http.response.start", "status": 401, "headers": [(b"x-why", b"no")]})
    await send({"type": "websocket.http.response.body", "body": b"not ", "more_body": True})
    await send({"type": "websocket.http.response.body", "body": b"you"})


@plain
async def ws_out_of_order(scope, receive, send):
    await send({"type": "websocket.send", "text": "early"})


@plain
async def ws_raises(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    raise LookupError("after accept")


# Bad ones.

not_callable = 7


def not_async(scope, receive, send):
    return 3


@plain
async def raises(scope, receive, send):
    raise LookupError("before the start")


@plain
async def raises_after_start(scope, receive, send):
    await send(respond()[0])
    raise LookupError("after the start")


@plain
async def raises_after_end(scope, receive, send):
    for message in respond(b"whole"):
        await send(message)
    raise LookupError("after the end")


@plain
async def returns(scope, receive, send):
    pass


@plain
async def returns_half(scope, receive, send):
    await send(respond()[0])
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


BAD = {
    "body_first": [respond()[1]],
    "two_starts": [respond()[0], respond()[0]],
    "after_end": [*respond(), respond()[1]],
    "no_dict": ["http.response.start"],
    "no_type": [{"status": 200}],
    "unknown": [{"type": "http.response.push"}],
    "status": [{"type": "http.response.start", "status": "200"}],
    "no_status": [{"type": "http.response.start"}],
    "low_status": [{"type": "http.response.start", "status": 99}],
    "headers": [{"type": "http.response.start", "status": 200, "headers": [("a", "b")]}],
    "split": [{"type": "http.response.start", "status": 200, "headers": [(b"a", b"b\r\nc: d")]}],
    "body": [respond()[0], {"type": "http.response.body", "body": "text"}],
}


@plain
async def sends(scope, receive, send):
    for message in BAD[scope["query_string"].decode()]:
        await send(message)


@plain
async def swallows(scope, receive, send):
    for message in BAD[scope["query_string"].decode()]:
        try:
            await send(message)
        except Exception:
            pass


# ASYNC-01, ASYNC-02.


@plain
async def blocks(scope, receive, send):
    """Says that it blocks, and does so until it is let go."""

    def block():
        erlang.send("asgi_test", ("blocks", threading.get_native_id()))
        assert gate.wait(60)

    if scope["query_string"] == b"aside":
        await asyncio.to_thread(block)
    else:
        block()
    for message in respond(b"done"):
        await send(message)


@plain
async def thread(scope, receive, send):
    for message in respond(b"%d" % threading.get_native_id()):
        await send(message)


@plain
async def blocks_aside(scope, receive, send):
    await blocks(scope | {"query_string": b"aside"}, receive, send)


def reset():
    said.clear()
    gate.clear()
    time.sleep(0)
