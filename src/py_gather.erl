%% @private
%% @doc Several tasks on one event loop, awaited together.
-module(py_gather).

-export([run/2]).

-type call() :: {py:name(), py:name(), [term()]} | {py:name(), py:name(), [term()], py:kwargs()}.

-spec run([call()], timeout()) -> {ok, [term()]} | {error, {gather_failed, [{pos_integer(), term()}]}}.
run(Calls, Timeout) ->
    Loop = py_event_loop_pool:get_loop(),
    %% All are looked at before any is begun.
    Deadline = deadline(Timeout),
    Refs = [py_loop:create_task(Loop, Module, Function, Args, Kwargs)
            || {Module, Function, Args, Kwargs} <- [whole(Call) || Call <- Calls]],
    Results = [py_request:await(Ref, left(Deadline)) || Ref <- Refs],
    case [{Index, Reason} || {Index, {error, Reason}} <- lists:zip(lists:seq(1, length(Results)), Results)] of
        [] -> {ok, [Value || {ok, Value} <- Results]};
        Failed -> {error, {gather_failed, Failed}}
    end.

whole({Module, Function, Args}) -> whole({Module, Function, Args, #{}});
whole({Module, Function, Args, Kwargs}) when is_list(Args), is_map(Kwargs) ->
    {py_name:name(Module), py_name:name(Function), Args, Kwargs};
whole(Call) -> erlang:error(badarg, [Call]).

deadline(infinity) -> infinity;
deadline(Timeout) -> erlang:monotonic_time(millisecond) + Timeout.

left(infinity) -> infinity;
left(Deadline) -> max(0, Deadline - erlang:monotonic_time(millisecond)).
