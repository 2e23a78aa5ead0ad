%%% Echoes served from inside the VM. The client is a process on another core, as for the loops outside.
-module(topic_tcp).

-export([run/2]).

-spec run(module(), #{atom() => term()}) -> [{string(), number()}].
run(Arm, Params) ->
    Self = self(),
    ok = py:register_function(bench_over, fun([]) -> Self ! {served, self()}, receive over -> none end end),
    Load = maps:with([size, conns, warm, millis], Params),
    Ref = Arm:host(echo, [self(), Load]),
    [Program | Args] = receive {<<"client">>, Command} -> Command end,
    Over = receive {served, Pid} -> Pid end,
    Port = open_port({spawn_executable, os:find_executable(binary_to_list(Program))}, [{args, Args}, binary, exit_status]),
    {ok, Numbers} = py:call(bench_loops, echoed, [said(Port, <<>>)]),
    Over ! over,
    none = Arm:await(Ref),
    bench_clock:numbers(Numbers).

said(Port, Said) ->
    receive
        {Port, {data, More}} -> said(Port, <<Said/binary, More/binary>>);
        {Port, {exit_status, 0}} -> Said;
        {Port, {exit_status, Code}} -> exit({client, Code, Said})
    end.
