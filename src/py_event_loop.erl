%% @doc Coroutines on an event loop, run from Erlang.
%%
%% ```
%% {ok, R} = py_event_loop:run(my_module, my_async_function, [Arg]).
%% Ref = py_event_loop:create_task(my_module, my_async_function, [Arg]),
%% {ok, R} = py_event_loop:await(Ref).
%% '''
%%
%% Tasks are begun in the order one process hands them over, and run concurrently on one loop, which has a thread of its own, or is
%% waited for by the BEAM (`event_loop_driver' in the application's environment: `thread', the default, or `beam'): no scheduler is
%% held while they run or wait. Plain functions are run as well, and hold the loop up while they run. A task is answered
%% exactly once. It is cancelled when its time is over, by {@link py:cancel/1}, and when the process that asked for it dies. For
%% many processes at once see {@link py_event_loop_pool}.
-module(py_event_loop).

-export([run/3, run/4, create_task/3, create_task/4, await/1, await/2, spawn_task/3, spawn_task/4]).
-export([get_loop/0, run_async/2]).

-export_type([options/0, job/0]).
-type options() :: #{timeout => timeout(), kwargs => py:kwargs()}.
-type job() :: #{ref := term(), caller := pid(), module := py:name(), func := py:name(), args := [term()],
                 kwargs => py:kwargs()}.

-define(TIMEOUT, 5000).

%% @equiv run(Module, Function, Args, #{})
-spec run(py:name(), py:name(), [term()]) -> py:result().
run(Module, Function, Args) ->
    run(Module, Function, Args, #{}).

%% @doc Runs a function and waits for its result: 5000 ms, or `timeout'. `kwargs' are keyword arguments.
-spec run(py:name(), py:name(), [term()], options()) -> py:result().
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

%% @doc The loop that the functions of this module use.
-spec get_loop() -> {ok, py_nif:event_loop()} | {error, not_started}.
get_loop() ->
    py_loop:find(default).

%% @doc Runs a function on a loop for another process: `{async_result, Ref, Result}' is sent to the caller that is named.
-spec run_async(py_nif:event_loop(), job()) -> ok | {error, term()}.
run_async(Loop, #{ref := Ref, caller := Caller, module := Module, func := Function, args := Args} = Job)
  when is_pid(Caller), is_list(Args) ->
    case maps:get(kwargs, Job, #{}) of
        Kwargs when is_map(Kwargs) ->
            py_nif:submit_task(Loop, Caller, Ref, py_name:name(Module), py_name:name(Function), Args, Kwargs);
        _ ->
            erlang:error(badarg, [Loop, Job])
    end;
run_async(Loop, Job) ->
    erlang:error(badarg, [Loop, Job]).
