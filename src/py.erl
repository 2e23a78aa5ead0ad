%% @doc Python in this VM.
%%
%% ```
%% {ok, 4.0} = py:call(math, sqrt, [16.0]).
%% {ok, 6} = py:eval(<<"x * 2">>, #{x => 3}).
%% '''
%%
%% Modules and functions are named by atoms, binaries or strings. Results are `{ok, Value}' or `{error, Reason}'; an exception is
%% `{error, {Class, Text}}', and {@link format_error/1} has its traceback. A call runs on the thread of a context, and holds no
%% scheduler. When its time is over, the Python code is stopped.
-module(py).

-export([call/3, call/4, call/5, eval/1, eval/2, eval/3, exec/1, exec/2, cast/3, cast/4]).
-export([call_async/3, call_async/4, spawn_call/3, spawn_call/4, await/1, await/2, async_await/1, async_await/2]).
-export([async_call/3, async_call/4, async_gather/1, async_gather/2, async_stream/3, async_stream/4]).
-export([parallel/1, parallel/2]).
-export([cancel/1, interrupt/1, activate_venv/1, deactivate_venv/0, venv_info/0]).
-export([stream/3, stream/4, stream/5, stream_eval/1, stream_eval/2, stream_eval/3]).
-export([stream_start/3, stream_start/4, stream_ack/2, stream_cancel/1]).
-export([bind/0, bind/1, unbind/0, unbind/1, is_bound/0, with_context/1]).
-export([ctx_call/4, ctx_call/5, ctx_call/6, ctx_eval/2, ctx_eval/3, ctx_eval/4, ctx_exec/2]).
-export([register_function/2, register_function/3, unregister_function/1]).
-export([state_store/2, state_fetch/1, state_remove/1, state_keys/0, state_clear/0]).
-export([state_incr/1, state_incr/2, state_decr/1, state_decr/2]).
-export([format_error/1, version/0, memory_stats/0, gc/0, gc/1, num_workers/0, stats/0, execution_mode/0]).

-export_type([name/0, result/0, kwargs/0, options/0, ref/0, context/0, stream_options/0]).

-type name() :: atom() | binary() | string().
-type kwargs() :: #{atom() | binary() => term()}.
-type result() :: {ok, term()} | {error, term()}.
-type ref() :: reference().
-type context() :: py_nif:binding().
-type stream_options() :: #{demand => non_neg_integer(), kwargs => kwargs(), owner => pid()}.
-type options() :: #{timeout => timeout(), return => value | ref}.

-define(TIMEOUT, 30000).

%% @equiv call(Module, Function, Args, #{})
-spec call(name(), name(), [term()]) -> result().
call(Module, Function, Args) ->
    call(Module, Function, Args, #{}, ?TIMEOUT).

%% @equiv call(Module, Function, Args, Kwargs, 30000)
-spec call(name(), name(), [term()], kwargs()) -> result().
call(Module, Function, Args, Kwargs) ->
    call(Module, Function, Args, Kwargs, ?TIMEOUT).

%% @doc Calls a Python function. The function may be a path (`<<"Class.method">>'), and the module `'__main__'' is the namespace
%% that {@link exec/1} works in.
%%
%% With `#{return => ref}' the result stays in Python, and a reference to it is given, to be used as an argument.
-spec call(name(), name(), [term()], kwargs(), timeout() | options()) -> result().
call(Module, Function, Args, Kwargs, Options) ->
    call_in(py_request:target(), Module, Function, Args, Kwargs, Options).

call_in(Target, Module, Function, Args, Kwargs, Options) when is_list(Args), is_map(Kwargs), is_map(Options) ->
    Op = case Options of
             #{return := ref} -> call_ref;
             #{} -> call
         end,
    Timeout = maps:get(timeout, Options, ?TIMEOUT),
    py_request:call(Target, Op, {py_name:name(Module), py_name:name(Function)}, Args, Kwargs, Timeout);
call_in(Target, Module, Function, Args, Kwargs, Timeout) when is_list(Args), is_map(Kwargs) ->
    py_request:call(Target, call, {py_name:name(Module), py_name:name(Function)}, Args, Kwargs, Timeout);
call_in(_Target, Module, Function, Args, Kwargs, Timeout) ->
    erlang:error(badarg, [Module, Function, Args, Kwargs, Timeout]).

%% @equiv eval(Code, #{})
-spec eval(unicode:chardata()) -> result().
eval(Code) ->
    eval(Code, #{}, ?TIMEOUT).

%% @equiv eval(Code, Locals, 30000)
-spec eval(unicode:chardata(), #{name() => term()}) -> result().
eval(Code, Locals) ->
    eval(Code, Locals, ?TIMEOUT).

%% @doc The value of an expression, which sees `Locals' as variables.
-spec eval(unicode:chardata(), #{name() => term()}, timeout()) -> result().
eval(Code, Locals, Timeout) ->
    eval_in(py_request:target(), Code, Locals, Timeout).

eval_in(Target, Code, Locals, Timeout) when is_map(Locals) ->
    py_request:eval(Target, Code, Locals, Timeout);
eval_in(_Target, Code, Locals, Timeout) ->
    erlang:error(badarg, [Code, Locals, Timeout]).

%% @equiv exec(Code, 30000)
-spec exec(unicode:chardata()) -> ok | {error, term()}.
exec(Code) ->
    exec(Code, ?TIMEOUT).

%% @doc Runs statements, in the namespace of whichever context is free.
-spec exec(unicode:chardata(), timeout()) -> ok | {error, term()}.
exec(Code, Timeout) ->
    py_request:exec(py_request:target(), Code, Timeout).

%% @equiv cast(Module, Function, Args, #{})
-spec cast(name(), name(), [term()]) -> ok.
cast(Module, Function, Args) ->
    cast(Module, Function, Args, #{}).

%% @doc Calls a function and forgets about it.
-spec cast(name(), name(), [term()], kwargs()) -> ok.
cast(Module, Function, Args, Kwargs) when is_list(Args), is_map(Kwargs) ->
    py_request:cast(py_request:target(), call, {py_name:name(Module), py_name:name(Function)}, Args, Kwargs);
cast(Module, Function, Args, Kwargs) ->
    erlang:error(badarg, [Module, Function, Args, Kwargs]).

%% @equiv call_async(Module, Function, Args, #{})
-spec call_async(name(), name(), [term()]) -> ref().
call_async(Module, Function, Args) ->
    call_async(Module, Function, Args, #{}).

%% @doc Calls a function without waiting: `{py_response, Ref, Result}' is sent, or taken by {@link await/2}.
-spec call_async(name(), name(), [term()], kwargs()) -> ref().
call_async(Module, Function, Args, Kwargs) when is_list(Args), is_map(Kwargs) ->
    Names = {py_name:name(Module), py_name:name(Function)},
    py_request:task(py_request:target(), py_response, call, Names, Args, Kwargs);
call_async(Module, Function, Args, Kwargs) ->
    erlang:error(badarg, [Module, Function, Args, Kwargs]).

%% @equiv call_async(Module, Function, Args)
-spec spawn_call(name(), name(), [term()]) -> ref().
spawn_call(Module, Function, Args) ->
    call_async(Module, Function, Args).

%% @equiv call_async(Module, Function, Args, Kwargs)
-spec spawn_call(name(), name(), [term()], kwargs()) -> ref().
spawn_call(Module, Function, Args, Kwargs) ->
    call_async(Module, Function, Args, Kwargs).

%% @equiv async_call(Module, Function, Args, #{})
-spec async_call(name(), name(), [term()]) -> ref().
async_call(Module, Function, Args) ->
    async_call(Module, Function, Args, #{}).

%% @doc Runs a coroutine function, or a plain one, on an event loop: `{async_result, Ref, Result}' is sent, or taken by
%% {@link await/2}. See {@link py_event_loop_pool}.
-spec async_call(name(), name(), [term()], kwargs()) -> ref().
async_call(Module, Function, Args, Kwargs) ->
    py_event_loop_pool:create_task(Module, Function, Args, Kwargs).

%% @equiv async_gather(Calls, 30000)
-spec async_gather([{name(), name(), [term()]} | {name(), name(), [term()], kwargs()}]) ->
          {ok, [term()]} | {error, {gather_failed, [{pos_integer(), term()}]}}.
async_gather(Calls) ->
    async_gather(Calls, ?TIMEOUT).

%% @doc Runs functions concurrently on one event loop, and waits for all of them: their results in order, or which of them
%% failed, counted from 1, and why.
-spec async_gather([{name(), name(), [term()]} | {name(), name(), [term()], kwargs()}], timeout()) ->
          {ok, [term()]} | {error, {gather_failed, [{pos_integer(), term()}]}}.
async_gather(Calls, Timeout) when is_list(Calls) ->
    py_gather:on_loop(Calls, Timeout);
async_gather(Calls, Timeout) ->
    erlang:error(badarg, [Calls, Timeout]).

%% @equiv parallel(Calls, 30000)
-spec parallel([{name(), name(), [term()]} | {name(), name(), [term()], kwargs()}]) ->
          {ok, [term()]} | {error, term()}.
parallel(Calls) ->
    parallel(Calls, ?TIMEOUT).

%% @doc Calls functions at once and waits for all of them: their results in order, or `{error, {parallel_failed, [{Index, Reason}]}}' with
%% those that failed, counted from 1. They really run at the same time, in interpreters of their own (Python 3.12 and later) or
%% without a GIL: see {@link py_subinterp_pool}. On older Pythons they take turns, except where they wait or compute outside of Python.
-spec parallel([{name(), name(), [term()]} | {name(), name(), [term()], kwargs()}], timeout()) ->
          {ok, [term()]} | {error, term()}.
parallel(Calls, Timeout) when is_list(Calls) ->
    py_subinterp_pool:parallel(Calls, Timeout);
parallel(Calls, Timeout) ->
    erlang:error(badarg, [Calls, Timeout]).

%% @equiv async_stream(Module, Function, Args, #{})
-spec async_stream(name(), name(), [term()]) -> {ok, [term()]} | {error, term()}.
async_stream(Module, Function, Args) ->
    async_stream(Module, Function, Args, #{}).

%% @doc All that an async generator yields, run on an event loop.
-spec async_stream(name(), name(), [term()], kwargs()) -> {ok, [term()]} | {error, term()}.
async_stream(Module, Function, Args, Kwargs) ->
    py_loop:run(py_event_loop_pool:get_loop(), drain, {Module, Function}, Args, Kwargs, ?TIMEOUT).

%% @equiv await(Ref, 30000)
-spec await(ref()) -> result().
await(Ref) ->
    await(Ref, ?TIMEOUT).

%% @doc Waits for the answer to a `Ref'. When the time is over the call is stopped, and nothing comes later.
-spec await(ref(), timeout()) -> result().
await(Ref, Timeout) ->
    py_request:await(Ref, Timeout).

%% @equiv await(Ref)
-spec async_await(ref()) -> result().
async_await(Ref) ->
    await(Ref).

%% @equiv await(Ref, Timeout)
-spec async_await(ref(), timeout()) -> result().
async_await(Ref, Timeout) ->
    await(Ref, Timeout).

%% @doc Stops a call by its `Ref': it is answered with `{error, cancelled}'. False if it was over.
-spec cancel(ref()) -> boolean().
cancel(Ref) ->
    py_nif:task_cancel(Ref).

%% @doc Stops the Python code of a call by its `Ref', if it is running: an exception is raised in it that no `except Exception'
%% catches, and the answer is `{error, interrupted}' unless the code has another. False if the call was over.
-spec interrupt(ref()) -> boolean().
interrupt(Ref) ->
    py_nif:task_interrupt(Ref).

%% @doc Puts the packages of a virtual environment first on Python's path. Its `.pth' files and editable installs count. It is to
%% be of the same minor version of Python.
-spec activate_venv(unicode:chardata()) -> ok | {error, term()}.
activate_venv(Path) ->
    case own(activate_venv, [py_name:code(Path)]) of
        {ok, _} -> ok;
        {error, _} = Error -> Error
    end.

%% @doc Takes them off again. What was imported stays imported.
-spec deactivate_venv() -> ok | {error, term()}.
deactivate_venv() ->
    case own(deactivate_venv, []) of
        {ok, _} -> ok;
        {error, _} = Error -> Error
    end.

%% @doc Which virtual environment is active.
-spec venv_info() -> result().
venv_info() ->
    own(venv_info, []).

%% @equiv stream(Module, Function, Args, #{})
-spec stream(name(), name(), [term()]) -> {ok, [term()]} | {error, term()}.
stream(Module, Function, Args) ->
    stream(Module, Function, Args, #{}, ?TIMEOUT).

%% @equiv stream(Module, Function, Args, Kwargs, 30000)
-spec stream(name(), name(), [term()], kwargs()) -> {ok, [term()]} | {error, term()}.
stream(Module, Function, Args, Kwargs) ->
    stream(Module, Function, Args, Kwargs, ?TIMEOUT).

%% @doc All that a generator yields, or whatever else can be iterated over, with `for' or with `async for'.
-spec stream(name(), name(), [term()], kwargs(), timeout()) -> {ok, [term()]} | {error, term()}.
stream(Module, Function, Args, Kwargs, Timeout) when is_list(Args), is_map(Kwargs) ->
    py_stream:collect(py_request:target(), Module, Function, Args, Kwargs, Timeout);
stream(Module, Function, Args, Kwargs, Timeout) ->
    erlang:error(badarg, [Module, Function, Args, Kwargs, Timeout]).

%% @equiv stream_eval(Code, #{})
-spec stream_eval(unicode:chardata()) -> {ok, [term()]} | {error, term()}.
stream_eval(Code) ->
    stream_eval(Code, #{}, ?TIMEOUT).

%% @equiv stream_eval(Code, Locals, 30000)
-spec stream_eval(unicode:chardata(), #{name() => term()}) -> {ok, [term()]} | {error, term()}.
stream_eval(Code, Locals) ->
    stream_eval(Code, Locals, ?TIMEOUT).

%% @doc Likewise for an expression, such as `(x * x for x in range(n))'.
-spec stream_eval(unicode:chardata(), #{name() => term()}, timeout()) -> {ok, [term()]} | {error, term()}.
stream_eval(Code, Locals, Timeout) when is_map(Locals) ->
    py_stream:collect_eval(py_request:target(), Code, Locals, Timeout);
stream_eval(Code, Locals, Timeout) ->
    erlang:error(badarg, [Code, Locals, Timeout]).

%% @equiv stream_start(Module, Function, Args, #{})
-spec stream_start(name(), name(), [term()]) -> {ok, ref()} | {error, term()}.
stream_start(Module, Function, Args) ->
    stream_start(Module, Function, Args, #{}).

%% @doc Sends what a generator yields, value by value: `{py_stream, Ref, {data, Value}}', and then one of
%% `{py_stream, Ref, done}' and `{py_stream, Ref, {error, Reason}}'.
%%
%% With `demand => N' no more than `N' values are sent, and the generator is not advanced further, until {@link stream_ack/2} asks
%% for more; meanwhile the stream occupies no context. The end of the generator is found by the step after its last value, so it
%% takes an ack too. `kwargs' are keyword arguments, and `owner' is who gets the messages instead of this process.
%%
%% The generator is closed when the owner dies, or with {@link stream_cancel/1}, also in the middle of a step.
-spec stream_start(name(), name(), [term()], stream_options()) -> {ok, ref()} | {error, term()}.
stream_start(Module, Function, Args, Options) when is_list(Args), is_map(Options) ->
    try
        py_stream:start(py_request:target(), Module, Function, Args, Options)
    catch
        error:{badmatch, _} -> erlang:error(badarg, [Module, Function, Args, Options])
    end;
stream_start(Module, Function, Args, Options) ->
    erlang:error(badarg, [Module, Function, Args, Options]).

%% @doc Asks for this many more values.
-spec stream_ack(ref(), pos_integer()) -> ok.
stream_ack(Ref, More) when is_integer(More), More > 0 ->
    py_stream:ack(Ref, More);
stream_ack(Ref, More) ->
    erlang:error(badarg, [Ref, More]).

%% @doc Ends a stream and closes its generator. Its last message is `{py_stream, Ref, {error, cancelled}}', unless it was over.
-spec stream_cancel(ref()) -> ok.
stream_cancel(Ref) ->
    py_stream:cancel(Ref).

%% @doc Binds this process to a context: its requests all go there, and nobody else's. What one request defines the next one sees.
%% A process that is bound stays where it is. It ends with {@link unbind/0}, or with the process.
-spec bind() -> ok | {error, no_workers_available}.
bind() ->
    py_binding:bind().

%% @doc Takes a context of its own for `ctx_call' and kin, which ends with {@link unbind/1}, or with this process.
-spec bind(new) -> {ok, context()} | {error, no_workers_available}.
bind(new) ->
    py_pool:checkout(self());
bind(Other) ->
    erlang:error(badarg, [Other]).

%% @doc Gives the context of this process back, if it is bound to one.
-spec unbind() -> ok.
unbind() ->
    py_binding:unbind().

%% @doc Gives a context back. It may be given back twice.
-spec unbind(context()) -> ok.
unbind(Context) when is_reference(Context) ->
    py_pool:checkin(Context);
unbind(Context) ->
    erlang:error(badarg, [Context]).

%% @doc Whether this process is bound to a context.
-spec is_bound() -> boolean().
is_bound() ->
    py_binding:is_bound().

%% @doc Runs `Fun' with this process bound to a context, or, if it takes an argument, with a context of its own.
-spec with_context(fun(() -> T) | fun((context()) -> T)) -> T | {error, no_workers_available}.
with_context(Fun) when is_function(Fun, 0); is_function(Fun, 1) ->
    py_binding:with_context(Fun);
with_context(Fun) ->
    erlang:error(badarg, [Fun]).

%% @equiv ctx_call(Context, Module, Function, Args, #{})
-spec ctx_call(context(), name(), name(), [term()]) -> result().
ctx_call(Context, Module, Function, Args) ->
    ctx_call(Context, Module, Function, Args, #{}, ?TIMEOUT).

%% @equiv ctx_call(Context, Module, Function, Args, Kwargs, 30000)
-spec ctx_call(context(), name(), name(), [term()], kwargs()) -> result().
ctx_call(Context, Module, Function, Args, Kwargs) ->
    ctx_call(Context, Module, Function, Args, Kwargs, ?TIMEOUT).

%% @doc Like {@link call/5}, in a context. One that was given back is `error(context_not_bound)'.
-spec ctx_call(context(), name(), name(), [term()], kwargs(), timeout() | options()) -> result().
ctx_call(Context, Module, Function, Args, Kwargs, Options) when is_reference(Context) ->
    call_in(Context, Module, Function, Args, Kwargs, Options).

%% @equiv ctx_eval(Context, Code, #{})
-spec ctx_eval(context(), unicode:chardata()) -> result().
ctx_eval(Context, Code) ->
    ctx_eval(Context, Code, #{}, ?TIMEOUT).

%% @equiv ctx_eval(Context, Code, Locals, 30000)
-spec ctx_eval(context(), unicode:chardata(), #{name() => term()}) -> result().
ctx_eval(Context, Code, Locals) ->
    ctx_eval(Context, Code, Locals, ?TIMEOUT).

%% @doc Like {@link eval/3}, in a context.
-spec ctx_eval(context(), unicode:chardata(), #{name() => term()}, timeout()) -> result().
ctx_eval(Context, Code, Locals, Timeout) when is_reference(Context) ->
    eval_in(Context, Code, Locals, Timeout).

%% @doc Like {@link exec/1}, in a context.
-spec ctx_exec(context(), unicode:chardata()) -> ok | {error, term()}.
ctx_exec(Context, Code) when is_reference(Context) ->
    py_request:exec(Context, Code, ?TIMEOUT).

%% @doc Makes `Function' callable from Python as `erlang.Name(...)'. It is given the list of the arguments.
-spec register_function(name(), py_callback:callback()) -> ok.
register_function(Name, Function) ->
    py_callback:register(Name, Function).

%% @doc Likewise for `Module:Function/1'.
-spec register_function(name(), module(), atom()) -> ok.
register_function(Name, Module, Function) ->
    py_callback:register(Name, {Module, Function}).

%% @doc Forgets a function.
-spec unregister_function(name()) -> ok.
unregister_function(Name) ->
    py_callback:unregister(Name).

%% @doc Keeps a value under a key, for Erlang and Python alike: see {@link py_state}.
-spec state_store(term(), term()) -> ok | {error, {state_full, pos_integer()}}.
state_store(Key, Value) ->
    py_state:store(Key, Value).

%% @doc The value of a key.
-spec state_fetch(term()) -> {ok, term()} | {error, not_found}.
state_fetch(Key) ->
    py_state:fetch(Key).

%% @doc Forgets a key, if it is there.
-spec state_remove(term()) -> ok.
state_remove(Key) ->
    py_state:remove(Key).

%% @doc All keys, in no order.
-spec state_keys() -> [term()].
state_keys() ->
    py_state:keys().

%% @doc Forgets all keys.
-spec state_clear() -> ok.
state_clear() ->
    py_state:clear().

%% @equiv state_incr(Key, 1)
-spec state_incr(term()) -> integer().
state_incr(Key) ->
    py_state:incr(Key, 1).

%% @doc Adds to a counter, which begins at 0, in one step: its new value.
-spec state_incr(term(), integer()) -> integer().
state_incr(Key, Amount) ->
    py_state:incr(Key, Amount).

%% @equiv state_decr(Key, 1)
-spec state_decr(term()) -> integer().
state_decr(Key) ->
    py_state:incr(Key, -1).

%% @doc Subtracts from a counter.
-spec state_decr(term(), integer()) -> integer().
state_decr(Key, Amount) when is_integer(Amount) ->
    py_state:incr(Key, -Amount);
state_decr(Key, Amount) ->
    erlang:error(badarg, [Key, Amount]).

%% @doc A reason as text: for an exception, its traceback.
-spec format_error(term()) -> unicode:chardata().
format_error({error, Reason}) ->
    format_error(Reason);
format_error({Class, Text} = Reason) when (is_atom(Class) orelse is_binary(Class)), is_binary(Text) ->
    case py_nif:traceback(py_name:text(Class), Text) of
        undefined -> io_lib:format("~tp", [Reason]);
        Traceback -> Traceback
    end;
format_error(Reason) ->
    io_lib:format("~tp", [Reason]).

%% @doc The version of Python.
-spec version() -> result().
version() ->
    own(version, []).

%% @doc What Python says about its memory.
-spec memory_stats() -> result().
memory_stats() ->
    own(memory_stats, []).

%% @equiv gc(2)
-spec gc() -> result().
gc() ->
    gc(2).

%% @doc Runs Python's garbage collector: how many objects it found unreachable.
-spec gc(0..2) -> result().
gc(Generation) ->
    own(gc, [Generation]).

%% @doc How many contexts the pool has.
-spec num_workers() -> non_neg_integer().
num_workers() ->
    py_pool:num_workers().

%% @doc The counters of the bridge.
-spec stats() -> #{atom() => non_neg_integer()}.
stats() ->
    py_nif:stats().

%% @doc How Python code runs in parallel here.
-spec execution_mode() -> free_threaded | subinterp | multi_executor.
execution_mode() ->
    %% Python is chosen once per VM.
    case persistent_term:get({?MODULE, execution_mode}, undefined) of
        undefined ->
            Mode = case own(execution_mode, []) of
                       {ok, <<"free_threaded">>} -> free_threaded;
                       {ok, <<"subinterp">>} -> subinterp;
                       {ok, _} -> multi_executor
                   end,
            persistent_term:put({?MODULE, execution_mode}, Mode),
            Mode;
        Mode ->
            Mode
    end.

own(Function, Args) ->
    call('erlang._beam', Function, Args).
