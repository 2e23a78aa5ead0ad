"""sock_* calls among others on the same descriptor: those that come after, readers, transports, and whoever
gets the number next.
"""

import asyncio
import contextvars
import socket
import warnings
from typing import Any

import pytest
from peers import LOCAL, Loop, Record, Sockets, close, listener, pair, reopened, settled, turns


async def received_once(loop: Loop) -> Sockets:
    """A pair whose first socket has had to wait for data once, and has got it."""
    left, right = pair()
    task = loop.create_task(loop.sock_recv(left, 10))
    await turns(2)
    right.send(b"first")
    assert await task == b"first"
    return left, right


def read_by_callback(loop: Loop, sock: socket.socket) -> asyncio.Future[bytes]:
    """What a reader gets, as soon as it gets something."""
    heard: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not heard.done():
            heard.set_result(sock.recv(10))

    loop.add_reader(sock, read)
    return heard


async def test_one_call_after_another(loop: Loop) -> None:
    left, right = await received_once(loop)
    for number in range(20):
        task = loop.create_task(loop.sock_recv(left, 10))
        await turns(2)
        right.send(b"%d" % number)
        assert await task == b"%d" % number
        if number % 3 == 0:
            right.send(b"at once")
            assert await loop.sock_recv(left, 10) == b"at once"
    close(left, right)


async def test_a_number_with_a_new_owner_is_listened_to_anew(loop: Loop) -> None:
    for _ in range(5):
        left, right = await received_once(loop)
        number = left.fileno()
        left.close()
        again, peer = reopened(number)
        task = loop.create_task(loop.sock_recv(again, 10))
        await turns(3)
        assert not task.done()
        peer.send(b"second")
        assert await task == b"second"
        close(again, peer, right)


async def test_what_comes_for_a_duplicate_of_a_closed_socket_reaches_nobody(loop: Loop) -> None:
    left, right = await received_once(loop)
    copy, number = left.dup(), left.fileno()
    left.close()
    again, peer = reopened(number)
    task = loop.create_task(loop.sock_recv(again, 10))
    await turns(2)
    right.send(b"for the duplicate")
    await turns(5)
    assert not task.done()
    peer.send(b"second")
    assert await task == b"second"
    assert copy.recv(100) == b"for the duplicate"
    close(copy, again, peer, right)


async def test_a_call_on_a_socket_closed_meanwhile_takes_nothing_from_the_next_owner(
    loop: Loop, column: str
) -> None:
    left, right = pair()
    stranded = loop.create_task(loop.sock_recv(left, 10))
    await turns(2)
    number = left.fileno()
    left.close()
    again, peer = reopened(number)
    if (
        column != "ours" or loop.get_debug()
    ):  # stdlib takes the number for the old registration, and hears nothing
        loop.remove_reader(number)
    task = loop.create_task(loop.sock_recv(again, 10))
    await turns(2)
    stranded.cancel()
    assert isinstance(await settled(stranded), asyncio.CancelledError)
    peer.send(b"mine")
    assert await task == b"mine"
    close(again, peer, right)


async def test_cancelling_when_data_is_there_leaves_the_data(loop: Loop) -> None:
    left, right = await received_once(loop)
    task = loop.create_task(loop.sock_recv(left, 10))
    await turns(2)
    right.send(b"kept")
    task.cancel("no more")
    with pytest.raises(asyncio.CancelledError, match="no more"):
        await task
    assert await loop.sock_recv(left, 10) == b"kept"
    close(left, right)


async def test_a_timeout_around_a_call(loop: Loop) -> None:
    left, right = await received_once(loop)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await loop.sock_recv(left, 10)
    right.send(b"late")
    assert await loop.sock_recv(left, 10) == b"late"
    close(left, right)


async def test_data_that_nobody_waits_for_does_not_keep_the_loop_busy(loop: Loop, column: str) -> None:
    left, right = await received_once(loop)
    right.send(b"early")
    await asyncio.sleep(0.01)
    if column == "ours":
        before = loop._native_stats()["polls"]  # type: ignore[attr-defined]
        await asyncio.sleep(0.05)
        assert loop._native_stats()["polls"] - before < 10  # type: ignore[attr-defined]
    assert await loop.sock_recv(left, 10) == b"early"
    close(left, right)


async def test_a_reader_on_a_socket_that_was_received_from(loop: Loop) -> None:
    left, right = await received_once(loop)
    heard = read_by_callback(loop, left)
    right.send(b"reader")
    assert await heard == b"reader"
    assert loop.remove_reader(left) is True
    assert loop.remove_reader(left) is False
    both = await asyncio.gather(loop.sock_recv(left, 10), loop.sock_sendall(right, b"again"))
    assert both[0] == b"again"
    assert loop.remove_reader(left) is False
    close(left, right)


