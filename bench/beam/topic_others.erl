%%% What everybody else in the VM feels: timers while Python is saturated, file reads while calls block.
-module(topic_others).

-export([run/2]).

-spec run(module(), #{row := atom(), atom() => term()}) -> [{string(), number()}].
run(Arm, #{row := ticks} = Params) ->
    Callers = [spawn_link(fun() -> forever(Arm) end) || _ <- lists:seq(1, maps:get(processes, Params, 50))],
    receive after 200 -> ok end,
    Result = bench_clock:latency(fun() -> receive after 1 -> ok end end, maps:get(calls, Params, 1000)),
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Callers],
    Result;
run(Arm, #{row := files} = Params) ->
    File = os:getenv("BENCH_BEAM") ++ "/topic_others.erl",
    Seconds = maps:get(seconds, Params, 20) * 1.0,
    Callers = [spawn_link(fun() -> Arm:call(bench_python, block, [Seconds]) end) || _ <- lists:seq(1, 10)],
    receive after 300 -> ok end,
    Result = bench_clock:latency(fun() -> {ok, _} = file:read_file(File) end, maps:get(calls, Params, 2000)),
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Callers],
    Result.

forever(Arm) ->
    _ = Arm:call(math, sqrt, [16.0]),
    forever(Arm).
