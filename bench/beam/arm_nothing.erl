%%% Nobody calls Python: what the rest of the VM can do at best.
-module(arm_nothing).

-export([start/0, call/3]).

-spec start() -> ok.
start() -> ok.

-spec call(module(), atom(), [term()]) -> no_return().
call(_, _, _) -> receive never -> ok end.
