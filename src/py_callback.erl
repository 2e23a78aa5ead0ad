%% @doc Erlang functions that Python may call: `erlang.name(...)', `erlang.call("name", ...)'.
%%
%% Each call runs in a process of its own. Requests that this process makes to Python are served by the very thread that waits
%% for it, so nesting needs no second context.
-module(py_callback).
-behaviour(gen_server).

-export([register/2, unregister/1, names/0]).
-export([start_link/0, run/3, run_scheduled/3, unpacked/1, apply_function/2]).


-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(TABLE, py_callbacks).

-type name() :: atom() | binary() | string().
-type callback() :: fun(([term()]) -> term()) | {module(), atom()}.
-export_type([name/0, callback/0]).

%% @private
-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Makes a function callable from Python under a name. It is given the list of the arguments.
-spec register(name(), callback()) -> ok.
register(Name, Function) when is_function(Function, 1) ->
    gen_server:call(?MODULE, {register, py_name:text(Name), Function});
register(Name, {Module, Function}) when is_atom(Module), is_atom(Function) ->
    gen_server:call(?MODULE, {register, py_name:text(Name), {Module, Function}});
register(Name, Function) ->
    erlang:error(badarg, [Name, Function]).

%% @doc Forgets a function. Calls that are running go on.
-spec unregister(name()) -> ok.
unregister(Name) ->
    gen_server:call(?MODULE, {unregister, py_name:text(Name)}).

%% @doc The registered names.
-spec names() -> [binary()].
names() ->
    lists:sort([Name || {Name, _} <- ets:tab2list(?TABLE)]).

%% @private
-spec init([]) -> {ok, undefined}.
init([]) ->
    ok = py_nif:callback_dispatcher(),
    ok = publish(),
    {ok, undefined}.

%% @private
-spec handle_call(term(), gen_server:from(), State) -> {reply, ok | {error, unknown}, State}.
handle_call({register, Name, Function}, _From, State) ->
    true = ets:insert(?TABLE, {Name, Function}),
    {reply, publish(), State};
handle_call({unregister, Name}, _From, State) ->
    true = ets:delete(?TABLE, Name),
    {reply, publish(), State};
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

%% @private
-spec handle_cast(term(), State) -> {noreply, State}.
handle_cast(_Request, State) ->
    {noreply, State}.

%% @private
-spec handle_info(term(), State) -> {noreply, State}.
handle_info({py_callback, Ticket, Name, Args}, State) ->
    _ = spawn(?MODULE, run, [Ticket, Name, Args]),
    {noreply, State};
handle_info({py_continue, Continuation}, State) ->
    ok = py_nif:schedule_continue(Continuation),
    {noreply, State};
handle_info({py_schedule, Continuation, Target, Call}, State) ->
    _ = spawn(?MODULE, run_scheduled, [Continuation, Target, Call]),
    {noreply, State};
handle_info({py_send, To, Message}, State) ->
    _ = erlang:send(To, Message, [noconnect]),
    {noreply, State};
handle_info(Message, State) ->
    logger:warning("py_callback: unexpected ~tp", [Message]),
    {noreply, State}.

publish() ->
    py_nif:callback_names(names()).

%% @private
%% The process of one call.
-spec run(py_nif:ticket(), binary(), [term()] | py_nif:parcel()) -> boolean().
run(Ticket, Name, Args) ->
    _ = py_nif:callback_begin(Ticket),
    py_nif:callback_answer(Ticket, answer(Ticket, Name, unpacked(Args))).

%% @private
%% The process that ends a chain: the caller gets what the function returns. Nobody waits in Python.
-spec run_scheduled(py_nif:continuation(), py_nif:target(), {binary(), [term()]} | py_nif:parcel()) -> ok.
run_scheduled(Continuation, Target, Call) ->
    _ = py_nif:schedule_begin(Continuation),
    {Name, Args} = unpacked(Call),
    Answer = answer(Target, Name, Args),
    case {py_nif:schedule_answer(Continuation, Answer), Answer} of
        {false, {error, Reason}} -> logger:error("py: ~ts, scheduled by a cast, failed: ~tp", [Name, Reason]);
        _ -> ok
    end.

%% @private
%% What was too heavy for the process that starts this one comes by a message of its own.
-spec unpacked(term()) -> term().
unpacked(Parcel) when is_reference(Parcel) ->
    true = py_nif:parcel_open(Parcel),
    receive {Parcel, Term} -> Term end;
unpacked(Term) ->
    Term.

answer(Target, Name, Args) ->
    try py_request:nested(Target, fun() -> apply_function(Name, Args) end) of
        Value -> {ok, Value}
    catch
        Class:Reason -> {error, {Class, Reason}}
    end.

%% @private
%% What is registered under a name, applied.
-spec apply_function(binary(), [term()]) -> term().
apply_function(Name, Args) ->
    case ets:lookup(?TABLE, Name) of
        [{_, {Module, Function}}] -> Module:Function(Args);
        [{_, Function}] -> Function(Args);
        [] -> own(Name, Args)
    end.

%% What Python asks of the application itself. Such names cannot be written as `erlang.name'.
own(<<"py.state.", What/binary>>, Args) -> py_state:python(What, Args);
own(<<"py.dag.", What/binary>>, Args) -> py_dag:python(What, Args);
own(<<"py.output.", What/binary>>, Args) -> py_output:python(What, Args);
own(Name, _Args) -> error({undefined_function, Name}).
