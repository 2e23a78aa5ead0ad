%%% Ours: the application `erlang_python` as a user starts it.
-module(arm_ours).

-export([start/0, call/3, cast/3, prepare_casts/0, await_casts/1, register_same/0]).

-spec start() -> ok.
start() ->
    ok = application:load(erlang_python),
    {ok, _} = application:ensure_all_started(erlang_python),
    Path = os:getenv("BENCH_BEAM"),
    ok = py:exec(io_lib:format("import sys; sys.path[:0] = ['~ts', '~ts']", [Path, filename:dirname(Path)])).

-spec call(module(), atom(), [term()]) -> term().
call(Module, Function, Args) ->
    case py:call(Module, Function, Args) of
        {ok, Value} -> Value;
        {error, Why} -> exit(Why)
    end.

-spec cast(module(), atom(), [term()]) -> ok.
cast(Module, Function, Args) -> py:cast(Module, Function, Args).

-spec prepare_casts() -> ok.
prepare_casts() ->
    0 = call(bench_python, total, []),
    ok.

%% Casts may run on several workers: the last one is in when the counter says so.
-spec await_casts(pos_integer()) -> ok.
await_casts(Calls) ->
    case call(bench_python, total, []) of
        Calls -> ok;
        Fewer when Fewer < Calls -> await_casts(Calls)
    end.

-spec register_same() -> ok.
register_same() -> py:register_function(bench_same, fun([Value]) -> Value end).
