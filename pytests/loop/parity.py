"""Owns the table of wrong calls: for each the exception stdlib's loop gives on the same Python is the one to
give.

A row is a name and a function of a Bench. What it returns is awaited if it can be. Nothing here knows the
right answer.
"""

import asyncio
import signal
import socket
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

from parity_calls import (
    LOCAL,
    Bench,
    after_eof,
    after_shutdown,
    boom,
    client_context,
    closed_pipe,
    closed_server,
    listening,
    nothing,
    on_closed,
    pause_twice,
    readers_of_transport,
    recv_into_bytes,
    send_file,
    send_to_gone,
    sendto_other,
    serve_twice,
    ssl_socket,
    taken,
    tls,
    twice,
)

Row = tuple[str, Callable[[Bench], Any]]

P = asyncio.Protocol
D = asyncio.DatagramProtocol

CALLBACKS: list[Row] = [
    *[
        (
            f"{name}({value!r})",
            partial(lambda b, name, args: getattr(b.loop, name)(*args), name=name, args=args),
        )
        for value in (None, 1, "print")
        for name, args in (
            ("call_soon", (value,)),
            ("call_soon_threadsafe", (value,)),
            ("call_later", (0, value)),
            ("call_at", (0, value)),
        )
    ],
    ("call_soon of a coroutine function", lambda b: b.loop.call_soon(nothing)),
    ("call_soon without arguments", lambda b: b.loop.call_soon()),
    ("call_soon with a strange keyword", lambda b: b.loop.call_soon(print, spam=1)),
    (
        "call_soon with a context that is none",
        lambda b: b.later(lambda: b.loop.call_soon(print, context=1).cancel()),
    ),
    ("call_later without a callback", lambda b: b.loop.call_later(1)),
    ("call_later of no number", lambda b: b.loop.call_later("1", print)),
    ("call_later of None", lambda b: b.loop.call_later(None, print)),
    ("call_at of None", lambda b: b.loop.call_at(None, print)),
    ("call_later of nan", lambda b: type(b.loop.call_later(float("nan"), print)).__name__),
    ("call_later of a negative number", lambda b: type(b.loop.call_later(-1, print)).__name__),
    ("call_later of infinity", lambda b: type(b.loop.call_later(float("inf"), print)).__name__),
    ("call_later in a closed loop", lambda b: b.closed().call_later(1, print)),
    ("call_at in a closed loop", lambda b: b.closed().call_at(1, print)),
    ("call_soon in a closed loop", lambda b: b.closed().call_soon(print)),
    ("call_soon_threadsafe in a closed loop", lambda b: b.closed().call_soon_threadsafe(print)),
    ("call_soon from another thread", lambda b: type(b.from_thread(lambda: b.loop.call_soon(int))).__name__),
    (
        "call_later from another thread",
        lambda b: type(b.from_thread(lambda: b.loop.call_later(9, int))).__name__,
    ),
]

