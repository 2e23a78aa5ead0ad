%% @private
%% @doc The process at the other end of a request that an app answers piece by piece, or of a WebSocket: between its owner and the app.
%% It has the task: when the owner dies so does this process, and the task is cancelled.
-module(py_asgi_stream).

-export([start/3, tell/2, call/3, give_away/2, init/4]).

-define(TABLE, py_asgi_streams).

-record(state, {ref :: reference(),
                owner :: pid(),
                monitor :: reference(),
                loop :: py_nif:event_loop(),
                number :: integer(),
                task :: py_nif:task(),
                %% Whether the owner was told of the end.
                said = false :: boolean(),
                %% Who waits until the app has taken what they gave it.
                takers = queue:new() :: queue:queue(reference())}).

%% @doc Begins a request: module and name of the app with the rest of what `erlang._asgi.stream' takes, without what this process adds.
-spec start(pid(), {binary(), binary(), map(), binary()}, {non_neg_integer() | none, [term()]}) -> {ok, reference()} | {error, term()}.
start(Owner, App, Options) ->
    case py_event_loop_pool:get_loop() of
        {ok, Loop} -> proc_lib:start(?MODULE, init, [Owner, Loop, App, Options]);
        {error, _} = Error -> Error
    end.

%% @doc Tells the app something. After its end nobody hears it.
-spec tell(reference(), term()) -> ok.
tell(Ref, Event) when is_reference(Ref) ->
    _ = [Pid ! {tell, Event} || {_, Pid} <- ets:lookup(?TABLE, Ref)],
    ok.

%% @doc Tells the app something, and waits until it has taken that.
-spec call(reference(), term(), timeout()) -> ok | {error, closed | timeout}.
call(Ref, Event, Timeout) when is_reference(Ref) ->
    case ets:lookup(?TABLE, Ref) of
        [{_, Pid}] -> call_process(Pid, {take, Event}, Timeout);
        [] -> {error, closed}
    end.

%% @doc Has another owner. What was sent to the one before, the calling process, and is still in its mailbox, is passed on first.
-spec give_away(reference(), pid()) -> ok | {error, closed}.
give_away(Ref, Owner) when is_reference(Ref), is_pid(Owner) ->
    case ets:lookup(?TABLE, Ref) of
        [{_, Pid}] ->
            Given = call_process(Pid, {own, {self(), Owner}}, infinity),
            pass_events(Ref, Owner),
            Pid ! {passed, Ref},
            Given;
        [] ->
            pass_events(Ref, Owner),
            {error, closed}
    end.

pass_events(Ref, Owner) ->
    receive
        {py_asgi, Ref, _} = Event -> Owner ! Event, pass_events(Ref, Owner)
    after 0 -> ok
    end.

%% The alias is gone with its first message or with the monitor: an answer that comes too late is dropped.
call_process(Pid, {What, With}, Timeout) ->
    Alias = erlang:monitor(process, Pid, [{alias, reply_demonitor}]),
    Pid ! {What, Alias, With},
    receive
        {Alias, ok} -> ok;
        {'DOWN', Alias, process, _, _} -> {error, closed}
    after Timeout ->
        _ = erlang:demonitor(Alias, [flush]),
        receive {Alias, ok} -> ok after 0 -> {error, timeout} end
    end.

%% @private
-spec init(pid(), py_nif:event_loop(), tuple(), tuple()) -> ok.
init(Owner, Loop, {Module, Name, Scope, Policy}, {Credit, Body}) ->
    Ref = make_ref(),
    Number = erlang:unique_integer([positive]),
    Args = [Module, Name, Scope, Policy, Number, self(), Credit | Body],
    case py_request:start(Loop, py_result, task, {'erlang._asgi', stream}, Args, #{}) of
        {ok, Task} ->
            Monitor = erlang:monitor(process, Owner),
            true = ets:insert(?TABLE, {Ref, self()}),
            ok = proc_lib:init_ack({ok, Ref}),
            ok = loop(#state{ref = Ref, owner = Owner, monitor = Monitor, loop = Loop, number = Number, task = Task}),
            true = ets:delete(?TABLE, Ref),
            ok;
        {error, _} = Error ->
            proc_lib:init_ack(Error)
    end.

loop(#state{task = Task, monitor = Monitor} = State) ->
    receive
        {py_asgi_event, Event} -> loop(event(Event, State));
        {py_result, Task, _None} -> ended(done, State);
        {py_error, Task, Reason} -> ended({error, Reason}, State);
        {tell, Event} -> loop(pass_on(Event, State));
        {take, From, Event} -> loop(pass_on(Event, State#state{takers = queue:in(From, State#state.takers)}));
        {own, From, Whom} -> loop(owned(From, Whom, State));
        %% The task is cancelled, for its caller dies.
        {'DOWN', Monitor, process, _, _} -> ok;
        _ -> loop(State)
    end.

%% Nothing is sent to the new owner before it has what the old one had.
owned(From, {Giver, Owner}, #state{monitor = Monitor, ref = Ref} = State) ->
    true = erlang:demonitor(Monitor, [flush]),
    Passing = erlang:monitor(process, Giver),
    From ! {From, ok},
    receive
        {passed, Ref} -> true = erlang:demonitor(Passing, [flush]);
        {'DOWN', Passing, process, _, _} -> true
    end,
    State#state{owner = Owner, monitor = erlang:monitor(process, Owner)}.

event({taken}, #state{takers = Takers} = State) ->
    {{value, From}, Rest} = queue:out(Takers),
    From ! {From, ok},
    State#state{takers = Rest};
event({body, _, false} = Event, State) -> said(done, said(Event, State));
event({close, _, _} = Event, State) -> said(done, said(Event, State));
event({reject, _, _, _} = Event, State) -> said(done, said(Event, State));
event(Event, State) -> said(Event, State).

said(_Event, #state{said = true} = State) ->
    State;
said(Event, #state{owner = Owner, ref = Ref} = State) ->
    Owner ! {py_asgi, Ref, Event},
    State#state{said = Event =:= done orelse (is_tuple(Event) andalso element(1, Event) =:= error)}.

%% On the loop of the app, after what was told before.
pass_on(Event, #state{loop = Loop, number = Number} = State) ->
    ok = py_request:cast(Loop, task, {'erlang._asgi', tell}, [Number, Event], #{}),
    State.

%% Who waits for the app to take something hears of the end of this process.
ended(How, State) ->
    _ = said(How, State),
    ok.
