%% How tasks are handed over. Those of few atoms and numbers travel without an environment, and others by one: nobody is to see a
%% difference. A module named by text is the second way, whatever the arguments are.
-module(py_task_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([arguments_arrive_alike_both_ways/1,
         results_come_back_alike_both_ways/1,
         failures_are_told_alike_both_ways/1,
         a_chain_goes_on_both_ways/1,
         a_context_variable_of_one_task_is_not_seen_by_the_next/1,
         a_task_that_is_kept_stays_what_it_was/1,
         a_function_is_looked_up_anew_for_every_task/1,
         what_a_module_makes_up_is_found/1,
         a_module_need_not_be_one/1,
         a_class_in_place_of_asyncios_tasks_makes_them/1,
         a_task_that_was_given_up_is_not_answered_by_what_it_returns/1,
         queued_tasks_are_answered_once_when_their_loop_ends/1,
         queued_tasks_of_a_dead_caller_never_begin/1,
         messages_to_the_dead_take_nothing_along/1,
         a_killed_owner_is_replaced_for_those_who_look/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 2}, {event_loop_pool_size, 2}, {event_loop_driver, thread}]),
    ok = py_test:module("tasks_under_test", source()),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

source() ->
    "import asyncio, contextvars, sys, weakref\n"
    "import erlang\n"
    "async def told(*args):\n"
    "    return [[type(arg).__name__, repr(arg)] for arg in args]\n"
    "VALUES = [None, True, False, 0, -1, 2**63 - 1, -2**63, 2**63, 1.5, -0.0, float('inf'), float('nan'), '', 'short',\n"
    "          'x' * 31, b'bytes', b'\\xff', 'y' * 100000, [1, [2]], {'a': 1}, (1, 2), erlang.atom('ok'), object()]\n"
    "VALUES.append([VALUES])\n"
    "async def gives(number):\n"
    "    return VALUES[number]\n"
    "async def gives_later(number):\n"
    "    await asyncio.sleep(0)\n"
    "    return VALUES[number]\n"
    "def plainly(number):\n"
    "    return VALUES[number]\n"
    "async def raises(number):\n"
    "    raise ValueError(number)\n"
    "async def leaves():\n"
    "    sys.exit(3)\n"
    "async def cancels():\n"
    "    asyncio.current_task().cancel()\n"
    "    await asyncio.sleep(0)\n"
    "def scheduled(x):\n"
    "    return erlang.schedule('tasks_double', x)\n"
    "async def scheduled_inline(x):\n"
    "    return erlang.schedule_inline(__name__, 'plainly', [x])\n"
    "async def scheduled_py(x):\n"
    "    return erlang.schedule_py(__name__, 'plainly', [x])\n"
    "VAR = contextvars.ContextVar('VAR', default=0)\n"
    "async def sets(value):\n"
    "    before = VAR.get()\n"
    "    VAR.set(value)\n"
    "    return before\n"
    "kept = []\n"
    "async def keeps():\n"
    "    task = asyncio.current_task()\n"
    "    task.set_name('kept')\n"
    "    kept.append((task, weakref.ref(task)))\n"
    "    return asyncio.all_tasks() == {task}\n"
    "async def others():\n"
    "    mine = asyncio.current_task()\n"
    "    return [len(kept), len({id(task) for task, _ in kept} | {id(mine)}), mine.get_name() == 'kept', mine.done(),\n"
    "            all(task.done() and not task.cancelled() and task.get_name() == 'kept' for task, _ in kept)]\n"
    "def forget():\n"
    "    dead = [reference for _, reference in kept]\n"
    "    kept.clear()\n"
    "    return [reference() is None for reference in dead]\n"
    "async def first():\n"
    "    return 'first'\n"
    "async def second():\n"
    "    return 'second'\n"
    "called = first\n"
    "def swap(name):\n"
    "    globals()['called'] = globals()[name]\n"
    "def __getattr__(name):\n"
    "    if name == 'made_up':\n"
    "        return second\n"
    "    raise AttributeError(name)\n"
    "__class__ = second\n"
    "class Odd:\n"
    "    async def method(self, value):\n"
    "        return value\n"
    "def put_odd():\n"
    "    sys.modules['odd_under_test'] = Odd()\n"
    "async def class_name():\n"
    "    return type(asyncio.current_task()).__name__\n"
    "class Other(asyncio.Task):\n"
    "    given = []\n"
    "    def __init__(self, coroutine, **keywords):\n"
    "        Other.given.append(keywords)\n"
    "        super().__init__(coroutine, **keywords)\n"
    "        keywords['loop'] = None\n"
    "def put_class(other):\n"
    "    asyncio.tasks.Task = Other if other else asyncio.tasks._CTask\n"
    "    return len(Other.given)\n"
    "async def holds(listener):\n"
    "    erlang.send(listener, 'holding')\n"
    "    erlang.call('tasks_hold')\n"
    "async def stubborn():\n"
    "    try:\n"
    "        erlang.call('tasks_hold')\n"
    "    except BaseException:\n"
    "        pass\n"
    "    return 5\n"
    "begun = []\n"
    "async def begins(number):\n"
    "    begun.append(number)\n"
    "async def how_many():\n"
    "    return len(begun)\n".

