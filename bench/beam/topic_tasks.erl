%%% Tasks of Erlang on event loops: one after another, from many processes, many at once, and those nobody waits for.
-module(topic_tasks).

-export([run/2]).

-define(TASK, bench_loops, same, [16.0]).

-spec run(module(), #{row := atom(), atom() => term()}) -> [{string(), number()}].
run(arm_floor, #{row := Row} = Params) when Row =:= run; Row =:= pool ->
    Fun = fun() -> bench_clock:wanted(arm_floor:same(16.0), 16.0) end,
    bench_clock:rate_of(maps:get(processes, Params, 1), fun() -> Fun end, maps:get(millis, Params, 500));
run(arm_floor, #{row := Row} = Params) when Row =:= collect; Row =:= gather ->
    Count = maps:get(tasks, Params),
    rounds(Count, Params, fun() ->
        ok = arm_floor:many(Count, 16.0),
        [receive {async_result, Ref, {ok, 16.0}} -> ok end || Ref <- lists:seq(1, Count)]
    end);
run(arm_bare, #{row := Row} = Params) when Row =:= collect; Row =:= gather ->
    Count = maps:get(tasks, Params),
    rounds(Count, Params, fun() ->
        Refs = [begin Ref = make_ref(), ok = arm_floor:later(Ref, 16.0), Ref end || _ <- lists:seq(1, Count)],
        [receive {async_result, Ref, {ok, 16.0}} -> ok end || Ref <- Refs]
    end);
run(arm_bare, _) ->
    exit({lacks, "many tasks at once only"});
run(arm_floor, _) ->
    exit({lacks, "answers every task"});
run(_Arm, #{row := run} = Params) ->
    Fun = fun() -> bench_clock:wanted(py_event_loop:run(?TASK), {ok, 16.0}) end,
    bench_clock:rate(Fun, maps:get(millis, Params, 500));
run(_Arm, #{row := pool} = Params) ->
    Fun = fun() -> bench_clock:wanted(py_event_loop_pool:run(?TASK), {ok, 16.0}) end,
    bench_clock:rate_of(maps:get(processes, Params, 1), fun() -> Fun end, maps:get(millis, Params, 500));
run(_Arm, #{row := collect} = Params) ->
    Count = maps:get(tasks, Params),
    rounds(Count, Params, fun() ->
        Refs = [py_event_loop:create_task(?TASK) || _ <- lists:seq(1, Count)],
        [{ok, 16.0} = py_event_loop:await(Ref, infinity) || Ref <- Refs]
    end);
run(_Arm, #{row := gather} = Params) ->
    Count = maps:get(tasks, Params),
    Calls = [{?TASK} || _ <- lists:seq(1, Count)],
    rounds(Count, Params, fun() ->
        {ok, Values} = py:async_gather(Calls, infinity),
        bench_clock:wanted(length(Values), Count)
    end);
run(_Arm, #{row := spawn} = Params) ->
    Count = maps:get(tasks, Params),
    rounds(Count, Params, fun() ->
        {ok, Before} = py_event_loop:run(bench_loops, counted, []),
        [ok = py_event_loop:spawn_task(bench_loops, count, []) || _ <- lists:seq(1, Count)],
        Wanted = Before + Count,
        %% Tasks of one process begin in order.
        bench_clock:wanted(py_event_loop:run(bench_loops, counted, [], #{timeout => infinity}), {ok, Wanted})
    end).

%% Tasks a second, where a round does so many of them.
rounds(Count, Params, Round) ->
    bench_clock:each(Count, bench_clock:rate(Round, maps:get(millis, Params, 500), 3)).
