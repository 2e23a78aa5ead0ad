%%% How often something can be done in a while, how long it takes, and what it costs.
-module(bench_clock).

-export([rate/2, rate/3, rate_of/3, each/2, latency/2, percentiles/2, percentile/2, spread/2, numbers/1, wanted/2, cpu/0, count/1]).

-type numbers() :: [{string(), number()}].

%% Another process of the system whose CPU time is part of the price.
-spec count(non_neg_integer()) -> ok.
count(Pid) ->
    persistent_term:put(?MODULE, [integer_to_list(Pid) | others()]).

others() -> persistent_term:get(?MODULE, []).

%% What the CPU clocks of this VM and of its helpers say, in seconds.
-spec cpu() -> float().
cpu() -> lists:sum([cpu(Pid) || Pid <- ["self" | others()]]).

cpu(Pid) ->
    {ok, Stat} = file:read_file(filename:join(["/proc", Pid, "stat"])),
    [_, Rest] = string:split(Stat, ") ", trailing),
    Fields = string:lexemes(Rest, " "),
    (binary_to_integer(lists:nth(12, Fields)) + binary_to_integer(lists:nth(13, Fields))) / 100.

%% Operations a second of one process.
-spec rate(fun(() -> term()), pos_integer()) -> numbers().
rate(Fun, Millis) ->
    rate(Fun, Millis, 200).

%% Likewise, after so many that only warm up.
-spec rate(fun(() -> term()), pos_integer(), pos_integer()) -> numbers().
rate(Fun, Millis, Warm) ->
    rate_of(1, fun() -> Fun end, Millis, Warm).

%% Operations a second of several processes together; `Make` is called once in each.
-spec rate_of(pos_integer(), fun(() -> fun(() -> term())), pos_integer()) -> numbers().
rate_of(Processes, Make, Millis) ->
    rate_of(Processes, Make, Millis, 200).

rate_of(Processes, Make, Millis, Warm) ->
    Self = self(),
    Workers = [spawn_link(fun() -> worker(Self, Make(), Warm) end) || _ <- lists:seq(1, Processes)],
    [receive {ready, Pid} -> ok end || Pid <- Workers],
    Cpu = cpu(),
    Start = erlang:monotonic_time(),
    Until = Start + erlang:convert_time_unit(Millis, millisecond, native),
    [Pid ! {until, Until} || Pid <- Workers],
    Done = lists:sum([receive {done, Pid, Count} -> Count end || Pid <- Workers]),
    Seconds = erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond) / 1.0e9,
    Spent = cpu() - Cpu,
    [{"value", Done / Seconds}, {"cpu_seconds", Spent}, {"cpu_us", Spent / Done * 1.0e6}].

worker(Parent, Fun, Warm) ->
    [Fun() || _ <- lists:seq(1, Warm)],
    Parent ! {ready, self()},
    receive
        {until, Until} -> Parent ! {done, self(), until(Fun, Until, 0)}
    end.

until(Fun, Until, Done) ->
    _ = Fun(),
    case erlang:monotonic_time() < Until of
        true -> until(Fun, Until, Done + 1);
        false -> Done + 1
    end.

%% The same numbers where each operation was so many.
-spec each(pos_integer(), numbers()) -> numbers().
each(Count, Numbers) ->
    [
        {Key, if Key =:= "value" -> Value * Count; Key =:= "cpu_us" -> Value / Count; true -> Value end}
     || {Key, Value} <- Numbers
    ].

%% Microseconds of each call, one after the other.
-spec latency(fun(() -> term()), pos_integer()) -> numbers().
latency(Fun, Calls) ->
    [Fun() || _ <- lists:seq(1, 200)],
    percentiles(Calls, fun() -> time(Fun) end).

%% Of what a function says each time.
-spec percentiles(pos_integer(), fun(() -> number())) -> numbers().
percentiles(Calls, Fun) ->
    Cpu = cpu(),
    Taken = [Fun() || _ <- lists:seq(1, Calls)],
    spread(Taken, cpu() - Cpu).

%% Of what was measured, for so many seconds of CPU time.
-spec spread([number()], float()) -> numbers().
spread(Measured, Spent) ->
    Taken = lists:sort(Measured),
    [
        {"value", percentile(Taken, 50)},
        {"p99", percentile(Taken, 99)},
        {"cpu_seconds", Spent},
        {"cpu_us", Spent / length(Taken) * 1.0e6}
    ].

time(Fun) ->
    Start = erlang:monotonic_time(),
    _ = Fun(),
    erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond) / 1000.

%% The nearest rank of a sorted list.
-spec percentile([number()], 1..100) -> number().
percentile(Sorted, Percent) ->
    lists:nth(max(1, -(-length(Sorted) * Percent div 100)), Sorted).

%% What Python has measured.
-spec numbers(#{binary() => number()}) -> numbers().
numbers(Measured) ->
    [{binary_to_list(Key), Value} || {Key, Value} <- maps:to_list(Measured)].

%% Ends the program where a result is wrong: there is nothing to measure then.
-spec wanted(term(), term()) -> ok.
wanted(Same, Same) -> ok;
wanted(Got, Wanted) -> exit({wrong_result, Got, Wanted}).