LIFE: list[Row] = [
    ("run_forever while running", lambda b: b.later(b.loop.run_forever)),
    (
        "run_until_complete while running",
        lambda b: b.later(lambda: b.loop.run_until_complete(b.loop.create_future())),
    ),
    ("run_until_complete of no awaitable", lambda b: b.loop.run_until_complete(1)),
    ("run_until_complete of a function", lambda b: b.loop.run_until_complete(nothing)),
    (
        "run_until_complete, stopped before",
        lambda b: (b.loop.stop(), b.loop.run_until_complete(b.loop.create_future())),
    ),
    ("run_forever in a closed loop", lambda b: b.closed().run_forever()),
    ("run_until_complete in a closed loop", lambda b: b.closed().run_until_complete(b.loop.create_future())),
    ("close while running", lambda b: b.later(b.loop.close)),
    ("close twice", lambda b: (b.loop.close(), b.loop.close())),
    ("stop in a closed loop", lambda b: b.closed().stop()),
    ("another loop inside", lambda b: b.later(lambda: type(b.loop)().run_forever())),
    ("run_forever from another thread", lambda b: b.from_thread(b.loop.run_forever)),
    ("is_running when closed", lambda b: b.closed().is_running()),
    ("create_task of a function", lambda b: b.loop.create_task(nothing)),
    ("create_task of a number", lambda b: b.loop.create_task(1)),
    ("create_task in a closed loop", lambda b: b.closed().create_task(nothing())),
    ("create_future in a closed loop", lambda b: type(b.closed().create_future()).__name__),
    ("set_task_factory of no callable", lambda b: b.loop.set_task_factory(1)),
    ("set_exception_handler of no callable", lambda b: b.loop.set_exception_handler(1)),
    ("set_default_executor of no executor", lambda b: b.loop.set_default_executor(object())),
    ("run_in_executor in a closed loop", lambda b: b.closed().run_in_executor(None, print)),
    ("run_in_executor of no callable", lambda b: b.loop.run_in_executor(None, 1)),
    ("run_in_executor of a coroutine function", lambda b: b.loop.run_in_executor(None, nothing)),
    ("shutdown_default_executor twice", lambda b: twice(b, b.loop.shutdown_default_executor)),
    ("run_in_executor after its shutdown", lambda b: after_shutdown(b)),
    ("shutdown_asyncgens twice", lambda b: twice(b, b.loop.shutdown_asyncgens)),
    ("call_exception_handler without a message", lambda b: b.loop.call_exception_handler({})),
    ("set_debug of a string", lambda b: (b.loop.set_debug("yes"), b.loop.get_debug() != "")[1]),
    ("time of a closed loop", lambda b: type(b.closed().time()).__name__),
]

FILES: list[Row] = [
    *[
        (
            f"{name}({value!r})",
            partial(lambda b, name, value: getattr(b.loop, name)(value, int), name=name, value=value),
        )
        for name in ("add_reader", "add_writer")
        for value in (None, "1", -1, 1.5, 999_999)
    ],
    *[
        (
            f"{name}({value!r})",
            partial(lambda b, name, value: getattr(b.loop, name)(value), name=name, value=value),
        )
        for name in ("remove_reader", "remove_writer")
        for value in (None, "1", -1, 1.5, 999_999)
    ],
    ("add_reader of a closed socket", lambda b: b.loop.add_reader(b.closed_sock(), int)),
    ("add_reader of a file", lambda b: b.loop.add_reader(b.file(), int)),
    ("add_reader in a closed loop", lambda b: b.closed().add_reader(b.pair()[0], int)),
    ("add_writer in a closed loop", lambda b: b.closed().add_writer(b.pair()[0], int)),
    ("remove_reader in a closed loop", lambda b: b.closed().remove_reader(b.pair()[0])),
    ("remove_writer in a closed loop", lambda b: b.closed().remove_writer(b.pair()[0])),
    ("add_reader without a callback", lambda b: b.loop.add_reader(b.pair()[0])),
    ("add_reader of a transport's socket", lambda b: readers_of_transport(b, "add_reader", int)),
    ("add_writer of a transport's socket", lambda b: readers_of_transport(b, "add_writer", int)),
    ("remove_reader of a transport's socket", lambda b: readers_of_transport(b, "remove_reader")),
    ("remove_writer of a transport's socket", lambda b: readers_of_transport(b, "remove_writer")),
    ("sock_recv of a transport's socket", lambda b: readers_of_transport(b, "sock_recv", 10)),
]

SIGNALS: list[Row] = [
    ("add_signal_handler of SIGKILL", lambda b: b.loop.add_signal_handler(signal.SIGKILL, int)),
    ("add_signal_handler of 0", lambda b: b.loop.add_signal_handler(0, int)),
    ("add_signal_handler of 1000", lambda b: b.loop.add_signal_handler(1000, int)),
    ("add_signal_handler of a name", lambda b: b.loop.add_signal_handler("SIGTERM", int)),
    (
        "add_signal_handler of a coroutine function",
        lambda b: b.loop.add_signal_handler(signal.SIGUSR1, nothing),
    ),
    ("add_signal_handler in a closed loop", lambda b: b.closed().add_signal_handler(signal.SIGUSR1, int)),
    ("add_signal_handler in a thread", lambda b: b.from_thread(lambda: b.loop.add_signal_handler(10, int))),
    ("remove_signal_handler of 1000", lambda b: b.loop.remove_signal_handler(1000)),
    ("remove_signal_handler of a name", lambda b: b.loop.remove_signal_handler("SIGTERM")),
    ("remove_signal_handler of none", lambda b: b.loop.remove_signal_handler(signal.SIGUSR2)),
]

