%% Loops without a thread: parked by one `enif_select' on their own epoll descriptor, and run by threads that all of them share. What
%% they do like others is in `py_event_loop_SUITE'; here is what is special about them.
-module(py_parked_loop_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([many_loops_have_no_thread_while_nothing_happens/1,
         idle_is_not_woken/1,
         the_running_loop_is_known_in_every_run/1,
         debug_mode_knows_the_thread_of_the_moment/1,
         threads_of_python_wake_a_parked_loop/1,
         a_timer_wakes_a_parked_loop/1,
         sockets_wake_a_parked_loop/1,
         a_loop_in_a_blocking_call_holds_up_no_other/1,
         a_loop_that_waits_for_erlang_holds_up_no_other/1,
         a_loop_that_always_has_work_leaves_others_their_turn/1,
         deep_recursion_has_room/1,
         f1_a_closed_descriptor_that_lives_on_is_no_end/1,
         only_the_owner_waits/1,
         f3_a_dead_owner_leaves_no_descriptor/1,
         what_waits_is_answered_when_the_owner_dies/1,
         the_loop_of_py_event_loop_proc_is_parked/1,
         an_unknown_driver_is_refused/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 2}, {event_loop_pool_size, 3}, {event_loop_driver, beam}]),
    ok = py_test:module("parked", source()),
    Config.

source() ->
    "import asyncio, json, os, socket, threading\n"
    "import erlang\n"
    "async def add(a, b):\n"
    "    return a + b\n"
    "async def sleeps(seconds, value=None):\n"
    "    await asyncio.sleep(seconds)\n"
    "    return value\n"
    "async def waits(listener):\n"
    "    erlang.send(listener, 'begun')\n"
    "    await asyncio.sleep(3600)\n"
    "async def wakeups():\n"
    "    return asyncio.get_running_loop()._native_stats()['wakeups']\n"
    "async def known(n):\n"
    "    loop = asyncio.get_running_loop()\n"
    "    for _ in range(n):\n"
    "        await asyncio.sleep(0.001)\n"
    "        assert asyncio.get_running_loop() is loop and asyncio.get_event_loop() is loop, 'another loop'\n"
    "        assert loop.is_running() and loop._thread_id == threading.get_ident(), 'another thread'\n"
    "        assert asyncio.current_task() in asyncio.all_tasks(), (asyncio.current_task(), asyncio.all_tasks())\n"
    "    return [x async for x in counts(n)]\n"
    "async def counts(n):\n"
    "    for i in range(n):\n"
    "        await asyncio.sleep(0.0001)\n"
    "        yield i\n"
    "async def debugs():\n"
    "    loop = asyncio.get_running_loop()\n"
    "    loop.set_debug(True)\n"
    "    try:\n"
    "        await asyncio.sleep(0.01)\n"
    "        loop.call_soon(int)\n"
    "        said = []\n"
    "        def elsewhere():\n"
    "            try:\n"
    "                loop.call_soon(int)\n"
    "            except RuntimeError as error:\n"
    "                said.append(str(error))\n"
    "        thread = threading.Thread(target=elsewhere)\n"
    "        thread.start()\n"
    "        thread.join()\n"
    "        return said\n"
    "    finally:\n"
    "        loop.set_debug(False)\n"
    "async def woken(times):\n"
    "    loop = asyncio.get_running_loop()\n"
    "    for _ in range(times):\n"
    "        event = asyncio.Event()\n"
    "        timer = threading.Timer(0.001, loop.call_soon_threadsafe, [event.set])\n"
    "        timer.start()\n"
    "        await event.wait()\n"
    "        timer.join()\n"
    "        await loop.run_in_executor(None, int)\n"
    "    return times\n"
    "async def serve(listener):\n"
    "    async def echo(reader, writer):\n"
    "        while data := await reader.read(65536):\n"
    "            writer.write(data)\n"
    "            await writer.drain()\n"
    "        writer.close()\n"
    "    async with await asyncio.start_server(echo, '127.0.0.1', 0) as server:\n"
    "        erlang.send(listener, ('port', server.sockets[0].getsockname()[1]))\n"
    "        await server.serve_forever()\n"
    "gates = {}\n"
    "async def blocks(listener, key):\n"
    "    gate = gates[key] = threading.Event()\n"
    "    erlang.send(listener, 'blocking')\n"
    "    gate.wait()\n"
    "    return 'released'\n"
    "def release(key):\n"
    "    gates[key].set()\n"
    "async def asks(listener, name):\n"
    "    erlang.send(listener, 'asking')\n"
    "    return erlang.call(name)\n"
    "async def spins(listener):\n"
    "    erlang.send(listener, 'spinning')\n"
    "    while True:\n"
    "        await asyncio.sleep(0)\n"
    "def deep():\n"
    "    nested = []\n"
    "    for _ in range(900):\n"
    "        nested = [nested]\n"
    "    return json.loads(json.dumps(nested)) == nested and len(repr(nested))\n"
    "async def ghost():\n"
    "    loop = asyncio.get_running_loop()\n"
    "    before = loop._native_stats()['rebuilds']\n"
    "    a, b = socket.socketpair()\n"
    "    loop.add_reader(a.fileno(), int)\n"
    "    again = os.dup(a.fileno())\n"
    "    os.close(a.detach())\n"
    "    other = socket.socket()\n"
    "    loop.remove_reader(other.fileno())\n"
    "    b.send(b'x')\n"
    "    while loop._native_stats()['rebuilds'] == before:\n"
    "        await asyncio.sleep(0.001)\n"
    "    os.close(again)\n"
    "    b.close()\n"
    "    other.close()\n"
    "    return 'rebuilt'\n".

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) ->
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py:stats()) =:= 0 end),
    {ok, 3} = run(add, [1, 2]),
    {messages, []} = process_info(self(), messages),
    ok.

