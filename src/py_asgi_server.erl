%% @private
%% @doc One web server: an app that several event loops serve at one port. It has a task on each of them, which listens for as long as
%% this process lives; the kernel hands connections out among them. A loop that dies is replaced, and begins to listen again.
-module(py_asgi_server).
-behaviour(gen_server).

-export([start_link/1, info/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-record(state, {app :: {binary(), binary()},
                options :: map(),
                address :: {binary(), inet:port_number()},
                %% The tasks that listen: which loop each is on, and the number the task is known by there.
                listening :: #{py_nif:task() => {py_loop:key(), py_nif:event_loop(), pos_integer()}}}).

%% How long an app may take to start.
-define(START, 60000).
%% After how long a loop that is not there is looked for again.
-define(AGAIN, 20).

-spec start_link(map()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link(?MODULE, Options, []).

-spec info(pid()) -> #{host := binary(), port := inet:port_number(), loops := non_neg_integer()}.
info(Server) ->
    gen_server:call(Server, info).

-spec init(map()) -> {ok, #state{}} | {stop, term()}.
init(#{app := {Module, Name}, loops := Loops} = Options) ->
    process_flag(trap_exit, true),
    %% The loops share the port; others may only if they were meant to.
    Claim = not maps:get(reuse_port, Options, false),
    Given = maps:without([app, loops], Options#{reuse_port => true, claim => Claim}),
    State = #state{app = {Module, Name}, options = Given, address = {<<>>, 0}, listening = #{}},
    open(lists:seq(1, Loops), State).

open([], State) ->
    {ok, State};
open([Key | Keys], State) ->
    case listen(Key, State) of
        {ok, Opened} -> open(Keys, Opened);
        {error, Reason} -> ok = close_all(State, 0), {stop, Reason}
    end.

%% The first loop to listen may choose the port, and the others take the same.
listen(Key, #state{app = {Module, Name}, options = Options, listening = Listening} = State) ->
    Number = erlang:unique_integer([positive]),
    case py_loop:find(Key) of
        {ok, Loop} ->
            Args = [Number, self(), Module, Name, Options],
            case py_request:start(Loop, py_result, task, {'erlang._serve', hold}, Args, #{}) of
                {ok, Task} -> listening(Task, Number, State#state{listening = Listening#{Task => {Key, Loop, Number}}});
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            Error
    end.

listening(Task, Number, #state{options = Options} = State) ->
    receive
        {py_asgi_listening, Number, {_, Port} = Address} -> {ok, State#state{address = Address, options = Options#{port => Port, claim => false}}};
        {py_asgi_refused, Number, Reason} -> {error, Reason};
        {py_error, Task, Reason} -> {error, Reason}
    after ?START ->
        _ = py_nif:task_forget(Task),
        {error, timeout}
    end.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call(info, _From, #state{address = {Host, Port}, listening = Listening} = State) ->
    {reply, #{host => Host, port => Port, loops => map_size(Listening)}, State};
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({Tag, Task, _Why}, #state{listening = Listening} = State) when Tag =:= py_error; Tag =:= py_result ->
    %% Its loop has ended.
    case maps:take(Task, Listening) of
        {{Key, _Loop, _Number}, Rest} ->
            self() ! {again, Key},
            {noreply, State#state{listening = Rest}};
        error ->
            {noreply, State}
    end;
handle_info({again, Key}, State) ->
    case listen(Key, State) of
        {ok, Opened} ->
            {noreply, Opened};
        {error, _Reason} ->
            _ = erlang:send_after(?AGAIN, self(), {again, Key}),
            {noreply, State}
    end;
handle_info({'EXIT', _Pid, Reason}, State) ->
    {stop, Reason, State};
handle_info(Message, State) ->
    logger:warning("py_asgi_server: unexpected ~tp", [Message]),
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{options = Options} = State) ->
    close_all(State, maps:get(shutdown_timeout, Options, 30)).

%% All drain at the same time; whoever does not end then is cancelled by the end of this process.
close_all(#state{listening = Listening}, Seconds) ->
    Close = fun(_Task, {_Key, Loop, Number}) ->
                    py_request:cast(Loop, task, {'erlang._serve', release}, [Number, Seconds], #{})
            end,
    _ = maps:foreach(Close, Listening),
    Deadline = erlang:monotonic_time(millisecond) + round(Seconds * 1000) + 5000,
    lists:foreach(fun(Task) ->
                      receive
                          {Tag, Task, _} when Tag =:= py_result; Tag =:= py_error -> ok
                      after max(0, Deadline - erlang:monotonic_time(millisecond)) -> ok
                      end
                  end, maps:keys(Listening)).