async def test_a_reader_takes_the_place_of_a_call_that_waits(loop: Loop) -> None:
    left, right = pair()
    task = loop.create_task(loop.sock_recv(left, 10))
    await turns(2)
    heard = read_by_callback(loop, left)
    right.send(b"reader")
    assert await heard == b"reader"
    assert not task.done()
    task.cancel()
    assert isinstance(await settled(task), asyncio.CancelledError)
    assert loop.remove_reader(left) is True
    close(left, right)


async def test_a_call_takes_the_place_of_a_reader(loop: Loop) -> None:
    left, right = pair()
    loop.add_reader(left, lambda: pytest.fail("replaced"))
    task = loop.create_task(loop.sock_recv(left, 10))
    await turns(2)
    right.send(b"call")
    assert await task == b"call"
    await turns(2)
    assert loop.remove_reader(left) is False
    close(left, right)


async def test_a_call_whose_reader_is_removed_waits_for_ever(loop: Loop) -> None:
    left, right = pair()
    task = loop.create_task(loop.sock_recv(left, 10))
    await turns(2)
    assert loop.remove_reader(left) is True
    right.send(b"unheard")
    await turns(5)
    assert not task.done()
    task.cancel()
    assert isinstance(await settled(task), asyncio.CancelledError)
    assert left.recv(10) == b"unheard"
    close(left, right)


async def test_sending_and_receiving_wait_on_one_socket(loop: Loop) -> None:
    left, right = await received_once(loop)
    flood = b"x" * 5_000_000
    sending = loop.create_task(loop.sock_sendall(left, flood))
    receiving = loop.create_task(loop.sock_recv(left, 10))
    await turns(3)
    right.send(b"while sending")
    assert await receiving == b"while sending"[:10]
    assert not sending.done()
    got = 0
    while got < len(flood):
        got += len(await loop.sock_recv(right, 1 << 18))
    await sending
    assert await loop.sock_recv(left, 10) == b"while sending"[10:]
    close(left, right)


async def test_a_transport_over_a_socket_that_was_received_from(loop: Loop) -> None:
    door = listener()
    client = socket.socket()
    client.setblocking(False)
    await loop.sock_connect(client, door.getsockname())
    peer, _ = await loop.sock_accept(door)
    first = loop.create_task(loop.sock_recv(client, 10))
    await turns(2)
    await loop.sock_sendall(peer, b"call")
    assert await first == b"call"
    transport, protocol = await loop.create_connection(Record, sock=client)
    await loop.sock_sendall(peer, b"transport")
    assert await protocol.received(9) == b"transport"
    fd = client.fileno()
    with pytest.raises(RuntimeError, match=f"File descriptor {fd} is used by transport"):
        await loop.sock_recv(client, 10)
    transport.close()
    await protocol.lost
    close(peer, door)


async def test_a_call_is_whatever_asyncio_takes_for_a_coroutine(loop: Loop) -> None:
    left, right = pair()

    def call() -> Any:
        right.send(b"data")
        return loop.sock_recv(left, 10)

    assert asyncio.iscoroutine(once := call()) and not asyncio.isfuture(once)
    assert await once == b"data"
    assert [*await asyncio.gather(call())] == [b"data"]
    assert await asyncio.shield(call()) == b"data"
    assert await asyncio.wait_for(call(), 1) == b"data"
    assert await asyncio.ensure_future(call()) == b"data"
    assert await loop.create_task(call(), name="by name") == b"data"
    waiting = loop.create_task(loop.sock_recv(left, 10))
    await turns(2)
    assert "sock_recv" in repr(waiting)
    right.send(b"late")
    assert await waiting == b"late"
    close(left, right)


async def test_a_call_is_awaited_once(loop: Loop) -> None:
    left, right = pair()
    right.send(b"data")
    call = loop.sock_recv(left, 10)
    assert await call == b"data"
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        await call
    close(left, right)


async def test_a_call_that_is_never_awaited_is_said(loop: Loop) -> None:
    left, right = pair()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call: Any = loop.sock_recv(left, 10)
        del call
    assert ["sock_recv' was never awaited" in str(warning.message) for warning in said] == [True]
    right.send(b"untouched")
    assert await loop.sock_recv(left, 100) == b"untouched"
    close(left, right)


async def test_a_coroutine_that_is_closed_while_it_waits_lets_the_descriptor_go(
    loop: Loop, column: str
) -> None:
    left, right = pair()
    call: Any = loop.sock_recv(left, 10)
    call.send(None)
    call.close()
    await turns(2)
    left_behind = column != "ours" or loop.get_debug()  # by stdlib, whose coroutine debug mode uses
    assert loop.remove_reader(left) is left_behind
    right.send(b"free")
    assert await loop.sock_recv(left, 10) == b"free"
    close(left, right)


async def test_a_task_goes_on_in_its_own_context(loop: Loop) -> None:
    left, right = pair()
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")

    async def work() -> str:
        variable.set("inside")
        await loop.sock_recv(left, 10)
        return variable.get()

    task = loop.create_task(work())
    await turns(2)
    right.send(b"data")
    assert await task == "inside"
    assert variable.get() == "outside"
    close(left, right)


