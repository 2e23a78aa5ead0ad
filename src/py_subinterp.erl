%% @private
%% @doc The process that owns one context with an interpreter of its own, and so a GIL of its own. It is not in the way of calls; when
%% it ends, so do the thread and the interpreter.
-module(py_subinterp).
-behaviour(gen_server).

-export([start_link/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-type state() :: {py_context:index(), reference(), py_nif:context()}.

-spec start_link(py_context:index()) -> gen_server:start_ret().
start_link(Number) ->
    gen_server:start_link(?MODULE, Number, []).

%% Interpreters take their time, and are made at the same time: the pool is told of each when it is there.
-spec init(py_context:index()) -> {ok, state()} | {stop, term()}.
init(Number) ->
    process_flag(trap_exit, true),
    Tag = make_ref(),
    case py_nif:subinterp_start(Tag) of
        {ok, Context} -> {ok, {Number, Tag, Context}};
        {error, Reason} -> {stop, Reason}
    end.

-spec handle_call(term(), gen_server:from(), state()) -> {reply, {error, unknown}, state()}.
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({py_context, Tag, ready}, {Number, Tag, Context} = State) ->
    ok = py_subinterp_pool:joined(Number, self(), Context),
    {noreply, State};
handle_info({py_context, Tag, {error, Text}}, {Number, Tag, _} = State) ->
    ok = py_subinterp_pool:refused(Number, Text),
    {stop, normal, State};
handle_info(Message, State) ->
    logger:warning("py_subinterp: unexpected ~tp", [Message]),
    {noreply, State}.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, {_Number, _Tag, Context}) ->
    py_nif:context_close(Context).
