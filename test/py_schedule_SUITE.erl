%% Chains of steps: schedule, schedule_py, schedule_inline, and time slices.
-module(py_schedule_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([seed_schedule_continues_by_an_erlang_callback/1,
         seed_schedule_py_continues_by_a_python_function/1,
         seed_schedule_inline_processes_in_chunks/1,
         seed_consume_time_slice_and_reschedule/1,
         seed_a_cooperative_task_in_batches/1,
         seed_a_marker_counts_only_when_it_is_returned/1,
         seed_a_marker_propagates_from_an_inner_function/1,
         a_marker_within_a_value_is_refused_by_name/1,
         a_marker_of_an_expression_counts/1,
         a_failing_callback_is_the_answer/1,
         a_dying_callback_is_the_answer/1,
         an_exception_in_a_step_is_the_answer/1,
         bad_arguments_are_refused_where_they_are_given/1,
         arguments_of_a_python_step_keep_their_identity/1,
         names_are_resolved_in_the_callers_globals/1,
         a_local_function_is_found/1,
         a_chain_keeps_the_namespace_of_its_context/1,
         a_chain_ends_by_reference_too/1,
         casts_are_followed/1,
         inline_steps_send_no_message/1,
         d2_a_scheduled_callback_nests_on_one_context/1,
         an_endless_chain_is_fair_to_others/1,
         a_timeout_covers_the_whole_chain/1,
         a_dead_caller_ends_its_chain/1,
         a_cancelled_chain_ends/1,
         a_time_slice_is_accounted/1,
         a_time_slice_outside_of_its_range_is_refused/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 2}]),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) ->
    {messages, []} = process_info(self(), messages),
    {ok, 4.0} = py:call(math, sqrt, [16.0]),
    ok.

%% Defines the same in every context.
define(Code) ->
    [ok = Result || Result <- py_pool:broadcast(["import erlang\n", Code])],
    ok.

seed_schedule_continues_by_an_erlang_callback(_Config) ->
    ok = py_callback:register(<<"compute">>, fun([X]) -> X * 2 end),
    ok = define("def handler(x):\n"
                "    # Returns ScheduleMarker - MUST be returned from handler\n"
                "    return erlang.schedule('compute', x)\n"
                "    # Nothing after this executes - Erlang callback continues\n"),
    {ok, 10} = py:call('__main__', 'handler', [5]),
    ok = py_callback:unregister(<<"compute">>).

seed_schedule_py_continues_by_a_python_function(_Config) ->
    ok = define("def compute(x, multiplier=2):\n"
                "    return x * multiplier\n"
                "\n"
                "def handler(x):\n"
                "    # Schedule Python function - releases dirty scheduler\n"
                "    return erlang.schedule_py('__main__', 'compute', [x], {'multiplier': 3})\n"),
    {ok, 15} = py:call('__main__', handler, [5]).

seed_schedule_inline_processes_in_chunks(_Config) ->
    ok = define("def transform(x):\n    return x + 1\n"
                "def process_chunk(data, offset=0, results=None):\n"
                "    \"\"\"Process data in chunks with inline continuations.\"\"\"\n"
                "    if results is None:\n"
                "        results = []\n"
                "\n"
                "    chunk_end = min(offset + 100, len(data))\n"
                "    for i in range(offset, chunk_end):\n"
                "        results.append(transform(data[i]))\n"
                "\n"
                "    if chunk_end < len(data):\n"
                "        # Continue inline - no Erlang messaging overhead\n"
                "        return erlang.schedule_inline(\n"
                "            '__main__', 'process_chunk',\n"
                "            args=[data, chunk_end, results]\n"
                "        )\n"
                "\n"
                "    return results\n"),
    Wanted = lists:seq(2, 1001),
    {ok, Wanted} = py:call('__main__', process_chunk, [lists:seq(1, 1000)]).

