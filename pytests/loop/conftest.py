"""Owns what every behaviour test gets: a loop of each kind, debug mode on and off, a time limit, and a leak
check after it.

A test that is a coroutine function runs on its `loop`. With uvloop a failure is reported as xfail, never as
a failure. Inside the VM those that are, and those that hand a coroutine to `run`, can be had on loops that
Erlang runs (`hosted`).
"""

import asyncio
import contextvars
import gc
import inspect
import os
import signal
import ssl
import sys
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import hosted
import loops
import pytest
import tls as tls_files
from peers import Errors

IN_THE_VM = "erlang._bridge" in sys.modules
"""Inside the Erlang VM, which has the signals to itself."""

if IN_THE_VM:
    threading.current_thread()  # known to `threading` from now on: no thread that a test has left
else:
    # Run in the background these may be ignored, which children inherit; they are tested here.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)

LIMIT = int(os.environ.get("LOOP_TEST_LIMIT", "40"))  # seconds; more where a tool slows everything down
Factory = loops.Factory


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "loop" not in metafunc.fixturenames:
        return
    columns = []
    for column in loops.COLUMNS:
        marks = (
            [pytest.mark.xfail(strict=False, reason="reported, not asserted")] if column == "uvloop" else []
        )
        for debug in (False, True):
            columns.append(
                pytest.param((column, debug), marks=marks, id=f"{column}{'-debug' if debug else ''}")
            )
    metafunc.parametrize("loop", columns, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A loop that runs already can host what is a coroutine."""
    if not hosted.HOSTED:
        return
    fit = [item for item in items if isinstance(item, pytest.Function) and can_be_hosted(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in fit])
    items[:] = fit


def can_be_hosted(item: pytest.Function) -> bool:
    if "loop" in item.fixturenames:
        return inspect.iscoroutinefunction(item.obj)
    return "run" in item.fixturenames


def pytest_collection_finish() -> None:
    """The leak check collects garbage after every test; what is there by now need not be looked at each
    time.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}
    loop: asyncio.AbstractEventLoop = arguments["loop"]
    if hosted.HOSTED:
        hosted.run(loop, asyncio.wait_for(pyfuncitem.obj(**arguments), LIMIT / 2))
        return True
    asyncio.set_event_loop(loop)
    try:
        # As in most programs, where nobody has set a variable: pytest and its plugins have.
        contextvars.Context().run(
            loop.run_until_complete, asyncio.wait_for(pyfuncitem.obj(**arguments), LIMIT / 2)
        )
    finally:
        asyncio.set_event_loop(None)
    return True


FAILED = pytest.StashKey[bool]()
ABANDONED: list[asyncio.AbstractEventLoop] = []
"""uvloop's, of tests that broke off: its `close()` waits for ever for what they have left open."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call":
        item.stash[FAILED] = call.excinfo is not None
    return report


class TooLong(BaseException):
    """Not an Exception: a loop would catch that and go on."""


def open_files() -> dict[str, str]:
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found[entry.name] = str(entry.readlink())
        except OSError:
            continue  # the descriptor this very listing used
    return found


@pytest.fixture
def limit() -> Iterator[None]:
    """A test that hangs fails after a while, by a signal, so also one that hangs in the loop itself."""
    if IN_THE_VM:  # whoever called has a timeout
        yield
        return

    def over(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"the test took more than {LIMIT} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def factory(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> loops.Factory:
    """Makes more loops of the test's kind."""
    column, debug = request.node.callspec.params["loop"]

    def make() -> asyncio.AbstractEventLoop:
        made = loops.factory(column)()
        made.set_debug(debug)
        return made

    return make


@pytest.fixture
def column(request: pytest.FixtureRequest) -> str:
    name: str = request.node.callspec.params["loop"][0]
    return name


@pytest.fixture
def errors() -> Errors:
    return Errors()