CONNECT: list[Row] = [
    ("create_connection to nowhere", lambda b: b.loop.create_connection(P)),
    ("create_connection refused", lambda b: b.loop.create_connection(P, LOCAL, b.free_port())),
    ("create_connection with host and sock", lambda b: b.loop.create_connection(P, LOCAL, 1, sock=b.sock())),
    (
        "create_connection of a datagram socket",
        lambda b: b.loop.create_connection(P, sock=b.sock(socket.SOCK_DGRAM)),
    ),
    ("create_connection of an unconnected socket", lambda b: b.loop.create_connection(P, sock=b.sock())),
    ("create_connection of no socket", lambda b: b.loop.create_connection(P, sock=object())),
    ("create_connection of a closed socket", lambda b: b.loop.create_connection(P, sock=b.closed_sock())),
    ("create_connection with a bad port", lambda b: b.loop.create_connection(P, LOCAL, 70_000)),
    ("create_connection with a negative port", lambda b: b.loop.create_connection(P, LOCAL, -1)),
    ("create_connection with a port of no kind", lambda b: b.loop.create_connection(P, LOCAL, object())),
    (
        "create_connection with a service nobody knows",
        lambda b: b.loop.create_connection(P, LOCAL, "no such"),
    ),
    ("create_connection with a host of no kind", lambda b: b.loop.create_connection(P, 1.5, 1)),
    ("create_connection with a bad literal", lambda b: b.loop.create_connection(P, "256.1.1.1.", 1, flags=4)),
    ("create_connection with a nul in its host", lambda b: b.loop.create_connection(P, "127.0.0.1\0x", 1)),
    ("create_connection with ssl of no kind", lambda b: b.loop.create_connection(P, LOCAL, 1, ssl="yes")),
    (
        "create_connection with a hostname, no ssl",
        lambda b: b.loop.create_connection(P, LOCAL, 1, server_hostname="x"),
    ),
    (
        "create_connection with ssl and sock, no hostname",
        lambda b: b.loop.create_connection(P, sock=b.pair()[0], ssl=client_context()),
    ),
    (
        "create_connection with a handshake timeout, no ssl",
        lambda b: b.loop.create_connection(P, LOCAL, 1, ssl_handshake_timeout=1),
    ),
    (
        "create_connection with a shutdown timeout, no ssl",
        lambda b: b.loop.create_connection(P, LOCAL, 1, ssl_shutdown_timeout=1),
    ),
    (
        "create_connection with a negative handshake timeout",
        lambda b: b.loop.create_connection(
            P, sock=b.pair()[0], ssl=client_context(), server_hostname="x", ssl_handshake_timeout=-1
        ),
    ),
    (
        "create_connection with a factory that raises",
        lambda b: b.loop.create_connection(boom, sock=b.pair()[0]),
    ),
    ("create_connection with a factory of no kind", lambda b: b.loop.create_connection(1, sock=b.pair()[0])),
    (
        "create_connection from an address not ours",
        lambda b: b.loop.create_connection(P, LOCAL, b.free_port(), local_addr=("127.0.0.1", 70_000)),
    ),
    ("create_connection with a strange keyword", lambda b: b.loop.create_connection(P, LOCAL, 1, spam=1)),
    ("create_connection with a bad family", lambda b: b.loop.create_connection(P, LOCAL, 1, family=12345)),
    ("connect_accepted_socket of a datagram socket", lambda b: b.loop.connect_accepted_socket(P, b.sock(2))),
    ("connect_accepted_socket of no socket", lambda b: b.loop.connect_accepted_socket(P, 5)),
    (
        "connect_accepted_socket with a timeout, no ssl",
        lambda b: b.loop.connect_accepted_socket(P, b.pair()[0], ssl_handshake_timeout=1),
    ),
    (
        "connect_accepted_socket with ssl of no kind",
        lambda b: b.loop.connect_accepted_socket(P, b.pair()[0], ssl=1),
    ),
    ("create_unix_connection to nothing", lambda b: b.loop.create_unix_connection(P)),
    ("create_unix_connection to nobody", lambda b: b.loop.create_unix_connection(P, str(b.folder / "no"))),
    ("create_unix_connection of two", lambda b: b.loop.create_unix_connection(P, "x", sock=b.pair()[0])),
    ("create_unix_connection of a TCP socket", lambda b: b.loop.create_unix_connection(P, sock=b.sock())),
    (
        "create_unix_connection, ssl, no hostname",
        lambda b: b.loop.create_unix_connection(P, "x", ssl=client_context()),
    ),
    (
        "create_unix_connection, hostname, no ssl",
        lambda b: b.loop.create_unix_connection(P, "x", server_hostname="x"),
    ),
    ("create_unix_connection, path too long", lambda b: b.loop.create_unix_connection(P, "/" + "x" * 200)),
    ("create_unix_connection, path of no kind", lambda b: b.loop.create_unix_connection(P, 12)),
    ("start_tls without a context", lambda b: tls(b, None)),
    ("start_tls with True", lambda b: tls(b, True)),
    ("start_tls of no transport", lambda b: b.loop.start_tls(object(), P(), client_context())),
    ("start_tls of a datagram transport", lambda b: tls(b, client_context(), "datagram")),
]