%% The answers of the two ways, in this order.
both(Function, Args) ->
    Ways = [tasks_under_test, <<"tasks_under_test">>],
    Refs = [py_event_loop:create_task(Module, Function, Args) || Module <- Ways],
    [py_event_loop:await(Ref, 60000) || Ref <- Refs].

task(Function, Args) ->
    py_event_loop:await(py_event_loop:create_task(tasks_under_test, Function, Args), 60000).

arguments_arrive_alike_both_ways(_Config) ->
    Words = [0, 1, -1, 16#7fffffffffffffff, -16#8000000000000000, 16#8000000000000000, 1.5, -0.0, 1.0e308, true, false, none,
             undefined, nil, an_atom, 'with space', [], <<"text">>, <<255>>, {1, 2}, self()],
    Lists = [[]] ++ [[A] || A <- Words] ++ [[A, B] || A <- Words, B <- Words] ++ [[1, 2, 3], [1, 2, 3, 4], [1 | 2], [1, 2 | 3]],
    [begin
         [Answer, Answer] = both(told, Args),
         case Answer of
             {ok, Told} -> ?assertEqual(length(Args), length(Told));
             {error, {improper_list, Args}} -> ok
         end
     end || Args <- Lists].

results_come_back_alike_both_ways(_Config) ->
    [begin
         [Answer, Answer] = both(Function, [Number]),
         {Number, true} = {Number, element(1, Answer) =:= case Number < 22 of true -> ok; false -> error end}
     end || Function <- [gives, gives_later, plainly], Number <- lists:seq(0, 23)].

failures_are_told_alike_both_ways(_Config) ->
    Calls = [{raises, [7]}, {leaves, []}, {cancels, []}, {no_such_function, [1]}, {raises, []}, {gives, [24]}],
    [begin
         [{error, Reason}, {error, Reason}] = both(Function, Args)
     end || {Function, Args} <- Calls],
    {error, {'ModuleNotFoundError', _}} = py_event_loop:await(py_event_loop:create_task(no_such_module, f, [1]), 60000).

a_chain_goes_on_both_ways(_Config) ->
    ok = py:register_function(tasks_double, fun([X]) -> 2 * X end),
    [{ok, 10}, {ok, 10}] = both(scheduled, [5]),
    [{ok, 1.5}, {ok, 1.5}] = both(scheduled_inline, [8]),
    [{ok, 1.5}, {ok, 1.5}] = both(scheduled_py, [8]),
    ok = py:unregister_function(tasks_double).

a_context_variable_of_one_task_is_not_seen_by_the_next(_Config) ->
    Refs = [py_event_loop:create_task(tasks_under_test, sets, [N]) || N <- lists:seq(1, 1000)],
    ?assertEqual([{ok, 0}], lists:usort([py_event_loop:await(Ref, 60000) || Ref <- Refs])).

a_task_that_is_kept_stays_what_it_was(_Config) ->
    [{ok, true} = task(keeps, []) || _ <- lists:seq(1, 100)],
    {ok, [100, 101, false, false, true]} = task(others, []),
    {ok, Gone} = task(forget, []),
    ?assertEqual([true], lists:usort(Gone)).

a_function_is_looked_up_anew_for_every_task(_Config) ->
    {ok, <<"first">>} = task(called, []),
    {ok, none} = task(swap, [second]),
    {ok, <<"second">>} = task(called, []),
    {ok, none} = task(swap, [first]),
    {ok, <<"first">>} = task(called, []).

what_a_module_makes_up_is_found(_Config) ->
    {ok, <<"second">>} = task(made_up, []),
    {ok, <<"tasks_under_test">>} = py:eval(<<"__import__('tasks_under_test').__name__">>),
    {error, {'AttributeError', _}} = task(not_made_up, []),
    %% What the class of modules has itself comes before what is in the namespace.
    {error, {'TypeError', _}} = task('__class__', []).

a_module_need_not_be_one(_Config) ->
    {ok, none} = task(put_odd, []),
    {ok, 5} = py_event_loop:await(py_event_loop:create_task(odd_under_test, method, [5]), 60000).

