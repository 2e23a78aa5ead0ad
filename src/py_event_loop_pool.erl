%% @doc Coroutines on a pool of event loops: what {@link py_event_loop} does, for many processes at once.
%%
%% A process has always the same loop, so its tasks are begun in the order it hands them over. There are as many loops as
%% `event_loop_pool_size' says in the application's environment, by default one for each scheduler.
%%
%% With `{event_loop_pool, subinterp}' there each loop has an interpreter, and so a GIL, of its own (Python 3.12 and later): coroutines of
%% different loops run at the same time, and share nothing, as in {@link py_subinterp_pool}. Without a GIL they do so anyway, and share
%% what they like. On older Pythons all loops are in one interpreter, which is the default (`main'): {@link get_stats/0} says so.
-module(py_event_loop_pool).

-export([get_loop/0, get_loop/1, run/3, run/4, create_task/3, create_task/4, spawn_task/3, spawn_task/4]).
-export([await/1, await/2, get_stats/0, get_all_loops/0]).
-export([isolated/0]).

-define(TIMEOUT, 5000).

%% @equiv get_loop(self())
-spec get_loop() -> {ok, py_nif:event_loop()} | {error, not_started}.
get_loop() ->
    get_loop(self()).

%% @doc The loop of a process.
-spec get_loop(pid()) -> {ok, py_nif:event_loop()} | {error, not_started}.
get_loop(Pid) ->
    py_loop:find(erlang:phash2(Pid, py_loop_sup:pool_size()) + 1).

%% @equiv run(Module, Function, Args, #{})
-spec run(py:name(), py:name(), [term()]) -> py:result().
run(Module, Function, Args) ->
    run(Module, Function, Args, #{}).

%% @doc Runs a function and waits for its result: 5000 ms, or `timeout'. `kwargs' are keyword arguments.
-spec run(py:name(), py:name(), [term()], py_event_loop:options()) -> py:result().
run(Module, Function, Args, Options) ->
    py_loop:run(get_loop(), {Module, Function}, Args, Options).

%% @equiv create_task(Module, Function, Args, #{})
-spec create_task(py:name(), py:name(), [term()]) -> py:ref().
create_task(Module, Function, Args) ->
    create_task(Module, Function, Args, #{}).

%% @doc Runs a function without waiting: `{async_result, Ref, Result}' is sent, or taken by {@link await/2}.
-spec create_task(py:name(), py:name(), [term()], py:kwargs()) -> py:ref().
create_task(Module, Function, Args, Kwargs) ->
    py_loop:create_task(get_loop(), Module, Function, Args, Kwargs).

%% @equiv await(Ref, 5000)
-spec await(py:ref()) -> py:result().
await(Ref) ->
    await(Ref, ?TIMEOUT).

%% @doc Waits for the result of a task. When the time is over the task is cancelled, and nothing comes later.
-spec await(py:ref(), timeout()) -> py:result().
await(Ref, Timeout) ->
    py_request:await(Ref, Timeout).

%% @equiv spawn_task(Module, Function, Args, #{})
-spec spawn_task(py:name(), py:name(), [term()]) -> ok.
spawn_task(Module, Function, Args) ->
    spawn_task(Module, Function, Args, #{}).

%% @doc Runs a function and forgets about it. An exception is logged.
-spec spawn_task(py:name(), py:name(), [term()], py:kwargs()) -> ok.
spawn_task(Module, Function, Args, Kwargs) ->
    py_loop:spawn_task(get_loop(), Module, Function, Args, Kwargs).

%% @doc How many loops there are, and how many tasks wait on loops, of the pool and others; whether each loop has an interpreter of its own.
-spec get_stats() -> #{num_loops := non_neg_integer(), supported := true, waiting_tasks := non_neg_integer(), isolated := boolean()}.
get_stats() ->
    {ok, Loops} = get_all_loops(),
    #{waiting_tasks := Waiting} = py_nif:stats(),
    #{num_loops => length(Loops), supported => true, waiting_tasks => Waiting, isolated => isolated()}.

%% @private
%% @doc Whether the loops of the pool have an interpreter each.
-spec isolated() -> boolean().
isolated() ->
    case application:get_env(erlang_python, event_loop_pool, main) of
        main ->
            false;
        subinterp ->
            py:execution_mode() =:= subinterp;
        Other ->
            error({event_loop_pool, Other})
    end.

%% @doc The loops of the pool, and the processes that own them.
-spec get_all_loops() -> {ok, [{py_nif:event_loop(), pid()}]}.
get_all_loops() ->
    {ok, [{Loop, Pid} || {Key, Pid, Loop} <- py_loop:all(), is_integer(Key)]}.