CLOSED: list[Row] = [
    ("create_connection in a closed loop", lambda b: on_closed(b, "create_connection", P, LOCAL, 1)),
    (
        "create_datagram_endpoint in a closed loop",
        lambda b: on_closed(b, "create_datagram_endpoint", D, (LOCAL, 0)),
    ),
    ("sock_recv in a closed loop", lambda b: on_closed(b, "sock_recv", b.pair()[0], 1)),
    ("sock_accept in a closed loop", lambda b: on_closed(b, "sock_accept", listening(b))),
    ("getaddrinfo in a closed loop", lambda b: on_closed(b, "getaddrinfo", LOCAL, 1)),
    (
        "subprocess_exec in a closed loop",
        lambda b: on_closed(b, "subprocess_exec", asyncio.SubprocessProtocol, "true"),
    ),
    ("shutdown_asyncgens in a closed loop", lambda b: on_closed(b, "shutdown_asyncgens")),
]

SERVERS: list[Row] = [
    ("create_server with host and sock", lambda b: b.loop.create_server(P, LOCAL, 0, sock=b.sock())),
    ("create_server of nothing", lambda b: b.loop.create_server(P)),
    ("create_server of a datagram socket", lambda b: b.loop.create_server(P, sock=b.sock(socket.SOCK_DGRAM))),
    ("create_server of no socket", lambda b: b.loop.create_server(P, sock=1)),
    ("create_server on a taken port", lambda b: b.loop.create_server(P, LOCAL, taken(b))),
    ("create_server on an address not ours", lambda b: b.loop.create_server(P, "::2", 0)),
    ("create_server with ssl of no kind", lambda b: b.loop.create_server(P, LOCAL, 0, ssl=1)),
    ("create_server with ssl=True", lambda b: b.loop.create_server(P, LOCAL, 0, ssl=True)),
    ("create_server, timeout, no ssl", lambda b: b.loop.create_server(P, LOCAL, 0, ssl_handshake_timeout=1)),
    (
        "create_server, shutdown timeout, no ssl",
        lambda b: b.loop.create_server(P, LOCAL, 0, ssl_shutdown_timeout=1),
    ),
    ("create_server with a bad port", lambda b: b.loop.create_server(P, LOCAL, 99_999)),
    ("create_server with a backlog of no kind", lambda b: b.loop.create_server(P, LOCAL, 0, backlog="many")),
    ("create_server with a host of no kind", lambda b: b.loop.create_server(P, 5, 0)),
    ("create_server with hosts of no kind", lambda b: b.loop.create_server(P, [5], 0)),
    ("create_unix_server of nothing", lambda b: b.loop.create_unix_server(P)),
    (
        "create_unix_server of two",
        lambda b: b.loop.create_unix_server(P, "x", sock=b.sock(family=socket.AF_UNIX)),
    ),
    ("create_unix_server of a TCP socket", lambda b: b.loop.create_unix_server(P, sock=b.sock())),
    ("create_unix_server in no folder", lambda b: b.loop.create_unix_server(P, str(b.folder / "no/s"))),
    ("create_unix_server over a file", lambda b: b.loop.create_unix_server(P, b.file().name)),
    (
        "create_unix_server with ssl of no kind",
        lambda b: b.loop.create_unix_server(P, str(b.folder / "s"), ssl=1),
    ),
    ("create_unix_server with a path too long", lambda b: b.loop.create_unix_server(P, "/" + "x" * 200)),
    ("serve_forever twice", lambda b: serve_twice(b)),
    ("serve_forever of a closed server", lambda b: closed_server(b, "serve_forever")),
    ("start_serving of a closed server", lambda b: closed_server(b, "start_serving")),
    ("wait_closed of a closed server", lambda b: closed_server(b, "wait_closed")),
    ("sockets of a closed server", lambda b: closed_server(b, "sockets")),
]

