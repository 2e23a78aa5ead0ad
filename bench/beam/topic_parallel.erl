%%% Calls that compute, at the same time.
-module(topic_parallel).

-export([run/2]).

-spec run(module(), #{row := atom(), atom() => term()}) -> [{string(), number()}].
run(Arm, #{row := cpu} = Params) ->
    Calls = [{bench_work, spin, [maps:get(steps, Params, 500000)]} || _ <- lists:seq(1, maps:get(calls, Params, 8))],
    [Wanted | _] = Values = Arm:at_once(Calls),
    Round = fun() -> bench_clock:wanted(Arm:at_once(Calls), [Wanted || _ <- Values]) end,
    bench_clock:each(length(Calls), bench_clock:rate(Round, maps:get(millis, Params, 2000), 1)).
