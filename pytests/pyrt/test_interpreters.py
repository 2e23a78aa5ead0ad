"""The module in own-GIL sub-interpreters, two at once with state of their own; and many imports in one."""

import gc
import importlib.util
import os
import sys
import threading
import weakref

import probe
import pytest

CODE = """
import sys, os
sys.path[:] = {path!r}
import probe
assert probe.interpreter() != 0
counter = probe.Counter(0, lambda c: c.increment())
for _ in range(100_000):
    counter.add(amount=1)
assert counter.value == 100_000
try:
    counter.boom()
except SystemError:
    pass
links = None
for _ in range(50_000):
    links = probe.Link(links)
del links
counter.me = counter
del counter
import gc
gc.collect()
os.write({fd}, b"ok %d %d\\n" % (probe.interpreter(), id(probe.Counter)))
"""


def run_isolated(code):
    """Runs code in a new own-GIL interpreter, which is left alive: below 3.14 ending them is not safe."""
    if sys.version_info >= (3, 13):
        import _interpreters

        identity = _interpreters.create("isolated")
        failure = _interpreters.exec(identity, code)
        return None if failure is None else getattr(failure, "formatted", str(failure))
    import _xxsubinterpreters

    identity = _xxsubinterpreters.create(isolated=True)
    try:
        _xxsubinterpreters.run_string(identity, code)
    except _xxsubinterpreters.RunFailedError as error:
        return str(error)
    return None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="own-GIL interpreters came with 3.12")
def test_two_interpreters_at_once() -> None:
    reader, writer = os.pipe()
    failures = []
    code = CODE.format(path=sys.path, fd=writer)
    threads = [threading.Thread(target=lambda: failures.append(run_isolated(code))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == [None, None]
    lines = os.read(reader, 1000).split(b"\n")[:2]
    types = {line.split()[2] for line in lines} | {str(id(probe.Counter)).encode()}
    assert all(line.startswith(b"ok ") for line in lines)
    assert len(types) == 3, "each interpreter has types of its own"
    assert probe.Counter(1).increment() == 2
    os.close(reader)
    os.close(writer)


def test_modules_made_twice_share_nothing_and_go_away() -> None:
    spec = importlib.util.find_spec("probe")
    references = []
    for _ in range(5):
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.Counter is not probe.Counter
        counter = module.Counter(1)
        assert counter.add(2) == 3
        assert counter != probe.Counter(3)
        references.append(weakref.ref(module.Counter))
        counter.me = counter
        del module, counter
    gc.collect()
    assert [reference() for reference in references] == [None] * 5
