%%% Ours in the main interpreter, one call after the other.
-module(arm_single).

-export([start/0, started/0, at_once/1, call/3]).

-spec start() -> ok.
start() ->
    ok = application:load(erlang_python),
    started().

%% What is on the path of the main interpreter is on that of others.
-spec started() -> ok.
started() ->
    {ok, _} = application:ensure_all_started(erlang_python),
    Path = filename:join(filename:dirname(os:getenv("BENCH_BEAM")), "parallel"),
    ok = py:exec(io_lib:format("import sys; sys.path.insert(0, '~ts')", [Path])).

-spec at_once([{module(), atom(), [term()]}]) -> [term()].
at_once(Calls) ->
    [call(Module, Function, Args) || {Module, Function, Args} <- Calls].

-spec call(module(), atom(), [term()]) -> term().
call(Module, Function, Args) ->
    {ok, Value} = py:call(Module, Function, Args),
    Value.
