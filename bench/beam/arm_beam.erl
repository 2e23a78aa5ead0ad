%%% Loops without a thread: the BEAM waits for them.
-module(arm_beam).

-export([start/0, host/2, await/1]).

-spec start() -> ok.
start() ->
    ok = application:set_env(erlang_python, event_loop_driver, beam, [{persistent, true}]),
    ok = arm_ours:start(),
    {ok, Tasks} = file:list_dir("/proc/self/task"),
    Names = [file:read_file("/proc/self/task/" ++ Task ++ "/comm") || Task <- Tasks],
    lists:member({ok, <<"py_loop\n">>}, Names) andalso exit({lacks, "has no such driver"}),
    ok.

-spec host(atom(), [term()]) -> py:ref().
host(Function, Args) -> arm_thread:host(Function, Args).

-spec await(py:ref()) -> term().
await(Ref) -> arm_thread:await(Ref).
