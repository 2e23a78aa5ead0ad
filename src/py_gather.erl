%% @private
%% @doc Several calls at once, awaited together: on one event loop, or on contexts.
-module(py_gather).

-export([on_loop/2, at_once/3]).

-type call() :: {py:name(), py:name(), [term()]} | {py:name(), py:name(), [term()], py:kwargs()}.

-type failed() :: [{pos_integer(), term()}].

-spec on_loop([call()], timeout()) -> {ok, [term()]} | {error, {gather_failed, failed()}}.
on_loop(Calls, Timeout) ->
    Loop = py_event_loop_pool:get_loop(),
    Start = fun({Module, Function, Args, Kwargs}) -> py_loop:create_task(Loop, Module, Function, Args, Kwargs) end,
    all(Start, gather_failed, Calls, Timeout).

-spec at_once(py_nif:target(), [call()], timeout()) -> {ok, [term()]} | {error, {parallel_failed, failed()}}.
at_once(Target, Calls, Timeout) ->
    Start = fun({Module, Function, Args, Kwargs}) ->
                py_request:task(Target, py_response, call, {Module, Function}, Args, Kwargs)
            end,
    all(Start, parallel_failed, Calls, Timeout).

all(Start, Failure, Calls, Timeout) ->
    Deadline = deadline(Timeout),
    %% All are looked at before any is begun.
    Refs = [Start(Call) || Call <- [whole(Call) || Call <- Calls]],
    Results = [py_request:await(Ref, left(Deadline)) || Ref <- Refs],
    case [{Index, Reason} || {Index, {error, Reason}} <- lists:zip(lists:seq(1, length(Results)), Results)] of
        [] -> {ok, [Value || {ok, Value} <- Results]};
        Failed -> {error, {Failure, Failed}}
    end.

whole({Module, Function, Args}) -> whole({Module, Function, Args, #{}});
whole({Module, Function, Args, Kwargs}) when is_list(Args), is_map(Kwargs) ->
    {py_name:name(Module), py_name:name(Function), Args, Kwargs};
whole(Call) -> erlang:error(badarg, [Call]).

deadline(infinity) -> infinity;
deadline(Timeout) -> erlang:monotonic_time(millisecond) + Timeout.

left(infinity) -> infinity;
left(Deadline) -> max(0, Deadline - erlang:monotonic_time(millisecond)).
