%% Graphs of work from Erlang: what is refused, what runs where, deadlines, fallbacks, fan-out, cancellation, Redis, pictures.
-module(py_dag_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([a_plan_runs_again_and_again/1,
         every_kind_of_node_has_its_value/1,
         arguments_come_in_the_order_of_the_inputs/1,
         what_is_wrong_with_a_plan_is_named/1,
         what_is_wrong_with_a_run_is_named/1,
         a_failing_node_is_named_and_other_runs_are_unharmed/1,
         failures_may_be_collected/1,
         draining_waits_for_what_has_begun/1,
         only_what_the_outputs_need_runs/1,
         a_timeout_stops_python_and_leaves_the_fallback/1,
         the_deadline_of_a_run_stops_it/1,
         a_region_has_one_time_for_all_its_nodes/1,
         a_map_keeps_its_limit_and_its_order/1,
         a_limit_is_shared_by_nodes/1,
         cancelling_stops_what_runs_and_what_waits/1,
         the_reason_of_a_cancel_is_in_the_result_of_who_waits/1,
         of_many_cancels_the_one_that_won_gives_the_reason/1,
         only_the_owner_may_await_and_only_once/1,
         the_owner_s_death_cancels_its_run/1,
         a_killed_process_is_a_failure_of_its_node/1,
         a_given_up_erlang_function_is_killed/1,
         nodes_run_in_interpreters_of_their_own_or_where_python_has_none_on_contexts/1,
         functions_in_interpreters_fail_expire_and_are_cancelled_like_others/1,
         events_come_in_order_and_before_the_end/1,
         large_values_cross/1,
         many_runs_at_a_time_do_not_mix/1,
         the_coroutines_of_a_run_share_a_loop_and_runs_take_loops_in_turn/1,
         plans_and_runs_can_be_drawn/1,
         python_writes_graphs_and_runs_them/1,
         python_is_told_what_is_wrong/1,
         a_run_that_python_cancels_is_cancelled/1,
         redis_commands_are_nodes/1,
         redis_nil_differs_from_empty/1,
         redis_errors_are_named/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start(),
    ok = py_test:module("work", "
import asyncio, threading, time
lock, now, most, seen = threading.Lock(), 0, 0, []

def add(*numbers):
    return sum(numbers)

def echo(*args, **kwargs):
    return [list(args), kwargs]

def fail(*args):
    raise ValueError('no')

def spin(*args):
    while True:
        pass

def object_(*args):
    return object()

async def later(*numbers):
    await asyncio.sleep(0.001)
    return sum(numbers)

async def where(*args):
    return id(asyncio.get_running_loop())

async def forever(*args):
    await asyncio.sleep(3600)

async def counted(item, *others):
    global now, most
    with lock:
        now += 1
        most = max(most, now)
    await asyncio.sleep(0.002)
    with lock:
        now -= 1
    return item * 10

def mark(name, *args):
    with lock:
        seen.append(name)
    return name

def marks():
    with lock:
        taken = sorted(seen)
        seen.clear()
    return taken

def the_most():
    global most
    before, most = most, 0
    return before
"),
    ok = py_test:module("graphs", "
import asyncio, math
from erlang.dag import DagError, Graph, node

@node
def square(number):
    return number * number

@node(timeout=0.01, fallback='fallback')
async def slow():
    await asyncio.sleep(3600)

async def one():
    return 1

def bad():
    return 1 / 0

def total(*numbers):
    return sum(numbers)

async def whole(number, path):
    graph = Graph(redis={'path': path})
    given, items = graph.input('number'), graph.input('items')
    squared = graph.add(square, given)
    doubled = graph.erl('doubled', 'py_dag_double', given)
    graph.add(slow)
    graph.add(square, items, name='each', map=2)
    graph.redis('stored', 'SET', 'a key', squared)
    graph.add(total, graph.add(one), squared, name='total')
    first = await graph.run(number=1, items=[])
    values = await graph.run(number=number, items=[1, 2, 3])
    assert first['total'] == 2 and first['doubled'] == 2 and values['doubled'] == 2 * number
    return values

async def partly(number):
    graph = Graph()
    squared = graph.add(square, graph.input('number'))
    graph.add(bad)
    return await graph.run(number=number, outputs=[squared])

async def missing():
    graph = Graph()
    graph.add(square, 'nowhere')
    try:
        await graph.run()
    except DagError as error:
        return error.reason

async def failing():
    graph = Graph()
    graph.add(bad)
    try:
        await graph.run(deadline=60)
    except DagError as error:
        return error.reason

async def apart(number):
    graph = Graph()
    graph.add(math.sqrt, graph.input('number'), on='subinterp')
    return await graph.run(number=number)

async def not_importable():
    Graph().add(lambda: 1, on='subinterp')

async def endless():
    graph = Graph()
    graph.add(forever)
    return await graph.run()

async def forever():
    await asyncio.sleep(3600)
"),
    Folder = filename:join("/tmp", "py_dag_" ++ os:getpid()),
    ok = filelib:ensure_dir(filename:join(Folder, "x")),
    Path = filename:join(Folder, "redis"),
    Redis = open_port({spawn_executable, os:find_executable("redis-server")},
                      [{args, ["--port", "0", "--unixsocket", Path, "--save", "", "--appendonly", "no", "--dir", Folder]}, exit_status, binary]),
    py_test:wait_until(fun() -> element(1, file:read_file_info(Path)) =:= ok end),
    {os_pid, Pid} = erlang:port_info(Redis, os_pid),
    true = unlink(Redis),
    [{redis, #{path => Path}}, {redis_pid, Pid}, {folder, Folder} | Config].

end_per_suite(Config) ->
    os:cmd("kill " ++ integer_to_list(proplists:get_value(redis_pid, Config))),
    _ = file:del_dir_r(proplists:get_value(folder, Config)),
    py_test:stop().

cpu(Name, Function, Inputs) -> #{name => Name, kind => cpu, call => {work, Function}, inputs => Inputs}.
async(Name, Function, Inputs) -> (cpu(Name, Function, Inputs))#{kind => async}.
erl(Name, Function, Inputs) -> #{name => Name, kind => erl, function => Function, inputs => Inputs}.
input(Name) -> #{name => Name, kind => input}.

compiled(Nodes) -> compiled(Nodes, #{}).
compiled(Nodes, More) ->
    {ok, Plan} = py_dag:compile(More#{nodes => Nodes}),
    Plan.

a_plan_runs_again_and_again(_Config) ->
    Plan = compiled([input(a), cpu(b, add, [a]), async(c, later, [a, b]), erl(d, fun lists:sum/1, [b, c])]),
    [begin
         D = N + 2 * N,
         {ok, #{d := D}} = py_dag:run(Plan, #{a => N})
     end || N <- lists:seq(1, 50)].

every_kind_of_node_has_its_value(_Config) ->
    Plan = compiled([input(<<"a">>), (cpu("b", echo, [<<"a">>]))#{kwargs => #{k => 1}}, async(c, later, []), erl(d, fun([]) -> {x, [y]} end, [])]),
    {ok, Values} = py_dag:run(Plan, #{a => #{deep => [1, 2.5]}}),
    #{"b" := [[#{<<"deep">> := [1, 2.5]}], #{<<"k">> := 1}], c := 0, d := {x, [y]}} = Values,
    3 = map_size(Values).

arguments_come_in_the_order_of_the_inputs(_Config) ->
    Plan = compiled([input(a), input(b), input(c), cpu(out, echo, [c, a, b, a])]),
    {ok, #{out := [[3, 1, 2, 1], #{}]}} = py_dag:run(Plan, #{a => 1, b => 2, c => 3}).

what_is_wrong_with_a_plan_is_named(_Config) ->
    Wrong = [{{duplicate_node, a}, [input(a), input(a)]},
             {{missing_input, b, <<"x">>}, [cpu(b, add, [x])]},
             {{unknown_kind, a, magic}, [#{name => a, kind => magic}]},
             {{bad_node, a, {needs, call}}, [#{name => a, kind => cpu}]},
             {{bad_node, a, {needs, function}}, [#{name => a, kind => erl, function => fun() -> 1 end}]},
             {{bad_node, a, {timeout, -1}}, [(cpu(a, add, []))#{timeout => -1}]},
             {{bad_node, a, {map, 0}}, [(cpu(a, add, []))#{map => 0}]},
             {{bad_node, a, {region, nowhere}}, [(cpu(a, add, []))#{region => nowhere}]},
             {{bad_node, a, {limit, none_such}}, [(cpu(a, add, []))#{limit => none_such}]},
             {{bad_node, a, {unknown_options, [colour]}}, [(cpu(a, add, []))#{colour => red}]},
             {{bad_node, a, {server, none}}, [#{name => a, kind => redis, command => [<<"PING">>]}]},
             {{bad_node, #{}, {needs, [name, kind]}}, [#{}]}],
    [{Reason, {error, Reason}} = {Reason, py_dag:compile(#{nodes => Nodes})} || {Reason, Nodes} <- Wrong],
    {error, {cycle, Circle}} = py_dag:compile(#{nodes => [cpu(a, add, [c]), cpu(b, add, [a]), cpu(c, add, [b]), cpu(d, add, [])]}),
    [a, b, c] = lists:sort(Circle),
    {error, {bad_plan, nothing}} = py_dag:compile(nothing),
    {error, {unknown_options, [knots]}} = py_dag:compile(#{nodes => [], knots => 1}).

what_is_wrong_with_a_run_is_named(_Config) ->
    Plan = compiled([input(a), cpu(b, add, [a])]),
    {error, {input_not_given, a}} = py_dag:run(Plan, #{}),
    {error, {not_an_input, b}} = py_dag:run(Plan, #{a => 1, b => 2}),
    {error, {unknown_node, <<"x">>}} = py_dag:run(Plan, #{a => 1, x => 2}),
    {error, {unknown_node, <<"x">>}} = py_dag:run(Plan, #{a => 1}, #{outputs => [x]}),
    {error, {bad_option, {mode, slow}}} = py_dag:run(Plan, #{a => 1}, #{mode => slow}),
    {error, {unknown_options, [knots]}} = py_dag:run(Plan, #{a => 1}, #{knots => 1}),
    ?assertError(badarg, py_dag:run(make_ref(), #{})),
    {ok, #{b := 1}} = py_dag:run(Plan, #{a => 1}).

a_failing_node_is_named_and_other_runs_are_unharmed(_Config) ->
    Failing = [{{'ValueError', <<"no">>}, cpu(bad, fail, [a])},
               {{unconvertible, <<"object">>}, cpu(bad, object_, [a])},
               {{'AttributeError', any}, cpu(bad, nowhere, [a])},
               {{error, badarith}, erl(bad, fun([A]) -> A / 0 end, [a])},
               {{throw, ball}, erl(bad, fun(_) -> throw(ball) end, [a])}],
    Good = compiled([input(a), async(b, later, [a])]),
    {ok, Run} = py_dag:start(Good, #{a => 7}),
    [begin
         {error, {node_failed, bad, Reason}} = py_dag:run(compiled([input(a), Node, cpu(after_it, add, [bad])]), #{a => 1}),
         case Wanted of
             {Class, any} -> Class = element(1, Reason);
             _ -> Wanted = Reason
         end
     end || {Wanted, Node} <- Failing],
    {ok, #{b := 7}} = py_dag:await(Run).

failures_may_be_collected(_Config) ->
    Plan = compiled([input(a), cpu(good, add, [a]), cpu(bad, fail, [a]), cpu(below, add, [bad])]),
    {ok, #{good := {ok, 1}, below := {error, {no_input, bad}}}} = py_dag:run(Plan, #{a => 1}, #{mode => collect}).

draining_waits_for_what_has_begun(_Config) ->
    Self = self(),
    Slow = fun([]) -> Self ! {slow, self()}, receive go -> Self ! finished end end,
    Bad = fun([]) -> receive after infinity -> ok end end,
    Plan = compiled([erl(slow, Slow, []), (erl(bad, Bad, []))#{timeout => 20}]),
    {ok, Run} = py_dag:start(Plan, #{}, #{mode => drain, events => true}),
    Pid = receive {slow, P} -> P end,
    receive {py_dag, Run, {timeout, bad, _}} -> ok end,
    receive {py_dag, Run, {done, _}} -> error(too_early) after 50 -> ok end,
    Pid ! go,
    receive finished -> ok end,
    {error, {node_failed, bad, timeout}} = py_dag:await(Run).

only_what_the_outputs_need_runs(_Config) ->
    Plan = compiled([input(a), input(b),
                     erl(left, fun([A]) -> {ok, _} = py:call(work, mark, [left]), A end, [a]),
                     erl(right, fun([B]) -> {ok, _} = py:call(work, mark, [right]), B end, [b]),
                     erl(both, fun([A, B]) -> A + B end, [left, right])]),
    {ok, #{left := 1}} = py_dag:run(Plan, #{a => 1, b => 2}, #{outputs => [left]}),
    {ok, [<<"left">>]} = py:call(work, marks, []),
    {ok, #{left := 1}} = py_dag:run(Plan, #{a => 1}, #{outputs => [left]}),
    {ok, [<<"left">>]} = py:call(work, marks, []),
    {ok, #{both := 3}} = py_dag:run(Plan, #{a => 1, b => 2}),
    {ok, [<<"left">>, <<"right">>]} = py:call(work, marks, []).

a_timeout_stops_python_and_leaves_the_fallback(_Config) ->
    #{interrupted := Before} = py:stats(),
    Plan = compiled([(cpu(spins, spin, []))#{timeout => 30, fallback => 5}, (async(waits, forever, []))#{timeout => 30, fallback => 6},
                     cpu(out, add, [spins, waits])]),
    {ok, #{out := 11}} = py_dag:run(Plan, #{}),
    py_test:wait_until(fun() -> maps:get(interrupted, py:stats()) > Before end),
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py:stats()) =:= 0 end),
    [{ok, 4} = py:eval("2 + 2") || _ <- lists:seq(1, 8)].

the_deadline_of_a_run_stops_it(_Config) ->
    Plan = compiled([async(waits, forever, []), cpu(spins, spin, [])]),
    {error, timeout} = py_dag:run(Plan, #{}, #{deadline => 30}),
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py:stats()) =:= 0 end),
    [{ok, 4} = py:eval("2 + 2") || _ <- lists:seq(1, 8)].

a_region_has_one_time_for_all_its_nodes(_Config) ->
    Node = fun(Node) -> Node#{region => slow, fallback => late} end,
    Plan = compiled([Node(async(a, forever, [])), Node(async(b, forever, [])), erl(out, fun(Values) -> Values end, [a, b])],
                    #{regions => #{slow => 30}}),
    {ok, #{out := [late, late]}} = py_dag:run(Plan, #{}).

a_map_keeps_its_limit_and_its_order(_Config) ->
    {ok, _} = py:call(work, the_most, []),
    Plan = compiled([input(items), input(other), (async(each, counted, [items, other]))#{map => 3}]),
    {ok, #{each := Values}} = py_dag:run(Plan, #{items => lists:seq(1, 30), other => x}),
    Values = [N * 10 || N <- lists:seq(1, 30)],
    {ok, 3} = py:call(work, the_most, []),
    {ok, #{each := []}} = py_dag:run(Plan, #{items => [], other => x}),
    {error, {node_failed, each, not_a_list}} = py_dag:run(Plan, #{items => 5, other => x}),
    Erlang = compiled([input(items), (erl(each, fun([N]) -> N * N end, [items]))#{map => 4}]),
    {ok, #{each := [1, 4, 9]}} = py_dag:run(Erlang, #{items => [1, 2, 3]}).

a_limit_is_shared_by_nodes(_Config) ->
    {ok, _} = py:call(work, the_most, []),
    Nodes = [(async("n" ++ integer_to_list(N), counted, [a]))#{limit => two} || N <- lists:seq(1, 20)],
    Plan = compiled([input(a) | Nodes], #{limits => #{two => 2}}),
    {ok, Values} = py_dag:run(Plan, #{a => 1}),
    20 = map_size(Values),
    {ok, 2} = py:call(work, the_most, []).

cancelling_stops_what_runs_and_what_waits(_Config) ->
    Plan = compiled([async(waits, forever, []), cpu(spins, spin, []), cpu(never, mark, [spins])]),
    {ok, Run} = py_dag:start(Plan, #{}, #{events => true}),
    [receive {py_dag, Run, {started, Node, _}} -> ok end || Node <- [waits, spins]],
    true = py_dag:cancel(Run),
    false = py_dag:cancel(Run, too_late),
    {error, cancelled} = py_dag:await(Run),
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py:stats()) =:= 0 end),
    [{ok, 4} = py:eval("2 + 2") || _ <- lists:seq(1, 8)],
    {ok, []} = py:call(work, marks, []),
    %% And who gives up waiting.
    {ok, Again} = py_dag:start(Plan, #{}),
    {error, timeout} = py_dag:await(Again, 20),
    receive {py_dag, Again, _} = Late -> error(Late) after 50 -> ok end.

the_reason_of_a_cancel_is_in_the_result_of_who_waits(_Config) ->
    Plan = compiled([async(waits, forever, [])]),
    [begin
         {ok, Run} = py_dag:start(Plan, #{}, #{events => true, mode => Mode}),
         receive {py_dag, Run, {started, waits, _}} -> ok end,
         true = py_dag:cancel(Run, Reason),
         Wanted = {error, {cancelled, Reason}},
         Wanted = py_dag:await(Run),
         receive {py_dag, Run, {cancelled, waits, _}} -> ok end
     end || Reason <- [because, {shutdown, [<<"a">>, 1.5, self()]}, binary:copy(<<"x">>, 100000)], Mode <- [fail_fast, drain, collect]].

of_many_cancels_the_one_that_won_gives_the_reason(_Config) ->
    Plan = compiled([erl(waits, fun([]) -> receive after infinity -> ok end end, [])]),
    Self = self(),
    [begin
         {ok, Run} = py_dag:start(Plan, #{}),
         Racers = [spawn(fun() -> Self ! {self(), py_dag:cancel(Run, N)} end) || N <- lists:seq(1, 4)],
         Won = [receive {Racer, Answer} -> Answer end || Racer <- Racers],
         [Winner] = [N || {N, true} <- lists:zip(lists:seq(1, 4), Won)],
         {error, {cancelled, Winner}} = py_dag:await(Run)
     end || _ <- lists:seq(1, 100)].

only_the_owner_may_await_and_only_once(_Config) ->
    Plan = compiled([input(a), cpu(b, add, [a])]),
    {ok, Run} = py_dag:start(Plan, #{a => 1}),
    Self = self(),
    Other = spawn_link(fun() -> Self ! {self(), [py_dag:await(Run, Time) || Time <- [0, 10, infinity]]} end),
    receive {Other, Answers} -> [{error, not_owner}, {error, not_owner}, {error, not_owner}] = Answers end,
    {ok, #{b := 1}} = py_dag:await(Run),
    [{error, already_awaited} = py_dag:await(Run, Time) || Time <- [0, 10, infinity]],
    %% A result that came before its owner asked is there.
    {ok, Done} = py_dag:start(Plan, #{a => 2}),
    py_test:wait_until(fun() -> py_nif:graph_state(Done) =:= done end),
    {ok, #{b := 2}} = py_dag:await(Done, 0),
    %% And one that was given to another process is that one's.
    Owner = spawn_link(fun() -> receive {await, Mine} -> Self ! {self(), py_dag:await(Mine, infinity)} end end),
    {ok, Given} = py_dag:start(Plan, #{a => 3}, #{owner => Owner}),
    {error, not_owner} = py_dag:await(Given, 10),
    Owner ! {await, Given},
    receive {Owner, Answer} -> {ok, #{b := 3}} = Answer end.

the_owner_s_death_cancels_its_run(_Config) ->
    Plan = compiled([async(waits, forever, [])]),
    {Owner, Monitor} = spawn_monitor(fun() -> py_dag:run(Plan, #{}) end),
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py:stats()) =:= 1 end),
    exit(Owner, kill),
    receive {'DOWN', Monitor, process, Owner, killed} -> ok end,
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py:stats()) =:= 0 end).

a_killed_process_is_a_failure_of_its_node(_Config) ->
    Plan = compiled([erl(dies, fun([]) -> exit(self(), kill) end, [])]),
    {error, {node_failed, dies, killed}} = py_dag:run(Plan, #{}).

a_given_up_erlang_function_is_killed(_Config) ->
    Self = self(),
    Plan = compiled([(erl(waits, fun([]) -> Self ! {pid, self()}, receive after infinity -> ok end end, []))#{timeout => 50}]),
    {ok, Run} = py_dag:start(Plan, #{}),
    Pid = receive {pid, P} -> P end,
    Monitor = monitor(process, Pid),
    {error, {node_failed, waits, timeout}} = py_dag:await(Run),
    receive {'DOWN', Monitor, process, Pid, Reason} -> true = lists:member(Reason, [killed, noproc]) end.

nodes_run_in_interpreters_of_their_own_or_where_python_has_none_on_contexts(_Config) ->
    Whose = "getattr(__import__('sys'), 'py_dag_whose', 'other')",
    ok = py:exec("import sys; sys.py_dag_whose = 'main'"),
    {ok, #{there := There}} = py_dag:run(compiled([input(code), input(globals), #{name => there, kind => cpu, on => subinterp, call => {builtins, eval}, inputs => [code, globals]}]),
                                         #{code => unicode:characters_to_binary(Whose), globals => #{}}),
    ok = py:exec("import sys; del sys.py_dag_whose"),
    Wanted = case py:execution_mode() of
                 subinterp -> <<"other">>;
                 _ -> <<"main">>
             end,
    Wanted = There,
    %% Two that wait for each other are both served, wherever they run; a map of many comes back in order.
    Host = spawn_link(fun() -> receive {come, A} -> receive {come, B} -> [Guest ! met || Guest <- [A, B]] end end end),
    ok = py:register_function(py_dag_meet, fun([]) -> Host ! {come, self()}, receive met -> true end end),
    Meet = fun(Name) -> #{name => Name, kind => cpu, on => subinterp, call => {erlang, py_dag_meet}} end,
    {ok, #{a := true, b := true}} = py_dag:run(compiled([Meet(a), Meet(b)]), #{}),
    ok = py:unregister_function(py_dag_meet),
    Map = compiled([input(items), #{name => each, kind => cpu, on => subinterp, call => {math, sqrt}, inputs => [items], map => 3},
                    erl(sum, fun([Roots]) -> lists:sum(Roots) end, [each])]),
    {ok, #{sum := 55.0}} = py_dag:run(Map, #{items => [N * N || N <- lists:seq(1, 10)]}),
    {error, {bad_node, bad, {on, moon}}} = py_dag:compile(#{nodes => [(cpu(bad, add, []))#{on => moon}]}),
    {error, {bad_node, bad, {on, subinterp}}} = py_dag:compile(#{nodes => [(async(bad, later, []))#{on => subinterp}]}),
    {ok, #{<<"sqrt">> := 4.0}} = py_event_loop:run(graphs, apart, [16], #{timeout => 60000}),
    {error, {'TypeError', _}} = py_event_loop:run(graphs, not_importable, [], #{timeout => 60000}).

functions_in_interpreters_fail_expire_and_are_cancelled_like_others(_Config) ->
    Node = fun(Name, Module, Function) -> #{name => Name, kind => cpu, on => subinterp, call => {Module, Function}, inputs => [a]} end,
    {error, {node_failed, bad, {'ValueError', _}}} = py_dag:run(compiled([input(a), Node(bad, math, sqrt)]), #{a => -1}),
    {error, {node_failed, bad, {unconvertible, _}}} = py_dag:run(compiled([input(a), Node(bad, builtins, iter)]), #{a => [1]}),
    Spin = <<"[None for _ in iter(int, 1)]">>,
    Spins = (Node(spins, builtins, eval))#{inputs => [a, globals]},
    Plan = compiled([input(a), input(globals), Spins#{timeout => 50, fallback => late}]),
    {ok, #{spins := late}} = py_dag:run(Plan, #{a => Spin, globals => #{}}),
    {ok, Run} = py_dag:start(compiled([input(a), input(globals), Spins]), #{a => Spin, globals => #{}}, #{events => true}),
    receive {py_dag, Run, {started, spins, _}} -> ok end,
    true = py_dag:cancel(Run, enough),
    {error, {cancelled, enough}} = py_dag:await(Run),
    %% Whoever spun is free again.
    [{ok, #{root := 2.0}} = py_dag:run(compiled([input(a), Node(root, math, sqrt)]), #{a => 4}) || _ <- lists:seq(1, 8)].

events_come_in_order_and_before_the_end(_Config) ->
    Plan = compiled([input(a), cpu(b, add, [a]), erl(c, fun([N]) -> N end, [b])]),
    Next = fun(Run) -> receive {py_dag, Run, {done, Result}} -> Result; {py_dag, Run, {What, Node, _At}} -> {What, Node} end end,
    [begin
         {ok, Run} = py_dag:start(Plan, #{a => N}, #{events => true}),
         [{started, b}, {finished, b}, {started, c}, {finished, c}, {ok, #{c := N}}] =
             (fun All() -> case Next(Run) of {_, a} -> All(); {ok, _} = Result -> [Result]; Event -> [Event | All()] end end)()
     end || N <- lists:seq(1, 200)].

large_values_cross(_Config) ->
    Large = lists:seq(1, 200000),
    Plan = compiled([input(a), cpu(b, echo, [a]), erl(c, fun([[[List], _]]) -> length(List) end, [b])]),
    {ok, #{c := 200000}} = py_dag:run(Plan, #{a => Large}).

many_runs_at_a_time_do_not_mix(_Config) ->
    Plan = compiled([input(a), cpu(b, add, [a]), async(c, later, [a, b]), erl(d, fun([B, C]) -> {B, C} end, [b, c])]),
    Runs = [begin {ok, Run} = py_dag:start(Plan, #{a => N}), {N, Run} end || N <- lists:seq(1, 300)],
    [begin C = 2 * N, {ok, #{d := {N, C}}} = py_dag:await(Run) end || {N, Run} <- Runs].

the_coroutines_of_a_run_share_a_loop_and_runs_take_loops_in_turn(_Config) ->
    Plan = compiled([async(a, where, []), async(b, where, [a]), async(c, where, [a]), async(d, where, [b, c]),
                     cpu(e, echo, [d]), async(f, where, [e]),
                     erl(all, fun(Loops) -> lists:usort(Loops) end, [a, b, c, d, f])]),
    Loops = [begin {ok, #{all := [Loop]}} = py_dag:run(Plan, #{}), Loop end || _ <- lists:seq(1, 20)],
    true = length(lists:usort(Loops)) > 1.

plans_and_runs_can_be_drawn(_Config) ->
    Plan = compiled([input(a), cpu(b, add, [a]), erl(c, fun([N]) -> N end, [b])]),
    Dot = py_dag:dot(Plan),
    {_, _} = binary:match(Dot, <<"digraph">>),
    {ok, Run} = py_dag:start(Plan, #{a => 1}, #{record => true}),
    {ok, _} = py_dag:await(Run),
    {ok, Trace} = py:call(json, loads, [py_dag:trace(Run)]),
    true = is_list(Trace) orelse is_map(Trace),
    {_, _} = binary:match(py_dag:svg(Run), <<"<svg">>),
    {ok, Bare} = py_dag:start(Plan, #{a => 1}),
    {ok, _} = py_dag:await(Bare),
    undefined = py_dag:trace(Bare).

python_writes_graphs_and_runs_them(Config) ->
    py:register_function(py_dag_double, fun([N]) -> 2 * N end),
    #{path := Path} = proplists:get_value(redis, Config),
    {ok, Values} = py_event_loop:run(graphs, whole, [5, Path], #{timeout => 60000}),
    #{<<"total">> := 26, <<"stored">> := <<"OK">>, <<"each">> := [1, 4, 9], <<"slow">> := <<"fallback">>} = Values,
    {ok, Partial} = py_event_loop:run(graphs, partly, [5], #{timeout => 60000}),
    #{<<"square">> := 25} = Partial,
    1 = map_size(Partial).

python_is_told_what_is_wrong(_Config) ->
    {ok, {<<"missing_input">>, <<"square">>, <<"nowhere">>}} = py_event_loop:run(graphs, missing, [], #{timeout => 60000}),
    {ok, {<<"node_failed">>, <<"bad">>, {<<"ZeroDivisionError">>, _}}} = py_event_loop:run(graphs, failing, [], #{timeout => 60000}),
    {error, {'TypeError', _}} = py:eval("__import__('erlang').dag.node(colour='red')").

a_run_that_python_cancels_is_cancelled(_Config) ->
    Ref = py:async_call(graphs, endless, []),
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py:stats()) =:= 2 end),
    _ = py:cancel(Ref),
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py:stats()) =:= 0 end).

redis_commands_are_nodes(Config) ->
    Redis = proplists:get_value(redis, Config),
    Plan = compiled([input(key), input(members),
                     #{name => added, kind => redis, command => [<<"SADD">>, {input, key}, {input, members}]},
                     #{name => size, kind => redis, command => [<<"SCARD">>, {input, key}], inputs => [key, added]},
                     #{name => stored, kind => redis, command => [<<"SET">>, {input, members}, 1], map => 10}],
                    #{redis => Redis}),
    {ok, #{size := 3, stored := [<<"OK">>, <<"OK">>, <<"OK">>]}} = py_dag:run(Plan, #{key => <<"a set">>, members => [x, <<"y">>, 5]}).

redis_nil_differs_from_empty(Config) ->
    Node = fun(Name, Command, Inputs) -> #{name => Name, kind => redis, command => Command, inputs => Inputs, server => main} end,
    Plan = compiled([Node(set, [<<"SET">>, <<"empty">>, <<>>], []), Node(empty, [<<"GET">>, <<"empty">>], [set]),
                     Node(nothing, [<<"GET">>, <<"no such key">>], [])],
                    #{redis => #{main => proplists:get_value(redis, Config)}}),
    {ok, #{empty := <<>>, nothing := none}} = py_dag:run(Plan, #{}).

redis_errors_are_named(Config) ->
    Plan = compiled([#{name => wrong, kind => redis, command => [<<"NOSUCH">>]}], #{redis => proplists:get_value(redis, Config)}),
    {error, {node_failed, wrong, {redis, Text}}} = py_dag:run(Plan, #{}),
    {_, _} = binary:match(Text, <<"unknown command">>),
    Away = compiled([#{name => away, kind => redis, command => [<<"PING">>]}], #{redis => #{path => "/tmp/no-such-socket"}}),
    {error, {node_failed, away, {redis, _}}} = py_dag:run(Away, #{}).
