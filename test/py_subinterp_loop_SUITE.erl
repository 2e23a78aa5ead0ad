%% Event loops with an interpreter each (`event_loop_pool'), and what ends with one. Where there are no such interpreters the loops are in
%% the main one, and the same holds but for what they do not share.
-module(py_subinterp_loop_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([each_loop_has_an_interpreter/1,
         tasks_of_all_loops_run_and_wait/1,
         what_goes_wrong_is_the_answer/1,
         a_timeout_cancels_the_task/1,
         terms_come_back_as_they_went/1,
         streams_and_servers_work/1,
         coroutines_call_erlang/1,
         a_loop_that_waits_serves_its_callback/1,
         functions_that_are_awaited_call_python_again/1,
         async_generators_are_collected/1,
         chains_go_on_in_their_interpreter/1,
         tasks_are_spawned_on_the_loop_of_their_interpreter/1,
         replies_come_to_where_they_are_awaited/1,
         a_loop_that_computes_holds_no_other_up/1,
         the_memory_limit_is_that_of_the_environment/1,
         a_loop_that_is_killed_takes_everything_with_it/1,
         a_bad_option_is_refused/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{event_loop_pool, subinterp}, {event_loop_pool_size, 2}, {num_subinterp_workers, 1},
                        {subinterp_memory_limit, 128 bsl 20}]),
    ok = define(),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

isolated() ->
    py:execution_mode() =:= subinterp.

loops() ->
    {ok, Loops} = py_event_loop_pool:get_all_loops(),
    2 = length(Loops),
    [Loop || {Loop, _Pid} <- Loops].

run(Loop, Module, Function, Args) ->
    py_loop:run({ok, Loop}, {Module, Function}, Args, #{timeout => 60000}).

task(Loop, Module, Function, Args) ->
    py_loop:create_task({ok, Loop}, Module, Function, Args, #{}).

%% The same module in every interpreter.
define() ->
    Code = <<"import asyncio, sys, threading, types\n"
             "import erlang, erlang.reply\n"
             "afar = types.ModuleType('afar')\n"
             "exec(source, vars(afar))\n"
             "sys.modules['afar'] = afar\n">>,
    [{ok, none} = run(Loop, builtins, exec, [Code, #{source => source()}]) || Loop <- loops()],
    ok.

source() ->
    <<"import asyncio, sys, threading\n"
      "import erlang, erlang.reply\n"
      "async def echo(size):\n"
      "    async def serve(reader, writer):\n"
      "        while data := await reader.read(65536):\n"
      "            writer.write(data)\n"
      "            await writer.drain()\n"
      "        writer.close()\n"
      "    server = await asyncio.start_server(serve, '127.0.0.1', 0)\n"
      "    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())\n"
      "    sent = bytes(range(256)) * (size // 256)\n"
      "    writer.write(sent)\n"
      "    writer.write_eof()\n"
      "    came = await reader.read()\n"
      "    writer.close()\n"
      "    server.close()\n"
      "    return came == sent, len(came)\n"
      "async def fail():\n"
      "    await asyncio.sleep(0)\n"
      "    raise ValueError('from afar')\n"
      "async def ask(name, *args):\n"
      "    await asyncio.sleep(0)\n"
      "    return erlang.call(name, *args)\n"
      "async def ask_all(name, count):\n"
      "    return await asyncio.gather(*(erlang.async_call(name, i) for i in range(count)))\n"
      "async def numbers(count):\n"
      "    for i in range(count):\n"
      "        await asyncio.sleep(0)\n"
      "        yield i\n"
      "def step(way, n, total):\n"
      "    if n == 0: return erlang.schedule('last', total)\n"
      "    return getattr(erlang, way)('afar', 'step', [way, n - 1, total + n])\n"
      "async def begin(way, n):\n"
      "    await asyncio.sleep(0)\n"
      "    return step(way, n, 0)\n"
      "async def spawn():\n"
      "    done = asyncio.Event()\n"
      "    async def other():\n"
      "        done.set()\n"
      "        return asyncio.get_running_loop()\n"
      "    task = erlang.spawn_task(other())\n"
      "    await done.wait()\n"
      "    return await task is asyncio.get_running_loop()\n"
      "async def wait_for_reply(name, owner):\n"
      "    waiter = erlang.reply.register(name, timeout=60)\n"
      "    erlang.send(owner, ('registered', name))\n"
      "    return await waiter\n"
      "async def settle_down(owner):\n"
      "    loop = asyncio.get_running_loop()\n"
      "    def spin():\n"
      "        erlang.send(owner, 'spins')\n"
      "        while True: pass\n"
      "    def ask():\n"
      "        erlang.send(owner, 'asks')\n"
      "        erlang.call('never')\n"
      "    async def wait():\n"
      "        erlang.send(owner, 'waits')\n"
      "        await erlang.async_call('never')\n"
      "    for target in (spin, ask): threading.Thread(target=target).start()\n"
      "    server = await asyncio.start_server(lambda *_: None, '127.0.0.1', 0)\n"
      "    tasks = [asyncio.ensure_future(wait())]\n"
      "    erlang.reply.register('of one that ends', timeout=3600)\n"
      "    erlang.send(owner, ('listens', server.sockets[0].getsockname()[1]))\n"
      "    await asyncio.Event().wait()\n">>.

each_loop_has_an_interpreter(_Config) ->
    Isolated = isolated(),
    #{isolated := Isolated} = py_event_loop_pool:get_stats(),
    [One, Two] = loops(),
    {ok, none} = run(One, builtins, exec, [<<"import sys; sys.whose = 'one'">>, #{}]),
    ?assertEqual({ok, not Isolated}, run(Two, builtins, eval, [<<"hasattr(__import__('sys'), 'whose')">>, #{}])),
    {ok, none} = run(One, builtins, exec, [<<"import sys; del sys.whose">>, #{}]),
    #{interpreters := Count} = py_subinterp_pool:get_stats(),
    ?assert(case Isolated of true -> Count >= 2; false -> Count =:= 0 end).

tasks_of_all_loops_run_and_wait(_Config) ->
    Refs = [{N, task(Loop, asyncio, sleep, [0.01, N])} || N <- lists:seq(1, 50), Loop <- loops()],
    [{ok, N} = py:await(Ref, 60000) || {N, Ref} <- Refs],
    {ok, [1, 2, 3]} = py:async_gather([{asyncio, sleep, [0.01, N]} || N <- [1, 2, 3]]).

what_goes_wrong_is_the_answer(_Config) ->
    [{error, {'ValueError', <<"from afar">>}} = run(Loop, afar, fail, []) || Loop <- loops()],
    [{error, {'ModuleNotFoundError', _}} = run(Loop, no_such_module, f, []) || Loop <- loops()].

a_timeout_cancels_the_task(_Config) ->
    [{error, timeout} = py_loop:run({ok, Loop}, {asyncio, sleep}, [3600], #{timeout => 20}) || Loop <- loops()],
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py_event_loop_pool:get_stats()) =:= 0 end).

terms_come_back_as_they_went(_Config) ->
    Large = binary:copy(<<"0123456789abcdef">>, 10000),
    Terms = [1, -1, 1 bsl 100, 2.5, true, none, <<"text">>, <<255, 0>>, [1, [2, {3}]], #{<<"a">> => [1], 2 => {}}, self(), make_ref(),
             fun() -> ok end, Large, [Large, Large]],
    [{ok, Term} = run(Loop, asyncio, sleep, [0, Term]) || Term <- Terms, Loop <- loops()].

streams_and_servers_work(_Config) ->
    Size = 1 bsl 20,
    Refs = [task(Loop, afar, echo, [Size]) || Loop <- loops(), _ <- [1, 2]],
    [{ok, {true, Size}} = py:await(Ref, 60000) || Ref <- Refs].

coroutines_call_erlang(_Config) ->
    ok = py:register_function(twice, fun([N]) -> 2 * N end),
    Refs = [task(Loop, afar, ask_all, [twice, 100]) || Loop <- loops()],
    Expected = [2 * N || N <- lists:seq(0, 99)],
    [{ok, Expected} = py:await(Ref, 60000) || Ref <- Refs],
    [{ok, 42} = run(Loop, afar, ask, [twice, 21]) || Loop <- loops()],
    ok = py:unregister_function(twice).

%% The function asks the very interpreter that waits for it.
a_loop_that_waits_serves_its_callback(_Config) ->
    ok = py:register_function(whose, fun([]) -> {ok, Whose} = py:eval("__import__('sys').whose"), Whose end),
    [{ok, none} = run(Loop, builtins, exec, [<<"import sys; sys.whose = mark">>, #{mark => N}])
     || {N, Loop} <- numbered(loops())],
    [?assertEqual({ok, case isolated() of true -> N; false -> 2 end}, run(Loop, afar, ask, [whose])) || {N, Loop} <- numbered(loops())],
    [run(Loop, builtins, exec, [<<"import sys; vars(sys).pop('whose', None)">>, #{}]) || Loop <- loops()],
    ok = py:unregister_function(whose).

numbered(List) ->
    lists:zip(lists:seq(1, length(List)), List).

%% No thread waits for it, so it is served by any.
functions_that_are_awaited_call_python_again(_Config) ->
    ok = py:register_function(root, fun([N]) -> {ok, Root} = py:call(math, sqrt, [N]), Root end),
    ok = py:register_function(far_root, fun([N]) -> {ok, [Root]} = py:parallel([{math, sqrt, [N]}]), Root end),
    [{ok, [+0.0, 1.0]} = run(Loop, afar, ask_all, [Name, 2]) || Loop <- loops(), Name <- [root, far_root]],
    [ok = py:unregister_function(Name) || Name <- [root, far_root]].

async_generators_are_collected(_Config) ->
    [{ok, [0, 1, 2, 3]} = py_loop:run({ok, Loop}, drain, {afar, numbers}, [4], #{}, 60000) || Loop <- loops()],
    {ok, [0, 1, 2]} = py:async_stream(afar, numbers, [3]).

chains_go_on_in_their_interpreter(_Config) ->
    ok = py:register_function(last, fun([Sum]) -> {sum, Sum} end),
    [{ok, {sum, 55}} = run(Loop, afar, Function, Args)
     || Loop <- loops(), Way <- [<<"schedule_py">>, <<"schedule_inline">>],
        {Function, Args} <- [{step, [Way, 10, 0]}, {'begin', [Way, 10]}]],
    ok = py:unregister_function(last).

tasks_are_spawned_on_the_loop_of_their_interpreter(_Config) ->
    [{ok, true} = run(Loop, afar, spawn, []) || Loop <- loops()].

replies_come_to_where_they_are_awaited(_Config) ->
    Refs = [begin
                Ref = task(Loop, afar, wait_for_reply, [Name, self()]),
                receive {<<"registered">>, Name} -> ok after 60000 -> error(not_registered) end,
                {Name, Ref}
            end || {Name, Loop} <- numbered(loops())],
    [true = py_reply:complete(Name, {answer, Name}) || {Name, _} <- Refs],
    [{ok, {<<"answer">>, Name}} = py:await(Ref, 60000) || {Name, Ref} <- Refs],
    [false = py_reply:complete(Name, again) || {Name, _} <- Refs],
    %% From one interpreter to another.
    [One, Two] = loops(),
    Waits = task(Two, afar, wait_for_reply, [across, self()]),
    receive {<<"registered">>, <<"across">>} -> ok after 60000 -> error(not_registered) end,
    {ok, true} = run(One, 'erlang.reply', complete, [<<"across">>, 7]),
    {ok, 7} = py:await(Waits, 60000).

a_loop_that_computes_holds_no_other_up(_Config) ->
    [One, Two] = loops(),
    ok = py:register_function(begun, fun([Pid]) -> Pid ! begun end),
    Code = <<"import erlang\nerlang.begun(pid)\nwhile True: pass">>,
    Busy = task(One, builtins, exec, [Code, #{pid => self()}]),
    receive begun -> ok after 60000 -> error(not_begun) end,
    {ok, 3.0} = run(Two, math, sqrt, [9]),
    true = py:interrupt(Busy),
    {error, interrupted} = py:await(Busy, 60000),
    {ok, 3.0} = run(One, math, sqrt, [9]),
    ok = py:unregister_function(begun).

%% Of each loop and each worker, and not of the main interpreter.
the_memory_limit_is_that_of_the_environment(_Config) ->
    Code = <<"len(bytearray(160 << 20))">>,
    {ok, 167772160} = py:eval(Code),
    Calls = [fun() -> run(Loop, builtins, eval, [Code, #{}]) end || Loop <- loops()],
    [case {isolated(), Call()} of
         {true, {error, {'MemoryError', Text}}} -> {match, _} = re:run(Text, "134217728 bytes \\(subinterp_memory_limit\\)");
         {false, Result} -> ?assertEqual({ok, 167772160}, Result)
     end || Call <- [fun() -> py_subinterp_pool:call(builtins, eval, [Code, #{}]) end | Calls]],
    [{ok, 3.0} = run(Loop, math, sqrt, [9]) || Loop <- loops()].

%% Its threads and tasks, what it listens to and waits for. Another one comes.
a_loop_that_is_killed_takes_everything_with_it(_Config) ->
    case isolated() of
        false ->
            ok;
        true ->
            #{interpreters := Before, left := Left} = py_subinterp_pool:get_stats(),
            ok = py:register_function(never, fun([]) -> receive after infinity -> ok end end),
            {Loop, Owner} = one(),
            Task = task(Loop, afar, settle_down, [self()]),
            [receive What -> ok after 60000 -> error({nothing_of, What}) end
             || What <- [<<"spins">>, <<"asks">>, <<"waits">>]],
            Port = receive {<<"listens">>, Number} -> Number after 60000 -> error(nothing_listens) end,
            {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, []),
            ok = gen_tcp:close(Socket),
            exit(Owner, kill),
            {error, closed} = py:await(Task, 60000),
            Ended = fun() ->
                        #{interpreters := Now, left := NowLeft} = py_subinterp_pool:get_stats(),
                        Now =:= Before andalso length(element(2, py_event_loop_pool:get_all_loops())) =:= 2 andalso
                            NowLeft =:= Left + left_behind()
                    end,
            py_test:wait_until(Ended, 12000),
            {error, econnrefused} = gen_tcp:connect({127, 0, 0, 1}, Port, []),
            %% Nobody waits for that any more.
            {ok, Waiter} = py_reply:register(<<"of one that ends">>, #{reply_to => self(), timeout => 60000}),
            true = py_reply:cancel(Waiter, over),
            [{ok, 3.0} = run(Other, math, sqrt, [9]) || Other <- loops()],
            ok = py:unregister_function(never),
            ok = define()
    end.

one() ->
    {ok, [One | _]} = py_event_loop_pool:get_all_loops(),
    One.

%% Up to 3.13 none is ended.
left_behind() ->
    {ok, Ends} = py:eval("__import__('sys').version_info >= (3, 14)"),
    case Ends of true -> 0; false -> 1 end.

a_bad_option_is_refused(_Config) ->
    ok = application:set_env(erlang_python, event_loop_pool, nonsense),
    ?assertError({event_loop_pool, nonsense}, py_event_loop_pool:isolated()),
    ok = application:set_env(erlang_python, event_loop_pool, subinterp).
