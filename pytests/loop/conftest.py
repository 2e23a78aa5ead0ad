"""Owns the loops under test: every case runs on stdlib's loop and on ours, and leaves nothing behind."""

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import erlang
import pytest

# These are made of the protocols in peers.py, and run where it is.
collect_ignore_glob = [] if Path(__file__).with_name("peers.py").exists() else ["test_stream_*.py"]

Factory = Callable[[], asyncio.AbstractEventLoop]

FACTORIES: dict[str, Factory] = {
    "asyncio": asyncio.SelectorEventLoop,
    "erlang": erlang.new_event_loop,
}


@pytest.fixture(params=FACTORIES)
def factory(request: pytest.FixtureRequest) -> Factory:
    """Makes loops of one kind."""
    return FACTORIES[request.param]


@pytest.fixture(params=["plain", "debug"])
def loop(request: pytest.FixtureRequest, factory: Factory) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop, in debug mode and not, which has nothing left to do when the test ends."""
    loop = factory()
    loop.set_debug(request.param == "debug")
    loop.slow_callback_duration = 10.0
    yield loop
    if not loop.is_closed():
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        if isinstance(loop, erlang.ErlangEventLoop):
            stats = loop._native_stats()
            signals = 1 if loop._ssock is not None else 0
            assert stats["sources"] == signals, "fds are still registered"
        loop.close()


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No fd and no thread outlives a test."""
    gc.collect()
    fds, threads = _open_fds(), threading.active_count()
    yield
    gc.collect()
    assert _open_fds() == fds
    assert threading.active_count() == threads


def _open_fds() -> list[str]:
    fds = []
    for fd in Path("/proc/self/fd").iterdir():
        # The directory itself is listed too, and gone.
        with contextlib.suppress(FileNotFoundError):
            fds.append(f"{fd.name} {fd.readlink()}")
    return sorted(fds)