a_class_in_place_of_asyncios_tasks_makes_them(_Config) ->
    {ok, <<"Task">>} = task(class_name, []),
    {ok, 0} = task(put_class, [true]),
    [{ok, <<"Other">>} = task(class_name, []) || _ <- lists:seq(1, 3)],
    {ok, 3} = task(put_class, [false]),
    {ok, <<"Task">>} = task(class_name, []).

%% A loop whose thread is in a callback until it is told to go on.
held(Fun) ->
    Self = self(),
    ok = py:register_function(tasks_hold, fun([]) -> Self ! {held, self()}, receive go_on -> none end end),
    Tag = make_ref(),
    {ok, Loop} = py_nif:loop_start(Tag, thread),
    receive {py_loop, Tag, ready} -> ok end,
    Held = py_loop:create_task({ok, Loop}, tasks_under_test, holds, [Self], #{}),
    receive <<"holding">> -> ok end,
    Holder = receive {held, Pid} -> Pid end,
    Result = Fun({ok, Loop}, fun() -> Holder ! go_on end),
    ok = py_nif:loop_stop(Loop),
    {_, _} = py_event_loop:await(Held, 60000),
    receive {py_loop, Tag, ended} -> ok end,
    ok = py:unregister_function(tasks_hold),
    Result.

a_task_that_was_given_up_is_not_answered_by_what_it_returns(_Config) ->
    Self = self(),
    ok = py:register_function(tasks_hold, fun([]) -> Self ! held, receive never -> ok end end),
    [begin
         Ref = py_event_loop:create_task(Module, stubborn, []),
         receive held -> ok end,
         {error, timeout} = py_event_loop:await(Ref, 0),
         %% Begun after it, and so answered after it.
         {ok, 0} = task(gives, [3]),
         receive {async_result, Ref, Answer} -> error(Answer) after 0 -> ok end
     end || Module <- [tasks_under_test, <<"tasks_under_test">>]],
    ok = py:unregister_function(tasks_hold).

queued_tasks_are_answered_once_when_their_loop_ends(_Config) ->
    Refs = held(fun({ok, Loop} = Found, GoOn) ->
        Queued = [py_loop:create_task(Found, tasks_under_test, gives, [3], #{}) || _ <- lists:seq(1, 1000)],
        ok = py_nif:loop_stop(Loop),
        GoOn(),
        Queued
    end),
    Answers = [py_event_loop:await(Ref, 60000) || Ref <- Refs],
    ?assertEqual([{error, closed}], lists:usort(Answers)),
    receive {async_result, _, _} = Second -> error(Second) after 0 -> ok end.

queued_tasks_of_a_dead_caller_never_begin(_Config) ->
    {ok, Before} = task(how_many, []),
    After = held(fun(Found, GoOn) ->
        {Caller, Monitor} = spawn_monitor(fun() ->
            _ = [py_loop:create_task(Found, tasks_under_test, begins, [N], #{}) || N <- lists:seq(1, 100)]
        end),
        receive {'DOWN', Monitor, process, Caller, normal} -> ok end,
        Last = py_loop:create_task(Found, tasks_under_test, how_many, [], #{}),
        GoOn(),
        py_event_loop:await(Last, 60000)
    end),
    ?assertEqual({ok, Before}, After).

%% An environment that could not be sent is emptied before it is used again.
messages_to_the_dead_take_nothing_along(_Config) ->
    Dead = spawn(fun() -> ok end),
    {ok, Loop} = py_event_loop:get_loop(),
    Big = binary:copy(<<"x">>, 1000),
    [ok = py_event_loop:run_async(Loop, #{ref => {N, Big}, caller => Dead, module => <<"tasks_under_test">>, func => gives, args => [3]})
     || N <- lists:seq(1, 1000)],
    [begin
         ok = py_event_loop:run_async(Loop, #{ref => N, caller => self(), module => <<"tasks_under_test">>, func => told, args => [N]}),
         Text = integer_to_binary(N),
         receive {async_result, N, Answer} -> {ok, [[<<"int">>, Text]]} = Answer after 60000 -> error(no_answer) end
     end || N <- lists:seq(1, 1000)].

a_killed_owner_is_replaced_for_those_who_look(_Config) ->
    {ok, Loop} = py_event_loop:get_loop(),
    [{default, Owner, Loop}] = [Row || {default, _, _} = Row <- py_loop:all()],
    exit(Owner, kill),
    py_test:wait_until(fun() ->
        case py_event_loop:get_loop() of
            {ok, Other} when Other =/= Loop -> {ok, 0} =:= task(gives, [3]);
            _ -> false
        end
    end).
