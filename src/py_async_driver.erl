%% @doc Coroutines whose results are sent as they come: `{py_result, Ref, Value}' or `{py_error, Ref, Reason}'.
%%
%% All of them run concurrently on the loop of {@link py_event_loop_proc}.
-module(py_async_driver).

-export([submit/4, submit/5]).

%% @equiv submit(Module, Function, Args, Kwargs, self())
-spec submit(py:name(), py:name(), [term()], py:kwargs()) -> {ok, py:ref()} | {error, term()}.
submit(Module, Function, Args, Kwargs) when is_list(Args), is_map(Kwargs) ->
    Names = {py_name:name(Module), py_name:name(Function)},
    case py_event_loop_proc:get_loop() of
        {ok, Loop} -> py_request:start(py_request:on_loop(Loop), py_result, task, Names, Args, Kwargs);
        {error, _} = Error -> Error
    end;
submit(Module, Function, Args, Kwargs) ->
    erlang:error(badarg, [Module, Function, Args, Kwargs]).

%% @doc Likewise, with `{py_result, Ref, Value}' or `{py_error, Ref, Reason}' sent to another process. Its death cancels the task.
-spec submit(py:name(), py:name(), [term()], py:kwargs(), pid()) -> {ok, reference()} | {error, term()}.
submit(Module, Function, Args, Kwargs, Caller) when Caller =:= self() ->
    submit(Module, Function, Args, Kwargs);
submit(Module, Function, Args, Kwargs, Caller) when is_list(Args), is_map(Kwargs), is_pid(Caller) ->
    {M, F} = {py_name:name(Module), py_name:name(Function)},
    Ref = make_ref(),
    case py_event_loop_proc:get_loop() of
        {ok, Loop} ->
            case py_nif:submit_result(Loop, Caller, Ref, M, F, Args, Kwargs) of
                ok -> {ok, Ref};
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            Error
    end;
submit(Module, Function, Args, Kwargs, Caller) ->
    erlang:error(badarg, [Module, Function, Args, Kwargs, Caller]).
