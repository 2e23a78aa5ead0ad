%%% A loop of callback ids, and the process that waits for it: no Python.
-module(arm_worker).

-export([start/0]).

-spec start() -> ok.
start() -> arm_ours:start().