@pytest.fixture
def loop(request: pytest.FixtureRequest, errors: Errors, limit: None) -> Iterator[asyncio.AbstractEventLoop]:
    column, debug = request.param
    try:
        make = loops.factory(column)
    except ImportError:
        if column == "uvloop":
            pytest.skip("uvloop is not installed")
        raise
    with warnings.catch_warnings():  # what a test before this one left behind was its own fault
        warnings.simplefilter("ignore")
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):  # kept by pytest for debuggers
            vars(sys).pop(name, None)
        gc.collect()
    before, threads, registered = open_files(), threading.active_count(), 0
    if hosted.HOSTED:
        yield from hosted_loop(request, errors, before)
        return
    loop = make()
    loop.set_debug(debug)
    loop.slow_callback_duration = 10
    watched = "errors" in request.fixturenames or inspect.iscoroutinefunction(request.function)
    if watched:
        loop.set_exception_handler(lambda _, context: errors.append(context))
    yield loop
    if column == "uvloop" and request.node.stash.get(FAILED, True):
        ABANDONED.append(loop)
        return
    left = [] if loop.is_closed() else list(asyncio.all_tasks(loop))
    if not loop.is_closed():
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        stats = getattr(loop, "_native_stats", None)
        registered = stats()["sources"] - (getattr(loop, "_ssock", None) is not None) if stats else 0
        loop.close()
    unexpected = errors.take()
    for thread in threading.enumerate():
        if "waitpid" in thread.name:  # stdlib's, which end a moment after what they waited for
            thread.join(10)
    del loop
    gc.collect()
    after = open_files()
    if request.node.stash.get(FAILED, True):
        return  # what a test that broke off left behind is no leak of the loop's
    assert not left, f"tasks were left: {left}"
    assert not unexpected or errors.lenient, f"the exception handler was called: {unexpected}"
    leaked = {number: name for number, name in after.items() if before.get(number) != name}
    assert not registered, f"{registered} descriptors were still registered with the poller"
    assert threading.active_count() <= threads, f"threads were left: {threading.enumerate()}"
    assert not leaked, f"file descriptors were left: {leaked}"


def hosted_loop(
    request: pytest.FixtureRequest, errors: Errors, before: dict[str, str]
) -> Iterator[asyncio.AbstractEventLoop]:
    """The same with a loop that Erlang runs."""
    with hosted.opened() as loop:
        loop.set_debug(request.param[1])
        loop.slow_callback_duration = 10
        loop.set_exception_handler(lambda _, context: errors.append(context))
        yield loop
        left, registered = hosted.run(loop, end(loop))
    unexpected = errors.take()
    del loop
    if request.node.stash.get(FAILED, True):
        return
    assert not left, f"tasks were left: {left}"
    assert not unexpected or errors.lenient, f"the exception handler was called: {unexpected}"
    assert not registered, f"{registered} descriptors were still registered with the poller"
    for _ in range(1000):  # the VM lets go of what it watched in its own time
        gc.collect()
        leaked = {number: name for number, name in open_files().items() if before.get(number) != name}
        if not leaked:
            return
        time.sleep(0.01)
    assert not leaked, f"file descriptors were left: {leaked}"


async def end(loop: asyncio.AbstractEventLoop) -> tuple[list[str], int]:
    """Ends what a test has left, all but the loop. The tasks, and how many registrations."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
    sources: int = loop._native_stats()["sources"]  # type: ignore[attr-defined]
    return [repr(task) for task in left], sources


@pytest.fixture(params=[column for column in loops.COLUMNS if column != "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine on a loop of its own; errors that nobody handled fail the test."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        unhandled: list[dict[str, Any]] = []

        def handle(_: object, context: dict[str, Any]) -> None:
            # In debug mode servers tell of clients that went before the end of their handshake.
            if context["message"] != "Error on transport creation for incoming connection":
                unhandled.append(context)

        async def bounded() -> Any:
            asyncio.get_running_loop().set_exception_handler(handle)
            return await asyncio.wait_for(main, LIMIT)

        if hosted.HOSTED:
            with hosted.opened() as loop:
                result = hosted.run(loop, bounded())
        else:
            with asyncio.Runner(loop_factory=loops.factory(request.param)) as runner:
                result = runner.run(bounded())
        gc.collect()
        assert not unhandled
        return result

    return run


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tls_files.Certificates:
    return tls_files.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server_context(certificates: tls_files.Certificates) -> ssl.SSLContext:
    return certificates.server()


@pytest.fixture
def client_context(certificates: tls_files.Certificates) -> ssl.SSLContext:
    return certificates.client()
