%% Answers of small tasks that go out together: they are late by a moment only, stay in their order, and come once. Twice: with loops that
%% have a thread each, and with loops that the BEAM waits for.
-module(py_tray_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([answers_do_not_wait_for_a_task_that_blocks/1,
         answers_do_not_wait_for_a_task_that_waits/1,
         answers_are_there_before_what_the_next_task_sends/1,
         answers_are_there_before_the_function_that_the_next_task_calls/1,
         answers_of_any_size_come_in_the_order_of_their_tasks/1,
         a_task_is_answered_or_cancelled/1]).

%% More than go out together, and more than have to be short before any do.
-define(MANY, 300).

all() ->
    [{group, thread}, {group, beam}].

groups() ->
    [{Driver, [], py_test:cases(?MODULE)} || Driver <- [thread, beam]].

init_per_group(Driver, Config) ->
    ok = py_test:start([{num_workers, 2}, {event_loop_driver, Driver}]),
    ok = py_test:module("tray", source()),
    Config.

source() ->
    "import asyncio, threading\n"
    "import erlang\n"
    "events = {}\n"
    "def make(name):\n"
    "    events[name] = threading.Event()\n"
    "def happen(name):\n"
    "    events[name].set()\n"
    "def block(name):\n"
    "    return events[name].wait(60)\n"
    "async def wait(name):\n"
    "    while not events[name].is_set():\n"
    "        await asyncio.sleep(0.001)\n"
    "    return True\n"
    "async def same(value):\n"
    "    return value\n"
    "async def long(size):\n"
    "    return 'x' * size\n"
    "async def tell(listener):\n"
    "    erlang.send(listener, 'told')\n"
    "    block('done')\n"
    "async def ask(name):\n"
    "    return erlang.call(name)\n".

end_per_group(_Driver, _Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    [{ok, none} = py:call(tray, make, [Name]) || Name <- [gate, done]],
    Config.

end_per_testcase(_Case, _Config) ->
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py_event_loop_pool:get_stats()) =:= 0 end),
    {messages, []} = process_info(self(), messages),
    ok.

task(Function, Args) ->
    py_event_loop:create_task(tray, Function, Args).

happen(Name) ->
    {ok, none} = py:call(tray, happen, [Name]),
    ok.

%% Queues so many small tasks, and what `Last' queues, while the loop is held up: all of it is run in one go afterwards.
queued(Last) ->
    Gate = task(block, [gate]),
    Refs = [{N, task(same, [N])} || N <- lists:seq(1, ?MANY)],
    Result = Last(),
    ok = happen(gate),
    {ok, true} = py_event_loop:await(Gate, 60000),
    {Refs, Result}.

answered(Refs) ->
    [?assertEqual({N, {ok, N}}, {N, py_event_loop:await(Ref, 10000)}) || {N, Ref} <- Refs],
    ok.

%% The answers are in the mailbox already.
are_here(Refs) ->
    [receive {async_result, Ref, {ok, N}} -> ok after 0 -> error({not_here, N}) end || {N, Ref} <- Refs],
    ok.

answers_do_not_wait_for_a_task_that_blocks(_Config) ->
    {Refs, Blocks} = queued(fun() -> task(block, [done]) end),
    ok = answered(Refs),
    ok = happen(done),
    {ok, true} = py_event_loop:await(Blocks, 60000).

answers_do_not_wait_for_a_task_that_waits(_Config) ->
    {Refs, Waits} = queued(fun() -> task(wait, [done]) end),
    ok = answered(Refs),
    ok = happen(done),
    {ok, true} = py_event_loop:await(Waits, 60000).

answers_are_there_before_what_the_next_task_sends(_Config) ->
    Self = self(),
    {Refs, Tells} = queued(fun() -> task(tell, [Self]) end),
    receive <<"told">> -> ok after 60000 -> error(not_told) end,
    ok = are_here(Refs),
    ok = happen(done),
    {ok, none} = py_event_loop:await(Tells, 60000).

answers_are_there_before_the_function_that_the_next_task_calls(_Config) ->
    Self = self(),
    ok = py:register_function(tray_asked, fun([]) -> Self ! asked, 7 end),
    {Refs, Asks} = queued(fun() -> task(ask, [tray_asked]) end),
    receive asked -> ok after 60000 -> error(not_asked) end,
    ok = are_here(Refs),
    {ok, 7} = py_event_loop:await(Asks, 60000),
    ok = py:unregister_function(tray_asked).

answers_of_any_size_come_in_the_order_of_their_tasks(_Config) ->
    Gate = task(block, [gate]),
    Make = fun(N) when N rem 50 =:= 0 -> task(long, [N]);
              (N) -> task(same, [N])
           end,
    Refs = [Make(N) || N <- lists:seq(1, ?MANY)],
    ok = happen(gate),
    {ok, true} = py_event_loop:await(Gate, 60000),
    Came = [receive {async_result, Ref, {ok, _}} -> Ref after 60000 -> error(not_answered) end || _ <- Refs],
    ?assertEqual(Refs, Came).

a_task_is_answered_or_cancelled(_Config) ->
    Cancels = fun() ->
        {Refs, _} = queued(fun() -> none end),
        Cancelled = [{N, Ref, py:cancel(Ref)} || {N, Ref} <- lists:reverse(Refs)],
        [?assertEqual(case Was of true -> {error, cancelled}; false -> {ok, N} end, py_event_loop:await(Ref, 60000))
         || {N, Ref, Was} <- Cancelled],
        {ok, none} = py:call(tray, make, [gate])
    end,
    [Cancels() || _ <- lists:seq(1, 20)],
    ok.
