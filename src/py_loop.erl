%% @private
%% @doc The process that owns one event loop of asyncio. The loop has a thread of its own (`thread'), or none, and then this process waits
%% for it by one `enif_select' on the loop's epoll descriptor, and has it run when something is ready (`beam'). Those of the pool may have
%% an interpreter each, and a thread (`subinterp'). It is not in the way of
%% tasks; when it ends, so does the loop, and when the loop ends by itself, so does the process, to be restarted.
-module(py_loop).
-behaviour(gen_server).

-export([start_link/1, start_link/2, find/1, all/0, forget/1, forget_all/0]).
-export([run/4, run/6, create_task/5, spawn_task/5]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([key/0, options/0]).
-type key() :: default | driver | pos_integer().
-type options() :: #{timeout => timeout(), kwargs => map()}.

-define(TABLE, py_loops).
%% Where the handle of a loop is found by those who use it: it is not copied, and to count those who hold it would be a cache line that
%% the loop's thread and all schedulers write to. It changes when a loop begins or ends.
-define(HANDLE(Key), {?MODULE, Key}).
%% A loop has 5 seconds to clean up; then it is left to itself.
-define(CLEANUP, 6000).

-spec start_link(key()) -> gen_server:start_ret().
start_link(Key) ->
    gen_server:start_link(?MODULE, Key, []).

%% @doc Likewise, with a name of its own.
-spec start_link({local, atom()}, key()) -> gen_server:start_ret().
start_link(Name, Key) ->
    gen_server:start_link(Name, ?MODULE, Key, []).

%% @doc The loop of a key.
-spec find(key()) -> {ok, py_nif:event_loop()} | {error, not_started}.
find(Key) ->
    persistent_term:get(?HANDLE(Key), {error, not_started}).

%% @doc The loop of a key is not found any more. Its handle is let go, as far as it was kept here.
-spec forget(key()) -> ok.
forget(Key) ->
    true = ets:delete(?TABLE, Key),
    _ = persistent_term:erase(?HANDLE(Key)),
    ok.

%% @doc None of them is found any more, also if its process was killed.
-spec forget_all() -> ok.
forget_all() ->
    _ = [persistent_term:erase(Handle) || {{?MODULE, _} = Handle, _} <- persistent_term:get()],
    ok.

%% @doc The loops there are: their keys, processes and handles.
-spec all() -> [{key(), pid(), py_nif:event_loop()}].
all() ->
    lists:sort([Row || {_, Pid, _} = Row <- ets:tab2list(?TABLE), is_process_alive(Pid)]).

%% @doc Runs a function on a loop and waits for its result.
-spec run({ok, py_nif:event_loop()} | {error, term()}, {term(), term()}, list(), options()) ->
          {ok, term()} | {error, term()}.
run(Found, Function, Args, Options) when is_list(Args), is_map(Options) ->
    run(Found, task, Function, Args, maps:get(kwargs, Options, #{}), maps:get(timeout, Options, 5000));
run(_Found, Function, Args, Options) ->
    erlang:error(badarg, [Function, Args, Options]).

-spec run({ok, py_nif:event_loop()} | {error, term()}, task | drain, {term(), term()}, list(), map(), timeout()) ->
          {ok, term()} | {error, term()}.
run({ok, Loop}, Op, {Module, Function}, Args, Kwargs, Timeout) when is_list(Args), is_map(Kwargs) ->
    Names = {py_name:name(Module), py_name:name(Function)},
    py_request:call(py_request:on_loop(Loop), Op, Names, Args, Kwargs, Timeout);
run({error, _} = Error, _Op, _Function, Args, Kwargs, _Timeout) when is_list(Args), is_map(Kwargs) ->
    Error;
run(_Found, _Op, Function, Args, Kwargs, Timeout) ->
    erlang:error(badarg, [Function, Args, Kwargs, Timeout]).

%% @doc Runs a function on a loop: `{async_result, Ref, Result}' is sent.
-spec create_task({ok, py_nif:event_loop()} | {error, term()}, term(), term(), list(), map()) -> py_nif:task().
create_task({ok, Loop}, Module, Function, Args, Kwargs) when is_list(Args), is_map(Kwargs) ->
    Target = py_request:on_loop(Loop),
    py_request:task(Target, async_result, task, {py_name:name(Module), py_name:name(Function)}, Args, Kwargs);
create_task({error, _} = Error, _Module, _Function, Args, Kwargs) when is_list(Args), is_map(Kwargs) ->
    py_request:refused(async_result, Error);
create_task(_Found, Module, Function, Args, Kwargs) ->
    erlang:error(badarg, [Module, Function, Args, Kwargs]).

%% @doc Runs a function on a loop and forgets about it. Exceptions are logged.
-spec spawn_task({ok, py_nif:event_loop()} | {error, term()}, term(), term(), list(), map()) -> ok.
spawn_task({ok, Loop}, Module, Function, Args, Kwargs) when is_list(Args), is_map(Kwargs) ->
    Target = py_request:on_loop(Loop),
    py_request:cast(Target, task, {py_name:name(Module), py_name:name(Function)}, Args, Kwargs);
spawn_task({error, Reason}, _Module, _Function, Args, Kwargs) when is_list(Args), is_map(Kwargs) ->
    logger:warning("py: a task was refused: ~tp", [Reason]);
spawn_task(_Found, Module, Function, Args, Kwargs) ->
    erlang:error(badarg, [Module, Function, Args, Kwargs]).

-type state() :: {key(), reference(), py_nif:event_loop()}.

-spec init(key()) -> {ok, state()} | {stop, term()}.
init(Key) ->
    process_flag(trap_exit, true),
    Tag = make_ref(),
    case py_nif:loop_start(Tag, driver(Key)) of
        {ok, Loop} ->
            receive
                {py_loop, Tag, ready} ->
                    true = ets:insert(?TABLE, {Key, self(), Loop}),
                    ok = persistent_term:put(?HANDLE(Key), {ok, Loop}),
                    {ok, {Key, Tag, Loop}};
                {py_loop, Tag, Ended} ->
                    {stop, Ended}
            after 60000 ->
                {stop, timeout}
            end;
        {error, Reason} ->
            {stop, Reason}
    end.

%% What `py_event_loop_proc' owns is waited for by the BEAM, whatever the others are.
driver(driver) -> beam;
driver(Key) when is_integer(Key) ->
    case py_event_loop_pool:isolated() of
        true -> subinterp;
        false -> driver()
    end;
driver(_Key) -> driver().

driver() ->
    application:get_env(erlang_python, event_loop_driver, thread).

-spec handle_call(term(), gen_server:from(), state()) -> {reply, {error, unknown}, state()}.
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({select, _Object, Tag, ready_input}, {_Key, Tag, Loop} = State) ->
    ok = py_nif:loop_ready(Loop),
    {noreply, State};
handle_info({py_loop, Tag, park}, {_Key, Tag, Loop} = State) ->
    %% One that is closed says so by itself.
    _ = py_nif:loop_arm(Loop, Tag),
    {noreply, State};
handle_info({py_loop, Tag, Ended}, {Key, Tag, Loop}) ->
    {stop, {loop_ended, Ended}, {Key, Tag, Loop}};
handle_info(Message, State) ->
    logger:warning("py_loop: unexpected ~tp", [Message]),
    {noreply, State}.

-spec terminate(term(), state()) -> ok.
terminate({loop_ended, _}, {Key, _Tag, _Loop}) ->
    forget(Key);
terminate(_Reason, {Key, Tag, Loop}) ->
    ok = forget(Key),
    ok = py_nif:loop_stop(Loop),
    ended(Key, Tag).


ended(Key, Tag) ->
    receive
        {py_loop, Tag, park} -> ended(Key, Tag);
        {py_loop, Tag, _Ended} -> ok
    after ?CLEANUP ->
        logger:warning("py_loop: loop ~tp does not end: its thread is left to itself", [Key])
    end.
