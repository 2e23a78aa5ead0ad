%%% How soon a loop that waits sees what comes: a descriptor that becomes ready, a task.
-module(topic_wakeups).

-export([run/2]).

%% Long enough for every loop to sleep again.
-define(PAUSE, 3).

-spec run(module(), #{row := atom(), atom() => term()}) -> [{string(), number()}].
run(arm_worker, #{row := fd} = Params) ->
    {ok, Loop} = py_nif:event_loop_new(),
    {ok, _} = py_event_worker:start_link(bench, Loop, #{notify => self()}),
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {ok, _} = py_nif:add_reader(Loop, Read, 1),
    ages(Params, fun() ->
        ok = stamp(Write),
        receive {py_event, Loop} -> ok end,
        {ok, <<Stamp:64/native>>} = py_nif:read_test_fd(Read, 8),
        [{1, read}] = py_nif:get_pending(Loop),
        (os:system_time(nanosecond) - Stamp) / 1000
    end);
run(arm_bare, #{row := fd} = Params) ->
    Count = maps:get(times, Params, 300),
    Cpu = bench_clock:cpu(),
    Write = arm_floor:watch(Count),
    [
        begin
            receive after ?PAUSE -> ok end,
            8 = arm_floor:write(Write, <<(os:system_time(nanosecond)):64/native>>)
        end
     || _ <- lists:seq(1, Count)
    ],
    receive {seen, Late} -> bench_clock:spread(Late, bench_clock:cpu() - Cpu) end;
run(Arm, #{row := fd} = Params) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    Count = maps:get(times, Params, 300),
    Ref = Arm:host(wakeups, [Read, Count]),
    [begin receive after ?PAUSE -> ok end, ok = stamp(Write) end || _ <- lists:seq(1, Count)],
    bench_clock:numbers(Arm:await(Ref));
run(_Arm, #{row := task} = Params) ->
    ages(Params, fun() ->
        {ok, Age} = py_event_loop:run(bench_loops, age, [os:system_time(nanosecond)]),
        Age
    end).

stamp(Fd) ->
    {ok, 8} = py_nif:write_test_fd(Fd, <<(os:system_time(nanosecond)):64/native>>),
    ok.

%% Microseconds, each after a pause.
ages(Params, Age) ->
    Count = maps:get(times, Params, 300),
    bench_clock:percentiles(Count, fun() -> receive after ?PAUSE -> ok end, Age() end).
