%%% The other floor: a bare thread of C that does the same work, where the work needs a thread (`bare.h`).
-module(arm_bare).

-export([start/0]).

-spec start() -> ok.
start() -> arm_floor:start().
