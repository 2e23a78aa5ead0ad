%%% What an interpreter costs: the way to one and back; its making, and its memory.
-module(topic_interpreters).

-export([run/2]).

-spec run(module(), #{row := atom(), atom() => term()}) -> [{string(), number()}].
run(Arm, #{row := roundtrip} = Params) ->
    bench_clock:latency(fun() -> bench_clock:wanted(Arm:call(math, sqrt, [16.0]), 4.0) end, maps:get(calls, Params, 20000));
run(Arm, #{row := creation} = Params) ->
    Times = maps:get(times, Params, 10),
    Kept = Arm:make(),
    Before = memory(),
    Cpu = bench_clock:cpu(),
    {Taken, All} = lists:unzip([timed(fun Arm:make/0) || _ <- lists:seq(1, Times)]),
    Spent = bench_clock:cpu() - Cpu,
    Each = (memory() - Before) / Times,
    Times = length(All),
    true = is_reference(Kept),
    [{"value", bench_clock:percentile(lists:sort(Taken), 50)}, {"memory", Each}, {"cpu_seconds", Spent}].

%% Milliseconds.
timed(Fun) ->
    Start = erlang:monotonic_time(),
    Value = Fun(),
    {erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond) / 1.0e6, Value}.

%% What the VM has to itself, in MiB.
memory() ->
    {ok, Text} = file:read_file("/proc/self/smaps_rollup"),
    {match, [Kib]} = re:run(Text, "Pss: *([0-9]+) kB", [{capture, all_but_first, list}]),
    list_to_integer(Kib) / 1024.