UDP: list[Row] = [
    ("create_datagram_endpoint of nothing", lambda b: b.loop.create_datagram_endpoint(D)),
    ("datagram endpoint of a stream socket", lambda b: b.loop.create_datagram_endpoint(D, sock=b.sock())),
    (
        "datagram endpoint of a socket and an address",
        lambda b: b.loop.create_datagram_endpoint(D, sock=b.sock(2), local_addr=(LOCAL, 0)),
    ),
    ("datagram endpoint of no socket", lambda b: b.loop.create_datagram_endpoint(D, sock=3)),
    ("datagram endpoint, address of no kind", lambda b: b.loop.create_datagram_endpoint(D, local_addr=5)),
    ("datagram endpoint, address of one", lambda b: b.loop.create_datagram_endpoint(D, local_addr=(LOCAL,))),
    (
        "datagram endpoint, address of three",
        lambda b: b.loop.create_datagram_endpoint(D, local_addr=(LOCAL, 0, 0)),
    ),
    (
        "datagram endpoint, remote of no kind",
        lambda b: b.loop.create_datagram_endpoint(D, remote_addr="host"),
    ),
    (
        "datagram endpoint, two families",
        lambda b: b.loop.create_datagram_endpoint(D, local_addr=("::1", 0), remote_addr=(LOCAL, 1)),
    ),
    (
        "datagram endpoint, address not ours",
        lambda b: b.loop.create_datagram_endpoint(D, local_addr=("::2", 0)),
    ),
    ("datagram endpoint, bad port", lambda b: b.loop.create_datagram_endpoint(D, local_addr=(LOCAL, 99_999))),
    (
        "datagram endpoint, factory that raises",
        lambda b: b.loop.create_datagram_endpoint(boom, local_addr=(LOCAL, 0)),
    ),
    (
        "Unix datagrams, address of no kind",
        lambda b: b.loop.create_datagram_endpoint(D, family=socket.AF_UNIX, local_addr=(LOCAL, 0)),
    ),
    ("sendto of a string", lambda b: b.on("datagram", "sendto", "text", (LOCAL, 9))),
    ("sendto of a number", lambda b: b.on("datagram", "sendto", 5, (LOCAL, 9))),
    ("sendto of nothing", lambda b: b.on("datagram", "sendto", b"", (LOCAL, 9))),
    ("sendto without an address", lambda b: b.on("datagram", "sendto", b"x")),
    ("sendto an address of no kind", lambda b: b.on("datagram", "sendto", b"x", 5)),
    ("sendto to another than the connected", lambda b: sendto_other(b)),
    ("write on a datagram transport", lambda b: b.on("datagram", "write", b"x")),
]

