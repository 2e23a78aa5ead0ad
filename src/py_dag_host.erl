%% @private
%% @doc Starts the processes in which Erlang functions of graphs run, and kills those whose result nobody wants any more.
-module(py_dag_host).
-behaviour(gen_server).

-export([start_link/0, run/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec init([]) -> {ok, undefined}.
init([]) ->
    ok = py_nif:graph_host(),
    {ok, undefined}.

-spec handle_call(term(), gen_server:from(), State) -> {reply, {error, unknown}, State}.
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

-spec handle_cast(term(), State) -> {noreply, State}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), State) -> {noreply, State}.
handle_info({py_dag, Errand, Call}, State) ->
    _ = spawn(?MODULE, run, [Errand, Call]),
    {noreply, State};
handle_info({py_dag_kill, Pid}, State) ->
    exit(Pid, kill),
    {noreply, State};
handle_info(Message, State) ->
    logger:warning("py_dag: unexpected ~tp", [Message]),
    {noreply, State}.

%% @doc The process of one function. It is given the list of the inputs' values.
-spec run(py_nif:errand(), {fun(([term()]) -> term()), [term()]} | py_nif:parcel()) -> boolean().
run(Errand, Call) ->
    py_nif:graph_begin(Errand) andalso py_nif:graph_answer(Errand, result(py_callback:unpacked(Call))).

result({Function, Args}) ->
    try
        {ok, Function(Args)}
    catch
        Class:Reason -> {error, {Class, Reason}}
    end.
