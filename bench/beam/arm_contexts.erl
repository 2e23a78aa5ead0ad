%%% Ours in the main interpreter, on its contexts: threads that share a GIL, where there is one.
-module(arm_contexts).

-export([start/0, at_once/1]).

-spec start() -> ok.
start() ->
    ok = application:load(erlang_python),
    ok = application:set_env(erlang_python, num_workers, 2),
    arm_single:started().

-spec at_once([{module(), atom(), [term()]}]) -> [term()].
at_once(Calls) ->
    Refs = [py:call_async(Module, Function, Args) || {Module, Function, Args} <- Calls],
    [begin {ok, Value} = py:await(Ref, infinity), Value end || Ref <- Refs].