TRANSPORTS: list[Row] = [
    ("write of a string", lambda b: b.on("transport", "write", "text")),
    ("write of a number", lambda b: b.on("transport", "write", 5)),
    ("write of None", lambda b: b.on("transport", "write", None)),
    ("write of nothing", lambda b: b.on("transport", "write", b"")),
    ("write without arguments", lambda b: b.on("transport", "write")),
    ("writelines of a number", lambda b: b.on("transport", "writelines", 5)),
    ("writelines of strings", lambda b: b.on("transport", "writelines", ["a"])),
    ("write after write_eof", lambda b: after_eof(b, "write", b"x")),
    ("writelines after write_eof", lambda b: after_eof(b, "writelines", [b"x"])),
    ("write_eof twice", lambda b: after_eof(b, "write_eof")),
    ("limits the wrong way round", lambda b: b.on("transport", "set_write_buffer_limits", 1, 2)),
    ("limits below zero", lambda b: b.on("transport", "set_write_buffer_limits", None, -1)),
    ("limits of no number", lambda b: b.on("transport", "set_write_buffer_limits", "x", "y")),
    ("set_protocol of nothing", lambda b: b.on("transport", "set_protocol", None)),
    ("get_extra_info of what is not there", lambda b: b.on("transport", "get_extra_info", "spam", 7)),
    ("get_extra_info without a name", lambda b: b.on("transport", "get_extra_info")),
    ("pause_reading twice", lambda b: pause_twice(b)),
    ("resume_reading when not paused", lambda b: b.on("transport", "resume_reading")),
    ("write on a closed transport", lambda b: b.on("closed_transport", "write", b"x")),
    ("write of a string on a closed transport", lambda b: b.on("closed_transport", "write", "x")),
    ("close of a closed transport", lambda b: b.on("closed_transport", "close")),
    ("pause_reading on a closed transport", lambda b: b.on("closed_transport", "pause_reading")),
    ("is_reading of a closed transport", lambda b: b.on("closed_transport", "is_reading")),
    (
        "get_write_buffer_size of a closed transport",
        lambda b: b.on("closed_transport", "get_write_buffer_size"),
    ),
    ("sendfile over a closed transport", lambda b: send_file(b, "closed_transport")),
    ("sendfile of a text file", lambda b: send_file(b, "transport", text=True)),
    ("sendfile with a negative offset", lambda b: send_file(b, "transport", offset=-1)),
    ("sendfile with a count of zero", lambda b: send_file(b, "transport", count=0)),
    ("sendfile with an offset of no kind", lambda b: send_file(b, "transport", offset="1")),
    ("sendfile of no file", lambda b: b.loop.sendfile(object(), object())),
]

SOCKETS: list[Row] = [
    *[
        (
            f"{method} of a blocking socket",
            partial(
                lambda b, method, args: getattr(b.loop, method)(b.pair(blocking=True)[0], *args),
                method=method,
                args=args,
            ),
        )
        for method, args in (
            ("sock_recv", (1,)),
            ("sock_recv_into", (bytearray(1),)),
            ("sock_recvfrom", (1,)),
            ("sock_recvfrom_into", (bytearray(1),)),
            ("sock_sendall", (b"x",)),
            ("sock_sendto", (b"x", (LOCAL, 9))),
            ("sock_connect", ((LOCAL, 9),)),
            ("sock_accept", ()),
        )
    ],
    *[
        (
            f"{method} of a closed socket",
            partial(
                lambda b, method, args: getattr(b.loop, method)(b.closed_sock(), *args),
                method=method,
                args=args,
            ),
        )
        for method, args in (
            ("sock_recv", (1,)),
            ("sock_sendall", (b"x",)),
            ("sock_connect", ((LOCAL, 9),)),
            ("sock_accept", ()),
        )
    ],
    ("sock_recv of no socket", lambda b: b.loop.sock_recv(object(), 1)),
    ("sock_recv of a negative size", lambda b: b.loop.sock_recv(b.pair()[0], -1)),
    ("sock_recv of no number", lambda b: b.loop.sock_recv(b.pair()[0], "1")),
    ("sock_recv_into what is read-only", lambda b: recv_into_bytes(b)),
    ("sock_sendall of a string", lambda b: b.loop.sock_sendall(b.pair()[0], "text")),
    ("sock_sendall of nothing", lambda b: b.loop.sock_sendall(b.pair()[0], b"")),
    ("sock_sendall to a gone peer", lambda b: send_to_gone(b)),
    ("sock_connect refused", lambda b: b.loop.sock_connect(b.sock(), (LOCAL, b.free_port()))),
    ("sock_connect to an address of no kind", lambda b: b.loop.sock_connect(b.sock(), 5)),
    ("sock_connect to a bad port", lambda b: b.loop.sock_connect(b.sock(), (LOCAL, 99_999))),
    (
        "sock_connect to no path",
        lambda b: b.loop.sock_connect(b.sock(family=socket.AF_UNIX), str(b.folder / "no")),
    ),
    ("sock_accept of what does not listen", lambda b: b.loop.sock_accept(b.sock())),
    ("sock_sendto of a string", lambda b: b.loop.sock_sendto(b.sock(2), "x", (LOCAL, 9))),
    ("sock_recv of a TLS socket", lambda b: ssl_socket(b)),
    ("sock_sendfile of a datagram socket", lambda b: b.loop.sock_sendfile(b.sock(2), b.file())),
    (
        "sock_sendfile of a blocking socket",
        lambda b: b.loop.sock_sendfile(b.pair(blocking=True)[0], b.file()),
    ),
    ("sock_sendfile with a count of zero", lambda b: b.loop.sock_sendfile(b.pair()[0], b.file(), 0, 0)),
    ("sock_sendfile with a negative offset", lambda b: b.loop.sock_sendfile(b.pair()[0], b.file(), -1)),
    ("sock_sendfile with an offset of no kind", lambda b: b.loop.sock_sendfile(b.pair()[0], b.file(), "0")),
    ("getaddrinfo of nothing", lambda b: b.loop.getaddrinfo(None, None)),
    ("getaddrinfo of no host", lambda b: b.loop.getaddrinfo(5, 80)),
    ("getaddrinfo of a bad family", lambda b: b.loop.getaddrinfo(LOCAL, 80, family=99)),
    ("getnameinfo of no address", lambda b: b.loop.getnameinfo("x")),
]

