%% @private
%% @doc What Python prints goes to the group leader of whoever called, or to that of the application where nobody did.
%%
%% Nobody is waited for: text is handed to a group leader and its answers are looked at as they come. What a leader that died has not
%% printed goes to the application's.
-module(py_output).
-behaviour(gen_server).

-export([start_link/0, python/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% How long Python waits for a leader that does not keep up.
-define(PATIENCE, 1000).

%% What was handed over and not confirmed, and who waits for that.
-record(state, {pending = #{} :: #{reference() => {pid(), binary()}},
                waiting = [] :: [gen_server:from()]}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% What Python asks for. `told': everything it has printed is with the leaders. `catch_up': they have printed it, or take their time.
-spec python(binary(), [term()]) -> ok.
python(<<"told">>, []) ->
    gen_server:call(?MODULE, told);
python(<<"catch_up">>, []) ->
    try
        gen_server:call(?MODULE, catch_up, ?PATIENCE)
    catch
        exit:{timeout, _} -> ok
    end.

-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, #state{}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
          {reply, ok | {error, unknown}, #state{}} | {noreply, #state{}}.
handle_call(told, _From, State) ->
    {reply, ok, State};
handle_call(catch_up, _From, #state{pending = Pending} = State) when map_size(Pending) =:= 0 ->
    {reply, ok, State};
handle_call(catch_up, From, #state{waiting = Waiting} = State) ->
    {noreply, State#state{waiting = [From | Waiting]}};
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({py_output, Caller, Text}, State) ->
    {noreply, print(leader(Caller), Text, State)};
handle_info({io_reply, Ref, _Answer}, State) ->
    true = demonitor(Ref, [flush]),
    {noreply, printed(Ref, State)};
handle_info({'DOWN', Ref, process, _Pid, _Reason}, #state{pending = Pending} = State) ->
    Own = group_leader(),
    case Pending of
        %% Its own leader is gone: so is the VM, soon.
        #{Ref := {Own, _}} -> {noreply, printed(Ref, State)};
        #{Ref := {_, Text}} -> {noreply, print(Own, Text, State#state{pending = maps:remove(Ref, Pending)})};
        #{} -> {noreply, State}
    end;
handle_info(Message, State) ->
    logger:warning("py_output: unexpected ~tp", [Message]),
    {noreply, State}.

print(Leader, Text, #state{pending = Pending} = State) ->
    Ref = monitor(process, Leader),
    Leader ! {io_request, self(), Ref, {put_chars, unicode, Text}},
    State#state{pending = Pending#{Ref => {Leader, Text}}}.

printed(Ref, #state{pending = Pending, waiting = Waiting} = State) ->
    case maps:take(Ref, Pending) of
        {{_, Text}, Rest} ->
            ok = py_nif:caught_up(output, byte_size(Text)),
            case map_size(Rest) of
                0 ->
                    _ = [gen_server:reply(From, ok) || From <- Waiting],
                    State#state{pending = Rest, waiting = []};
                _ ->
                    State#state{pending = Rest}
            end;
        error ->
            State
    end.

leader(undefined) ->
    group_leader();
leader(Caller) ->
    case process_info(Caller, group_leader) of
        {group_leader, Leader} -> Leader;
        undefined -> group_leader()
    end.
