%% @doc A process that waits for loops of callback ids, for any number of them: those that are given to it by
%% `py_nif:event_loop_set_router/2'. See {@link py_event_worker} for what becomes of their events.
-module(py_event_router).
-behaviour(gen_server).

-export([start_link/1, start_link/2, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-type options() :: #{notify => pid(), id => term()}.
-type state() :: #{options := options(), loops := #{reference() => py_nif:bare_loop()}}.
-export_type([options/0]).

%% @equiv start_link(Loop, #{})
-spec start_link(py_nif:bare_loop()) -> gen_server:start_ret().
start_link(Loop) ->
    start_link(Loop, #{}).

%% @doc Starts a router with its first loop.
-spec start_link(py_nif:bare_loop(), options()) -> gen_server:start_ret().
start_link(Loop, Options) when is_map(Options) ->
    gen_server:start_link(?MODULE, {Loop, Options}, []);
start_link(Loop, Options) ->
    erlang:error(badarg, [Loop, Options]).

%% @doc Ends the router. Its loops stay, and another process may wait for them.
-spec stop(pid()) -> ok.
stop(Router) ->
    gen_server:stop(Router).

%% @private
-spec init({py_nif:bare_loop(), options()}) -> {ok, state()} | {stop, term()}.
init({Loop, Options}) ->
    case py_nif:event_loop_set_router(Loop, self()) of
        ok -> {ok, #{options => Options, loops => #{}}};
        {error, Reason} -> {stop, Reason}
    end.

%% @private
-spec handle_call(term(), gen_server:from(), state()) -> {reply, {error, unknown}, state()}.
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

%% @private
-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

%% @private
-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({py_loop_attach, Loop}, #{loops := Loops} = State) ->
    case [Tag || {Tag, Known} <- maps:to_list(Loops), Known =:= Loop] of
        [] -> tasks(Loop), {noreply, arm(make_ref(), Loop, State)};
        %% It waits for it already.
        [_] -> {noreply, State}
    end;
handle_info({select, _Object, Tag, _Ready}, #{loops := Loops} = State) ->
    case Loops of
        #{Tag := Loop} -> {noreply, arm(Tag, Loop, State)};
        #{} -> {noreply, State}
    end;
handle_info({py_loop_detach, Loop}, #{loops := Loops} = State) ->
    {noreply, State#{loops := maps:filter(fun(_, Known) -> Known =/= Loop end, Loops)}};
handle_info({task_ready, Loop}, State) ->
    tasks(Loop),
    {noreply, State};
handle_info(Message, State) ->
    logger:warning("py_event_router: unexpected ~tp", [Message]),
    {noreply, State}.

%% Waits for a loop again; one that is destroyed, or has another owner by now, is forgotten.
arm(Tag, Loop, #{loops := Loops, options := Options} = State) ->
    case py_nif:event_loop_arm(Loop, Tag) of
        {ok, Pending} ->
            Known = State#{loops := Loops#{Tag => Loop}},
            case Options of
                #{notify := Pid} when Pending > 0 ->
                    Pid ! {py_event, Loop},
                    Known;
                #{} ->
                    Known
            end;
        {error, _} ->
            State#{loops := maps:remove(Tag, Loops)}
    end.

%% Takes turns with what else there is to do.
tasks(Loop) ->
    case py_nif:process_ready_tasks(Loop) of
        more -> self() ! {task_ready, Loop}, ok;
        ok -> ok;
        {error, _} -> ok
    end.