S = asyncio.SubprocessProtocol
PROCESSES: list[Row] = [
    ("subprocess_exec of nobody", lambda b: b.loop.subprocess_exec(S, str(b.folder / "no"))),
    ("subprocess_exec of a number", lambda b: b.loop.subprocess_exec(S, 5)),
    ("subprocess_exec with a shell", lambda b: b.loop.subprocess_exec(S, "true", shell=True)),
    ("subprocess_exec with text", lambda b: b.loop.subprocess_exec(S, "true", text=True)),
    (
        "subprocess_exec with universal newlines",
        lambda b: b.loop.subprocess_exec(S, "true", universal_newlines=True),
    ),
    ("subprocess_exec with an encoding", lambda b: b.loop.subprocess_exec(S, "true", encoding="utf-8")),
    ("subprocess_exec with errors", lambda b: b.loop.subprocess_exec(S, "true", errors="strict")),
    ("subprocess_exec with a buffer", lambda b: b.loop.subprocess_exec(S, "true", bufsize=1)),
    ("subprocess_exec in no folder", lambda b: b.loop.subprocess_exec(S, "true", cwd=str(b.folder / "no"))),
    (
        "subprocess_exec, factory that raises",
        lambda b: b.loop.subprocess_exec(boom, "true", stdin=subprocess.DEVNULL),
    ),
    ("subprocess_exec with a strange keyword", lambda b: b.loop.subprocess_exec(S, "true", spam=1)),
    ("subprocess_shell of a list", lambda b: b.loop.subprocess_shell(S, ["true"])),
    ("subprocess_shell without a shell", lambda b: b.loop.subprocess_shell(S, "true", shell=False)),
    ("subprocess_shell with text", lambda b: b.loop.subprocess_shell(S, "true", text=True)),
    ("subprocess_shell with a buffer", lambda b: b.loop.subprocess_shell(S, "true", bufsize=9)),
    ("connect_read_pipe of a file", lambda b: b.loop.connect_read_pipe(P, b.file())),
    ("connect_write_pipe of a file", lambda b: b.loop.connect_write_pipe(P, b.file())),
    ("connect_read_pipe of no file", lambda b: b.loop.connect_read_pipe(P, object())),
    ("connect_read_pipe of a closed file", lambda b: b.loop.connect_read_pipe(P, closed_pipe())),
    ("connect_write_pipe of a number", lambda b: b.loop.connect_write_pipe(P, 1_000_000)),
]

ROWS: list[Row] = [
    *CALLBACKS, *LIFE, *FILES, *SIGNALS, *CONNECT, *CLOSED, *SERVERS, *UDP, *TRANSPORTS, *SOCKETS, *PROCESSES,
]  # fmt: skip
assert len({name for name, _ in ROWS}) == len(ROWS)
