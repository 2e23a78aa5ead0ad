%% Generators: collected, sent value by value, with demand, cancelled, closed.
-module(py_stream_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([a_generator_is_collected/1,
         whatever_can_be_iterated_over_is_collected/1,
         an_expression_is_collected/1,
         an_async_generator_is_collected/1,
         an_endless_generator_is_stopped_by_its_timeout/1,
         a_generator_is_closed_wherever_an_interrupt_strikes/1,
         values_are_sent_in_order_and_then_the_end/1,
         an_error_is_the_end/1,
         what_does_not_start_is_said/1,
         a_value_without_a_counterpart_ends_the_stream/1,
         keyword_arguments_and_another_owner_arrive/1,
         an_async_generator_is_sent/1,
         an_async_generator_keeps_its_loop_between_steps/1,
         demand_bounds_what_is_in_flight/1,
         a_stream_that_waits_for_an_ack_occupies_nobody/1,
         many_streams_with_demand_share_one_context/1,
         a_stream_stays_on_its_thread/1,
         an_ack_for_each_value_gives_all_of_them/1,
         a_cancelled_stream_ends_once_and_closes_its_generator/1,
         a_waiting_stream_is_cancelled/1,
         a_stream_is_cancelled_in_the_middle_of_a_step/1,
         an_async_step_that_waits_is_cancelled/1,
         a_queued_stream_is_cancelled/1,
         cleaning_up_is_not_interrupted/1,
         cleaning_up_that_never_ends_is/1,
         cancelling_twice_or_after_the_end_is_fine/1,
         nothing_comes_after_the_end/1,
         a_dead_consumer_closes_its_generator/1,
         a_dead_consumer_closes_a_generator_that_waits_for_an_ack/1,
         a_stream_whose_context_died_says_so/1,
         a_bound_process_streams_from_its_context/1,
         a_stream_begins_in_a_callback/1,
         an_iterator_in_c_lets_others_run/1,
         py_cancel_ends_a_stream/1,
         bad_arguments_are_refused/1,
         w5_streams_do_not_mix/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 4}]),
    Dir = filename:join(proplists:get_value(priv_dir, Config), "modules"),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    ok = file:write_file(filename:join(Dir, "streams_under_test.py"), module()),
    {ok, _} = py:call(sys, 'path.append', [unicode:characters_to_binary(Dir)]),
    Config.

%% What the streams do is in `said', and in what they tell the process `listener'.
module() ->
    "import asyncio, threading, time\n"
    "import erlang\n"
    "said = []\n"
    "def count(n, start=0):\n"
    "    for i in range(start, start + n):\n"
    "        said.append(i)\n"
    "        yield i\n"
    "def forever(listener=None, speaks=False):\n"
    "    n = 0\n"
    "    try:\n"
    "        if speaks: erlang.send(listener, ('begun', 0))\n"
    "        while True:\n"
    "            yield n\n"
    "            n += 1\n"
    "    finally:\n"
    "        if listener: erlang.send(listener, ('closed', n))\n"
    "def stuck(listener):\n"
    "    try:\n"
    "        yield 0\n"
    "        while True: pass\n"
    "    finally:\n"
    "        erlang.send(listener, ('closed', 0))\n"
    "def slow_to_clean(listener):\n"
    "    try:\n"
    "        while True: yield 0\n"
    "    finally:\n"
    "        end = time.monotonic() + 0.1\n"
    "        while time.monotonic() < end: pass\n"
    "        erlang.send(listener, ('closed', 1))\n"
    "def never_clean(listener):\n"
    "    try:\n"
    "        while True: yield 0\n"
    "    finally:\n"
    "        try:\n"
    "            n = 0  # CPython 3.11 has an interrupt of a loop strike before its head: that is to be inside as well\n"
    "            while True: n += 1\n"
    "        finally:\n"
    "            erlang.send(listener, ('closed', 2))\n"
    "def fails(n):\n"
    "    yield from range(n)\n"
    "    raise ValueError('enough')\n"
    "def odd():\n"
    "    yield 1\n"
    "    yield object()\n"
    "def threads():\n"
    "    while True: yield threading.get_ident()\n"
    "async def later(n):\n"
    "    for i in range(n):\n"
    "        await asyncio.sleep(0.001)\n"
    "        yield i\n"
    "async def loops():\n"
    "    while True:\n"
    "        yield id(asyncio.get_running_loop())\n"
    "async def waits(listener, speaks=False):\n"
    "    try:\n"
    "        if speaks: erlang.send(listener, ('begun', 0))\n"
    "        yield 0\n"
    "        await asyncio.sleep(3600)\n"
    "    finally:\n"
    "        erlang.send(listener, ('closed', 0))\n".

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    Config.

