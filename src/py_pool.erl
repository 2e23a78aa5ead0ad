%% @doc The pool of contexts that serve calls without a context of their own.
%%
%% Calls do not pass through this process: they are queued in the NIF. It knows which contexts there are, and lends them out.
-module(py_pool).
-behaviour(gen_server).

-export([get_stats/0, num_workers/0, contexts/0, checkout/1, checkin/1, broadcast/1]).
-export([start_link/0, joined/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(TABLE, py_contexts).

%% @private
-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc How many contexts there are, how many of them are free, lent out, and how many requests wait.
-spec get_stats() -> #{num_workers := non_neg_integer(), available_workers := non_neg_integer(),
                       checked_out := non_neg_integer(), pending_requests := non_neg_integer()}.
get_stats() ->
    #{contexts := All, bound := Bound, queued := Queued} = py_nif:stats(),
    #{num_workers => All, available_workers => All - Bound, checked_out => Bound, pending_requests => Queued}.

%% @doc How many contexts there are.
-spec num_workers() -> non_neg_integer().
num_workers() ->
    maps:get(contexts, py_nif:stats()).

%% @private
-spec contexts() -> [{py_context:index(), pid(), py_nif:context()}].
contexts() ->
    lists:sort([{N, Pid, Context} || {N, Pid, Context} <- ets:tab2list(?TABLE), is_process_alive(Pid)]).

%% @doc Lends a context to a process. It serves nothing else until {@link checkin/1}, or until that process dies. One that has
%% nothing to do is preferred.
-spec checkout(pid()) -> {ok, py_nif:binding()} | {error, no_workers_available | noproc}.
checkout(Owner) when is_pid(Owner) ->
    Contexts = [Context || {_, _, Context} <- contexts()],
    checkout([{Context, Busy} || Busy <- [false, true], Context <- Contexts], Owner).

checkout([{Context, Busy} | Rest], Owner) ->
    case py_nif:context_bind(Context, Owner, Busy) of
        false -> checkout(Rest, Owner);
        noproc -> {error, noproc};
        Binding -> {ok, Binding}
    end;
checkout([], _Owner) ->
    {error, no_workers_available}.

%% @doc Gives a context back. It may be given back twice.
-spec checkin(py_nif:binding()) -> ok.
checkin(Binding) ->
    _ = py_nif:context_unbind(Binding),
    ok.

%% @doc Runs statements in every context, one after the other: their results, in the order of the contexts.
-spec broadcast(iodata()) -> [ok | {error, term()}].
broadcast(Code) ->
    [py_request:exec(Context, Code, 30000) || {_, _, Context} <- contexts()].

%% @private
-spec joined(py_context:index(), pid(), py_nif:context()) -> ok.
joined(Number, Pid, Context) ->
    true = ets:insert(?TABLE, {Number, Pid, Context}),
    ok.

%% @private
-spec init([]) -> {ok, undefined}.
init([]) ->
    {ok, undefined}.

%% @private
-spec handle_call(term(), gen_server:from(), State) -> {reply, {error, unknown}, State}.
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

%% @private
-spec handle_cast(term(), State) -> {noreply, State}.
handle_cast(_Request, State) ->
    {noreply, State}.

%% @private
-spec handle_info(term(), State) -> {noreply, State}.
handle_info(Message, State) ->
    logger:warning("py_pool: unexpected ~tp", [Message]),
    {noreply, State}.
