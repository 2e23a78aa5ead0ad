%% Python never holds a scheduler, normal or dirty, however many calls are running.
-module(py_scheduler_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([running_calls_hold_no_scheduler/1,
         no_request_holds_a_normal_scheduler/1,
         numpy_works_inside_the_vm/1]).

%% More than there are dirty schedulers for files.
-define(CALLS, 12).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    true = ?CALLS > erlang:system_info(dirty_io_schedulers),
    ok = py_test:start([{num_workers, ?CALLS}]),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

%% The calls go on until a file appears, which takes files, timers and every scheduler to work meanwhile. No clock is asked: were
%% a scheduler held, this would not end.
running_calls_hold_no_scheduler(Config) ->
    Flag = filename:join(proplists:get_value(priv_dir, Config), "flag"),
    Code = "import os\n"
           "def until(flag, tight):\n"
           "    while not os.path.exists(flag):\n"
           "        for _ in range(1000 if tight else 1): pass\n"
           "    return 'seen'\n",
    _ = py_pool:broadcast(Code),
    Calls = [py:call_async('__main__', until, [list_to_binary(Flag), N rem 2 =:= 0]) || N <- lists:seq(1, ?CALLS)],
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 0 end),
    Everywhere = [spawn_opt(fun() -> work() end, [monitor, {scheduler, N}])
                  || N <- lists:seq(1, erlang:system_info(schedulers_online))],
    [receive {'DOWN', Monitor, process, Pid, normal} -> ok end || {Pid, Monitor} <- Everywhere],
    {ok, _} = file:read_file(code:which(?MODULE)),
    %% Every dirty scheduler, of both kinds, and a heap that is collected on one.
    [_ = erts_debug:dirty_cpu(wait, 1) || _ <- lists:seq(1, 2 * erlang:system_info(dirty_cpu_schedulers))],
    [_ = erts_debug:dirty_io(wait, 1) || _ <- lists:seq(1, 2 * erlang:system_info(dirty_io_schedulers))],
    Large = lists:seq(1, 1000000),
    true = erlang:garbage_collect(),
    1000000 = length(Large),
    [receive {py_response, Ref, Result} -> error({over_too_soon, Result}) after 0 -> ok end || Ref <- Calls],
    ok = file:write_file(Flag, ""),
    [{ok, <<"seen">>} = py:await(Ref) || Ref <- Calls].

work() ->
    _ = lists:sort([rand:uniform() || _ <- lists:seq(1, 10000)]),
    receive after 1 -> ok end.

