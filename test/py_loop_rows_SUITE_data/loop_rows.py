"""What the cases of `py_loop_rows_SUITE` run on loops that Erlang owns."""

import asyncio
import socket
import ssl
import threading
import time

import erlang

LOCAL = "127.0.0.1"

said = []
kept = {}


async def sleeps(seconds, value=None):
    await asyncio.sleep(seconds)
    return value


async def note(value):
    said.append(value)


def take():
    taken = said[:]
    said.clear()
    return taken


async def waits(listener, name="begun"):
    erlang.send(listener, name)
    await asyncio.sleep(3600)


async def holds(name):
    """Keeps its loop from everything else until Erlang answers."""
    return erlang.call(name)


def cancels_itself():
    raise asyncio.CancelledError


def odd():
    return object()


# L


async def timers_of(n):
    """Timers that fire, and the threads they fire in."""
    loop = asyncio.get_running_loop()
    threads, all_fired = [], loop.create_future()

    def fire():
        threads.append(threading.get_ident())
        if len(threads) == n:
            all_fired.set_result(None)

    for i in range(n):
        loop.call_later((i % 10) / 1000, fire)
    await all_fired
    return [len(threads), set(threads) == {threading.get_ident()}, threading.get_ident()]


async def former_owners(n):
    """Handles cancelled after they ran, while others wait. How many of the others fired."""
    loop = asyncio.get_running_loop()
    fired = []
    for _ in range(n):
        done = loop.create_future()
        old = loop.call_later(0, done.set_result, None)
        await done
        new = loop.call_later(0.001, fired.append, 1)
        old.cancel()
        soon = loop.call_soon(fired.append, 2)
        old.cancel()
        await asyncio.sleep(0)
        soon.cancel()
        del new, soon
    while len(fired) < 2 * n:
        await asyncio.sleep(0.001)
    return fired.count(1)


async def never_early(delays):
    """How much too early each sleep ends, at the worst."""
    loop = asyncio.get_running_loop()
    early = 0.0
    for delay in delays:
        start = time.monotonic()
        done = loop.create_future()
        loop.call_later(delay, done.set_result, None)
        await done
        early = max(early, delay - (time.monotonic() - start))
    return early


async def inside_itself():
    """What is said where a loop is run again, and how its clock goes."""
    loop = asyncio.get_running_loop()
    texts = []
    other = erlang.new_event_loop()
    coroutine = asyncio.sleep(0)
    for attempt in (loop.run_forever, other.run_forever, lambda: erlang.run(coroutine)):
        try:
            attempt()
        except RuntimeError as error:
            texts.append(str(error))
    coroutine.close()
    times = [other.time()]
    time.sleep(0.002)
    times.append(other.time())
    other.close()
    return [texts, times[1] - times[0] >= 0.002]


async def readers(rounds):
    """Events of this loop's own descriptors reach it, in its own thread."""
    loop = asyncio.get_running_loop()
    seen, here = [], threading.get_ident()
    left, right = socket.socketpair()
    left.setblocking(False)

    def read():
        seen.append((left.recv(100), threading.get_ident() == here))

    loop.add_reader(left, read)
    for i in range(rounds):
        right.send(b"%d" % i)
        while len(seen) <= i:
            await asyncio.sleep(0)
    loop.remove_reader(left)
    left.close()
    right.close()
    return seen == [(b"%d" % i, True) for i in range(rounds)]


# Idle


async def serve_idle():
    """A server whose connections stay, and a timer that is far away. Its port."""
    server = await asyncio.start_server(_answer_once, LOCAL, 0, backlog=2000)
    kept["idle"] = (server, asyncio.get_running_loop().call_later(36000, print))
    kept["open"] = set()
    return server.sockets[0].getsockname()[1]


async def _answer_once(reader, writer):
    kept["open"].add(writer)
    try:
        while data := await reader.read(100):
            writer.write(data)
    finally:
        kept["open"].discard(writer)
        writer.close()


async def highest_fd():
    return max(writer.get_extra_info("socket").fileno() for writer in kept["open"])


async def end_idle():
    server, timer = kept.pop("idle")
    server.close()
    timer.cancel()
    while kept["open"]:
        await asyncio.sleep(0.001)


# F


