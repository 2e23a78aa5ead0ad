%%% Timers of a loop inside the VM.
-module(topic_timers).

-export([run/2]).

-spec run(module(), #{atom() => term()}) -> [{string(), number()}].
run(Arm, #{row := fire} = Params) ->
    bench_clock:numbers(Arm:await(Arm:host(fire, [maps:get(millis, Params, 300)]))).
