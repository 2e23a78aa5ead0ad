"""Module functions: argument errors worded as Python's own, errno, detaching, contexts, bytes."""

import contextvars
import errno
import threading
import time

import probe
import pytest


def none():
    return [()]


def two(a, b):
    return [a, b, ()]


def three(a, b, c):
    return [a, b, c, ()]


def optional(a, b=None):
    return [a, b, ()]


def keyword(a, *, k, l):  # noqa: E741
    return [a, k, l, ()]


def only(a, /, b):
    return [a, b, ()]


def collect(a, *args, k=None):
    return [a, k, args]


CALLS = [
    (none, [((), {}), ((1,), {}), ((1, 2), {}), ((), {"zzzzzz": 1})]),
    (
        two,
        [
            ((1, 2), {}),
            ((1,), {}),
            ((), {}),
            ((1, 2, 3), {}),
            ((1, 2), {"a": 1}),
            ((1,), {"b": 2}),
            ((), {"b": 1, "a": 2}),
        ],
    ),
    (two, [((1, 2), {"zzzzzz": 1}), ((1, 2, 3), {"zzzzzz": 1}), ((1,), {"a": 1}), ((), {"a": 1})]),
    (three, [((), {}), ((1,), {}), ((1, 2), {}), ((1, 2, 3, 4), {}), ((), {"b": 1})]),
    (optional, [((), {}), ((1,), {}), ((1, 2), {}), ((1, 2, 3), {}), ((1,), {"b": 5}), ((), {"b": 5})]),
    (
        keyword,
        [
            ((1,), {"k": 1, "l": 2}),
            ((1,), {}),
            ((1,), {"k": 1}),
            ((1, 2), {"k": 1, "l": 2}),
            ((1, 2), {"k": 1}),
        ],
    ),
    (keyword, [((), {"k": 1, "l": 2}), ((), {}), ((1, 2, 3), {})]),
    (only, [((1, 2), {}), ((1,), {"b": 2}), ((), {"a": 1, "b": 2}), ((1,), {"a": 1, "b": 2})]),
    (
        collect,
        [((1,), {}), ((1, 2, 3), {}), ((1, 2), {"k": 3}), ((), {}), ((), {"k": 1}), ((1,), {"zzzzzz": 1})],
    ),
]


@pytest.mark.parametrize(("function", "args", "kwargs"), [(f, a, k) for f, calls in CALLS for a, k in calls])
def test_arguments_are_taken_and_refused_as_by_python(function, args, kwargs) -> None:
    def outcome(call):
        try:
            return call(*args, **kwargs)
        except TypeError as error:
            return str(error)

    assert outcome(getattr(probe, function.__name__)) == outcome(function)


def test_method_errors_count_self_as_python_does() -> None:
    class Counter:
        def add(self, amount, times=1): ...

    for args, kwargs in [((), {}), ((1, 2, 3), {}), ((1,), {"zzzzzz": 1}), ((1,), {"amount": 1})]:
        texts = []
        for cls in (Counter, probe.Counter):
            with pytest.raises(TypeError) as caught:
                cls().add(*args, **kwargs)
            texts.append(
                str(caught.value).replace("test_method_errors_count_self_as_python_does.<locals>.", "")
            )
        assert texts[0] == texts[1]


def test_keywords_that_are_no_strings() -> None:
    with pytest.raises(TypeError, match="keywords must be strings"):
        probe.Counter(**{1: 2})


def test_keyword_with_a_lone_surrogate() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        probe.two(1, 2, **{"\ud800": 1})


@pytest.mark.parametrize(
    ("number", "cls"),
    [
        (errno.ENOENT, FileNotFoundError),
        (errno.EAGAIN, BlockingIOError),
        (errno.ECONNREFUSED, ConnectionRefusedError),
        (errno.ECONNRESET, ConnectionResetError),
        (errno.EPIPE, BrokenPipeError),
        (errno.ETIMEDOUT, TimeoutError),
        (errno.EACCES, PermissionError),
        (errno.EINVAL, OSError),
    ],
)
def test_errno_gives_the_right_class(number, cls) -> None:
    with pytest.raises(cls) as ours:
        probe.os_error(number)
    python = OSError(number, __import__("os").strerror(number))
    assert type(ours.value) is type(python) is cls
    assert (ours.value.errno, ours.value.strerror, str(ours.value)) == (
        python.errno,
        python.strerror,
        str(python),
    )
    with pytest.raises(cls) as ours:
        probe.os_error(number, "/a/file")
    assert ours.value.filename == "/a/file"


def test_detaching_lets_other_threads_run() -> None:
    ticks, done = 0, threading.Event()

    def sleeper():
        probe.detached_sleep(0.3)
        done.set()

    thread = threading.Thread(target=sleeper)
    thread.start()
    end = time.monotonic() + 5
    while not done.is_set() and time.monotonic() < end:
        ticks += 1
        time.sleep(0.001)
    thread.join()
    assert ticks > 20


def test_context_is_a_copy() -> None:
    variable = contextvars.ContextVar("variable", default=0)

    def change():
        variable.set(variable.get() + 1)
        return variable.get()

    assert probe.run_in_copy(change) == 1
    assert variable.get() == 0
    with pytest.raises(ZeroDivisionError):
        probe.run_in_copy(lambda: 1 / 0)
    assert variable.get() == 0


def test_bytes_are_cut_to_what_was_filled() -> None:
    for room, filled in [(0, 0), (1, 1), (1, 0), (100, 10), (100, 100), (70000, 3)]:
        assert probe.read_bytes(room, filled) == bytes(i % 256 for i in range(filled))
    with pytest.raises((OverflowError, MemoryError)):
        probe.read_bytes(2**63, 0)
    with pytest.raises(OverflowError):
        probe.read_bytes(-1, 0)


def test_import_is_made_once() -> None:
    assert probe.fraction() is __import__("fractions").Fraction is probe.fraction()