async def reused_numbers(rounds):
    """Descriptors closed with an event under way, their numbers taken by others. True if none got another's event."""
    loop = asyncio.get_running_loop()
    seen = []
    for i in range(rounds):
        left, right = socket.socketpair()
        loop.add_reader(left, seen.append, ("old", i))
        right.send(b"x")
        loop.remove_reader(left)
        left.close()
        right.close()
        new_left, new_right = socket.socketpair()
        loop.add_reader(new_left, seen.append, ("new", i))
        await asyncio.sleep(0)
        new_right.send(b"x")
        while ("new", i) not in seen[-1:]:
            await asyncio.sleep(0)
        loop.remove_reader(new_left)
        new_left.close()
        new_right.close()
    return not any(kind == "old" for kind, _ in seen)


async def many_connections(number, name):
    """Connections opened and closed, each with words of its own that it gets back; every tenth one given up meanwhile."""
    server = await asyncio.start_server(_echo, LOCAL, 0, backlog=1000)
    port = server.sockets[0].getsockname()[1]
    wrong, served = [], 0
    gate = asyncio.Semaphore(50)

    async def one(i):
        nonlocal served
        async with gate:
            if i % 10 == 9:
                attempt = asyncio.ensure_future(asyncio.open_connection(LOCAL, port))
                for _ in range(i // 10 % 5):
                    await asyncio.sleep(0)
                attempt.cancel()
                result = (await asyncio.gather(attempt, return_exceptions=True))[0]
                if isinstance(result, tuple):
                    result[1].close()
                    await result[1].wait_closed()
                served += 1
                return
            reader, writer = await asyncio.open_connection(LOCAL, port)
            words = f"{name} {i}\n".encode()
            writer.write(words)
            answer = await reader.readline()
            if answer != words:
                wrong.append((words, answer))
            writer.close()
            await writer.wait_closed()
            served += 1

    await asyncio.gather(*(one(i) for i in range(number)))
    server.close()
    await server.wait_closed()
    return [served, wrong]


async def _echo(reader, writer):
    try:
        while data := await reader.read(1000):
            writer.write(data)
    except ConnectionError:
        pass
    writer.close()


async def open_port():
    """A server of echoes that Erlang is the client of. Its port."""
    server = await asyncio.start_server(_echo, LOCAL, 0, backlog=1000)
    kept["server"] = server
    return server.sockets[0].getsockname()[1]


async def close_port():
    kept.pop("server").close()


async def tls_port(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(_echo, LOCAL, 0, ssl=context)
    kept["server"] = server
    return server.sockets[0].getsockname()[1]


async def tls_client(port, authority):
    context = ssl.create_default_context(cafile=authority)
    context.check_hostname = False
    # From 3.13 on more is asked of an authority than the one that Erlang makes for tests says of itself.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    reader, writer = await asyncio.open_connection(LOCAL, port, ssl=context)
    writer.write(b"secret\n")
    answer = await reader.readline()
    cipher = writer.get_extra_info("cipher")
    writer.close()
    await writer.wait_closed()
    return [answer, cipher is not None]


async def half_close(port):
    """Ends its own direction, and gets the answer to all it said afterwards. And what `close()` called by itself."""
    called = []

    class Client(asyncio.Protocol):
        def __init__(self):
            self.got = b""
            self.over = asyncio.get_running_loop().create_future()

        def data_received(self, data):
            self.got += data

        def connection_lost(self, exc):
            called.append("lost")
            self.over.set_result(exc)

    transport, client = await asyncio.get_running_loop().create_connection(Client, LOCAL, port)
    transport.write(b"all of it")
    transport.write_eof()
    while client.got != b"all of it":
        await asyncio.sleep(0.001)
    lost_before = list(called)
    transport.close()
    lost_inside = list(called)
    await client.over
    return [client.got, lost_before, lost_inside, called]


async def drains(port, chunks):
    """Writes to a peer that does not read yet, told to by `go` once `drain()` waits. How much was buffered at most."""
    _, writer = await asyncio.open_connection(LOCAL, port)
    most = 0
    for _ in range(chunks):
        writer.write(bytes(65536))
        most = max(most, writer.transport.get_write_buffer_size())
        await writer.drain()
    writer.close()
    await writer.wait_closed()
    return most


async def cancelled_sock_calls(rounds):
    """Calls on sockets given up while they wait. True if the sockets can then be used by others, and on readers."""
    loop = asyncio.get_running_loop()
    for _ in range(rounds):
        left, right = socket.socketpair()
        left.setblocking(False)
        right.setblocking(False)
        for call in (loop.sock_recv(left, 10), loop.sock_recv_into(left, bytearray(10))):
            task = asyncio.ensure_future(call)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if loop.remove_reader(left):
            return False
        right.send(b"whole")
        if await loop.sock_recv(left, 10) != b"whole":
            return False
        left.close()
        right.close()
    return True
