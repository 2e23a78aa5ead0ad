%%% Loops with a thread of their own: the default.
-module(arm_thread).

-export([start/0, host/2, await/1]).

-spec start() -> ok.
start() -> arm_ours:start().

%% Runs a coroutine of `bench_loops` where the loops of this arm are.
-spec host(atom(), [term()]) -> py:ref().
host(Function, Args) -> py_event_loop:create_task(bench_loops, Function, Args).

-spec await(py:ref()) -> term().
await(Ref) ->
    case py_event_loop:await(Ref, infinity) of
        {ok, Value} -> Value;
        {error, Why} -> exit(Why)
    end.
