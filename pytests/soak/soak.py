"""Soaks a loop: random connections, cancels, closes, half-closes and TLS, in which every byte is checked.

    python pytests/soak/soak.py --factory erlang:new_event_loop --seconds 20
    python pytests/soak/soak.py --factory erlang:new_event_loop --connections 100000      # the long form

Clients and server share one loop. A connection begins with where in a block of random bytes its data starts
and how long it is, so both ends know what each byte must be. At the end no descriptor, task or callback
error may be left.
"""

import argparse
import asyncio
import contextlib
import gc
import importlib
import os
import random
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tls

BLOCK = random.Random(1).randbytes(1 << 20)
HEADER = struct.Struct("!II")
PLANS = ("echo", "half close", "abort", "cancel connect", "cancel read", "server closes", "never reads")
LOCAL = "127.0.0.1"


class Soak:
    def __init__(self, seed: int, folder: Path, progress: bool) -> None:
        self.progress = progress
        self.random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.bytes = 0
        self.wrong: list[str] = []
        self.folder = folder
        certificates = tls.make(folder)
        self.server_tls, self.client_tls = certificates.server(), certificates.client()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Checks what arrives against what was announced, and sends it back."""
        try:
            start, length = HEADER.unpack(await reader.readexactly(HEADER.size))
            closes_first = length & 1 << 31
            length &= ~(1 << 31)
            done = 0
            while done < length and (part := await reader.read(1 << 16)):
                if BLOCK[start + done : start + done + len(part)] != part:
                    self.wrong.append(f"the server got wrong bytes at {start}+{done}")
                done += len(part)
                writer.write(part)
                await writer.drain()
                if closes_first and done > length // 2:
                    return
        except (ConnectionError, asyncio.IncompleteReadError, OSError):
            self.counts["ended early, seen by the server"] += 1
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def connect(self, kind: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        options: dict[str, Any] = {}
        if "tls" in kind:
            options = {"ssl": self.client_tls, "server_hostname": "localhost"}
        if "unix" in kind:
            return await asyncio.open_unix_connection(str(self.folder / kind.replace(" ", "-")), **options)
        return await asyncio.open_connection(LOCAL, self.ports[kind], **options)

    async def client(self, kind: str, plan: str) -> None:
        length = int(self.random.choice((0, 1, 100, 10_000, 60_000, 300_000)) * self.random.random())
        start = self.random.randrange(len(BLOCK) - length)
        if plan == "cancel connect":
            await self.cancelled_connect(kind)
            return
        reader, writer = await self.connect(kind)
        flag = 1 << 31 if plan == "server closes" else 0
        expected = memoryview(BLOCK)[start : start + length]
        sender = asyncio.ensure_future(self.send(writer, HEADER.pack(start, length | flag), expected, plan))
        try:
            if plan in ("abort", "cancel read"):
                task = asyncio.ensure_future(self.receive(reader, expected, stop=length // 3))
                for _ in range(self.random.randrange(20)):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            elif plan == "never reads":
                await asyncio.sleep(0.01 * self.random.random())
            else:
                got = await self.receive(reader, expected)
                if plan in ("echo", "half close") and got != length:
                    self.wrong.append(f"{kind}, {plan}: {got} of {length} bytes came back")
        except OSError:
            if plan in ("echo", "half close"):
                self.wrong.append(f"{kind}, {plan}: {sys.exc_info()[1]!r}")
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
            if plan in ("abort", "never reads"):
                writer.transport.abort()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def cancelled_connect(self, kind: str) -> None:
        task = asyncio.ensure_future(self.connect(kind))
        for _ in range(self.random.randrange(12)):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            _, writer = await task
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def send(self, writer: asyncio.StreamWriter, header: bytes, data: memoryview, plan: str) -> None:
        with contextlib.suppress(OSError):
            writer.write(header)
            while data:
                size = self.random.randrange(1, 1 << 17)
                writer.write(data[:size])
                data = data[size:]
                await writer.drain()
            if plan == "half close" and writer.can_write_eof():
                writer.write_eof()

    async def receive(
        self, reader: asyncio.StreamReader, expected: memoryview, stop: int | None = None
    ) -> int:
        done = 0
        while (stop is None or done < stop) and (part := await reader.read(1 << 16)):
            if expected[done : done + len(part)] != part:
                self.wrong.append(f"a client got wrong bytes at {done}")
            done += len(part)
            self.bytes += len(part)
            if done == len(expected):
                break
        return done

    async def worker(self, until: float, limit: int) -> None:
        while time.monotonic() < until and self.counts["connections"] < limit:
            kind = self.random.choice(("tcp", "tcp", "unix", "tcp tls", "unix tls"))
            plan = self.random.choice(PLANS)
            self.counts["connections"] += 1
            self.counts[plan] += 1
            await asyncio.wait_for(self.client(kind, plan), 60)

    async def tell(self, started: float) -> None:
        while True:
            await asyncio.sleep(10)
            connections, took = self.counts["connections"], time.monotonic() - started
            text = f"{took:5.0f} s  {connections:7} connections  {self.bytes:15,} bytes"
            print(f"{text}  {len(self.wrong)} wrong", flush=True)

    async def run(self, seconds: float, connections: int, concurrency: int) -> None:
        servers = [
            await asyncio.start_server(self.serve, LOCAL, 0, backlog=1000),
            await asyncio.start_server(self.serve, LOCAL, 0, ssl=self.server_tls, backlog=1000),
            await asyncio.start_unix_server(self.serve, str(self.folder / "unix"), backlog=1000),
            await asyncio.start_unix_server(
                self.serve, str(self.folder / "unix-tls"), ssl=self.server_tls, backlog=1000
            ),
        ]
        self.ports = {
            "tcp": servers[0].sockets[0].getsockname()[1],
            "tcp tls": servers[1].sockets[0].getsockname()[1],
        }
        now = time.monotonic()
        telling = asyncio.ensure_future(self.tell(now)) if self.progress else None
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self.worker(now + seconds, connections))
        if telling is not None:
            telling.cancel()
        for server in servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            _, late = await asyncio.wait(others, timeout=60)
            self.wrong += [f"left after a minute: {task!r}" for task in late]


def soak(
    factory: Any,
    *,
    seconds: float,
    connections: int,
    concurrency: int,
    seed: int,
    debug: bool,
    progress: bool = False,
) -> Soak:
    """One soak; what went wrong is in the result's `wrong`."""
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with tempfile.TemporaryDirectory() as folder:
        state = Soak(seed, Path(folder), progress)

        def unexpected(_: object, context: dict[str, Any]) -> None:
            # A handshake that a cancelled client broke off is told to the handler in debug mode, by stdlib's
            # loop too.
            if not isinstance(context.get("exception"), OSError):
                state.wrong.append(f"the exception handler was called: {context}")

        with asyncio.Runner(loop_factory=factory, debug=debug) as runner:
            runner.get_loop().set_exception_handler(unexpected)
            runner.get_loop().slow_callback_duration = 60
            runner.run(state.run(seconds, connections, concurrency))
    gc.collect()
    left = len(os.listdir("/proc/self/fd")) - before  # noqa: PTH208
    if left > 0:
        state.wrong.append(f"{left} descriptors were left")
    return state


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--factory", default="erlang:new_event_loop")
    parser.add_argument("--seconds", type=float, default=None, help="20, unless connections are given")
    parser.add_argument("--connections", type=int, default=None)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--debug", action="store_true")
    words = parser.parse_args()
    module, _, attribute = words.factory.partition(":")
    seed = random.randrange(1 << 32) if words.seed is None else words.seed
    seconds = words.seconds or (float("inf") if words.connections else 20)
    started = time.monotonic()
    result = soak(
        getattr(importlib.import_module(module), attribute),
        seconds=seconds,
        connections=words.connections or sys.maxsize,
        concurrency=words.concurrency,
        seed=seed,
        debug=words.debug,
        progress=True,
    )
    took = time.monotonic() - started
    print(f"seed {seed}: {result.bytes:,} bytes checked in {took:.0f} s; {dict(result.counts)}")
    for text, number in Counter(result.wrong).most_common(20):
        print(f"  {number} times: {text}")
    print(f"{result.counts['connections']} passed, {len(result.wrong)} failed")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