%% Whoever makes requests, or serves them, is on a scheduler for a moment only: `long_schedule' tells of those that stay there. A
%% busy machine may be the reason for some of that, but not for every second request. So may it be for ticks that come late.
-define(LONG, 20).
%% So many ticks of each scheduler, or one that comes late would be every second.
-define(TICKS, 10).

no_request_holds_a_normal_scheduler(_Config) ->
    _ = py_pool:broadcast("import erlang\n"
                          "def give(n): return list(range(n))\n"
                          "def pairs(n): return {i: str(i) for i in range(n)}\n"
                          "def back(n): return len(erlang.returned(list(range(n))))\n"
                          "def later(n): return erlang.schedule('counted', list(range(n)))\n"
                          "def fail(n): raise ValueError('x' * n)\n"),
    ok = py:register_function(returned, fun([List]) -> List end),
    ok = py:register_function(counted, fun([List]) -> length(List) end),
    Numbers = fun() -> lists:seq(1, 2000000) end,
    Map = fun() -> maps:from_list([{N, N} || N <- lists:seq(1, 300000)]) end,
    Nested = fun() -> [{N, [N, #{n => N}]} || N <- lists:seq(1, 200000)] end,
    Bytes = fun() -> binary:copy(<<255>>, 1 bsl 26) end,
    Nothing = fun() -> none end,
    Kinds = [{small_call, 300, Nothing, fun(_) -> {ok, 4.0} = py:call(math, sqrt, [16.0]) end},
             {cast, 300, Nothing, fun(_) -> ok = py:cast(math, sqrt, [16.0]) end},
             {task, 300, Nothing, fun(_) -> {ok, 4.0} = py:await(py:call_async(math, sqrt, [16.0])) end},
             {callback, 300, Nothing, fun(_) -> {ok, 10} = py:call('__main__', back, [10]) end},
             {stream, 50, Nothing, fun(_) -> {ok, [_ | _]} = py:stream('__main__', give, [100]) end},
             {bind, 100, Nothing, fun(_) -> ok = py:bind(), ok = py:unbind() end},
             {error, 100, Nothing, fun(_) -> {error, R} = py:call('__main__', fail, [100000]), py:format_error(R) end},
             {large_list, 8, Numbers, fun(List) -> {ok, 2000000} = py:call(builtins, len, [List]) end},
             {large_cast, 8, Numbers, fun(List) -> ok = py:cast(builtins, len, [List]) end},
             {large_task, 8, Numbers, fun(List) -> {ok, 2000000} = py:await(py:call_async(builtins, len, [List])) end},
             {large_loop_task, 8, Numbers, fun(List) -> {ok, 2000000} = on_a_loop(List) end},
             {large_driver, 8, Numbers, fun(List) -> {ok, 2000000} = by_the_driver(List) end},
             {large_submit, 8, Numbers, fun(List) -> {ok, 2000000} = by_callback_id(List) end},
             {large_locals, 8, Numbers, fun(List) -> {ok, 2000000} = py:eval("len(x)", #{x => List}) end},
             {large_map, 8, Map, fun(All) -> {ok, 300000} = py:call(builtins, len, [All]) end},
             {nested, 8, Nested, fun(All) -> {ok, 200000} = py:call(builtins, len, [All]) end},
             {bytes, 8, Bytes, fun(All) -> {ok, All} = py:call(copy, copy, [{bytes, All}]) end},
             {large_answer, 8, Nothing, fun(_) -> {ok, [0 | _]} = py:call('__main__', give, [2000000]) end},
             {large_pairs, 8, Nothing, fun(_) -> {ok, #{7 := <<"7">>}} = py:call('__main__', pairs, [200000]) end},
             {large_callback, 8, Nothing, fun(_) -> {ok, 1000000} = py:call('__main__', back, [1000000]) end},
             {large_schedule, 8, Nothing, fun(_) -> {ok, 1000000} = py:call('__main__', later, [1000000]) end}],
    Results = [held(Kind) || Kind <- Kinds],
    ok = py:unregister_function(returned),
    ok = py:unregister_function(counted),
    [] = [Result || {_, Made, Held, Late, Ticks} = Result <- Results, Held * 2 >= Made orelse Late * 2 >= Ticks].

on_a_loop(List) ->
    {ok, Loop} = py_event_loop:get_loop(),
    Ref = make_ref(),
    ok = py_event_loop:run_async(Loop, #{ref => Ref, caller => self(), module => builtins, func => len, args => [List]}),
    receive {async_result, Ref, Result} -> Result end.

by_the_driver(List) ->
    {ok, Ref} = py_async_driver:submit(builtins, len, [List], #{}),
    receive {py_result, Ref, Value} -> {ok, Value}; {py_error, Ref, Reason} -> {error, Reason} end.

by_callback_id(List) ->
    ok = py_nif:submit_call(self(), 7, <<"builtins">>, <<"len">>, [List], #{}),
    receive {call_result, 7, Value} -> {ok, Value}; {call_error, 7, Reason} -> {error, Reason} end.

%% How often one of our processes held a scheduler while requests of one kind were made, and how many ticks came late.
held({Kind, Times, Prepare, Request}) ->
    Self = self(),
    {Worker, Done} = spawn_monitor(fun() ->
        Prepared = Prepare(),
        true = erlang:garbage_collect(),
        Self ! ready,
        receive go -> ok end,
        Made = until_enough(fun() -> [begin _ = Request(Prepared), ok end || _ <- lists:seq(1, Times)] end, Times),
        Self ! {held, Kind, Made},
        receive stop -> ok end
    end),
    receive ready -> ok; {'DOWN', Done, _, _, Why} -> error({Kind, Why}) end,
    undefined = erlang:system_monitor(Self, [{long_schedule, ?LONG}]),
    Tickers = [spawn_opt(fun() -> tick(Self, []) end, [link, {priority, high}, {scheduler, N}])
               || N <- lists:seq(1, erlang:system_info(schedulers_online))],
    Worker ! go,
    [receive {enough, Ticker} -> ok; {'DOWN', Done, _, _, Early} -> error({Kind, Early}) end || Ticker <- Tickers],
    Worker ! enough,
    Made = receive {held, Kind, All} -> All; {'DOWN', Done, _, _, Reason} -> error({Kind, Reason}) end,
    [Ticker ! stop || Ticker <- Tickers],
    Ticks = lists:sort(lists:append([receive {ticks, Ticker, Each} -> Each end || Ticker <- Tickers])),
    _ = erlang:system_monitor(undefined),
    Worker ! stop,
    receive {'DOWN', Done, _, _, normal} -> ok end,
    Events = events(),
    Ours = [Info || {Pid, Info} <- Events, Pid =:= Worker orelse ours(proplists:get_value(in, Info)) orelse ours(proplists:get_value(out, Info))],
    Late = length([Tick || Tick <- Ticks, Tick > 50]),
    ct:pal("~p: ~b of ~b held a scheduler for ~b ms; ticks: ~b, late by ~p ms at the most, ~p ms in the middle~n~p",
           [Kind, length(Ours), Made, ?LONG, length(Ticks), lists:last(Ticks), lists:nth((length(Ticks) + 1) div 2, Ticks), Ours]),
    {Kind, Made, length(Ours), Late, length(Ticks)}.

%% Again and again, and how many that were. What was only handed over is served before a call that comes after it.
until_enough(Requests, Times) ->
    _ = Requests(),
    {ok, 4.0} = py:call(math, sqrt, [16.0]),
    receive enough -> Times after 0 -> Times + until_enough(Requests, Times) end.

events() ->
    receive {monitor, Pid, long_schedule, Info} -> [{Pid, Info} | events()] after 0 -> [] end.

ours({Module, _, _}) -> lists:prefix("py", atom_to_list(Module));
ours(_) -> false.

%% How late each wait for 5 ms was over; says so when there were enough.
tick(To, Late) ->
    _ = length(Late) =:= ?TICKS andalso (To ! {enough, self()}),
    Due = erlang:monotonic_time(millisecond) + 5,
    receive
        stop -> To ! {ticks, self(), Late}
    after 5 ->
        tick(To, [max(0, erlang:monotonic_time(millisecond) - Due) | Late])
    end.

%% An extension module of the big sort: it finds Python's symbols, and its calls stay on the threads they began on.
numpy_works_inside_the_vm(_Config) ->
    ok = py:exec("import numpy"),
    {ok, [19.0, 43.0]} = py:eval("(__import__('numpy').array([[1.0, 2.0], [3.0, 4.0]]) @ [5.0, 7.0]).tolist()"),
    Refs = [py:call_async(numpy, 'linalg.det', [[[1.0, 2.0], [3.0, float(N)]]]) || N <- lists:seq(1, 100)],
    [begin {ok, D} = py:await(Ref), true = abs(D - (N - 6)) < 1.0e-6 end || {N, Ref} <- lists:zip(lists:seq(1, 100), Refs)].
