%% Calls from Python to Erlang: names, answers, failures, threads and nesting.
-module(py_callback_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([a_registered_function_is_an_attribute/1,
         a_function_can_be_imported_by_name/1,
         an_unknown_function_is_an_error/1,
         an_unregistered_function_is_gone/1,
         failures_have_class_and_reason/1,
         a_killed_callback_is_an_error/1,
         w2_the_code_around_a_call_runs_once/1,
         d2_nesting_needs_one_context_only/1,
         nesting_works_through_other_processes/1,
         a_context_that_hangs_is_stood_in_for/1,
         nesting_works_from_threads_and_executors/1,
         w1_many_callbacks_at_once_get_their_own_answers/1,
         w1_ten_thousand_processes_call_back_and_get_their_own_answers/1,
         w1_a_thousand_waits_at_once_are_answered_in_any_order/1,
         d2_executors_call_erlang_while_their_context_waits_for_it/1,
         large_payloads_cross/1,
         a_timeout_breaks_a_wait_off/1,
         a_late_answer_is_dropped_and_counted/1,
         messages_are_sent/1,
         a_process_is_found_by_name/1,
         the_dispatcher_may_crash/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 1}]),
    ok = py:exec("import erlang, threading, time\nfrom concurrent.futures import ThreadPoolExecutor\n"),
    ok = py:register_function(echo, fun(Args) -> Args end),
    ok = py:register_function(eval, fun([Code]) -> {ok, Value} = py:eval(Code), Value end),
    ok = py:register_function(fail, fun([Class, Reason]) -> erlang:raise(binary_to_existing_atom(Class), Reason, []) end),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

a_registered_function_is_an_attribute(_Config) ->
    {ok, [1, <<"a">>]} = py:eval("erlang.echo(1, 'a')"),
    {ok, []} = py:eval("erlang.call('echo')"),
    ok = py:register_function("named", ?MODULE, module_info),
    {ok, _} = py:eval("erlang.named"  " and 1").

a_function_can_be_imported_by_name(_Config) ->
    ok = py:exec("from erlang import echo as e\nassert e(7) == [7]\n"),
    {error, {'ImportError', _}} = py:exec("from erlang import nothing_like_it").

an_unknown_function_is_an_error(_Config) ->
    {error, {'AttributeError', _}} = py:eval("erlang.nothing_like_it(1)"),
    {error, {<<"ErlangError">>, Text}} = exception(py:eval("erlang.call('nothing_like_it')")),
    {match, _} = re:run(Text, "undefined_function").

%% The atom may exist or not.
exception({error, {Class, Text}}) when is_atom(Class) -> {error, {atom_to_binary(Class), Text}};
exception(Result) -> Result.

an_unregistered_function_is_gone(_Config) ->
    ok = py:register_function(brief, fun(_) -> here end),
    {ok, <<"here">>} = py:eval("erlang.brief()"),
    ok = py:unregister_function(brief),
    {error, {'AttributeError', _}} = py:eval("erlang.brief()").

