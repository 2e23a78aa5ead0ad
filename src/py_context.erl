%% @private
%% @doc The process that owns one context: an OS thread with a namespace of its own. It is not in the way of calls; when it ends, so
%% does the thread.
-module(py_context).
-behaviour(gen_server).

-export([start_link/1, all/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([index/0]).
-type index() :: pos_integer().

-spec start_link(index()) -> gen_server:start_ret().
start_link(Number) ->
    gen_server:start_link(?MODULE, Number, []).

%% @doc The contexts there are: their numbers, processes and handles.
-spec all() -> [{index(), pid(), py_nif:context()}].
all() ->
    py_pool:contexts().

-spec init(index()) -> {ok, {index(), py_nif:context()}} | {stop, term()}.
init(Number) ->
    process_flag(trap_exit, true),
    case py_nif:context_new() of
        {ok, Context} ->
            ok = py_pool:joined(Number, self(), Context),
            {ok, {Number, Context}};
        {error, Reason} ->
            {stop, Reason}
    end.

-spec handle_call(term(), gen_server:from(), State) -> {reply, {error, unknown}, State}.
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

-spec handle_cast(term(), State) -> {noreply, State}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), State) -> {noreply, State}.
handle_info(Message, State) ->
    logger:warning("py_context: unexpected ~tp", [Message]),
    {noreply, State}.

-spec terminate(term(), {index(), py_nif:context()}) -> ok.
terminate(_Reason, {_Number, Context}) ->
    py_nif:context_close(Context).