%% Whatever a test does, all contexts are free again, and nothing more is said.
end_per_testcase(_Case, _Config) ->
    idle(),
    {messages, []} = process_info(self(), messages),
    ok.

idle() ->
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 4 end).

start(Function, Args) ->
    start(Function, Args, #{}).

start(Function, Args, Options) ->
    {ok, Ref} = py:stream_start(streams_under_test, Function, Args, Options),
    Ref.

data(Ref) ->
    receive {py_stream, Ref, {data, Value}} -> Value after 10000 -> error(no_data) end.

the_end(Ref) ->
    receive {py_stream, Ref, End} when End =:= done; element(1, End) =:= error -> End after 10000 -> error(no_end) end.

%% All values up to the end.
rest(Ref) ->
    receive
        {py_stream, Ref, {data, Value}} ->
            {Values, End} = rest(Ref),
            {[Value | Values], End};
        {py_stream, Ref, End} ->
            {[], End}
    after 10000 ->
        error(no_end)
    end.

nothing(Ref) ->
    receive {py_stream, Ref, What} -> error({unexpected, What}) after 50 -> ok end.

closed() ->
    receive {<<"closed">>, How} -> How after 10000 -> error(not_closed) end.

%% An end that this process has not asked for may leave values before it.
flush(Ref) ->
    receive {py_stream, Ref, {data, _}} -> flush(Ref) after 0 -> ok end.

a_generator_is_collected(_Config) ->
    {ok, [0, 1, 2]} = py:stream(streams_under_test, count, [3]),
    {ok, [5, 6]} = py:stream(streams_under_test, count, [2], #{start => 5}),
    {ok, []} = py:stream(streams_under_test, count, [0]),
    {error, {'ValueError', <<"enough">>}} = py:stream(streams_under_test, fails, [3]),
    {error, {unconvertible, <<"object">>}} = py:stream(streams_under_test, odd, []).

whatever_can_be_iterated_over_is_collected(_Config) ->
    {ok, [0, 1, 2]} = py:stream(builtins, range, [3]),
    {ok, [<<"a">>, <<"b">>]} = py:stream(builtins, str, [<<"ab">>]),
    {ok, [{0, 7}]} = py:stream(builtins, enumerate, [[7]]),
    {error, {'TypeError', <<"'int' object is not iterable">>}} = py:stream(builtins, int, [3]).

an_expression_is_collected(_Config) ->
    {ok, [0, 1, 4]} = py:stream_eval("(x * x for x in range(3))"),
    {ok, [0, 1, 4, 9]} = py:stream_eval(<<"(x * x for x in range(n))">>, #{n => 4}),
    {error, {'SyntaxError', _}} = py:stream_eval("(x for").

an_async_generator_is_collected(_Config) ->
    {ok, [0, 1, 2, 3]} = py:stream(streams_under_test, later, [4]).

an_endless_generator_is_stopped_by_its_timeout(_Config) ->
    _ = stopped(forever, 50),
    0 = stopped(waits, 50),
    {error, timeout} = py:stream_eval("iter(int, 1)", #{}, 50).

%% In its step, which then ends; or in its loop, and the step is still under way.
a_generator_is_closed_wherever_an_interrupt_strikes(_Config) ->
    ok = py:exec("import asyncio, erlang._streams\n"
                 "said = []\n"
                 "async def waits():\n"
                 "    try:\n"
                 "        yield 0\n"
                 "        await asyncio.sleep(3600)\n"
                 "    finally:\n"
                 "        said.append('closed')\n"
                 "def strike(): raise KeyboardInterrupt\n"
                 "steps = erlang._streams.steps(waits())\n"
                 "assert next(steps) == 0\n"
                 "steps._loop.call_later(0.01, strike)\n"
                 "try: next(steps)\n"
                 "except KeyboardInterrupt: pass\n"
                 "else: raise AssertionError('not struck')\n"
                 "assert said == []\n"
                 "steps.close()\n"
                 "assert said == ['closed'], said\n"
                 "assert steps._loop.is_closed()\n").

%% What was begun is closed. On a busy machine the time may be over before that.
stopped(Function, Timeout) ->
    {error, timeout} = py:stream(streams_under_test, Function, [self(), true], #{}, Timeout),
    idle(),
    receive {<<"begun">>, _} -> closed() after 0 -> stopped(Function, 2 * Timeout) end.

values_are_sent_in_order_and_then_the_end(_Config) ->
    Ref = start(count, [1000]),
    {Values, done} = rest(Ref),
    Values = lists:seq(0, 999),
    nothing(Ref).

an_error_is_the_end(_Config) ->
    Ref = start(fails, [2]),
    {[0, 1], {error, {'ValueError', <<"enough">>} = Reason}} = rest(Ref),
    {match, _} = re:run(unicode:characters_to_binary(py:format_error(Reason)), "in fails"),
    nothing(Ref).

what_does_not_start_is_said(_Config) ->
    {[], {error, {'AttributeError', _}}} = rest(start(no_such, [])),
    {[], {error, {'TypeError', _}}} = rest(start(count, [])),
    {[], {error, {'TypeError', _}}} = rest(start('said.append', [1])),
    {[], {error, {bad_keyword, <<"no name">>}}} = rest(start(count, [1], #{kwargs => #{<<"no name">> => 1}})),
    {ok, Ref} = py:stream_start(no_such_module, f, []),
    {[], {error, {'ModuleNotFoundError', _}}} = rest(Ref).

a_value_without_a_counterpart_ends_the_stream(_Config) ->
    {[1], {error, {unconvertible, <<"object">>}}} = rest(start(odd, [])).

keyword_arguments_and_another_owner_arrive(_Config) ->
    {[7, 8], done} = rest(start(count, [2], #{kwargs => #{start => 7}})),
    Self = self(),
    Owner = spawn(fun() -> receive {py_stream, R, {data, 0}} -> receive {py_stream, R, done} -> Self ! {all, R} end end end),
    Ref = start(count, [1], #{owner => Owner}),
    receive {all, Ref} -> ok after 5000 -> error(nothing) end,
    py_test:wait_until(fun() -> not is_process_alive(Owner) end),
    {error, noproc} = py:stream_start(streams_under_test, count, [1], #{owner => Owner}).

an_async_generator_is_sent(_Config) ->
    {[0, 1, 2], done} = rest(start(later, [3])),
    Ref = start(later, [3], #{demand => 1}),
    0 = data(Ref),
    ok = py:stream_ack(Ref, 5),
    {[1, 2], done} = rest(Ref).

an_async_generator_keeps_its_loop_between_steps(_Config) ->
    Ref = start(loops, [], #{demand => 1}),
    Loop = data(Ref),
    [begin ok = py:stream_ack(Ref, 1), Loop = data(Ref) end || _ <- lists:seq(1, 10)],
    ok = py:stream_cancel(Ref),
    {error, cancelled} = the_end(Ref).

demand_bounds_what_is_in_flight(_Config) ->
    {ok, _} = py:call(streams_under_test, 'said.clear', []),
    Ref = start(count, [10], #{demand => 3}),
    [0, 1, 2] = [data(Ref) || _ <- [1, 2, 3]],
    nothing(Ref),
    %% Nor was it computed.
    {ok, 3} = py:call(streams_under_test, 'said.__len__', []),
    ok = py:stream_ack(Ref, 2),
    [3, 4] = [data(Ref), data(Ref)],
    nothing(Ref),
    ok = py:stream_ack(Ref, 100),
    {[5, 6, 7, 8, 9], done} = rest(Ref),
    %% Too late to matter.
    ok = py:stream_ack(Ref, 1),
    Lazy = start(count, [1], #{demand => 0}),
    nothing(Lazy),
    ok = py:stream_ack(Lazy, 2),
    {[0], done} = rest(Lazy).

a_stream_that_waits_for_an_ack_occupies_nobody(_Config) ->
    Refs = [start(forever, [], #{demand => 1}) || _ <- lists:seq(1, 20)],
    [0 = data(Ref) || Ref <- Refs],
    idle(),
    Sleepers = [py:call_async(time, sleep, [0.05]) || _ <- lists:seq(1, 4)],
    [{ok, none} = py:await(Sleeper) || Sleeper <- Sleepers],
    [ok = py:stream_ack(Ref, 1) || Ref <- Refs],
    [1 = data(Ref) || Ref <- Refs],
    [ok = py:stream_cancel(Ref) || Ref <- Refs],
    [{error, cancelled} = the_end(Ref) || Ref <- Refs].

many_streams_with_demand_share_one_context(_Config) ->
    ok = py:bind(),
    Refs = [start(count, [20, 100 * N], #{demand => 1}) || N <- lists:seq(1, 50)],
    [begin
         [begin Value = data(Ref), ok = py:stream_ack(Ref, 1) end || {N, Ref} <- lists:zip(lists:seq(1, 50), Refs), Value <- [100 * N + I]]
     end || I <- lists:seq(0, 19)],
    [done = the_end(Ref) || Ref <- Refs],
    ok = py:unbind().

a_stream_stays_on_its_thread(_Config) ->
    Ref = start(threads, [], #{demand => 1}),
    Thread = data(Ref),
    [begin
         _ = [py:cast(math, sqrt, [1.0]) || _ <- lists:seq(1, 5)],
         ok = py:stream_ack(Ref, 1),
         Thread = data(Ref)
     end || _ <- lists:seq(1, 20)],
    ok = py:stream_cancel(Ref),
    {error, cancelled} = the_end(Ref).

an_ack_for_each_value_gives_all_of_them(_Config) ->
    Ref = start(count, [500], #{demand => 2}),
    Take = fun Take(N) ->
               receive
                   {py_stream, Ref, {data, N}} -> ok = py:stream_ack(Ref, 1), Take(N + 1);
                   {py_stream, Ref, done} -> N
               after 10000 -> error({stuck_at, N})
               end
           end,
    500 = Take(0).

a_cancelled_stream_ends_once_and_closes_its_generator(_Config) ->
    Ref = start(forever, [self()]),
    0 = data(Ref),
    ok = py:stream_cancel(Ref),
    {error, cancelled} = the_end(Ref),
    flush(Ref),
    _ = closed(),
    nothing(Ref).

a_waiting_stream_is_cancelled(_Config) ->
    Ref = start(forever, [self()], #{demand => 2}),
    [0, 1] = [data(Ref), data(Ref)],
    idle(),
    ok = py:stream_cancel(Ref),
    {error, cancelled} = the_end(Ref),
    1 = closed(),
    ok = py:stream_ack(Ref, 1),
    nothing(Ref).

a_stream_is_cancelled_in_the_middle_of_a_step(_Config) ->
    Ref = start(stuck, [self()]),
    0 = data(Ref),
    ok = py:stream_cancel(Ref),
    {error, cancelled} = the_end(Ref),
    0 = closed(),
    nothing(Ref).

an_async_step_that_waits_is_cancelled(_Config) ->
    Ref = start(waits, [self()]),
    0 = data(Ref),
    ok = py:stream_cancel(Ref),
    {error, cancelled} = the_end(Ref),
    0 = closed(),
    nothing(Ref).

a_queued_stream_is_cancelled(_Config) ->
    {ok, _} = py:call(streams_under_test, 'said.clear', []),
    Busy = [py:call_async(time, sleep, [0.1]) || _ <- lists:seq(1, 4)],
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 0 end),
    Ref = start(count, [1]),
    ok = py:stream_cancel(Ref),
    {error, cancelled} = the_end(Ref),
    [{ok, none} = py:await(One) || One <- Busy],
    idle(),
    {ok, 0} = py:call(streams_under_test, 'said.__len__', []),
    nothing(Ref).

cleaning_up_is_not_interrupted(_Config) ->
    [begin
         Ref = start(slow_to_clean, [self()], Options),
         0 = data(Ref),
         ok = py:stream_cancel(Ref),
         {error, cancelled} = the_end(Ref),
         flush(Ref),
         1 = closed()
     end || Options <- [#{demand => 1}, #{demand => 1}, #{demand => 1}]].

cleaning_up_that_never_ends_is(_Config) ->
    Ref = start(never_clean, [self()], #{demand => 1}),
    0 = data(Ref),
    ok = py:stream_cancel(Ref),
    {error, cancelled} = the_end(Ref),
    2 = closed().

cancelling_twice_or_after_the_end_is_fine(_Config) ->
    Ref = start(count, [1]),
    {[0], done} = rest(Ref),
    ok = py:stream_cancel(Ref),
    nothing(Ref),
    Other = start(forever, [], #{demand => 1}),
    0 = data(Other),
    ok = py:stream_cancel(Other),
    ok = py:stream_cancel(Other),
    {error, cancelled} = the_end(Other),
    nothing(Other).

%% Cancelled at any moment: values from 0 on without a gap, one end, and nothing after it.
nothing_comes_after_the_end(_Config) ->
    [begin
         Ref = start(forever, []),
         Self = self(),
         _ = spawn(fun() ->
             [erlang:yield() || _ <- lists:seq(1, N)],
             ok = py:stream_cancel(Ref),
             Self ! cancelled
         end),
         {Values, {error, cancelled}} = rest(Ref),
         Values = lists:seq(0, length(Values) - 1),
         receive cancelled -> ok end,
         receive {py_stream, Ref, Late} -> error({late, Late}) after 0 -> ok end
     end || N <- lists:seq(1, 200)].

a_dead_consumer_closes_its_generator(_Config) ->
    Self = self(),
    [begin
         Consumer = spawn(fun() ->
             Ref = start(Function, [Self]),
             0 = data(Ref),
             Self ! started,
             receive stop -> ok end
         end),
         receive started -> ok after 10000 -> error(not_started) end,
         exit(Consumer, kill),
         _ = closed()
     end || Function <- [forever, stuck, waits]].

a_dead_consumer_closes_a_generator_that_waits_for_an_ack(_Config) ->
    Self = self(),
    Consumer = spawn(fun() ->
        Ref = start(forever, [Self], #{demand => 1}),
        0 = data(Ref),
        Self ! started,
        receive stop -> ok end
    end),
    receive started -> ok after 10000 -> error(not_started) end,
    idle(),
    exit(Consumer, kill),
    0 = closed().

a_stream_whose_context_died_says_so(_Config) ->
    Ref = start(forever, [], #{demand => 1}),
    0 = data(Ref),
    [exit(Pid, kill) || {_, Pid, _} <- py_context:all()],
    py_test:wait_until(fun() -> length(py_context:all()) =:= 4 andalso py:num_workers() =:= 4 end),
    ok = py:stream_ack(Ref, 1),
    {error, closed} = the_end(Ref).

a_bound_process_streams_from_its_context(_Config) ->
    ok = py:bind(),
    ok = py:exec("limit = 3\ndef mine():\n    yield from range(limit)"),
    {ok, Ref} = py:stream_start('__main__', mine, []),
    {[0, 1, 2], done} = rest(Ref),
    {ok, [0, 1, 2]} = py:stream('__main__', mine, []),
    {ok, [0, 1, 2]} = py:stream_eval("mine()"),
    ok = py:unbind().

a_stream_begins_in_a_callback(_Config) ->
    ok = py:register_function(streamed, fun([]) ->
        Ref = start(count, [3], #{demand => 1}),
        [begin Value = data(Ref), ok = py:stream_ack(Ref, 1) end || Value <- [0, 1, 2]],
        done = the_end(Ref),
        {ok, [0, 1]} = py:stream(streams_under_test, later, [2]),
        {ok, All} = py:stream(streams_under_test, count, [4]),
        All
    end),
    {ok, [0, 1, 2, 3]} = py:call(erlang, streamed, [], #{}, 10000),
    ok = py:unregister_function(streamed).

an_iterator_in_c_lets_others_run(_Config) ->
    {Consumer, Monitor} = spawn_monitor(fun() ->
        {ok, Ref} = py:stream_start(itertools, count, []),
        Drain = fun Drain() -> receive {py_stream, Ref, {data, _}} -> Drain(); stop -> ok end end,
        Drain()
    end),
    [{ok, 4.0} = py:call(math, sqrt, [16.0]) || _ <- lists:seq(1, 10)],
    exit(Consumer, kill),
    receive {'DOWN', Monitor, process, _, killed} -> ok end.

py_cancel_ends_a_stream(_Config) ->
    Ref = start(forever, [self()], #{demand => 1}),
    0 = data(Ref),
    true = py:cancel(Ref),
    false = py:cancel(Ref),
    {error, cancelled} = the_end(Ref),
    0 = closed().

bad_arguments_are_refused(_Config) ->
    ?assertError(badarg, py:stream(m, f, not_a_list)),
    ?assertError(badarg, py:stream_eval("x", not_a_map)),
    ?assertError(badarg, py:stream_start(m, f, not_a_list)),
    ?assertError(badarg, py:stream_start(m, f, [], #{demand => -1})),
    ?assertError(badarg, py:stream_start(m, f, [], #{demand => many})),
    ?assertError(badarg, py:stream_start(m, f, [], #{kwargs => []})),
    ?assertError(badarg, py:stream_start(m, f, [], #{owner => nobody})),
    ?assertError(badarg, py:stream_start(m, f, [], #{demamd => 1})),
    ?assertError(badarg, py:stream_ack(make_ref(), 1)),
    ?assertError(badarg, py:stream_cancel(make_ref())),
    Ref = start(count, [0]),
    done = the_end(Ref),
    ?assertError(badarg, py:stream_ack(Ref, 0)),
    ?assertError(badarg, py:stream_ack(Ref, -1)).

w5_streams_do_not_mix(_Config) ->
    Consumers = [spawn_monitor(fun() ->
        Refs = [{start(count, [100, 1000 * N], #{demand => N}), 1000 * N} || N <- lists:seq(1, 5)],
        [begin
             Take = fun Take(Value) ->
                        receive
                            {py_stream, Ref, {data, Value}} -> ok = py:stream_ack(Ref, 1), Take(Value + 1);
                            {py_stream, Ref, done} -> Value
                        after 20000 -> error({stuck_at, Value})
                        end
                    end,
             Last = Take(First),
             Last = First + 100
         end || {Ref, First} <- Refs],
        {messages, []} = process_info(self(), messages)
    end) || _ <- lists:seq(1, 10)],
    [receive {'DOWN', Monitor, process, _, Reason} -> normal = Reason after 60000 -> error(stuck) end || {_, Monitor} <- Consumers].
