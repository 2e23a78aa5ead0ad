%% @doc Calls that really run at the same time: on contexts that have an interpreter, and so a GIL, each of their own.
%%
%% They are made when they are first used, `num_subinterp_workers' of them (application environment, default 4), from Python 3.12 on.
%% Without a GIL (`free_threaded') the contexts of {@link py_pool} run at the same time as they are, and serve these calls too. On older
%% Pythons they serve them as well, taking turns: {@link get_stats/0} says so, and so does the log, once.
%%
%% An interpreter shares nothing with another one: modules are imported in each, what {@link py:exec/1} defines is not there
%% ({@link broadcast/1} defines it in all), and extension modules that are not made for it, such as numpy, are refused by Python.
-module(py_subinterp_pool).
-behaviour(gen_server).

-export([parallel/1, parallel/2, call/3, call/4, call/5, broadcast/1, get_stats/0]).
-export([start_link/0, joined/3, refused/2, place/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(TIMEOUT, 30000).
-define(TABLE, py_subinterps).

-type call() :: {py:name(), py:name(), [term()]} | {py:name(), py:name(), [term()], py:kwargs()}.

-record(state, {
    %% Who waits for the interpreters to be there.
    waiting = [] :: [gen_server:from()],
    %% Those that are on their way, by number.
    coming = [] :: [py_context:index()],
    refused = none :: none | {error, term()}
}).

%% @private
-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @equiv parallel(Calls, 30000)
-spec parallel([call()]) -> {ok, [term()]} | {error, term()}.
parallel(Calls) ->
    parallel(Calls, ?TIMEOUT).

%% @doc Calls functions at once and waits for all of them: their results in order, or `{error, {parallel_failed, [{Index, Reason}]}}' with
%% those that failed, counted from 1. `{error, {no_subinterpreters, Why}}' if there is none to call them in.
-spec parallel([call()], timeout()) -> {ok, [term()]} | {error, term()}.
parallel(Calls, Timeout) when is_list(Calls) ->
    case target() of
        {ok, Target} -> py_gather:at_once(Target, Calls, Timeout);
        {error, _} = Error -> Error
    end;
parallel(Calls, Timeout) ->
    erlang:error(badarg, [Calls, Timeout]).

%% @equiv call(Module, Function, Args, #{})
-spec call(py:name(), py:name(), [term()]) -> {ok, term()} | {error, term()}.
call(Module, Function, Args) ->
    call(Module, Function, Args, #{}, ?TIMEOUT).

%% @equiv call(Module, Function, Args, Kwargs, 30000)
-spec call(py:name(), py:name(), [term()], py:kwargs()) -> {ok, term()} | {error, term()}.
call(Module, Function, Args, Kwargs) ->
    call(Module, Function, Args, Kwargs, ?TIMEOUT).

%% @doc One call, like {@link py:call/5}, in whichever interpreter is free.
-spec call(py:name(), py:name(), [term()], py:kwargs(), timeout()) -> {ok, term()} | {error, term()}.
call(Module, Function, Args, Kwargs, Timeout) when is_list(Args), is_map(Kwargs) ->
    case target() of
        {ok, Target} ->
            py_request:call(Target, call, {py_name:name(Module), py_name:name(Function)}, Args, Kwargs, Timeout);
        {error, _} = Error ->
            Error
    end;
call(Module, Function, Args, Kwargs, Timeout) ->
    erlang:error(badarg, [Module, Function, Args, Kwargs, Timeout]).

%% @doc Runs statements in every interpreter, one after the other: their results. On the contexts of {@link py_pool} where those serve
%% these calls.
-spec broadcast(iodata()) -> [ok | {error, term()}] | {error, term()}.
broadcast(Code) ->
    case target() of
        {ok, pool} -> py_pool:broadcast(Code);
        {ok, _} -> [py_request:exec(Context, Code, ?TIMEOUT) || Context <- contexts()];
        {error, _} = Error -> Error
    end.

%% @doc The mode ({@link py:execution_mode/0}); whether calls run at the same time (`parallel') or take turns for want of it
%% (`fallback'); how many contexts there are, how many of them are free, lent out, and how many requests wait; how many interpreters
%% there are, and how many that could not be ended. No contexts are there before they are used.
-spec get_stats() -> #{mode := free_threaded | subinterp | multi_executor, parallel := boolean(), fallback := boolean(),
                       num_workers := non_neg_integer(), available_workers := non_neg_integer(),
                       checked_out := non_neg_integer(), pending_requests := non_neg_integer(),
                       interpreters := non_neg_integer(), left := non_neg_integer()}.
get_stats() ->
    Mode = py:execution_mode(),
    #{contexts := All, bound := Bound, queued := Queued, interpreters := Alive, left := Left} = py_nif:subinterp_stats(),
    Own = #{num_workers => All, available_workers => All - Bound, checked_out => Bound, pending_requests => Queued},
    Workers = case Mode of
                  subinterp -> Own;
                  _ -> py_pool:get_stats()
              end,
    Workers#{mode => Mode, parallel => Mode =/= multi_executor, fallback => Mode =:= multi_executor,
             interpreters => Alive, left => Left}.

%% Where calls go. A process that an interpreter waits for is served by that one: all of them may be waiting.
target() ->
    Ticket = py_request:ticket(),
    case Ticket =/= undefined andalso py:execution_mode() =:= subinterp andalso py_nif:subinterp_waits(Ticket) of
        true -> {ok, Ticket};
        false -> place()
    end.

%% @private
%% Where the calls of no process in particular go. Interpreters are made if there are none.
-spec place() -> {ok, subinterp | pool} | {error, term()}.
place() ->
    case py:execution_mode() of
        subinterp ->
            ready();
        free_threaded ->
            {ok, pool};
        multi_executor ->
            _ = persistent_term:get({?MODULE, told}, false) orelse tell(),
            {ok, pool}
    end.

tell() ->
    persistent_term:put({?MODULE, told}, true),
    logger:notice("py: this Python has one GIL for all: parallel calls take turns. From Python 3.12 on they run at the same time").

ready() ->
    case py_nif:subinterp_ready() of
        false -> gen_server:call(?MODULE, prepare, 60000);
        true -> {ok, subinterp}
    end.

contexts() ->
    [Context || {_, Pid, Context} <- lists:sort(ets:tab2list(?TABLE)), is_process_alive(Pid)].

%% @private
-spec joined(py_context:index(), pid(), py_nif:context()) -> ok.
joined(Number, Pid, Context) ->
    true = ets:insert(?TABLE, {Number, Pid, Context}),
    gen_server:cast(?MODULE, {settled, Number, ok}).

%% @private
-spec refused(py_context:index(), binary()) -> ok.
refused(Number, Text) ->
    gen_server:cast(?MODULE, {settled, Number, {error, {no_subinterpreters, Text}}}).

%% @private
-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, #state{}}.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) ->
          {reply, {ok, subinterp} | {error, term()}, #state{}} | {noreply, #state{}}.
handle_call(prepare, From, #state{waiting = Waiting, coming = []} = State) ->
    Numbers = lists:seq(1, max(1, application:get_env(erlang_python, num_subinterp_workers, 4))),
    case [Error || {error, _} = Error <- [py_subinterp_sup:start(Number) || Number <- Numbers]] of
        [Error | _] -> {reply, Error, State};
        [] -> {noreply, answer(State#state{waiting = [From | Waiting], coming = Numbers -- there(), refused = none})}
    end;
handle_call(prepare, From, #state{waiting = Waiting} = State) ->
    {noreply, State#state{waiting = [From | Waiting]}};
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({settled, Number, Result}, #state{coming = Coming, refused = Before} = State) ->
    Refused = case Result of
                  ok -> Before;
                  {error, _} -> Result
              end,
    {noreply, answer(State#state{coming = Coming -- [Number], refused = Refused})};
handle_cast(_Request, State) ->
    {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(Message, State) ->
    logger:warning("py_subinterp_pool: unexpected ~tp", [Message]),
    {noreply, State}.

there() ->
    [Number || {Number, Pid, _} <- ets:tab2list(?TABLE), is_process_alive(Pid)].

answer(#state{coming = [], waiting = Waiting, refused = Refused} = State) ->
    Answer = case there() of
                 [] when Refused =/= none -> Refused;
                 Some ->
                     %% Some are enough.
                     Refused =:= none orelse logger:warning("py: ~p sub-interpreters only: ~tp", [length(Some), Refused]),
                     {ok, subinterp}
             end,
    _ = [gen_server:reply(From, Answer) || From <- Waiting],
    State#state{waiting = []};
answer(State) ->
    State.