failures_have_class_and_reason(_Config) ->
    Code = fun(Class) ->
               "def attempt():\n"
               "    try:\n        erlang.fail('" ++ Class ++ "', {'a': 1})\n"
               "    except erlang.ErlangError as e:\n        return (e.kind, e.reason, str(e))\n"
           end,
    [begin
         ok = py:exec(Code(Class)),
         Kind = list_to_binary(Class),
         {ok, {Kind, #{<<"a">> := 1}, Text}} = py:call('__main__', attempt, []),
         {match, _} = re:run(Text, Class)
     end || Class <- ["error", "exit", "throw"]].

a_killed_callback_is_an_error(_Config) ->
    ok = py:register_function(suicide, fun(_) -> exit(self(), kill), receive never -> ok end end),
    {error, {<<"ErlangError">>, Text}} = exception(py:eval("erlang.suicide()")),
    {match, _} = re:run(Text, "callback_died").

w2_the_code_around_a_call_runs_once(_Config) ->
    ok = py:exec("before = after = 0\n"
                 "def count():\n"
                 "    global before, after\n"
                 "    before += 1\n"
                 "    erlang.echo(1)\n"
                 "    after += 1\n"
                 "    return (before, after)\n"),
    {ok, {1, 1}} = py:call('__main__', count, []),
    {ok, {2, 2}} = py:call('__main__', count, []).

d2_nesting_needs_one_context_only(_Config) ->
    1 = py:num_workers(),
    ok = py:exec("def down(n):\n    return n if n == 0 else 1 + erlang.eval(f'down({n - 1})')\n"),
    {ok, 1} = py:call('__main__', down, [1]),
    {ok, 150} = py:call('__main__', down, [150], #{}, infinity).

%% The only context waits for a callback whose work is done by processes of their own.
nesting_works_through_other_processes(_Config) ->
    ok = py:exec("marker = 7"),
    ok = py:register_function(elsewhere, fun([N]) ->
        Self = self(),
        [spawn_link(fun() -> Self ! {said, py:eval("marker + " ++ integer_to_list(I))} end) || I <- lists:seq(1, N)],
        [receive {said, {ok, Value}} -> Value end || _ <- lists:seq(1, N)]
    end),
    {ok, Values} = py:eval("sorted(erlang.elsewhere(20))", #{}, 20000),
    Values = lists:seq(8, 27),
    {ok, 7} = py:eval("marker").

%% A call in C cannot be stopped: its caller is told at once, and others do not wait for its end.
a_context_that_hangs_is_stood_in_for(_Config) ->
    Before = maps:get(unstoppable, py:stats()),
    {error, timeout} = py:call(time, sleep, [4], #{}, 10),
    {ok, 4.0} = py:call(math, sqrt, [16.0], #{}, 3500),
    true = maps:get(unstoppable, py:stats()) > Before,
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 1 end).

nesting_works_from_threads_and_executors(_Config) ->
    ok = py:exec("import __main__\n"
                 "def nested(i):\n    return erlang.eval(f'{i} + 1')\n"
                 "def in_threads(n):\n"
                 "    with ThreadPoolExecutor(n) as pool:\n        return list(pool.map(nested, range(n)))\n"),
    {ok, [1, 2, 3, 4, 5, 6, 7, 8]} = py:call('__main__', in_threads, [8]),
    {ok, _} = py:call('__main__', in_threads, [1]).

w1_many_callbacks_at_once_get_their_own_answers(_Config) ->
    ok = py:register_function(later, fun([N]) -> receive after N rem 7 -> N * 3 end end),
    ok = py:exec("def many(threads, each):\n"
                 "    wrong = []\n"
                 "    def work(base):\n"
                 "        for i in range(each):\n"
                 "            n = base * each + i\n"
                 "            if erlang.later(n) != n * 3: wrong.append(n)\n"
                 "    all = [threading.Thread(target=work, args=(i,)) for i in range(threads)]\n"
                 "    for t in all: t.start()\n"
                 "    for t in all: t.join()\n"
                 "    return wrong\n"),
    {ok, []} = py:call('__main__', many, [100, 20], #{}, 60000).

%% Three ways from Python: the thread of a context, or of a reserve; a thread of Python's own; an executor that all share.
w1_ten_thousand_processes_call_back_and_get_their_own_answers(_Config) ->
    Most = atomics:new(2, []),
    ok = py:register_function(thrice, fun([N]) ->
        Now = atomics:add_get(Most, 1, 1),
        raise_to(Most, Now),
        N rem 50 =:= 0 andalso receive after 1 -> ok end,
        atomics:sub(Most, 1, 1),
        {N, N * 3}
    end),
    ok = py:exec("import sys\n"
                 "if not hasattr(sys, 'shared'): sys.shared = ThreadPoolExecutor(16)\n"
                 "def by_context(n): return erlang.thrice(n)\n"
                 "def by_executor(n): return sys.shared.submit(erlang.thrice, n).result()\n"
                 "def by_thread(n):\n"
                 "    said = []\n"
                 "    thread = threading.Thread(target=lambda: said.append(erlang.thrice(n)))\n"
                 "    thread.start()\n"
                 "    thread.join()\n"
                 "    return said[0]\n"),
    Before = maps:get(callbacks, py:stats()),
    Ways = {by_context, by_executor, by_context, by_thread, by_context},
    Callers = [spawn_monitor(fun() ->
        Way = element(N rem tuple_size(Ways) + 1, Ways),
        {ok, {N, Answer}} = py:call('__main__', Way, [N], #{}, infinity),
        Answer = N * 3,
        {messages, []} = process_info(self(), messages)
    end) || N <- lists:seq(1, 10000)],
    [receive {'DOWN', Monitor, process, _, Reason} -> normal = Reason end || {_, Monitor} <- Callers],
    true = maps:get(callbacks, py:stats()) - Before >= 10000,
    ct:pal("at most ~b callbacks at once", [atomics:get(Most, 2)]),
    {ok, _} = py:eval("(sys.shared.shutdown(), delattr(sys, 'shared'))"),
    ok = py:unregister_function(thrice).

raise_to(Most, Now) ->
    Seen = atomics:get(Most, 2),
    Now > Seen andalso atomics:compare_exchange(Most, 2, Seen, Now) =/= ok andalso raise_to(Most, Now).

%% All of them wait before the first is answered, and then the last comes first, or any.
w1_a_thousand_waits_at_once_are_answered_in_any_order(_Config) ->
    Self = self(),
    ok = py:register_function(gather, fun([N]) -> Self ! {waits, N, self()}, receive {answer, Answer} -> Answer end end),
    ok = py:exec("def wait_all(n):\n"
                 "    said = [None] * n\n"
                 "    def work(i): said[i] = erlang.gather(i)\n"
                 "    before = threading.stack_size(262144)\n"
                 "    try:\n"
                 "        threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]\n"
                 "        for t in threads: t.start()\n"
                 "    finally: threading.stack_size(before)\n"
                 "    for t in threads: t.join()\n"
                 "    return said\n"),
    [begin
         Ref = py:call_async('__main__', wait_all, [1000]),
         Waiting = [receive {waits, N, Pid} -> {N, Pid} end || _ <- lists:seq(1, 1000)],
         [Pid ! {answer, [N, <<"for">>, N * N]} || {N, Pid} <- Order(Waiting)],
         {ok, Said} = py:await(Ref, infinity),
         Said = [[N, <<"for">>, N * N] || N <- lists:seq(0, 999)]
     end || Order <- [fun lists:reverse/1, fun(All) -> [One || {_, One} <- lists:sort([{rand:uniform(), One} || One <- All])] end]],
    ok = py:unregister_function(gather).

%% The context itself waits for Erlang, and so do the threads it has started before: all are served.
d2_executors_call_erlang_while_their_context_waits_for_it(_Config) ->
    Self = self(),
    ok = py:register_function(open_gate, fun([]) -> Self ! {gate, self()}, receive open -> opened end end),
    ok = py:exec("def around(n):\n"
                 "    with ThreadPoolExecutor(n) as pool:\n"
                 "        futures = [pool.submit(erlang.eval, f'{i} * 2') for i in range(n * 5)]\n"
                 "        gate = erlang.open_gate()\n"
                 "        return [gate, [future.result() for future in futures]]\n"),
    Ref = py:call_async('__main__', around, [8]),
    Gate = receive {gate, Pid} -> Pid end,
    %% Also others are served meanwhile.
    {ok, 4.0} = py:call(math, sqrt, [16.0], #{}, infinity),
    Gate ! open,
    {ok, [<<"opened">>, Doubles]} = py:await(Ref, infinity),
    Doubles = [I * 2 || I <- lists:seq(0, 39)],
    ok = py:unregister_function(open_gate).

large_payloads_cross(_Config) ->
    [{ok, true} = py:eval("(lambda d: erlang.echo(d) == [d])(b'\\xff' * n)", #{n => N}, 60000)
     || N <- [1, 65535, 65536, 65537, 1 bsl 26]].

a_timeout_breaks_a_wait_off(_Config) ->
    Self = self(),
    ok = py:register_function(hang, fun(_) -> Self ! {hangs, self()}, receive go_on -> late end end),
    {error, timeout} = py:eval("erlang.hang()", #{}, 50),
    %% The only context serves the next call.
    {ok, 2} = py:eval("1 + 1"),
    receive {hangs, Pid} -> Pid ! go_on after 5000 -> error(never_called) end.

a_late_answer_is_dropped_and_counted(_Config) ->
    Self = self(),
    Before = maps:get(late_callbacks, py:stats()),
    ok = py:register_function(hang, fun(_) -> Self ! {hangs, self()}, receive go_on -> late end end),
    {error, timeout} = py:eval("erlang.hang()", #{}, 50),
    receive {hangs, Pid} ->
        %% The wait is broken off when the only context is idle.
        py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 1 end),
        Monitor = monitor(process, Pid),
        Pid ! go_on,
        receive {'DOWN', Monitor, _, _, _} -> ok end
    end,
    {ok, 3} = py:eval("1 + 2"),
    true = maps:get(late_callbacks, py:stats()) > Before,
    {messages, []} = process_info(self(), messages).

messages_are_sent(_Config) ->
    {ok, none} = py:eval("erlang.send(pid, {'a': [1, 2]})", #{pid => self()}),
    receive #{<<"a">> := [1, 2]} -> ok after 5000 -> error(nothing_came) end,
    register(py_callback_test, self()),
    {ok, none} = py:eval("erlang.send('py_callback_test', erlang.atom('ok'))"),
    receive ok -> ok after 5000 -> error(nothing_came) end,
    Dead = spawn(fun() -> ok end),
    {ok, none} = py:eval("erlang.send(pid, 1)", #{pid => Dead}),
    {error, {'ValueError', _}} = py:eval("erlang.send('nobody_has_this_name', 1)"),
    {error, {'TypeError', _}} = py:eval("erlang.send(pid, object())", #{pid => self()}).

a_process_is_found_by_name(_Config) ->
    Pid = whereis(kernel_sup),
    {ok, Pid} = py:eval("erlang.whereis('kernel_sup')"),
    {ok, none} = py:eval("erlang.whereis('nobody_has_this_name')").

the_dispatcher_may_crash(_Config) ->
    Old = whereis(py_callback),
    exit(Old, kill),
    py_test:wait_until(fun() -> is_pid(whereis(py_callback)) andalso whereis(py_callback) =/= Old end),
    _ = sys:get_state(py_callback),
    {ok, [1]} = py:eval("erlang.echo(1)").
