%%% Graphs of Python functions, written and run by Python inside the VM; `pydag` has the same for its peers.
-module(topic_nodes).

-export([run/2]).

-spec run(module(), #{kind := atom(), shape := atom(), atom() => term()}) -> [{string(), number()}].
run(_Arm, #{kind := Kind, shape := Shape} = Params) ->
    Args = [Kind, Shape, maps:get(nodes, Params, 1000), maps:get(runs, Params, 20)],
    case py_event_loop:run('pydag.nodes', inside, Args, #{timeout => infinity}) of
        {ok, Measured} -> bench_clock:numbers(Measured);
        {error, Why} -> exit(Why)
    end.
