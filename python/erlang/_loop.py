"""Owns `ErlangEventLoop`: the native loop under asyncio's own policy.

`_native.Loop` comes first among the bases and has the hot path; everything else (servers, connections,
executors, asynchronous generators, signals) is inherited from the loop of the Python at hand, so it
behaves as that one does.
"""

import selectors
import sys
import threading
from asyncio import events
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, TypeVarTuple

from . import _native, _tasks
from ._executor import Executors
from ._secure import Secure
from ._sock import Sockets
from ._subprocess import Subprocesses
from ._transports import Transports

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

_tasks.quicken_all()

_HAS_SETUP = sys.version_info >= (3, 13)


class ErlangEventLoop(_native.Loop, Sockets, Secure, Transports, Subprocesses, Executors):
    """An asyncio event loop with its hot path in Rust. Any number of them, each on a thread of its own."""

    # What asyncio's loops set. With slots the dict stays unmade, and calls of methods are specialised.
    __slots__ = (
        "_asyncgens",
        "_asyncgens_shutdown_called",
        "_clock_resolution",
        "_coroutine_origin_tracking_enabled",
        "_coroutine_origin_tracking_saved_depth",
        "_csock",
        "_current_handle",
        "_default_executor",
        "_exception_handler",
        "_executor_shutdown_called",
        "_internal_fds",
        "_old_agen_hooks",
        "_released",
        "_signal_handlers",
        "_ssock",
        "_timer_cancelled_count",
        "_unix_server_sockets",
        "_watcher",
        "slow_callback_duration",
    )

    def __init__(self) -> None:
        self._released = False
        super().__init__(_Selector(self))

    def run_forever(self) -> None:
        """Runs until stop() is called."""
        self._run(self._run_native)

    def _run(self, turns: Callable[[*_Ts], _T], *args: *_Ts) -> _T:
        """Has this thread run the loop, for as long as `turns` does."""
        if _HAS_SETUP:
            # Not inside the try as in 3.13.0, where a loop that refuses to run twice is cleaned up.
            self._run_forever_setup()
            try:
                return turns(*args)
            finally:
                self._run_forever_cleanup()
        self._check_closed()
        self._check_running()
        self._set_coroutine_origin_tracking(self._debug)
        hooks = sys.get_asyncgen_hooks()
        try:
            self._thread_id = threading.get_ident()
            sys.set_asyncgen_hooks(
                firstiter=self._asyncgen_firstiter_hook, finalizer=self._asyncgen_finalizer_hook
            )
            events._set_running_loop(self)
            return turns(*args)
        finally:
            self._stopping = False
            self._thread_id = None
            events._set_running_loop(None)
            self._set_coroutine_origin_tracking(False)
            sys.set_asyncgen_hooks(*hooks)

    @property
    def _selector(self) -> "_Selector | None":
        return None if self.is_closed() and self._released else _Selector(self)

    @_selector.setter
    def _selector(self, value: object) -> None:
        """asyncio's loops assign it; what they get back is a view of the native registrations."""

    def _make_self_pipe(self) -> None:
        # Threads wake the loop natively. Signals need a pair of sockets: made for the first handler.
        self._ssock = self._csock = None
        self._internal_fds += 1

    def _close_self_pipe(self) -> None:
        if self._ssock is not None:
            super()._close_self_pipe()
        self._internal_fds -= 1

    def add_signal_handler(self, sig: int, callback: Callable[[*_Ts], object], *args: *_Ts) -> None:
        """Calls back when a signal arrives. Main thread only."""
        if self._ssock is None and not self.is_closed():
            super()._make_self_pipe()
        super().add_signal_handler(sig, callback, *args)

    def _release_all(self) -> None:
        self._released = True
        self._release()


class _Key:
    """A registration, as asyncio's transports look at it in their repr."""

    def __init__(self, fd: int, registration: tuple[bool, bool, Any, Any]) -> None:
        reading, writing, reader, writer = registration
        self.fd = self.fileobj = fd
        self.events = (selectors.EVENT_READ if reading else 0) | (selectors.EVENT_WRITE if writing else 0)
        self.data = (reader, writer)


class _Selector(Mapping[int, _Key]):
    """What asyncio's own code asks `loop._selector` for: who listens to an fd, and the end of it all."""

    def __init__(self, loop: ErlangEventLoop) -> None:
        self._loop = loop

    def __getitem__(self, fd: int) -> _Key:
        found = self._loop._registration(fd)
        if found is None:
            raise KeyError(f"{fd!r} is not registered")
        return _Key(fd, found)

    def __iter__(self) -> Iterator[int]:
        return iter(())

    def __len__(self) -> int:
        return self._loop._native_stats()["sources"]

    def get_key(self, fd: int) -> _Key:
        return self[fd]

    def get_map(self) -> "Mapping[int, _Key]":
        return self

    def close(self) -> None:
        self._loop._release_all()
