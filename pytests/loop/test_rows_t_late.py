"""Rows T8 to T13 of the bug classes seen in other asyncio loops: ends, UDP, signals, servers, leaks,
idleness.
"""

import asyncio
import contextlib
import errno
import gc
import inspect
import os
import resource
import signal
import socket
import ssl
import struct
import subprocess
import sys
import textwrap
import time
import weakref
from pathlib import Path
from typing import Any

import hosted
import loops
import pytest
from peers import LOCAL, Errors, Loop, Record, connect, pair, settled, turns


def linger(transport: asyncio.BaseTransport) -> None:
    """The close that follows sends RST."""
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def test_t8_a_reset_after_the_end_is_seen_by_a_writer(loop: Loop) -> None:
    both = await connect(peer=lambda: Record(keep_open=True))
    both.client.transport.write_eof()
    await both.peer.eof
    linger(both.client.transport)
    both.client.transport.abort()
    await both.client.lost
    while not both.peer.transport.is_closing():
        both.peer.transport.write(b"x" * 1000)
        await turns(1)
    assert isinstance(await both.peer.lost, ConnectionError)
    await both.close()


async def test_t8_eof_under_tls_ends_the_connection(
    loop: Loop, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    """Keeping it half open is not possible there, whatever eof_received returns."""
    both = await connect(
        peer=lambda: Record(keep_open=True), server_ssl=server_context, client_ssl=client_context
    )
    assert not both.client.transport.can_write_eof()
    with pytest.raises(NotImplementedError):
        both.client.transport.write_eof()
    both.client.transport.write(b"last words")
    both.client.transport.close()
    assert await both.client.lost is None
    await both.peer.lost
    assert both.peer.data == b"last words"
    assert both.peer.calls[-2:] == ["eof_received", "connection_lost"]
    await both.close()


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.received: asyncio.Queue[tuple[bytes, Any]] = asyncio.Queue()
        self.errors: asyncio.Queue[Exception] = asyncio.Queue()
        self.lost = loop.create_future()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.put_nowait((data, addr))

    def error_received(self, exc: Exception) -> None:
        self.errors.put_nowait(exc)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(exc)


async def test_t9_port_unreachable_is_reported_and_the_endpoint_lives(loop: Loop) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
        nobody.bind((LOCAL, 0))
        address = nobody.getsockname()
    transport, protocol = await loop.create_datagram_endpoint(Datagrams, remote_addr=address)
    transport.sendto(b"anybody?")
    assert isinstance(await protocol.errors.get(), ConnectionRefusedError)
    assert not transport.is_closing()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as somebody:
        somebody.bind(address)
        transport.sendto(b"hello")
        somebody.settimeout(10)
        data, sender = somebody.recvfrom(100)
        assert data == b"hello"
        somebody.sendto(b"yes", sender)
        assert (await protocol.received.get())[0] == b"yes"
    transport.close()
    assert await protocol.lost is None


async def test_t9_broadcast(loop: Loop) -> None:
    """Loopback has a broadcast address too; without permission it is refused, with it it is not."""
    address = ("127.255.255.255", 9)
    refused, protocol = await loop.create_datagram_endpoint(Datagrams, local_addr=(LOCAL, 0))
    refused.sendto(b"all", address)
    assert isinstance(await protocol.errors.get(), PermissionError)
    allowed, other = await loop.create_datagram_endpoint(
        Datagrams, local_addr=("0.0.0.0", 0), allow_broadcast=True
    )
    port = allowed.get_extra_info("sockname")[1]
    assert allowed.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST)
    allowed.sendto(b"all", ("127.255.255.255", port))
    assert (await other.received.get())[0] == b"all"
    for transport, its in ((refused, protocol), (allowed, other)):
        transport.close()
        await its.lost


async def test_t9_the_zone_of_an_ipv6_address_is_kept(loop: Loop) -> None:
    index = socket.if_nametoindex("lo")
    found = await loop.getaddrinfo("fe80::1%lo", 80, type=socket.SOCK_STREAM)
    assert found[0][4][3] == index  # type: ignore[misc]
    # Nobody has that address here. Without its zone it would not even be an address: EINVAL.
    for attempt in (
        loop.create_datagram_endpoint(Datagrams, local_addr=("fe80::1%lo", 0)),
        loop.create_server(Record, "fe80::1%lo", 0),
        loop.create_connection(Record, "fe80::1%lo", 9, local_addr=("fe80::1%lo", 0)),
    ):
        with pytest.raises(OSError) as caught:  # noqa: PT011
            await attempt
        assert caught.value.errno == errno.EADDRNOTAVAIL or "could not bind" in str(caught.value)


PROGRAM = """
import asyncio, os, signal, sys
sys.path[:0] = {path!r}
import loops
signal.signal(signal.SIGINT, signal.default_int_handler)
loop = loops.factory({column!r})()
asyncio.set_event_loop(loop)
loop.set_debug({debug})
{body}
"""


