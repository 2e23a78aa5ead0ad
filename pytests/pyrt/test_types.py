"""Heap types made by pyrt: behaviour of instances, subclassing, weak references, dict, awaiting, calling."""

import asyncio
import gc
import inspect
import weakref

import probe
import pytest


def test_class_says_where_it_comes_from() -> None:
    assert probe.Counter.__module__ == "probe"
    assert probe.Counter.__qualname__ == "Counter"
    assert probe.Counter.__doc__ == "Counts, and tells a listener."
    assert str(inspect.signature(probe.Counter)) == "(start=0, listener=None)"
    assert str(inspect.signature(probe.Counter.add)) == "(self, /, amount, times=1)"
    assert probe.Counter.LIMIT == 1000


def test_methods_and_keywords() -> None:
    counter = probe.Counter(start=5)
    assert counter.increment() == 6
    assert counter.add(2) == 8
    assert counter.add(amount=2, times=3) == 14
    assert counter.add(1, times=2) == 16
    name = "".join(["am", "ount"])  # not interned: found by its text
    assert counter.add(**{name: 1}) == 17
    assert counter.value == 17
    counter.value = 3
    assert repr(counter) == "<Counter 3>"
    assert bool(probe.Counter()) is False
    assert probe.Counter.make().value == 7


def test_conversion_errors() -> None:
    with pytest.raises(TypeError):
        probe.Counter("x")
    with pytest.raises(OverflowError):
        probe.Counter(2**64)
    with pytest.raises(OverflowError, match=r"^the count is too big$"):
        probe.Counter(1).add(2**63 - 1)
    with pytest.raises(AttributeError, match=r"^cannot delete value$"):
        del probe.Counter().value
    with pytest.raises(AttributeError):
        probe.Counter().listener = None


def test_comparison_and_hash() -> None:
    assert probe.Counter(1) == probe.Counter(1)
    assert probe.Counter(1) < probe.Counter(2)
    assert probe.Counter(1) != probe.Counter(2)
    assert probe.Counter(1) != 1
    with pytest.raises(TypeError):
        assert probe.Counter(1) < 1
    assert hash(probe.Counter(5)) == 5
    assert hash(probe.Counter(-1)) == -2


def test_a_class_sees_what_is_set_on_its_instances() -> None:
    counter = probe.Counter()
    counter.free = 1
    assert counter.free == 1
    del counter.free
    with pytest.raises(AttributeError, match="free"):
        del counter.free
    with pytest.raises(AttributeError, match=r"^taken cannot be set$"):
        counter.taken = 1
    with pytest.raises(AttributeError, match=r"^taken cannot be deleted$"):
        del counter.taken

    class Sub(probe.Counter):
        pass

    with pytest.raises(AttributeError, match=r"^taken cannot be set$"):
        Sub().taken = 1


def test_instance_has_a_dict() -> None:
    counter = probe.Counter()
    counter.colour = "red"
    assert counter.__dict__ == {"colour": "red"}
    counter.__dict__ = {"a": 1}
    assert counter.a == 1


def test_immutable_type_refuses_attributes() -> None:
    with pytest.raises(TypeError):
        probe.Counter.new = 1


def test_weak_references_die_with_the_instance() -> None:
    called = []
    counter = probe.Counter()
    reference = weakref.ref(counter, called.append)
    assert reference() is counter
    del counter
    assert reference() is None
    assert called == [reference]


def test_subclass() -> None:
    class Named(probe.Counter):
        def __init__(self, start, name="x"):
            self.name = name

        def increment(self):
            return super().increment() * 10

    # As in Python, __new__ gets what the class was called with.
    with pytest.raises(TypeError):
        Named(1, name="y")
    named = Named(1)
    assert named.increment() == 20
    assert isinstance(named, probe.Counter)
    reference = weakref.ref(named)
    named.me = named
    del named
    gc.collect()
    assert reference() is None


def test_subclass_with_slots_and_finaliser() -> None:
    died = []

    class Slotted(probe.Counter):
        __slots__ = ("thing",)

        def __del__(self):
            died.append(self.value)

    slotted = Slotted(3)
    slotted.thing = slotted
    del slotted
    gc.collect()
    assert died == [3]


def test_hidden_cannot_be_made_from_python() -> None:
    assert probe.hidden(3).number == 3
    for cls in (probe.Hidden, type("Sub", (probe.Hidden,), {})):
        with pytest.raises(TypeError, match="cannot create"):
            cls()
        with pytest.raises(TypeError):
            object.__new__(cls)
    with pytest.raises(TypeError):
        object.__new__(probe.Counter)


