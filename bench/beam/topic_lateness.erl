%%% How late a sleep ends on a loop inside the VM.
-module(topic_lateness).

-export([run/2]).

-spec run(module(), #{atom() => term()}) -> [{string(), number()}].
run(Arm, Params) ->
    bench_clock:numbers(Arm:await(Arm:host(late, [maps:get(sleeps, Params, 250)]))).