async def test_what_a_task_raises_after_a_call_is_its_own(loop: Loop) -> None:
    left, right = pair()

    async def work() -> None:
        await loop.sock_recv(left, 10)
        raise ZeroDivisionError

    task = loop.create_task(work())
    await turns(2)
    right.send(b"data")
    with pytest.raises(ZeroDivisionError):
        await task
    close(left, right)


async def test_a_peer_that_resets_is_an_error_of_the_call(loop: Loop) -> None:
    door = listener()
    client = socket.create_connection(door.getsockname())
    conn, _ = await loop.sock_accept(door)
    task = loop.create_task(loop.sock_recv(conn, 10))
    await turns(2)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    with pytest.raises(ConnectionResetError):
        await task
    close(conn, door)


async def test_several_calls_wait_for_one_listener(loop: Loop) -> None:
    """As with readers, the last one counts."""
    door = listener()
    first, second = loop.create_task(loop.sock_accept(door)), loop.create_task(loop.sock_accept(door))
    await turns(2)
    client = socket.create_connection(door.getsockname())
    conn, _ = await second
    assert not first.done()
    first.cancel()
    assert isinstance(await settled(first), asyncio.CancelledError)
    close(conn, client, door)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_sendall_takes_every_kind_of_buffer(loop: Loop, kind: Any) -> None:
    left, right = pair()
    data = kind(b"abc" * 1_000_000)
    sending = loop.create_task(loop.sock_sendall(left, data))
    got = bytearray()
    while len(got) < 3_000_000:
        got += await loop.sock_recv(right, 1 << 20)
    await sending
    assert got == data
    close(left, right)


async def test_large_and_empty_sizes(loop: Loop) -> None:
    left, right = pair()
    right.send(b"x" * 1000)
    assert await loop.sock_recv(left, 0) == b""
    assert await loop.sock_recv(left, 10_000_000) == b"x" * 1000
    await loop.sock_sendall(left, b"")
    close(left, right)


async def test_datagrams_wait_and_are_cancelled(loop: Loop) -> None:
    one, two = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    for sock in (one, two):
        sock.setblocking(False)
        sock.bind((LOCAL, 0))
    for _ in range(3):
        task = loop.create_task(loop.sock_recvfrom(two, 100))
        await turns(2)
        task.cancel()
        assert isinstance(await settled(task), asyncio.CancelledError)
    buffer = bytearray(10)
    for number in range(3):
        into = loop.create_task(loop.sock_recvfrom_into(two, buffer, 4))
        await turns(2)
        await loop.sock_sendto(one, b"%d is cut" % number, two.getsockname())
        assert await into == (4, one.getsockname())
        assert buffer[:4] == b"%d is" % number
    close(one, two)


async def test_a_connect_that_is_refused_later_is_an_error_of_the_call(loop: Loop) -> None:
    """The kernel asks again after a second, when the listener that was too busy is gone."""
    door = listener(0)
    guests = [socket.socket() for _ in range(4)]
    waiting = []
    for guest in guests:
        guest.setblocking(False)
        waiting.append(loop.create_task(loop.sock_connect(guest, door.getsockname())))
    await turns(5)
    assert not waiting[-1].done()
    door.close()
    assert isinstance(await settled(waiting[-1]), ConnectionRefusedError)
    for task in waiting:
        await settled(task)
    close(*guests)


async def test_those_who_wait_for_a_call_are_told_unless_they_are_taken_off(loop: Loop) -> None:
    left, right = pair()
    call = loop.sock_recv(left, 10)
    future: Any = call.send(None)
    told: list[str] = []
    last = asyncio.Event()

    def first(_: Any) -> None:
        told.append("first")

    def second(_: Any) -> None:
        told.append("second")

    def third(_: Any) -> None:
        told.append("third")
        last.set()

    for callback in (first, second, third):
        future.add_done_callback(callback)
    assert future.remove_done_callback(second) == 1
    right.send(b"data")
    await last.wait()
    assert told == ["first", "third"]
    with pytest.raises(StopIteration) as stopped:
        call.send(None)
    assert stopped.value.value == b"data"
    close(left, right)


async def test_a_call_cancelled_in_the_turn_that_found_its_data_leaves_the_data(
    loop: Loop, column: str
) -> None:
    if column == "stdlib" or loop.get_debug():
        pytest.skip("stdlib's calls receive before anybody can cancel them, and lose it")
    (one, to_one), (other, to_other) = pair(), pair()
    second = loop.create_task(loop.sock_recv(other, 10))

    async def cancels() -> bytes:
        data = await loop.sock_recv(one, 10)
        second.cancel()
        return data

    first = loop.create_task(cancels())
    await turns(3)
    to_one.send(b"one")
    to_other.send(b"other")
    assert await first == b"one"
    outcome = await settled(second)
    if isinstance(outcome, asyncio.CancelledError):
        assert await loop.sock_recv(other, 10) == b"other"
    else:
        assert outcome == b"other"
    close(one, to_one, other, to_other)
