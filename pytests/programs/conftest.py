"""Owns how the programs run: on stdlib's loop and on ours, in one process, with real servers where needed."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import loops
import pytest
from running import Run, type_of
from servers import postgres_port, redis_port

__all__ = ["factory", "postgres_port", "redis_port", "run"]


@pytest.fixture(params=[column for column in loops.COLUMNS if column != "uvloop"])
def factory(request: pytest.FixtureRequest) -> loops.Factory:
    return loops.factory(request.param)


@pytest.fixture
def run(factory: loops.Factory) -> Run:
    def run(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=factory) as runner:
            assert type(runner.get_loop()) is type_of(factory)
            return runner.run(asyncio.wait_for(main, 60))

    return run
