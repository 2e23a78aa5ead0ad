%% Python never holds a scheduler, normal or dirty, however many calls are running.
-module(py_scheduler_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([running_calls_hold_no_scheduler/1,
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
    [receive {py_response, Ref, Result} -> error({over_too_soon, Result}) after 0 -> ok end || Ref <- Calls],
    ok = file:write_file(Flag, ""),
    [{ok, <<"seen">>} = py:await(Ref) || Ref <- Calls].

work() ->
    _ = lists:sort([rand:uniform() || _ <- lists:seq(1, 10000)]),
    receive after 1 -> ok end.

%% An extension module of the big sort: it finds Python's symbols, and its calls stay on the threads they began on.
numpy_works_inside_the_vm(_Config) ->
    ok = py:exec("import numpy"),
    {ok, [19.0, 43.0]} = py:eval("(__import__('numpy').array([[1.0, 2.0], [3.0, 4.0]]) @ [5.0, 7.0]).tolist()"),
    Refs = [py:call_async(numpy, 'linalg.det', [[[1.0, 2.0], [3.0, float(N)]]]) || N <- lists:seq(1, 100)],
    [begin {ok, D} = py:await(Ref), true = abs(D - (N - 6)) < 1.0e-6 end || {N, Ref} <- lists:zip(lists:seq(1, 100), Refs)].
