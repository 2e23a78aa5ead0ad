%% @doc Correlated replies: a process waits for the answer that somebody else will give to a name, such as a trace id.
%%
%% A waiter ends exactly once: by the answer, by being cancelled, by its deadline, or with its process. Who ended it is told `true',
%% everybody else `false'. Whoever waits is sent `{py_reply, Waiter, TraceId, Result}', where `Result' is `{ok, Value}',
%% `{error, Reason}', `{error, {cancelled, Reason}}' or `{error, timeout}'; {@link await/1} receives that. Deadlines are counted in
%% milliseconds and are never early. Python has the same registry as `erlang.reply', so either side may answer the other.
-module(py_reply).

-export([register/1, register/2, await/1, await/2, complete/2, cancel/1, cancel/2, in_flight/0, counters/0]).

-export_type([trace_id/0, waiter/0, result/0, options/0]).

-define(TIMEOUT, 30000).

-type trace_id() :: term().
-opaque waiter() :: reference().
-type result() :: {ok, term()} | {error, term()}.
-type options() :: #{reply_to => pid(), timeout => timeout()}.

%% @equiv register(TraceId, #{})
-spec register(trace_id()) -> {ok, waiter()} | {error, already_registered | overloaded | noproc | system_limit}.
register(TraceId) ->
    ?MODULE:register(TraceId, #{}).

%% @doc Registers `reply_to' (the caller, if nobody is named) as the one who waits for `TraceId', for `timeout' milliseconds (30000).
%% How many may wait at a time is `reply_limit' of the application's environment (1000000): more are `{error, overloaded}'.
-spec register(trace_id(), options()) ->
    {ok, waiter()} | {error, already_registered | overloaded | noproc | system_limit}.
register(TraceId, Options) when is_map(Options) ->
    case maps:without([reply_to, timeout], Options) of
        Unknown when map_size(Unknown) > 0 -> error({unknown_options, maps:keys(Unknown)}, [TraceId, Options]);
        _ -> ok
    end,
    Pid = maps:get(reply_to, Options, self()),
    Timeout = maps:get(timeout, Options, ?TIMEOUT),
    is_pid(Pid) andalso node(Pid) =:= node() orelse error({bad_option, {reply_to, Pid}}, [TraceId, Options]),
    Timeout =:= infinity orelse is_integer(Timeout) andalso Timeout >= 0
        orelse error({bad_option, {timeout, Timeout}}, [TraceId, Options]),
    py_nif:reply_register(TraceId, Pid, Timeout);
register(TraceId, Options) ->
    error(badarg, [TraceId, Options]).

%% @doc How a waiter of this process ended.
-spec await(waiter()) -> result().
await(Waiter) ->
    await(Waiter, infinity).

%% @doc Likewise, but `{error, timeout}' after so many milliseconds. That cancels the waiter: no message comes any more.
-spec await(waiter(), timeout()) -> result().
await(Waiter, Timeout) when is_reference(Waiter) ->
    receive
        {py_reply, Waiter, _TraceId, Result} -> Result
    after Timeout ->
        case cancel(Waiter, timeout) of
            true -> receive {py_reply, Waiter, _, _} -> {error, timeout} end;
            false -> taken(Waiter)
        end
    end.

%% It is over, so its message is on the way at most, unless it was received before or is somebody else's.
taken(Waiter) ->
    receive
        {py_reply, Waiter, _TraceId, Result} -> Result
    after 100 ->
        {error, timeout}
    end.

%% @doc Answers whoever waits for a trace id, or a certain waiter, with `{ok, Value}' or `{error, Reason}'; anything else is a
%% value. Whether it was this call that ended it.
-spec complete(trace_id() | waiter(), result() | term()) -> boolean().
complete(Who, {ok, Value}) -> py_nif:reply_end(Who, success, Value);
complete(Who, {error, Reason}) -> py_nif:reply_end(Who, error, Reason);
complete(Who, Value) -> py_nif:reply_end(Who, success, Value).

%% @equiv cancel(Who, cancelled)
-spec cancel(trace_id() | waiter()) -> boolean().
cancel(Who) ->
    cancel(Who, cancelled).

%% @doc Ends a waiter without an answer: it is told `{error, {cancelled, Reason}}'. Whether it was this call that did.
-spec cancel(trace_id() | waiter(), term()) -> boolean().
cancel(Who, Reason) ->
    py_nif:reply_end(Who, cancelled, Reason).

%% @doc How many wait.
-spec in_flight() -> non_neg_integer().
in_flight() ->
    maps:get(in_flight, py_nif:reply_counters()).

%% @doc What has happened since the VM started. `duplicate_terminal' counts attempts to end what had its answer already,
%% `late_reply_drop' answers to what was over, or was never there. No payload is kept for it.
-spec counters() -> #{atom() => non_neg_integer()}.
counters() ->
    maps:remove(in_flight, py_nif:reply_counters()).
