%% @private
%% @doc One request to Python, from the calling process: handed over by the NIF, answered by a message. No process in between.
%%
%% A request that is given up is cancelled first: either that succeeds, and no answer ever comes, or the answer has been sent
%% and is taken. So nothing is left in the mailbox.
-module(py_request).

-export([call/6, eval/4, exec/3, cast/5, task/6, start/6, refused/2, await/2, target/0, ticket/0, on_loop/1, nested/2, bound/0, bound/1]).

%% What requests of this process go to: the ticket of the callback it runs.
-define(TARGET, '$py_target').
%% Before that: the context it is bound to.
-define(BOUND, '$py_bound').

%% Who waits longer is told at once if the context is killed, also if its thread hangs.
-define(PATIENCE, 50).

-type result() :: {ok, term()} | {error, term()}.

%% @doc Where the requests of this process go if it does not say.
-spec target() -> py_nif:target().
target() ->
    case get(?BOUND) of
        undefined ->
            case get(?TARGET) of
                undefined -> pool;
                Target -> Target
            end;
        Binding ->
            Binding
    end.

%% @doc The ticket of the callback that this process runs.
-spec ticket() -> py_nif:ticket() | undefined.
ticket() ->
    get(?TARGET).

%% @doc Where the requests of this process to an event loop go. In a callback they may be served by a loop that waits for it.
-spec on_loop(py_nif:event_loop()) -> py_nif:target().
on_loop(Loop) ->
    case get(?TARGET) of
        undefined -> Loop;
        _ -> {nested, Loop}
    end.

%% @doc The context this process is bound to.
-spec bound() -> py_nif:binding() | undefined.
bound() ->
    get(?BOUND).

%% @doc Binds the requests of this process to a context, or to none. The one it was bound to.
-spec bound(py_nif:binding() | undefined) -> py_nif:binding() | undefined.
bound(undefined) -> erase(?BOUND);
bound(Binding) -> put(?BOUND, Binding).

%% @doc Runs `Fun' with all requests of this process going to `Target'.
-spec nested(py_nif:target(), fun(() -> T)) -> T.
nested(Target, Fun) ->
    Before = put(?TARGET, Target),
    try
        Fun()
    after
        case Before of
            undefined -> erase(?TARGET);
            _ -> put(?TARGET, Before)
        end
    end.

-spec call(py_nif:target(), py_nif:op(), {term(), term()}, list(), map(), timeout()) -> result().
call(Target, Op, {Module, Function}, Args, Kwargs, Timeout) ->
    sync(Target, Op, Module, Function, Args, Kwargs, Timeout).

-spec eval(py_nif:target(), iodata(), map(), timeout()) -> result().
eval(Target, Code, Locals, Timeout) ->
    sync(Target, eval, py_name:code(Code), Locals, [], #{}, Timeout).

-spec exec(py_nif:target(), iodata(), timeout()) -> ok | {error, term()}.
exec(Target, Code, Timeout) ->
    case sync(Target, exec, py_name:code(Code), none, [], #{}, Timeout) of
        {ok, _} -> ok;
        {error, _} = Error -> Error
    end.

-spec cast(py_nif:target(), py_nif:op(), {term(), term()}, list(), map()) -> ok.
cast(Target, Op, {Module, Function}, Args, Kwargs) ->
    case py_nif:submit(Target, undefined, undefined, Op, Module, Function, Args, Kwargs) of
        {error, not_bound} -> error(context_not_bound);
        {error, Reason} -> logger:warning("py: a cast was refused: ~tp", [Reason]);
        _ -> ok
    end.

-spec task(py_nif:target(), atom(), py_nif:op(), {term(), term()}, list(), map()) -> py_nif:task().
task(Target, Tag, Op, Names, Args, Kwargs) ->
    case start(Target, Tag, Op, Names, Args, Kwargs) of
        {error, _} = Error -> refused(Tag, Error);
        {ok, Task} -> Task
    end.

%% @doc Likewise, with a refusal as the return value.
-spec start(py_nif:target(), atom(), py_nif:op(), {term(), term()}, list(), map()) -> {ok, py_nif:task()} | {error, term()}.
start(Target, Tag, Op, {Module, Function}, Args, Kwargs) ->
    case py_nif:task_start(Target, Tag, Op, Module, Function, Args, Kwargs) of
        {error, not_bound} -> error(context_not_bound);
        {error, _} = Error -> Error;
        Task -> {ok, Task}
    end.

%% @doc A task that is answered by its refusal.
-spec refused(atom(), {error, term()}) -> reference().
refused(Tag, Error) ->
    Ref = make_ref(),
    self() ! {Tag, Ref, Error},
    Ref.

%% @doc The answer to a task of this process.
-spec await(py_nif:task(), timeout()) -> result().
await(Task, Timeout) ->
    receive
        {py_response, Task, Result} -> Result;
        {async_result, Task, Result} -> Result
    after Timeout ->
        case py_nif:task_forget(Task) of
            true -> {error, timeout};
            false -> taken(Task)
        end
    end.

%% It is over, so its answer has been sent, unless it was taken before or belongs to somebody else.
taken(Task) ->
    receive
        {py_response, Task, Result} -> Result;
        {async_result, Task, Result} -> Result
    after 100 ->
        {error, timeout}
    end.

sync(Target, Op, A, B, C, D, Timeout) ->
    Ref = make_ref(),
    case look(py_nif:submit(Target, Ref, undefined, Op, A, B, C, D), 1) of
        Id when is_integer(Id) ->
            receive
                {Ref, Result} -> Result
            after min(Timeout, ?PATIENCE) ->
                wait_on(Ref, Id, Timeout)
            end;
        {ok, _} = Result ->
            Result;
        {error, not_bound} ->
            error(context_not_bound);
        {error, _} = Error ->
            Error
    end.

%% A short call is over when it is this process's turn again: then there is no message.
look(Id, Turn) when is_integer(Id), Id < 0 ->
    erlang:yield(),
    case py_nif:look(-Id, Turn) of
        again -> look(Id, Turn + 1);
        sent -> -Id;
        {ok, _} = Result -> Result
    end;
look(Submitted, _Turn) ->
    Submitted.

wait_on(Ref, Id, Timeout) when Timeout =< ?PATIENCE ->
    give_up(Ref, Id);
wait_on(Ref, Id, Timeout) ->
    case py_nif:wait(Id, Ref) of
        closed ->
            {error, closed};
        Waiter ->
            Result = receive
                         {Ref, Answer} -> Answer
                     after rest(Timeout) ->
                         give_up(Ref, Id)
                     end,
            ok = py_nif:wait_over(Waiter),
            Result
    end.

rest(infinity) -> infinity;
rest(Timeout) -> Timeout - ?PATIENCE.

give_up(Ref, Id) ->
    case py_nif:cancel(Id) of
        true -> {error, timeout};
        false -> receive {Ref, Result} -> Result end
    end.
