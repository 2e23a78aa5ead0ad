%%% What the rest of the VM feels while loops have all they can do: how long a sleep of 1 ms takes.
-module(topic_jitter).

-export([run/2]).

-spec run(module(), #{atom() => term()}) -> [{string(), number()}].
run(Arm, Params) ->
    Callers = [spawn_link(fun() -> forever() end) || Arm =/= arm_nothing, _ <- lists:seq(1, maps:get(processes, Params, 50))],
    receive after 200 -> ok end,
    Result = bench_clock:latency(fun() -> receive after 1 -> ok end end, maps:get(calls, Params, 1000)),
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Callers],
    Result.

forever() ->
    {ok, 16.0} = py_event_loop_pool:run(bench_loops, same, [16.0]),
    forever().