def test_cycles_are_collected() -> None:
    references = []
    for make in (
        lambda: probe.Counter(0, listener=[]),
        lambda: probe.Counter(),
    ):
        counter = make()
        if counter.listener is not None:
            counter.listener.append(counter)  # through the cell
        else:
            counter.remember([counter])  # through guarded state
        references.append(weakref.ref(counter))
        del counter
    counter = probe.Counter()
    counter.me = counter  # through the dict
    references.append(weakref.ref(counter))
    del counter
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


def test_collector_sees_every_reference() -> None:
    listener = lambda counter: None  # noqa: E731
    counter = probe.Counter(0, listener)
    counter.remember(references := [])
    counter.note = 1
    seen = gc.get_referents(counter)
    for expected in (listener, references, counter.__dict__, probe.Counter, probe):
        assert any(expected is one for one in seen), expected


def test_guarded_state_refuses_to_be_entered_twice() -> None:
    with pytest.raises(RuntimeError, match="is in use by a caller"):
        probe.Counter().reenter()
    counter = probe.Counter()
    counter.remember(1)
    assert len(counter) == 1


def test_panic_becomes_an_exception() -> None:
    for _ in range(3):
        with pytest.raises(SystemError, match=r"^panic in native code: the counter stood at 4$"):
            probe.Counter(4).boom()


def test_awaitable() -> None:
    async def main():
        return await probe.Soon("done")

    assert asyncio.run(main()) == "done"
    soon = probe.Soon(3)
    assert next(iter(soon)) is None
    with pytest.raises(StopIteration) as caught:
        next(soon)
    assert caught.value.value == 3
    tuple_result = probe.Soon((1, 2))
    next(tuple_result)
    with pytest.raises(StopIteration) as caught:
        next(tuple_result)
    assert caught.value.value == (1, 2)


def test_step_needs_no_task() -> None:
    async def never_waits():
        return 5

    async def waits():
        return await probe.Soon(6)

    assert probe.step(never_waits()) == ("returned", 5)
    coroutine = waits()
    assert probe.step(coroutine) == ("yielded", None)
    assert probe.step(coroutine) == ("returned", 6)


def test_vectorcall_instances() -> None:
    adder = probe.Adder(10)
    assert adder(5) == 15
    assert adder(number=5) == 15
    assert adder(*[5]) == 15
    assert adder(number=5) == 15
    assert adder.__call__(5) == 15
    assert list(map(adder, range(3))) == [10, 11, 12]
    with pytest.raises(
        TypeError, match=r"^Adder.__call__\(\) missing 1 required positional argument: 'number'$"
    ):
        adder()


def test_long_chains_are_destroyed_without_recursion() -> None:
    class Sub(probe.Link):
        pass

    for cls in (probe.Link, Sub):
        link = None
        for _ in range(300_000):
            link = cls(link)
        del link


def test_subclass_of_a_python_class_with_slots() -> None:
    channel = probe.Channel()
    assert isinstance(channel, asyncio.Transport)
    assert channel.number() == 42
    channel._extra = {"peername": 1}
    assert channel.get_extra_info("peername") == 1
    channel._extra = {"self": channel}
    reference = weakref.ref(channel)
    del channel
    gc.collect()
    assert reference() is None

    class Sub(probe.Channel):
        pass

    sub = Sub()
    sub._extra, sub.more = {}, 1
    assert sub.number() == 42


def test_buffer_keeps_its_owner() -> None:
    blob = probe.Blob(b"hello", None)
    view = memoryview(blob)
    del blob
    assert view.tobytes() == b"hello"
    assert view.readonly
    assert bytes(probe.Blob(bytearray(b"xy"), None)) == b"xy"


def test_finaliser_runs_once_and_may_bring_back() -> None:
    kept = []
    blob = probe.Blob(b"x", kept.append)
    del blob
    assert len(kept) == 1
    assert bytes(kept[0]) == b"x"
    kept.clear()
    assert kept == []


def test_finaliser_errors_are_unraisable(monkeypatch) -> None:
    import sys

    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: seen.append(info.exc_type))
    probe.Blob(b"x", lambda blob: 1 / 0)
    assert seen == [ZeroDivisionError]


def test_listener_gets_the_instance_and_errors_pass() -> None:
    counter = probe.Counter(0, lambda c: c.increment())
    assert counter.tell() == 1
    with pytest.raises(ZeroDivisionError):
        probe.Counter(0, lambda c: 1 / 0).tell()
