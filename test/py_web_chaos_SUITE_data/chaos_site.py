"""Two apps for the storm, ASGI and WSGI: whatever they answer has the name in it that the client gave."""

import asyncio
import threading

import erlang

PIECES = 5


async def read(receive):
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError
        body, more = body + message["body"], message["more_body"]
    return body


async def answer(send, body, more=False):
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def echo(name, send):
    await asyncio.sleep(0.001 * (name[-1] % 3))
    await answer(send, b"echo " + name)


async def thread(name, send):
    await answer(send, await asyncio.to_thread(lambda: b"thread " + name))


async def stream(name, send):
    for _ in range(PIECES):
        await answer(send, b"stream " + name, more=True)
        await asyncio.sleep(0)
    await answer(send, b"")


async def work(name, send):
    """By way of Erlang, on a worker."""
    await answer(send, (await erlang.async_call("web_chaos", name.decode())).encode())


PATHS = {"/echo": echo, "/thread": thread, "/stream": stream, "/work": work}


async def app(scope, receive, send):
    if scope["type"] == "websocket":
        return await socket(receive, send)
    if scope["type"] == "lifespan":
        raise NotImplementedError
    name = await read(receive)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await PATHS[scope["path"]](name, send)


async def socket(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": b"socket " + message["bytes"]})


def wsgi(environ, start_response):
    assert threading.current_thread() is not threading.main_thread()
    name = environ["wsgi.input"].read()
    start_response("200 OK", [])
    for _ in range(PIECES):
        yield b"wsgi " + name


def worked(name):
    return f"work {name}"