seed_consume_time_slice_and_reschedule(_Config) ->
    ok = define("def process(x):\n    return x\n"
                "steps = 0\n"
                "def long_computation(items, start_idx=0):\n"
                "    global steps\n"
                "    steps += 1\n"
                "    results = []\n"
                "    for i in range(start_idx, len(items)):\n"
                "        results.append(process(items[i]))\n"
                "\n"
                "        # Check if we should yield (1% of time slice per iteration)\n"
                "        if erlang.consume_time_slice(1):\n"
                "            # Time slice exhausted - save progress and reschedule\n"
                "            return erlang.schedule_py(\n"
                "                '__main__', 'long_computation',\n"
                "                [items], {'start_idx': i + 1}\n"
                "            )\n"
                "\n"
                "    return results\n"
                "def total():\n    return steps\n"),
    %% 250 items are two whole slices and a half.
    Rest = lists:seq(201, 250),
    {ok, Rest} = py:call('__main__', long_computation, [lists:seq(1, 250)]),
    Totals = [begin {ok, N} = py_request:eval(Context, "steps", #{}, 5000), N end || {_, _, Context} <- py_pool:contexts()],
    3 = lists:sum(Totals).

seed_a_cooperative_task_in_batches(_Config) ->
    ok = define("done = []\n"
                "def expensive_operation(x):\n    done.append(x)\n"
                "def process_batch(items, batch_size=100, offset=0):\n"
                "    \"\"\"Process items in batches, yielding between batches.\"\"\"\n"
                "    end = min(offset + batch_size, len(items))\n"
                "\n"
                "    # Process this batch\n"
                "    for i in range(offset, end):\n"
                "        expensive_operation(items[i])\n"
                "\n"
                "    if end < len(items):\n"
                "        # More work to do - yield and continue\n"
                "        return erlang.schedule_py(\n"
                "            '__main__', 'process_batch',\n"
                "            [items], {'batch_size': batch_size, 'offset': end}\n"
                "        )\n"
                "\n"
                "    return 'done'\n"),
    {ok, <<"done">>} = py:call('__main__', process_batch, [lists:seq(1, 1000)]).

seed_a_marker_counts_only_when_it_is_returned(_Config) ->
    Self = self(),
    ok = py:register_function(callback, fun([X]) -> Self ! {called, X}, X end),
    ok = define("arg = 7\n"
                "def wrong():\n"
                "    erlang.schedule('callback', arg)  # No effect!\n"
                "    return \"oops\"  # This is returned instead\n"
                "\n"
                "def correct():\n"
                "    return erlang.schedule('callback', arg)  # Works\n"),
    {ok, <<"oops">>} = py:call('__main__', wrong, []),
    {ok, 7} = py:call('__main__', correct, []),
    receive {called, 7} -> ok after 0 -> error(not_called) end,
    receive {called, _} -> error(called_twice) after 0 -> ok end,
    ok = py:unregister_function(callback).

seed_a_marker_propagates_from_an_inner_function(_Config) ->
    ok = py:register_function(callback, fun([X]) -> X end),
    ok = define("arg = 8\n"
                "def outer():\n"
                "    def inner():\n"
                "        return erlang.schedule('callback', arg)\n"
                "    return inner()  # Works - marker propagates up\n"
                "\n"
                "def broken():\n"
                "    def inner():\n"
                "        erlang.schedule('callback', arg)  # Wrong - not returned\n"
                "    inner()\n"
                "    return \"oops\"\n"),
    {ok, 8} = py:call('__main__', outer, []),
    {ok, <<"oops">>} = py:call('__main__', broken, []),
    ok = py:unregister_function(callback).

a_marker_within_a_value_is_refused_by_name(_Config) ->
    {error, {unconvertible, <<"ScheduleMarker">>}} = py:eval("[__import__('erlang').schedule('f', 1)]"),
    {ok, <<"<ScheduleMarker of erlang.schedule('f'): to be returned>">>} =
        py:eval("repr(__import__('erlang').schedule('f', 1))").

a_marker_of_an_expression_counts(_Config) ->
    {ok, 4.0} = py:eval("__import__('erlang').schedule_py('math', 'sqrt', [16.0])"),
    {ok, 4.0} = py:eval("__import__('erlang').schedule_inline('math', 'sqrt', (16.0,))").

a_failing_callback_is_the_answer(_Config) ->
    ok = py:register_function(failing, fun(_) -> error(no_luck) end),
    {error, {error, no_luck}} = py:eval("__import__('erlang').schedule('failing')"),
    {error, {error, {undefined_function, <<"nobody">>}}} = py:eval("__import__('erlang').schedule('nobody')"),
    {error, {unconvertible, <<"object">>}} = py:eval("__import__('erlang').schedule('failing', object())"),
    ok = py:unregister_function(failing).

a_dying_callback_is_the_answer(_Config) ->
    ok = py:register_function(dying, fun(_) -> exit(self(), kill), receive never -> ok end end),
    {error, {exit, callback_died}} = py:eval("__import__('erlang').schedule('dying')"),
    ok = py:unregister_function(dying).

an_exception_in_a_step_is_the_answer(_Config) ->
    [{error, {'ValueError', <<"chr() arg not in range(0x110000)">>}} =
         py:eval(["__import__('erlang').", How, "('builtins', 'chr', [-1])"]) || How <- ["schedule_py", "schedule_inline"]],
    {error, {'ModuleNotFoundError', _}} = py:eval("__import__('erlang').schedule_inline('no_such_module', 'f')"),
    {error, {'AttributeError', _}} = py:eval("__import__('erlang').schedule_py('math', 'nope')").

bad_arguments_are_refused_where_they_are_given(_Config) ->
    Bad = ["schedule()", "schedule(7)", "schedule_py('math')", "schedule_py(1, 'f')", "schedule_py('math', 'sqrt', 16.0)",
           "schedule_inline('math', 'sqrt', 'abc')", "schedule_inline('math', 'sqrt', [], [1])",
           "schedule_inline('math', 'sqrt', nope=1)", "consume_time_slice('1')", "consume_time_slice()"],
    [{error, {'TypeError', _}} = py:eval(["__import__('erlang').", Call]) || Call <- Bad].

arguments_of_a_python_step_keep_their_identity(_Config) ->
    ok = define("def second(thing, same):\n    return thing is same[0]\n"
                "def first(how):\n    thing = object()\n    return getattr(erlang, how)('__main__', 'second', [thing, [thing]])\n"),
    {ok, true} = py:call('__main__', first, [schedule_py]),
    {ok, true} = py:call('__main__', first, [schedule_inline]).

names_are_resolved_in_the_callers_globals(_Config) ->
    Code = "import erlang\n"
           "spaces = []\n"
           "for n in range(2):\n"
           "    space = {'erlang': erlang, 'n': n}\n"
           "    exec('def last(): return n\\ndef first(how): return getattr(erlang, how)(\"__main__\", \"last\")', space)\n"
           "    spaces.append(space)\n",
    ok = define(Code),
    [{ok, N} = py:eval("spaces[n]['first'](how)", #{n => N, how => How})
     || N <- [0, 1], How <- [schedule_py, schedule_inline]].

a_local_function_is_found(_Config) ->
    ok = define("def outer(x):\n"
                "    def hidden(y):\n        return x + y\n"
                "    return erlang.schedule_inline('__main__', 'hidden', [1])\n"),
    {ok, 3} = py:call('__main__', outer, [2]).

a_chain_keeps_the_namespace_of_its_context(_Config) ->
    [{_, _, One}, {_, _, Two}] = py_pool:contexts(),
    [ok = py_request:exec(Context, ["import erlang\nwho = '", Who, "'\ndef last(): return who\n",
                                    "def first(left):\n"
                                    "    if left == 0: return last()\n"
                                    "    return erlang.schedule_py('__main__', 'first', [left - 1])\n"], 5000)
     || {Context, Who} <- [{One, "one"}, {Two, "two"}]],
    [{ok, Who} = py_request:call(Context, call, {'__main__', first}, [20], #{}, 5000)
     || {Context, Who} <- [{One, <<"one">>}, {Two, <<"two">>}]].

a_chain_ends_by_reference_too(_Config) ->
    ok = py:register_function(pair, fun([X]) -> {X, X} end),
    ok = define("def last():\n    return object()\n"
                "def first(how):\n    return getattr(erlang, how)('__main__', 'last')\n"
                "def asking():\n    return erlang.schedule('pair', 1)\n"),
    [begin
         {ok, Ref} = py:call('__main__', first, [How], #{}, #{return => ref}),
         {ok, <<"<object object", _/binary>>} = py:call(builtins, repr, [Ref])
     end || How <- [schedule_py, schedule_inline]],
    {ok, Pair} = py:call('__main__', asking, [], #{}, #{return => ref}),
    {ok, <<"(1, 1)">>} = py:call(builtins, repr, [Pair]),
    ok = py:unregister_function(pair).

casts_are_followed(_Config) ->
    Self = self(),
    ok = py:register_function(tell, fun([X]) -> Self ! {told, X} end),
    ok = define("def first(how):\n    return getattr(erlang, how)('__main__', 'last', [how])\n"
                "def last(how):\n    return erlang.schedule('tell', how)\n"),
    [ok = py:cast('__main__', first, [How]) || How <- [schedule_py, schedule_inline]],
    [receive {told, How} -> ok after 5000 -> error({not_told, How}) end || How <- [<<"schedule_py">>, <<"schedule_inline">>]],
    ok = py:unregister_function(tell).

chain() ->
    "def chain(how, left):\n"
    "    if left == 0: return 'done'\n"
    "    return getattr(erlang, how)('__main__', 'chain', [how, left - 1])\n".

%% The process that all messages from Python to Erlang go through sees none.
inline_steps_send_no_message(_Config) ->
    ok = define(chain()),
    Dispatcher = whereis(py_callback),
    Count = fun() -> {reductions, N} = process_info(Dispatcher, reductions), N end,
    Before = Count(),
    {ok, <<"done">>} = py:call('__main__', chain, [schedule_inline, 1000]),
    true = Count() - Before < 100,
    {ok, <<"done">>} = py:call('__main__', chain, [schedule_py, 1000]),
    true = Count() - Before >= 1000.

%% py:call -> erlang.call -> py:call -> schedule -> py:call, with one context to run it all.
d2_a_scheduled_callback_nests_on_one_context(_Config) ->
    ok = py_test:stop(),
    ok = py_test:start([{num_workers, 1}]),
    ok = py:register_function(outer, fun([X]) -> {ok, V} = py:call('__main__', middle, [X]), V end),
    ok = py:register_function(inner, fun([X]) -> {ok, V} = py:call(math, sqrt, [X]), V end),
    ok = define("def top(x):\n    return erlang.call('outer', x)\n"
                "def middle(x):\n    return erlang.schedule_py('__main__', 'late', [x])\n"
                "def late(x):\n    return erlang.schedule('inner', x)\n"),
    {ok, 3.0} = py:call('__main__', top, [9.0], #{}, 5000),
    ok = py_test:stop(),
    ok = py_test:start([{num_workers, 2}]).

forever() ->
    "count = 0\n"
    "def forever(how):\n"
    "    global count\n"
    "    count += 1\n"
    "    return getattr(erlang, how)('__main__', 'forever', [how])\n".

%% Both contexts are in a chain that never ends, and yet others are served.
an_endless_chain_is_fair_to_others(_Config) ->
    ok = define(forever()),
    [begin
         Refs = [py:call_async('__main__', forever, [How]) || _ <- [1, 2, 3]],
         [{ok, N} = py:eval("n", #{n => N}, 10000) || N <- lists:seq(1, 20)],
         [true = py:cancel(Ref) || Ref <- Refs],
         [{error, cancelled} = py:await(Ref) || Ref <- Refs]
     end || How <- [schedule_inline, schedule_py]].

a_timeout_covers_the_whole_chain(_Config) ->
    ok = define(forever()),
    ok = py:register_function(slow, fun([Pid]) -> Pid ! {slow, self()}, receive go -> late end end),
    [begin
         {error, timeout} = py:call('__main__', forever, [How], #{}, 50),
         stands_still()
     end || How <- [schedule_inline, schedule_py]],
    {error, timeout} = py:eval("__import__('erlang').schedule('slow', pid)", #{pid => self()}, 50),
    Late = maps:get(late, py:stats()),
    receive {slow, Pid} -> Pid ! go after 5000 -> error(not_called) end,
    py_test:wait_until(fun() -> maps:get(late, py:stats()) > Late end),
    ok = py:unregister_function(slow).

stands_still() ->
    Counts = fun() -> [py_request:eval(Context, "count", #{}, 5000) || {_, _, Context} <- py_pool:contexts()] end,
    py_test:wait_until(fun() -> Counts() =:= Counts() end).

a_dead_caller_ends_its_chain(_Config) ->
    ok = define(forever()),
    [begin
         {Pid, Monitor} = spawn_monitor(fun() -> py:call('__main__', forever, [How], #{}, infinity) end),
         {ok, 1} = py:eval("1"),
         exit(Pid, kill),
         receive {'DOWN', Monitor, process, Pid, killed} -> ok end,
         stands_still()
     end || How <- [schedule_inline, schedule_py]].

a_cancelled_chain_ends(_Config) ->
    ok = define(forever()),
    Ref = py:call_async('__main__', forever, [schedule_inline]),
    true = py:cancel(Ref),
    {error, cancelled} = py:await(Ref),
    stands_still().

a_time_slice_is_accounted(_Config) ->
    Spend = fun(Percent, Times) ->
        py:eval("[consume(p) for _ in range(n)]",
                #{p => Percent, n => Times, consume => consume()}) end,
    {ok, [false, true, true]} = Spend(50, 3),
    {ok, [true]} = Spend(100, 1),
    {ok, Hundred} = Spend(1, 100),
    {lists:duplicate(99, false), [true]} =:= lists:split(99, Hundred) orelse error(Hundred),
    %% Every request, and every step, has a slice of its own.
    ok = define("def step(left):\n"
                "    spent = [erlang.consume_time_slice(60), erlang.consume_time_slice(60)]\n"
                "    if left == 0: return spent\n"
                "    return erlang.schedule_inline('__main__', 'step', [left - 1])\n"),
    {ok, [false, true]} = py:call('__main__', step, [5]),
    %% A thread that no request runs on has slice after slice.
    ok = define("import threading\n"
                "def elsewhere():\n"
                "    said = []\n"
                "    thread = threading.Thread(target=lambda: said.extend(erlang.consume_time_slice(50) for _ in range(4)))\n"
                "    thread.start()\n    thread.join()\n    return said\n"),
    {ok, [false, true, false, true]} = py:call('__main__', elsewhere, []).

consume() ->
    {ok, Ref} = py:call(builtins, getattr, [module(), consume_time_slice], #{}, #{return => ref}),
    Ref.

module() ->
    {ok, Ref} = py:call(importlib, import_module, [erlang], #{}, #{return => ref}),
    Ref.

a_time_slice_outside_of_its_range_is_refused(_Config) ->
    [?assertMatch({error, {'ValueError', <<"a percentage from 1 to 100 is expected">>}},
                  py:eval("__import__('erlang').consume_time_slice(p)", #{p => P})) || P <- [0, -1, 101, 1 bsl 70]].
