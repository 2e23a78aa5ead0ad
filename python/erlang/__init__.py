"""An asyncio event loop in Rust, for Python alone and inside the Erlang VM.

    import erlang

    erlang.run(main())

or, wherever a factory is asked for, `erlang.new_event_loop`:
`asyncio.Runner(loop_factory=erlang.new_event_loop)`, `uvicorn --loop erlang:new_event_loop`.

In the Erlang VM the module also has the way back: `call`, `send` and kin, and every function that Erlang
registered.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from ._loop import ErlangEventLoop
from ._mode import ExecutionMode, detect_mode
from ._native import __version__
from ._run import new_event_loop, run, sleep
from ._spawn import spawn_task

if TYPE_CHECKING:
    from ._policy import EventLoopPolicy, get_event_loop_policy, install
    from ._serve import serve

__all__ = [
    "ErlangEventLoop",
    "EventLoopPolicy",
    "ExecutionMode",
    "__version__",
    "detect_mode",
    "get_event_loop_policy",
    "install",
    "new_event_loop",
    "run",
    "serve",
    "sleep",
    "spawn_task",
]

_MODULES = {"dag", "reply"}
_POLICY = {"EventLoopPolicy", "get_event_loop_policy", "install"}


def __getattr__(name: str) -> Any:
    if name in _POLICY:
        from . import _policy

        return getattr(_policy, name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name == "serve":
        from ._serve import serve

        return serve
    # The VM puts its side of the bridge there before any Python code runs.
    in_the_vm = f"{__name__}._bridge" in sys.modules
    module = importlib.import_module("._beam" if in_the_vm else "._standalone", __name__)
    value = getattr(module, name)
    if name in module.__all__:
        # The next one finds it here. Functions of Erlang come and go: those are asked for each time.
        globals()[name] = value
    return value
