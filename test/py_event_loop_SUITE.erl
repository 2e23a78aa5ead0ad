%% Event loops that Erlang owns: tasks, their answers, order, cancellation, the loop's end; and loops inside of calls. Everything twice:
%% with loops that have a thread each, and with loops that the BEAM waits for.
-module(py_event_loop_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([log/2]).
-export([all/0, groups/0, init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([a_coroutine_is_run/1,
         a_plain_function_is_run/1,
         keyword_arguments_and_the_timeout_are_options/1,
         whatever_can_be_awaited_is/1,
         a_task_is_a_task_of_asyncio/1,
         tasks_run_concurrently/1,
         tasks_of_one_process_begin_in_order/1,
         an_exception_is_the_answer_with_its_traceback/1,
         what_does_not_exist_or_convert_is_said/1,
         an_exit_of_one_task_leaves_the_others_alone/1,
         ten_thousand_tasks_are_answered_once_each/1,
         a_timeout_cancels_the_task/1,
         a_timeout_stops_a_task_that_computes/1,
         a_cancelled_task_is_answered_once/1,
         a_task_cancelled_while_queued_never_begins/1,
         an_interrupted_task_says_so/1,
         a_dead_caller_cancels_its_task/1,
         a_spawned_task_outlives_its_caller/1,
         an_exception_of_a_spawned_task_is_logged/1,
         run_async_answers_the_caller_that_is_named/1,
         a_chain_begins_in_a_task/1,
         a_process_has_one_loop_of_the_pool/1,
         l10_sleeps_on_the_pool_all_complete/1,
         async_call_and_await/1,
         a_gather_is_concurrent_and_keeps_the_order/1,
         a_gather_names_those_that_failed/1,
         a_gather_has_one_deadline/1,
         an_async_generator_is_collected_on_a_loop/1,
         python_awaits_an_erlang_function/1,
         an_awaited_function_that_fails_raises/1,
         an_erlang_function_that_is_awaited_may_call_python/1,
         d2_nested_calls_to_a_loop_that_waits/1,
         what_a_turn_has_written_is_out_before_its_thread_waits/1,
         spawn_task_of_python_works_without_a_loop/1,
         print_goes_to_the_caller_of_the_task/1,
         a_crash_of_the_owner_restarts_that_loop_only/1,
         a_loop_that_ends_by_itself_is_restarted/1,
         a_stopped_loop_answers_what_it_had/1,
         forged_references_are_refused/1,
         results_of_the_async_driver_are_sent_by_their_tags/1,
         coroutines_submitted_to_a_process_run_concurrently/1,
         an_interrupt_in_the_first_step_is_not_lost/1,
         l1_d5_the_application_stops_and_starts_fifty_times/1,
         l6_timers_due_while_the_loop_is_busy_all_fire/1,
         erlang_run_inside_a_call/1,
         a_call_that_waits_in_a_loop_is_stopped_by_its_timeout/1,
         a_sleep_of_a_call_is_stopped_by_its_timeout/1,
         erlang_sleep_in_both_colours/1,
         the_first_generation_names_work/1,
         subprocesses_and_signals_name_the_alternative/1]).

all() ->
    [{group, thread}, {group, beam}].

groups() ->
    [{Driver, [], py_test:cases(?MODULE)} || Driver <- [thread, beam]].

init_per_group(Driver, Config) ->
    ok = py_test:start([{num_workers, 2}, {event_loop_pool_size, 3}, {event_loop_driver, Driver}]),
    Dir = filename:join(proplists:get_value(priv_dir, Config), "modules"),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    ok = file:write_file(filename:join(Dir, "loops_under_test.py"), module()),
    {ok, _} = py:call(sys, 'path.append', [unicode:characters_to_binary(Dir)]),
    Config.

module() ->
    "import asyncio, sys, time\n"
    "import erlang\n"
    "said = []\n"
    "async def add(a, b, times=1):\n"
    "    return (a + b) * times\n"
    "async def sleeps(seconds, value=None):\n"
    "    await asyncio.sleep(seconds)\n"
    "    return value\n"
    "arrived = {}\n"
    "async def meets(key, n, value=None):\n"
    "    here = arrived.setdefault(key, [])\n"
    "    here.append(value)\n"
    "    while len(here) < n:\n"
    "        await asyncio.sleep(0.001)\n"
    "    return value\n"
    "def future(value):\n"
    "    return asyncio.gather(sleeps(0.001, value), sleeps(0, value))\n"
    "async def current():\n"
    "    before = asyncio.current_task() in asyncio.all_tasks() and asyncio.current_task() is not None\n"
    "    async with asyncio.timeout(10):\n"
    "        async with asyncio.TaskGroup() as group:\n"
    "            group.create_task(asyncio.sleep(0))\n"
    "    return [before, asyncio.current_task() is not None]\n"
    "async def fails(text):\n"
    "    await asyncio.sleep(0)\n"
    "    raise ValueError(text)\n"
    "async def note(value):\n"
    "    said.append(value)\n"
    "    await asyncio.sleep(0)\n"
    "def take():\n"
    "    taken = said[:]\n"
    "    said.clear()\n"
    "    return taken\n"
    "async def exits(how):\n"
    "    await asyncio.sleep(0)\n"
    "    raise how\n"
    "async def sys_exit():\n"
    "    sys.exit(3)\n"
    "async def interrupts():\n"
    "    raise KeyboardInterrupt\n"
    "async def waits(listener):\n"
    "    try:\n"
    "        # Said when it waits, and does not run any more.\n"
    "        asyncio.get_running_loop().call_soon(erlang.send, listener, 'begun')\n"
    "        await asyncio.sleep(3600)\n"
    "    except BaseException as error:\n"
    "        erlang.send(listener, type(error).__name__)\n"
    "        raise\n"
    "async def computes(listener):\n"
    "    try:\n"
    "        erlang.send(listener, 'begun')\n"
    "        n = 0  # CPython 3.11 has an interrupt of a loop strike before its head: that is to be inside as well\n"
    "        while True: n += 1\n"
    "    except BaseException as error:\n"
    "        erlang.send(listener, type(error).__name__)\n"
    "        raise\n"
    "async def holds(listener, name):\n"
    "    erlang.send(listener, 'holding')\n"
    "    erlang.call(name)\n"
    "async def tell_and_call(port, name):\n"
    "    loop = asyncio.get_running_loop()\n"
    "    _, writer = await asyncio.open_connection('127.0.0.1', port)\n"
    "    async def tell():\n"
    "        writer.write(b'hello')\n"
    "        return erlang.call(name)\n"
    "    task = loop.create_task(tell())\n"
    "    for _ in range(3):\n"
    "        loop.call_soon(int)  # so that the turn goes on\n"
    "    answer = await task\n"
    "    writer.close()\n"
    "    return answer\n"
    "def run_and_call(port, name):\n"
    "    return erlang.run(tell_and_call(port, name))\n"
    "def run_in_stdlib(port, name):\n"
    "    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:\n"
    "        return runner.run(tell_and_call(port, name))\n"
    "async def running():\n"
    "    return id(asyncio.get_running_loop())\n"
    "async def tell(listener, value):\n"
    "    await asyncio.sleep(0.01)\n"
    "    erlang.send(listener, value)\n"
    "def scheduled(x):\n"
    "    return erlang.schedule('loops_double', x)\n"
    "async def scheduled_later(x):\n"
    "    await asyncio.sleep(0)\n"
    "    return erlang.schedule_py(__name__, 'triple', [x])\n"
    "def triple(x):\n"
    "    return 3 * x\n"
    "async def counts(n):\n"
    "    for i in range(n):\n"
    "        await asyncio.sleep(0)\n"
    "        yield i\n"
    "async def ask(name, *args):\n"
    "    first, second = await asyncio.gather(erlang.async_call(name, *args), erlang.async_call(name, *args))\n"
    "    return [first, second]\n"
    "async def ask_in_vain(name):\n"
    "    try:\n"
    "        await erlang.async_call(name)\n"
    "    except erlang.ErlangError as error:\n"
    "        return [error.kind, error.reason]\n"
    "async def ask_and_wait(name, depth):\n"
    "    return erlang.call(name, depth) + 1\n"
    "def spawn(listener, value):\n"
    "    erlang.spawn_task(tell(listener, value))\n"
    "    return 'spawned'\n"
    "async def prints(text):\n"
    "    print(text)\n"
    "    await asyncio.sleep(0)\n"
    "    print(text, end='')\n"
    "async def timers(n):\n"
    "    loop = asyncio.get_running_loop()\n"
    "    fired = []\n"
    "    for i in range(n):\n"
    "        loop.call_later(0.001 + (i % 50) / 1000, fired.append, i)\n"
    "    time.sleep(0.1)\n"
    "    await asyncio.sleep(0.06)\n"
    "    return [len(fired), len(set(fired))]\n"
    "def run_main():\n"
    "    async def main():\n"
    "        results = await asyncio.gather(sleeps(0.01, 1), sleeps(0.01, 2))\n"
    "        loop = asyncio.get_running_loop()\n"
    "        return [type(loop) is erlang.ErlangEventLoop, *results]\n"
    "    return erlang.run(main())\n"
    "def run_forever(listener):\n"
    "    async def main():\n"
    "        erlang.send(listener, 'begun')\n"
    "        try:\n"
    "            await asyncio.sleep(3600)\n"
    "        finally:\n"
    "            erlang.send(listener, 'cleaned')\n"
    "    return erlang.run(main())\n"
    "def run_nested(name, depth):\n"
    "    return erlang.run(ask_and_wait(name, depth))\n"
    "async def stop_the_loop():\n"
    "    asyncio.get_running_loop().stop()\n"
    "def sleep(seconds):\n"
    "    return erlang.sleep(seconds, 'slept')\n"
    "async def sleep_async(seconds):\n"
    "    return await erlang.sleep(seconds, 'slept')\n"
    "def first_generation():\n"
    "    import erlang_asyncio, erlang_loop\n"
    "    async def main():\n"
    "        start = time.monotonic()\n"
    "        values = await erlang_asyncio.gather(*(sleeps(0.1, n) for n in range(3)))\n"
    "        took = time.monotonic() - start\n"
    "        try:\n"
    "            await erlang_asyncio.wait_for(erlang_asyncio.sleep(3600), timeout=0.01)\n"
    "        except erlang_asyncio.TimeoutError:\n"
    "            pass\n"
    "        return [values, 0.1 <= took < 0.3, isinstance(erlang_asyncio.get_running_loop(), erlang_loop.ErlangEventLoop)]\n"
    "    return erlang_asyncio.run(main())\n"
    "def refused():\n"
    "    async def main():\n"
    "        loop = asyncio.get_running_loop()\n"
    "        texts = []\n"
    "        for attempt in (\n"
    "            lambda: loop.subprocess_exec(asyncio.SubprocessProtocol, 'true'),\n"
    "            lambda: loop.subprocess_shell(asyncio.SubprocessProtocol, 'true'),\n"
    "            lambda: loop.add_signal_handler(15, print),\n"
    "            lambda: loop.remove_signal_handler(15),\n"
    "        ):\n"
    "            try:\n"
    "                attempt()\n"
    "            except NotImplementedError as error:\n"
    "                texts.append(str(error))\n"
    "        try:\n"
    "            await asyncio.create_subprocess_exec('true')\n"
    "        except NotImplementedError as error:\n"
    "            texts.append(str(error))\n"
    "        return texts\n"
    "    return erlang.run(main())\n".

end_per_group(_Driver, _Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    Config.

%% Whatever a test does, no task is left, the loops answer, and nothing more is said.
end_per_testcase(_Case, _Config) ->
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py_event_loop_pool:get_stats()) =:= 0 end),
    {ok, 3} = run(add, [1, 2]),
    {ok, 3} = py_event_loop_pool:run(loops_under_test, add, [1, 2], #{timeout => 60000}),
    {messages, []} = process_info(self(), messages),
    ok.

run(Function, Args) ->
    py_event_loop:run(loops_under_test, Function, Args, #{timeout => 60000}).

said(What) ->
    receive What -> ok after 60000 -> error({not_said, What}) end.

a_coroutine_is_run(_Config) ->
    {ok, 3} = run(add, [1, 2]),
    {ok, <<"x">>} = run(sleeps, [0.01, <<"x">>]).

a_plain_function_is_run(_Config) ->
    {ok, 4.0} = py_event_loop:run(math, sqrt, [16.0], #{timeout => 60000}),
    {ok, 4.0} = py_event_loop:run("math", <<"sqrt">>, [16.0], #{timeout => infinity}).

keyword_arguments_and_the_timeout_are_options(_Config) ->
    Kwargs = #{times => 2},
    {ok, 6} = py_event_loop:run(loops_under_test, add, [1, 2], #{kwargs => Kwargs, timeout => 60000}),
    Ref = py_event_loop:create_task(loops_under_test, add, [1, 2], Kwargs),
    {ok, 6} = py_event_loop:await(Ref, infinity),
    %% l10
    {ok, 6} = py_event_loop_pool:run(loops_under_test, add, [1, 2], #{kwargs => Kwargs, timeout => 60000}),
    {error, timeout} = py_event_loop:run(loops_under_test, sleeps, [3600], #{timeout => 10}).

whatever_can_be_awaited_is(_Config) ->
    {ok, [7, 7]} = run(future, [7]).

a_task_is_a_task_of_asyncio(_Config) ->
    {ok, [_, true]} = run(current, []).

tasks_run_concurrently(_Config) ->
    Numbers = lists:seq(1, 100),
    Refs = [py_event_loop:create_task(loops_under_test, meets, [?FUNCTION_NAME, 100, N]) || N <- Numbers],
    ?assertEqual([{ok, N} || N <- Numbers], [py_event_loop:await(Ref, 60000) || Ref <- Refs]).

tasks_of_one_process_begin_in_order(_Config) ->
    Numbers = lists:seq(1, 2000),
    Refs = [py_event_loop_pool:create_task(loops_under_test, note, [N]) || N <- Numbers],
    [{ok, none} = py_event_loop_pool:await(Ref, 60000) || Ref <- Refs],
    {ok, Numbers} = run(take, []).

an_exception_is_the_answer_with_its_traceback(_Config) ->
    {error, {'ValueError', <<"no such luck">>} = Reason} = run(fails, [<<"no such luck">>]),
    {match, _} = re:run(py:format_error(Reason), "in fails").

what_does_not_exist_or_convert_is_said(_Config) ->
    {error, {'AttributeError', _}} = run(no_such_function, []),
    {error, {'ModuleNotFoundError', _}} = py_event_loop:run(no_such_module, f, [], #{timeout => 60000}),
    {error, {'TypeError', _}} = run(add, [1]),
    {error, {improper_list, [1 | 2]}} = run(add, [1 | 2]),
    {error, {unconvertible, _}} = py_event_loop:run(builtins, object, [], #{timeout => 60000}),
    ?assertError(badarg, py_event_loop:run(loops_under_test, add, nothing)),
    ?assertError(badarg, py_event_loop:create_task(loops_under_test, add, [], nothing)).

an_exit_of_one_task_leaves_the_others_alone(_Config) ->
    {ok, Loop} = py_event_loop:get_loop(),
    Ref = py_event_loop:create_task(loops_under_test, sleeps, [0.05, 1]),
    {error, {'SystemExit', <<"3">>}} = run(sys_exit, []),
    {error, {'KeyboardInterrupt', _}} = run(interrupts, []),
    {ok, 1} = py_event_loop:await(Ref, 60000),
    {ok, Loop} = py_event_loop:get_loop().

ten_thousand_tasks_are_answered_once_each(_Config) ->
    Numbers = lists:seq(1, 10000),
    Refs = [py_event_loop_pool:create_task(loops_under_test, sleeps, [0.0, N]) || N <- Numbers],
    ?assertEqual([{ok, N} || N <- Numbers], [py_event_loop_pool:await(Ref, 60000) || Ref <- Refs]).

a_timeout_cancels_the_task(_Config) ->
    Ref = py_event_loop:create_task(loops_under_test, waits, [self()]),
    ok = said(<<"begun">>),
    {error, timeout} = py_event_loop:await(Ref, 10),
    ok = said(<<"CancelledError">>).

a_timeout_stops_a_task_that_computes(_Config) ->
    Ref = py_event_loop:create_task(loops_under_test, computes, [self()]),
    ok = said(<<"begun">>),
    {error, timeout} = py_event_loop:await(Ref, 10),
    ok = said(<<"Interrupted">>).

a_cancelled_task_is_answered_once(_Config) ->
    Ref = py:async_call(loops_under_test, waits, [self()]),
    ok = said(<<"begun">>),
    true = py:cancel(Ref),
    false = py:cancel(Ref),
    {error, cancelled} = py:await(Ref, 60000),
    ok = said(<<"CancelledError">>).

a_task_cancelled_while_queued_never_begins(_Config) ->
    Self = self(),
    ok = py:register_function(loops_hold, fun([]) -> receive_from(Self) end),
    Held = py_event_loop:create_task(loops_under_test, holds, [self(), <<"loops_hold">>]),
    ok = said(<<"holding">>),
    Callback = receive {waits, Pid} -> Pid after 60000 -> error(no_callback) end,
    Queued = py_event_loop:create_task(loops_under_test, note, [1]),
    true = py:cancel(Queued),
    {error, cancelled} = py_event_loop:await(Queued, 60000),
    Callback ! go_on,
    {ok, none} = py_event_loop:await(Held, 60000),
    {ok, []} = run(take, []),
    ok = py:unregister_function(loops_hold).

receive_from(Pid) ->
    Pid ! {waits, self()},
    receive go_on -> none end.

an_interrupted_task_says_so(_Config) ->
    Ref = py_event_loop:create_task(loops_under_test, waits, [self()]),
    ok = said(<<"begun">>),
    true = py:interrupt(Ref),
    {error, interrupted} = py_event_loop:await(Ref, 60000),
    ok = said(<<"CancelledError">>).

a_dead_caller_cancels_its_task(_Config) ->
    Self = self(),
    Caller = spawn(fun() -> py_event_loop:run(loops_under_test, waits, [Self], #{timeout => infinity}) end),
    ok = said(<<"begun">>),
    exit(Caller, kill),
    ok = said(<<"CancelledError">>).

a_spawned_task_outlives_its_caller(_Config) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() -> ok = py_event_loop:spawn_task(loops_under_test, tell, [Self, <<"told">>]) end),
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end,
    ok = said(<<"told">>),
    ok = py_event_loop_pool:spawn_task(loops_under_test, tell, [Self, <<"again">>], #{}),
    ok = said(<<"again">>).

an_exception_of_a_spawned_task_is_logged(_Config) ->
    Self = self(),
    ok = logger:add_handler(?FUNCTION_NAME, ?MODULE, #{config => Self}),
    ok = py_event_loop:spawn_task(loops_under_test, fails, [<<"unseen">>]),
    receive
        {logged, Text} -> {match, _} = re:run(Text, "ValueError: unseen")
    after 60000 ->
        error(not_logged)
    end,
    ok = logger:remove_handler(?FUNCTION_NAME).

log(#{msg := Message}, #{config := Pid}) ->
    Text = case Message of
               {string, String} -> String;
               {report, Report} -> io_lib:format("~tp", [Report]);
               {Format, Args} -> io_lib:format(Format, Args)
           end,
    case re:run(Text, "ValueError: unseen") of
        {match, _} -> Pid ! {logged, Text};
        nomatch -> ok
    end.

run_async_answers_the_caller_that_is_named(_Config) ->
    {ok, Loop} = py_event_loop:get_loop(),
    Ref = make_ref(),
    Self = self(),
    Job = #{ref => Ref, caller => Self, module => loops_under_test, func => add, args => [1, 2], kwargs => #{times => 3}},
    spawn(fun() -> ok = py_event_loop:run_async(Loop, Job) end),
    receive {async_result, Ref, Result} -> {ok, 9} = Result after 60000 -> error(no_answer) end.

a_chain_begins_in_a_task(_Config) ->
    ok = py:register_function(loops_double, fun([X]) -> 2 * X end),
    {ok, 10} = run(scheduled, [5]),
    {ok, 15} = run(scheduled_later, [5]),
    ok = py:unregister_function(loops_double).

a_process_has_one_loop_of_the_pool(_Config) ->
    {ok, Loop} = py_event_loop_pool:get_loop(),
    {ok, Loop} = py_event_loop_pool:get_loop(),
    #{num_loops := 3, supported := true} = py_event_loop_pool:get_stats(),
    {ok, Loops} = py_event_loop_pool:get_all_loops(),
    3 = length(Loops),
    true = lists:keymember(Loop, 1, Loops),
    Ran = lists:usort([{ok, _} = py_event_loop_pool:run(loops_under_test, running, [], #{timeout => 60000}) || _ <- lists:seq(1, 20)]),
    1 = length(Ran).

l10_sleeps_on_the_pool_all_complete(_Config) ->
    Self = self(),
    Pids = [spawn_link(fun() ->
                               Result = py_event_loop_pool:run(loops_under_test, sleeps, [0.05, N], #{timeout => 60000}),
                               Self ! {self(), Result}
                       end) || N <- lists:seq(1, 24)],
    ?assertEqual([{ok, N} || N <- lists:seq(1, 24)], [receive {Pid, Result} -> Result end || Pid <- Pids]).

async_call_and_await(_Config) ->
    {ok, 3} = py:await(py:async_call(loops_under_test, add, [1, 2])),
    {ok, 9} = py:async_await(py:async_call(loops_under_test, add, [1, 2], #{times => 3}), 60000),
    {ok, 4.0} = py:await(py:async_call(math, sqrt, [16])).

a_gather_is_concurrent_and_keeps_the_order(_Config) ->
    {ok, []} = py:async_gather([]),
    Calls = [{loops_under_test, meets, [?FUNCTION_NAME, 100, N]} || N <- lists:seq(1, 100)],
    {ok, Values} = py:async_gather(Calls, 60000),
    ?assertEqual(lists:seq(1, 100), Values),
    {ok, [6, 4.0]} = py:async_gather([{loops_under_test, add, [1, 2], #{times => 2}}, {math, sqrt, [16]}]).

a_gather_names_those_that_failed(_Config) ->
    Calls = [{loops_under_test, add, [1, 2]}, {loops_under_test, fails, [<<"a">>]}, {nowhere, f, []}],
    {error, {gather_failed, [{2, {'ValueError', <<"a">>}}, {3, {'ModuleNotFoundError', _}}]}} = py:async_gather(Calls).

a_gather_has_one_deadline(_Config) ->
    Calls = [{loops_under_test, sleeps, [3600]} || _ <- lists:seq(1, 3)],
    {error, {gather_failed, [{1, timeout}, {2, timeout}, {3, timeout}]}} = py:async_gather(Calls, 50).

an_async_generator_is_collected_on_a_loop(_Config) ->
    {ok, [0, 1, 2]} = py:async_stream(loops_under_test, counts, [3]),
    {ok, [0, 1, 2]} = py:async_stream(loops_under_test, counts, [], #{n => 3}),
    {ok, [0, 1, 2]} = py:async_stream(builtins, range, [3]).

python_awaits_an_erlang_function(_Config) ->
    Self = self(),
    %% Both are called before either is answered.
    ok = py:register_function(loops_ask, fun([X]) -> Self ! {asked, self()}, receive go_on -> X * 2 end end),
    Ref = py_event_loop:create_task(loops_under_test, ask, [<<"loops_ask">>, 21]),
    Pids = [receive {asked, Pid} -> Pid after 60000 -> error(not_asked) end || _ <- [1, 2]],
    {ok, 3} = run(add, [1, 2]),
    [Pid ! go_on || Pid <- Pids],
    {ok, [42, 42]} = py_event_loop:await(Ref, 60000),
    ok = py:unregister_function(loops_ask).

an_awaited_function_that_fails_raises(_Config) ->
    ok = py:register_function(loops_fail, fun([]) -> error(no_luck) end),
    {ok, [<<"error">>, <<"no_luck">>]} = run(ask_in_vain, [<<"loops_fail">>]),
    {ok, [<<"error">>, _]} = run(ask_in_vain, [<<"loops_nowhere">>]),
    ok = py:unregister_function(loops_fail).

an_erlang_function_that_is_awaited_may_call_python(_Config) ->
    ok = py:register_function(loops_ask, fun([X]) -> {ok, Y} = py:call(math, sqrt, [X]), Y end),
    {ok, [4.0, 4.0]} = run(ask, [<<"loops_ask">>, 16]),
    ok = py:unregister_function(loops_ask).

%% A coroutine waits for Erlang in its loop's thread, and Erlang asks that very loop: at any depth, and with one loop.
d2_nested_calls_to_a_loop_that_waits(_Config) ->
    Nest = fun([0]) -> 0;
              ([Depth]) -> {ok, N} = run(ask_and_wait, [<<"loops_nest">>, Depth - 1]), N
           end,
    ok = py:register_function(loops_nest, Nest),
    {ok, 6} = run(ask_and_wait, [<<"loops_nest">>, 5]),
    {ok, 6} = py_event_loop_pool:run(loops_under_test, ask_and_wait, [<<"loops_nest">>, 5], #{timeout => 60000}),
    {ok, 6} = py:call(loops_under_test, run_nested, [<<"loops_nest">>, 5]),
    ok = py:unregister_function(loops_nest).

%% The function waits for what the coroutine wrote before it called it, in a turn that goes on.
what_a_turn_has_written_is_out_before_its_thread_waits(_Config) ->
    {ok, Listening} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listening),
    ok = py:register_function(loops_heard, fun([]) ->
        {ok, Socket} = gen_tcp:accept(Listening, 20000),
        {ok, Heard} = gen_tcp:recv(Socket, 5, 20000),
        ok = gen_tcp:close(Socket),
        Heard
    end),
    {ok, <<"hello">>} = run(tell_and_call, [Port, <<"loops_heard">>]),
    {ok, <<"hello">>} = py:call(loops_under_test, run_and_call, [Port, <<"loops_heard">>]),
    {ok, <<"hello">>} = py:call(loops_under_test, run_in_stdlib, [Port, <<"loops_heard">>]),
    ok = gen_tcp:close(Listening),
    ok = py:unregister_function(loops_heard).

spawn_task_of_python_works_without_a_loop(_Config) ->
    {ok, <<"spawned">>} = py:call(loops_under_test, spawn, [self(), <<"from a call">>]),
    ok = said(<<"from a call">>),
    {ok, <<"spawned">>} = run(spawn, [self(), <<"from a loop">>]),
    ok = said(<<"from a loop">>).

print_goes_to_the_caller_of_the_task(_Config) ->
    Leader = group_leader(),
    true = group_leader(self(), self()),
    Ref = py_event_loop:create_task(loops_under_test, prints, [<<"hello">>]),
    Text = printed(<<>>),
    true = group_leader(Leader, self()),
    ?assertEqual(<<"hello\nhello">>, Text),
    {ok, none} = py_event_loop:await(Ref, 60000).

printed(<<"hello\nhello">> = Text) ->
    Text;
printed(Text) ->
    receive
        {io_request, From, Ref, Request} ->
            From ! {io_reply, Ref, ok},
            {put_chars, unicode, More} = Request,
            printed(<<Text/binary, (unicode:characters_to_binary(More))/binary>>)
    after 60000 ->
        error({printed, Text})
    end.

a_crash_of_the_owner_restarts_that_loop_only(_Config) ->
    Before = py_loop:all(),
    {_, Owner, Loop} = lists:keyfind(default, 1, Before),
    Ref = py_event_loop:create_task(loops_under_test, waits, [self()]),
    ok = said(<<"begun">>),
    exit(Owner, kill),
    {error, _} = py_event_loop:await(Ref, 60000),
    ok = said(<<"CancelledError">>),
    py_test:wait_until(fun() ->
                               case py_loop:find(default) of
                                   {ok, Loop} -> false;
                                   {ok, _} -> length(py_loop:all()) =:= length(Before);
                                   {error, _} -> false
                               end
                       end),
    ?assertEqual(lists:keydelete(default, 1, Before), lists:keydelete(default, 1, py_loop:all())),
    {error, closed} = py_event_loop:run_async(Loop, #{ref => r, caller => self(), module => m, func => f, args => []}).

a_loop_that_ends_by_itself_is_restarted(_Config) ->
    {ok, Loop} = py_event_loop:get_loop(),
    Ref = py_event_loop:create_task(loops_under_test, waits, [self()]),
    ok = said(<<"begun">>),
    {ok, _} = run(stop_the_loop, []),
    {error, _} = py_event_loop:await(Ref, 60000),
    ok = said(<<"CancelledError">>),
    py_test:wait_until(fun() -> case py_event_loop:get_loop() of {ok, Loop} -> false; {ok, _} -> true; _ -> false end end).

a_stopped_loop_answers_what_it_had(_Config) ->
    Tag = make_ref(),
    {ok, Loop} = py_nif:loop_start(Tag, thread),
    receive {py_loop, Tag, ready} -> ok after 60000 -> error(not_ready) end,
    Job = #{caller => self(), module => loops_under_test, func => waits, args => [self()]},
    ok = py_event_loop:run_async(Loop, Job#{ref => 1}),
    ok = said(<<"begun">>),
    ok = py_nif:loop_stop(Loop),
    ok = py_nif:loop_stop(Loop),
    receive {async_result, 1, Result} -> {error, closed} = Result after 60000 -> error(no_answer) end,
    ok = said(<<"CancelledError">>),
    receive {py_loop, Tag, ended} -> ok after 60000 -> error(not_ended) end,
    {error, closed} = py_event_loop:run_async(Loop, Job#{ref => 2}).

forged_references_are_refused(_Config) ->
    Job = #{ref => r, caller => self(), module => math, func => sqrt, args => [4]},
    {error, invalid_loop} = py_event_loop:run_async(make_ref(), Job),
    {error, invalid_loop} = py_event_loop:run_async(nothing, Job),
    [{_, _, Context} | _] = py_context:all(),
    {error, invalid_loop} = py_event_loop:run_async(Context, Job),
    ?assertError(badarg, py_nif:loop_stop(make_ref())),
    false = py:cancel(make_ref()),
    {error, timeout} = py_event_loop:await(make_ref(), 0).

results_of_the_async_driver_are_sent_by_their_tags(_Config) ->
    {ok, Good} = py_async_driver:submit(loops_under_test, add, [1, 2], #{times => 2}),
    receive {py_result, Good, 6} -> ok after 60000 -> error(no_answer) end,
    {ok, Bad} = py_async_driver:submit(loops_under_test, fails, [<<"x">>], #{}),
    receive {py_error, Bad, {'ValueError', <<"x">>}} -> ok after 60000 -> error(no_answer) end,
    {ok, Cancelled} = py_async_driver:submit(loops_under_test, waits, [self()], #{}),
    ok = said(<<"begun">>),
    true = py:cancel(Cancelled),
    receive {py_error, Cancelled, cancelled} -> ok after 60000 -> error(no_answer) end,
    ok = said(<<"CancelledError">>),
    Self = self(),
    spawn_link(fun() -> Self ! {submitted, py_async_driver:submit(loops_under_test, add, [1, 2], #{}, Self)} end),
    Ref = receive {submitted, {ok, Given}} -> Given after 60000 -> error(no_answer) end,
    receive {py_result, Ref, 3} -> ok after 60000 -> error(no_answer) end,
    ?assertError(badarg, py_async_driver:submit(loops_under_test, add, [], nothing)).

coroutines_submitted_to_a_process_run_concurrently(_Config) ->
    Ids = lists:seq(1, 100),
    [ok = py_nif:submit_coroutine(self(), Id, <<"loops_under_test">>, <<"meets">>, [?FUNCTION_NAME, 100, Id], #{})
     || Id <- Ids],
    [receive {call_result, Id, Id} -> ok after 60000 -> error(no_answer) end || Id <- Ids],
    ok = py_nif:submit_call(self(), 1, <<"math">>, <<"sqrt">>, [16], #{}),
    receive {call_result, 1, 4.0} -> ok after 60000 -> error(no_answer) end,
    ok = py_nif:submit_call(self(), 2, <<"math">>, <<"sqrt">>, [-1], #{}),
    receive {call_error, 2, {'ValueError', _}} -> ok after 60000 -> error(no_answer) end,
    {ok, _} = py_event_loop_proc:get_loop().

%% The first step has begun, and the task does not wait yet.
an_interrupt_in_the_first_step_is_not_lost(_Config) ->
    [begin
         Ref = py_event_loop:create_task(loops_under_test, waits, [self()]),
         ok = said(<<"begun">>),
         true = py:interrupt(Ref),
         {error, interrupted} = py_event_loop:await(Ref, 60000),
         receive Said when Said =:= <<"CancelledError">>; Said =:= <<"Interrupted">> -> ok end
     end || _ <- lists:seq(1, 100)].

l1_d5_the_application_stops_and_starts_fifty_times(_Config) ->
    Threads = threads(),
    [begin
         Ref = py_event_loop_pool:create_task(loops_under_test, sleeps, [3600]),
         ok = application:stop(erlang_python),
         {error, closed} = py_event_loop_pool:await(Ref, 60000),
         {error, not_started} = py_event_loop:run(loops_under_test, add, [1, 2]),
         ok = application:start(erlang_python),
         {ok, 3} = run(sleeps, [0.0, 3])
     end || _ <- lists:seq(1, 50)],
    %% Threads end with their loops and contexts.
    py_test:wait_until(fun() -> threads() =< Threads end).

threads() ->
    {ok, Names} = file:list_dir("/proc/self/task"),
    length(Names).

l6_timers_due_while_the_loop_is_busy_all_fire(_Config) ->
    {ok, [30000, 30000]} = run(timers, [30000]).

erlang_run_inside_a_call(_Config) ->
    {ok, [true, 1, 2]} = py:call(loops_under_test, run_main, []).

a_call_that_waits_in_a_loop_is_stopped_by_its_timeout(_Config) ->
    Self = self(),
    Ref = py:call_async(loops_under_test, run_forever, [Self]),
    ok = said(<<"begun">>),
    {error, timeout} = py:await(Ref, 10),
    ok = said(<<"cleaned">>),
    %% The context is free again.
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 2 end).

a_sleep_of_a_call_is_stopped_by_its_timeout(_Config) ->
    {error, timeout} = py:call(loops_under_test, sleep, [3600], #{}, 50),
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 2 end).

erlang_sleep_in_both_colours(_Config) ->
    {ok, <<"slept">>} = py:call(loops_under_test, sleep, [0.01]),
    {ok, <<"slept">>} = py:call(loops_under_test, sleep, [-1]),
    {ok, <<"slept">>} = run(sleep_async, [0.01]).

the_first_generation_names_work(_Config) ->
    {ok, [[0, 1, 2], _, true]} = py:call(loops_under_test, first_generation, []).

subprocesses_and_signals_name_the_alternative(_Config) ->
    {ok, [Exec, Shell, Add, Remove, Create]} = py:call(loops_under_test, refused, []),
    [{match, _} = re:run(Text, "open_port/2") || Text <- [Exec, Shell, Create]],
    [{match, _} = re:run(Text, "os:set_signal/2") || Text <- [Add, Remove]].