def program(request: Any, body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of its own on the test's kind of loop, as signals are the whole process's."""
    column, debug = request.node.callspec.params["loop"]
    text = PROGRAM.format(path=sys.path, column=column, debug=debug, body=textwrap.dedent(body))
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", text, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.own_process
def test_t10_ctrl_c_ends_an_idle_loop(loop: Loop, request: pytest.FixtureRequest) -> None:
    done = program(
        request,
        """
        loop.call_soon(lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            loop.run_forever()
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            loop.close()
        """,
    )
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


@pytest.mark.own_process
def test_t10_ctrl_c_wakes_a_loop_that_waits(loop: Loop, request: pytest.FixtureRequest) -> None:
    done = program(
        request,
        """
        import threading
        def interrupt():
            while "S" not in open(f"/proc/{os.getpid()}/stat").read().split()[2]:
                pass
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            loop.run_forever()
        except KeyboardInterrupt:
            print("interrupted")
        loop.close()
        """,
    )
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


@pytest.mark.own_process
def test_t10_interrupted_system_calls_stay_inside(loop: Loop, request: pytest.FixtureRequest) -> None:
    done = program(
        request,
        """
        ticks = 0
        def tick(*_):
            global ticks
            ticks += 1
        signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        async def main():
            left, right = __import__("socket").socketpair()
            left.setblocking(False); right.setblocking(False)
            for _ in range(50):
                await asyncio.sleep(0.002)
                await loop.sock_sendall(left, b"x")
                assert await loop.sock_recv(right, 1) == b"x"
            left.close(); right.close()
        loop.run_until_complete(main())
        signal.setitimer(signal.ITIMER_REAL, 0)
        loop.close()
        print("ticks" if ticks > 10 else ticks)
        """,
    )
    assert (done.stdout, done.returncode) == ("ticks\n", 0), done.stderr


@pytest.mark.own_process
def test_t10_a_handler_of_the_users_for_sigchld_stays(loop: Loop, request: pytest.FixtureRequest) -> None:
    done = program(
        request,
        """
        import subprocess
        seen = []
        signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))
        async def main():
            child = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
            assert await child.wait() == 3
        loop.run_until_complete(main())
        before = len(seen)
        assert subprocess.run(["sh", "-c", "exit 4"]).returncode == 4
        assert len(seen) > before, "the handler was taken away"
        assert before > 0
        loop.close()
        print("kept")
        """,
    )
    assert (done.stdout, done.returncode) == ("kept\n", 0), done.stderr


@pytest.mark.own_process
async def test_t10_a_child_gets_its_stdio_and_nothing_else(loop: Loop) -> None:
    left, right = pair()
    command = [sys.executable, "-c", "import os; print(len(os.listdir('/proc/self/fd')))"]
    options: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "close_fds": False}
    usual = subprocess.run(command, check=True, **options).stdout
    child = await asyncio.create_subprocess_exec(*command, **options)
    out, _ = await child.communicate()
    assert out == usual, "the child has descriptors it would not have without the loop"
    left.close()
    right.close()


@pytest.mark.own_process
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
async def test_t10_signal_handlers_of_the_loop(loop: Loop, number: signal.Signals) -> None:
    seen = loop.create_future()
    loop.add_signal_handler(number, seen.set_result, "seen")
    os.kill(os.getpid(), number)
    assert await seen == "seen"
    assert loop.remove_signal_handler(number) is True
    assert loop.remove_signal_handler(number) is False
    assert signal.getsignal(number) == signal.SIG_DFL


async def test_t11_serve_forever_ends_with_the_server(loop: Loop) -> None:
    server = await loop.create_server(Record, LOCAL, 0)
    forever = loop.create_task(server.serve_forever())
    await turns(3)
    assert server.is_serving()
    server.close()
    assert isinstance(await settled(forever), asyncio.CancelledError)
    assert not server.is_serving()
    await server.wait_closed()
    with pytest.raises(RuntimeError):
        await server.serve_forever()


async def test_t11_cancelling_serve_forever_does_to_clients_what_this_python_says(loop: Loop) -> None:
    """It kept them, until 3.14 had it close them."""
    accepted = loop.create_future()

    class Peer(Record):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            accepted.set_result(self)

    server = await loop.create_server(Peer, LOCAL, 0, start_serving=False)
    assert not server.is_serving()
    forever = loop.create_task(server.serve_forever())
    await turns(3)
    _, client = await loop.create_connection(Record, LOCAL, server.sockets[0].getsockname()[1])
    peer = await accepted
    forever.cancel()
    await turns(5)
    assert not server.is_serving()
    if "close_clients" in inspect.getsource(asyncio.Server.serve_forever):
        assert await peer.lost is None
    else:
        client.transport.write(b"still there?")
        assert await peer.received(12) == b"still there?"
        peer.transport.write(b"yes")
        assert await client.received(3) == b"yes"
    client.transport.close()
    await client.lost
    await peer.lost
    assert isinstance(await settled(forever), asyncio.CancelledError)


async def test_t12_nothing_of_a_tls_connection_stays(
    loop: Loop, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    watched: list[weakref.ref[Any]] = []
    for secure in (True, False):
        contexts = {"server_ssl": server_context, "client_ssl": client_context} if secure else {}
        both = await connect(**contexts)  # type: ignore[arg-type]
        both.client.transport.write(b"x" * 100_000)
        await both.peer.received(100_000)
        watched += [weakref.ref(both.client), weakref.ref(both.peer)]
        both.client.transport.close()
        await both.client.lost
        await both.peer.lost
        await both.close()
        del both
    await turns(5)
    gc.collect()
    assert [reference() for reference in watched] == [None] * len(watched)


async def test_t12_a_thousand_connections_leave_no_memory_behind(loop: Loop) -> None:
    server = await loop.create_server(Record, LOCAL, 0)
    port = server.sockets[0].getsockname()[1]

    async def round_trip(number: int) -> None:
        for _ in range(number):
            transport, protocol = await loop.create_connection(Record, LOCAL, port)
            transport.close()
            await protocol.lost

    await round_trip(100)
    gc.collect()
    before = len(gc.get_objects())
    await round_trip(300)
    await turns(10)
    gc.collect()
    assert len(gc.get_objects()) - before < 600, "two objects and more stay for each connection"
    server.close()
    await turns(5)


async def idle_share(span: float) -> tuple[float, int]:
    """CPU per wall time and voluntary context switches while the loop has nothing to do but one timer."""
    if hosted.HOSTED:  # it may change threads: the process, and how often the loop itself was woken
        running: Any = asyncio.get_running_loop()
        stats = running._native_stats
        cpu, wall, woken = time.process_time(), time.monotonic(), stats()["wakeups"]
        await asyncio.sleep(span)
        return (time.process_time() - cpu) / (time.monotonic() - wall), stats()["wakeups"] - woken
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    cpu, wall, switches = time.thread_time(), time.monotonic(), usage.ru_nvcsw
    await asyncio.sleep(span)
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return (time.thread_time() - cpu) / (time.monotonic() - wall), usage.ru_nvcsw - switches


async def test_t13_an_idle_loop_does_not_spin(loop: Loop, errors: Errors, tmp_path: Path) -> None:
    """With everything on it that once spun elsewhere: paused with data, half closed, closed peer, idle
    writer, far timer.
    """
    paused, half, plain = await connect(), await connect(peer=lambda: Record(keep_open=True)), await connect()
    paused.client.transport.pause_reading()
    paused.peer.transport.write(b"unread")
    half.client.transport.write_eof()
    await half.peer.eof
    plain.client.transport.write(b"x")
    await plain.peer.received(1)
    udp, datagrams = await loop.create_datagram_endpoint(Datagrams, local_addr=(LOCAL, 0))
    far = loop.call_later(3600, print)
    gone = loop.call_later(3600, print)
    gone.cancel()
    reading, writing = os.pipe()
    read_pipe, _ = await loop.connect_read_pipe(asyncio.Protocol, os.fdopen(reading, "rb", 0))
    write_pipe, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(writing, "wb", 0))
    await turns(10)
    share, switches = await idle_share(0.5)
    assert share < 0.2, f"{share:.0%} of a core while idle"
    assert switches < 30, f"woken {switches} times while idle"
    far.cancel()
    udp.close()
    await datagrams.lost
    read_pipe.close()
    write_pipe.close()
    for both in (paused, half, plain):
        await both.close()
    await turns(5)


async def test_t13_a_peer_that_is_gone_does_not_wake_a_paused_reader(loop: Loop, column: str) -> None:
    """Level-triggered hang-ups come for ever unless the interest goes with the pause."""
    both = await connect()
    both.client.transport.pause_reading()
    linger(both.peer.transport)
    both.peer.transport.abort()
    await both.peer.lost
    await turns(10)
    share, _ = await idle_share(0.3)
    assert share < 0.2, f"{share:.0%} of a core while idle"
    both.client.transport.abort()
    await both.close()


@pytest.mark.own_process
def test_t10_loops_in_threads_leave_signals_alone(factory: loops.Factory) -> None:
    """A loop that is not in the main thread refuses signal handlers and changes nothing."""
    import threading

    outcome: list[BaseException | None] = []
    before = signal.getsignal(signal.SIGUSR2)

    def run() -> None:
        loop = factory()
        try:
            loop.add_signal_handler(signal.SIGUSR2, print)
        except BaseException as error:
            outcome.append(error)
        finally:
            with contextlib.suppress(Exception):
                loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert isinstance(outcome[0], (RuntimeError, ValueError))
    assert signal.getsignal(signal.SIGUSR2) == before
