%%% A loop inside of a call: `erlang.run`.
-module(arm_block).

-export([start/0, host/2, await/1]).

-spec start() -> ok.
start() -> arm_ours:start().

-spec host(atom(), [term()]) -> py:ref().
host(Function, Args) -> py:call_async(bench_loops, block, [atom_to_binary(Function), Args]).

-spec await(py:ref()) -> term().
await(Ref) ->
    case py:await(Ref, infinity) of
        {ok, Value} -> Value;
        {error, Why} -> exit(Why)
    end.
