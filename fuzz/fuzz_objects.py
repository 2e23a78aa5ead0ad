"""Owns the objects of the fuzz target: bytes as a recipe, for a machine with a stack.

Every input is a program. Objects that lie, raise and change what they are in too. `build` never raises.
"""

import array
import contextlib
import datetime
import struct
from collections.abc import Callable

import erlang

LARGE = 64 << 10


class Recipe:
    """What is left of an input, and what was made of the rest."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0
        self.stack: list[object] = []
        # Each time may double what it becomes, for nothing is shared on the other side.
        self.left = 8

    def take(self, size: int) -> bytes:
        taken = self.data[self.place : self.place + size]
        self.place += size
        return taken

    def byte(self) -> int:
        return int.from_bytes(self.take(1), "big")

    def some(self) -> bytes:
        return self.take(self.byte())

    def wide(self) -> bytes:
        return self.take(8).ljust(8, b"\0")

    def pop(self) -> object:
        return self.stack.pop() if self.stack else 0

    def again(self) -> object:
        """The last of the stack once more, a few times."""
        self.left -= 1
        return self.stack[-1] if self.stack and self.left >= 0 else None

    def last(self) -> list[object]:
        """The last few of the stack."""
        place = max(0, len(self.stack) - self.byte())
        taken, self.stack = self.stack[place:], self.stack[:place]
        return taken


class Int(int):
    def __abs__(self) -> int:
        raise ArithmeticError

    def __lt__(self, other: object) -> bool:
        raise ArithmeticError

    def __index__(self) -> int:
        return 5


class Str(str):
    def __str__(self) -> str:
        return "another"


class Liar(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 1 << 40

    def __iter__(self):  # type: ignore[no-untyped-def]
        raise RuntimeError


class Keyless(dict):  # type: ignore[type-arg]
    def items(self):  # type: ignore[no-untyped-def]
        return [1, 2, 3]

    def __len__(self) -> int:
        return 0


class Evil(datetime.date):
    """Its conversion changes the container it is in, and may not even give text."""

    box: object = None
    answer: object = "evil"

    def isoformat(self) -> str:
        if isinstance(self.box, (list, dict, set)):
            self.box.clear()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


def hashable(items: list[object]) -> list[object]:
    """Those of them that can be a key."""
    found = []
    for item in items:
        try:
            hash(item)
        except (TypeError, RecursionError):
            continue
        found.append(item)
    return found


def mapping(recipe: Recipe) -> dict[object, object]:
    items = recipe.last()
    half = len(items) // 2
    return dict(zip(hashable(items[:half]), items[half:], strict=False))


def view(recipe: Recipe) -> object:
    kind, data = recipe.byte() % 6, recipe.some()
    if kind == 0:
        return memoryview(data)[:: recipe.byte() - 128 or 1]
    if kind == 1:
        return memoryview(array.array("i", data))
    if kind == 2:
        even = data[: len(data) // 2 * 2]
        return memoryview(even).cast("B", shape=[len(even) // 2, 2]) if even else memoryview(even)
    if kind == 3:
        gone = memoryview(data)
        gone.release()
        return gone
    if kind == 4:
        return memoryview(bytearray(data) * 600)
    return memoryview(data).cast("c")


def wrapped(recipe: Recipe) -> object:
    kind, times, made = recipe.byte() % 5, int.from_bytes(recipe.take(2), "big") % 1200, recipe.pop()
    wraps: list[Callable[[object], object]] = [
        lambda inner: [inner],
        lambda inner: (inner,),
        lambda inner: {"k": inner},
        lambda inner: {inner: "v"} if hashable([inner]) else [inner],
        lambda inner: {inner} if hashable([inner]) else [inner],
    ]
    for _ in range(times):
        made = wraps[kind](made)
    return made


def cycle(recipe: Recipe) -> object:
    box: list[object] = recipe.last()
    ways: list[object] = [box, (box,), {"k": box}, [[box]]]
    box.append(ways[recipe.byte() % 4])
    return box


def moment(recipe: Recipe) -> object:
    kind, number = recipe.byte() % 4, int.from_bytes(recipe.wide(), "big")
    if kind == 0:
        return datetime.date.fromordinal(1 + number % 3_000_000)
    if kind == 1:
        return datetime.time(number % 24, number % 60, number % 59, number % 1_000_000)
    zone = datetime.timezone(datetime.timedelta(minutes=number % 1440)) if kind == 2 else None
    return datetime.datetime(1 + number % 9999, 1 + number % 12, 1 + number % 28, number % 24, tzinfo=zone)


def trap(recipe: Recipe) -> object:
    evil = Evil(2026, 1, 1)
    evil.answer = ["evil", "\ud800", 5, ValueError("evil"), b"evil", None][recipe.byte() % 6]
    kind = recipe.byte() % 4
    box: object = [evil, *recipe.last(), evil]
    if kind == 1:
        box = dict(enumerate(box))  # type: ignore[arg-type]
    elif kind == 2:
        box = {evil}
    evil.box = box
    return (box,) if kind == 3 else box


def odd(recipe: Recipe) -> object:
    made: list[object] = [
        object(), 1j, len, Recipe, Ellipsis, range(3), Int(1 << 70), Int(-5), Str("text"), Str("\udfff"),
        Liar([1, 2]),
        Keyless(a=1), erlang.atom("ok"), erlang.atom("bytes"), erlang.whereis("init"), datetime.timedelta(1),
        b"".join, iter([]), slice(1, 2), BaseException(),
    ]  # fmt: skip
    return made[recipe.byte() % len(made)]


STEPS: list[Callable[[Recipe], object]] = [
    lambda recipe: recipe.byte() - 128,
    lambda recipe: int.from_bytes(recipe.wide(), "big", signed=True),
    lambda recipe: int.from_bytes(recipe.some() * (1 + recipe.byte() % 15), "little", signed=True),
    lambda recipe: struct.unpack(">d", recipe.wide())[0],
    lambda recipe: [None, True, False, -0.0, "", b""][recipe.byte() % 6],
    lambda recipe: recipe.some().decode("utf-8", "surrogateescape"),
    lambda recipe: recipe.some().decode("utf-16", "replace"),
    lambda recipe: chr(recipe.byte() * 257) * (LARGE - 2 + recipe.byte() % 4),
    lambda recipe: recipe.some(),
    lambda recipe: recipe.take(1) * (LARGE - 2 + recipe.byte() % 4),
    lambda recipe: bytearray(recipe.some()),
    view,
    lambda recipe: recipe.last(),
    lambda recipe: tuple(recipe.last()),
    mapping,
    lambda recipe: set(hashable(recipe.last())),
    lambda recipe: frozenset(hashable(recipe.last())),
    wrapped,
    cycle,
    moment,
    trap,
    odd,
    lambda recipe: recipe.again(),
]


def build(data: bytes) -> object:
    """The object that is left, or the list of those."""
    recipe = Recipe(data)
    while recipe.place < len(data):
        step = STEPS[recipe.byte() % len(STEPS)]
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            recipe.stack.append(step(recipe))
    return recipe.stack[0] if len(recipe.stack) == 1 else recipe.stack
