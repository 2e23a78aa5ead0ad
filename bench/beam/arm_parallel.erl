%%% Ours, at the same time: `py:parallel`, on interpreters with a GIL each or without a GIL; two of them, for two cores.
-module(arm_parallel).

-export([start/0, at_once/1, call/3, make/0]).

-spec start() -> ok.
start() ->
    ok = application:load(erlang_python),
    _ = [ok = application:set_env(erlang_python, Key, 2) || Key <- [num_subinterp_workers, num_workers]],
    ok = arm_single:started(),
    py:execution_mode() =:= multi_executor andalso exit({lacks, "this Python has one GIL for all"}),
    ok.

-spec at_once([{module(), atom(), [term()]}]) -> [term()].
at_once(Calls) ->
    {ok, Values} = py:parallel(Calls, infinity),
    Values.

-spec call(module(), atom(), [term()]) -> term().
call(Module, Function, Args) ->
    {ok, Value} = py_subinterp_pool:call(Module, Function, Args),
    Value.

%% One interpreter more, with all that we put there.
-spec make() -> term().
make() ->
    py:execution_mode() =:= subinterp orelse exit({lacks, "makes no interpreters"}),
    Tag = make_ref(),
    {ok, Context} = py_nif:subinterp_start(Tag),
    receive
        {py_context, Tag, ready} -> Context
    after 60000 -> exit(no_interpreter)
    end.
