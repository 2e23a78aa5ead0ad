%%% The way back: Erlang functions called from Python, and chains of steps that Python schedules.
-module(topic_callbacks).

-export([run/2]).

-spec run(module(), #{row := atom(), atom() => term()}) -> [{string(), number()}].
run(Arm, #{row := call} = Params) ->
    ok = Arm:register_same(),
    many(Arm, callbacks, [], maps:get(batch, Params, 500), Params, fun(Count, Done) -> Done =:= Count end);
run(Arm, #{row := How} = Params) ->
    many(Arm, chain, [How], maps:get(batch, Params, 500), Params, fun(_, Done) -> Done =:= <<"done">> end).

%% Operations a second, where one call of Python does a batch of them.
many(Arm, Function, Args, Batch, Params, IsRight) ->
    Fun = fun() ->
        true = IsRight(Batch, Arm:call(bench_python, Function, Args ++ [Batch]))
    end,
    bench_clock:each(Batch, bench_clock:rate(Fun, maps:get(millis, Params, 500))).
