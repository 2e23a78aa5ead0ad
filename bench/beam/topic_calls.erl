%%% Round trips of calls: one process and fifty, small and large arguments, and calls nobody waits for.
-module(topic_calls).

-export([run/2]).

-spec run(module(), #{row := atom(), atom() => term()}) -> [{string(), number()}].
run(Arm, #{row := latency} = Params) ->
    bench_clock:latency(sqrt(Arm), maps:get(calls, Params, 20000));
run(Arm, #{row := cast} = Params) ->
    cast(Arm, maps:get(calls, Params, 50000));
run(Arm, #{row := Row} = Params) ->
    Processes = maps:get(processes, Params, 1),
    bench_clock:rate_of(Processes, fun() -> call(Row, Arm) end, maps:get(millis, Params, 500)).

call(sqrt, Arm) -> sqrt(Arm);
call(map, Arm) -> same(Arm, maps:from_list([{integer_to_binary(N), <<N:448>>} || N <- lists:seq(1, 18)]));
call(list, Arm) -> same(Arm, lists:seq(1, 1000));
call(binary, Arm) -> same(Arm, binary:copy(<<"0123456789abcdef">>, 65536)).

sqrt(Arm) ->
    fun() -> bench_clock:wanted(Arm:call(math, sqrt, [16.0]), 4.0) end.

%% Python hands back what it was given, so both directions are converted.
same(Arm, Value) ->
    fun() -> bench_clock:wanted(Arm:call(copy, copy, [Value]), Value) end.

%% Until the last one has run: the counter is asked in the same place the casts went to.
cast(Arm, Calls) ->
    erlang:function_exported(Arm, cast, 3) orelse exit({lacks, "has no cast"}),
    ok = Arm:prepare_casts(),
    Cpu = bench_clock:cpu(),
    Start = erlang:monotonic_time(),
    _ = [ok = Arm:cast(bench_python, add, [1]) || _ <- lists:seq(1, Calls)],
    ok = Arm:await_casts(Calls),
    Seconds = erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond) / 1.0e9,
    Spent = bench_clock:cpu() - Cpu,
    [{"value", Calls / Seconds}, {"cpu_seconds", Spent}, {"cpu_us", Spent / Calls * 1.0e6}].