run(Function, Args) ->
    py_event_loop:run(parked, Function, Args, #{timeout => 60000}).

said(What) ->
    receive What -> ok after 60000 -> error({not_said, What}) end.

%% Owners of loops, each with a loop of its own.
loops(N) ->
    [begin {ok, Pid} = gen_server:start(py_loop, {spare, Key}, []), {Pid, {spare, Key}} end || Key <- lists:seq(1, N)].

stop_loops(Loops) ->
    [gen_server:stop(Pid) || {Pid, _} <- Loops].

run_on({_, Key}, Function, Args) ->
    py_loop:run(py_loop:find(Key), {parked, Function}, Args, #{timeout => 60000}).

threads() ->
    maps:get(loop_threads, py:stats()).

many_loops_have_no_thread_while_nothing_happens(_Config) ->
    Loops = loops(100),
    [{ok, 3} = run_on(Loop, add, [1, 2]) || Loop <- Loops],
    py_test:wait_until(fun() -> threads() =:= 0 end, 12000),
    [{ok, 3} = run_on(Loop, add, [1, 2]) || Loop <- Loops],
    ?assert(threads() > 0),
    stop_loops(Loops).

%% l7: only what is asked of a loop wakes it.
idle_is_not_woken(_Config) ->
    [Loop] = loops(1),
    Far = py_loop:create_task(py_loop:find(element(2, Loop)), parked, sleeps, [3600], #{}),
    {ok, _} = run_on(Loop, sleeps, [0.01]),
    {ok, Before} = run_on(Loop, wakeups, []),
    receive after 1000 -> ok end,
    {ok, After} = run_on(Loop, wakeups, []),
    ?assert(After - Before =< 2, {Before, After}),
    true = py:cancel(Far),
    receive {async_result, Far, {error, cancelled}} -> ok after 60000 -> error(no_answer) end,
    stop_loops([Loop]).

the_running_loop_is_known_in_every_run(_Config) ->
    Counted = lists:seq(0, 99),
    {ok, Counted} = run(known, [100]).

debug_mode_knows_the_thread_of_the_moment(_Config) ->
    {ok, [Said]} = run(debugs, []),
    {match, _} = re:run(Said, "Non-thread-safe operation").

threads_of_python_wake_a_parked_loop(_Config) ->
    {ok, 100} = run(woken, [100]).

a_timer_wakes_a_parked_loop(_Config) ->
    [{ok, N} = run(sleeps, [0.002, N]) || N <- lists:seq(1, 100)].

sockets_wake_a_parked_loop(_Config) ->
    Server = py_event_loop:create_task(parked, serve, [self()]),
    Port = receive {<<"port">>, Given} -> Given after 60000 -> error(no_port) end,
    Clients = [begin
                   {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
                   Socket
               end || _ <- lists:seq(1, 50)],
    Data = binary:copy(<<"0123456789">>, 1000),
    [begin
         [ok = gen_tcp:send(Socket, Data) || Socket <- Clients],
         [{ok, Data} = gen_tcp:recv(Socket, byte_size(Data), 60000) || Socket <- Clients]
     end || _ <- lists:seq(1, 20)],
    [ok = gen_tcp:close(Socket) || Socket <- Clients],
    true = py:cancel(Server),
    {error, cancelled} = py_event_loop:await(Server, 60000).

a_loop_in_a_blocking_call_holds_up_no_other(_Config) ->
    Loops = loops(5),
    Refs = [py_loop:create_task(py_loop:find(Key), parked, blocks, [self(), N], #{}) || {_, {spare, N} = Key} <- Loops],
    [ok = said(<<"blocking">>) || _ <- Refs],
    {ok, 3} = run(add, [1, 2]),
    {ok, 5} = run(sleeps, [0.01, 5]),
    [{ok, none} = py:call(parked, release, [N]) || {_, {spare, N}} <- Loops],
    [{ok, <<"released">>} = py_event_loop:await(Ref, 60000) || Ref <- Refs],
    stop_loops(Loops).

%% What Erlang does for it may need any other loop, and the VM's own files.
a_loop_that_waits_for_erlang_holds_up_no_other(_Config) ->
    Self = self(),
    Loops = [Last | Others] = loops(20),
    ok = py:register_function(parked_holds, fun([]) ->
                                                    Self ! {holds, self()},
                                                    receive go_on -> ok end,
                                                    {ok, _} = file:read_file_info("/proc/self/status"),
                                                    {ok, V} = run(add, [1, 2]),
                                                    V
                                            end),
    Refs = [py_loop:create_task(py_loop:find(Key), parked, asks, [Self, <<"parked_holds">>], #{}) || {_, Key} <- Others],
    Held = [receive {holds, Pid} -> Pid after 60000 -> error(not_called) end || _ <- Others],
    [ok = said(<<"asking">>) || _ <- Others],
    {ok, 3} = run_on(Last, add, [1, 2]),
    [Pid ! go_on || Pid <- Held],
    [{ok, 3} = py_event_loop:await(Ref, 60000) || Ref <- Refs],
    ok = py:unregister_function(parked_holds),
    stop_loops(Loops).

a_loop_that_always_has_work_leaves_others_their_turn(_Config) ->
    [Loop] = loops(1),
    Ref = py_loop:create_task(py_loop:find(element(2, Loop)), parked, spins, [self()], #{}),
    ok = said(<<"spinning">>),
    [{ok, 3} = run(add, [1, 2]) || _ <- lists:seq(1, 100)],
    {ok, 3} = run_on(Loop, add, [1, 2]),
    true = py:cancel(Ref),
    receive {async_result, Ref, {error, cancelled}} -> ok after 60000 -> error(no_answer) end,
    stop_loops([Loop]).

%% The stacks of dirty schedulers have none.
deep_recursion_has_room(_Config) ->
    {ok, 1802} = run(deep, []).

%% The epoll instance is replaced under its number, which the BEAM watches.
f1_a_closed_descriptor_that_lives_on_is_no_end(_Config) ->
    [begin
         {ok, <<"rebuilt">>} = run(ghost, []),
         {ok, 5} = run(sleeps, [0.01, 5]),
         {ok, 3} = run(woken, [3])
     end || _ <- lists:seq(1, 3)].

only_the_owner_waits(_Config) ->
    {ok, Loop} = py_event_loop:get_loop(),
    {error, not_owner} = py_nif:loop_arm(Loop, make_ref()),
    %% Whoever says that something is ready, a loop looks and finds nothing.
    ok = py_nif:loop_ready(Loop),
    {ok, 5} = run(sleeps, [0.01, 5]),
    ?assertError(badarg, py_nif:loop_arm(make_ref(), make_ref())),
    ?assertError(badarg, py_nif:loop_ready(make_ref())).

f3_a_dead_owner_leaves_no_descriptor(_Config) ->
    Before = descriptors(),
    Kill = fun(Pid) -> exit(Pid, kill) end,
    [begin
         Loops = loops(10),
         [{ok, 5} = run_on(Loop, sleeps, [0.001, 5]) || Loop <- Loops],
         [End(Pid) || {Pid, _} <- Loops]
     end || End <- [Kill, fun gen_server:stop/1, Kill]],
    %% Those that were killed have left their rows, and a handle of a loop holds what it was waited for by.
    [ok = py_loop:forget({spare, N}) || N <- lists:seq(1, 10)],
    py_test:wait_until(fun() -> erlang:garbage_collect(), descriptors() =< Before end, 12000).

descriptors() ->
    {ok, Names} = file:list_dir("/proc/self/fd"),
    length(Names).

what_waits_is_answered_when_the_owner_dies(_Config) ->
    Loops = loops(10),
    Refs = [py_loop:create_task(py_loop:find(Key), parked, waits, [self()], #{}) || {_, Key} <- Loops],
    [ok = said(<<"begun">>) || _ <- Refs],
    [exit(Pid, kill) || {Pid, _} <- Loops],
    [{error, closed} = py_event_loop:await(Ref, 60000) || Ref <- Refs],
    [ok = py_loop:forget(Key) || {_, Key} <- Loops].

the_loop_of_py_event_loop_proc_is_parked(_Config) ->
    ok = py_test:stop(),
    ok = py_test:start([{num_workers, 2}, {event_loop_pool_size, 3}, {event_loop_driver, thread}]),
    {ok, Parked} = py_event_loop_proc:get_loop(),
    {error, not_owner} = py_nif:loop_arm(Parked, make_ref()),
    {ok, Other} = py_event_loop:get_loop(),
    {error, badarg} = py_nif:loop_arm(Other, make_ref()),
    {ok, Ref} = py_async_driver:submit(parked, sleeps, [0.01, 5], #{}),
    receive {py_result, Ref, 5} -> ok after 60000 -> error(no_answer) end,
    ok = py_test:stop(),
    ok = py_test:start([{num_workers, 2}, {event_loop_pool_size, 3}, {event_loop_driver, beam}]).

an_unknown_driver_is_refused(_Config) ->
    ok = application:set_env(erlang_python, event_loop_driver, horses),
    ?assertMatch({error, {event_loop_driver, horses}}, gen_server:start(py_loop, {spare, 1}, [])),
    ok = application:set_env(erlang_python, event_loop_driver, beam).
