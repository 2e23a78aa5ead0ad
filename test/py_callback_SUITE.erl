%% Calls from Python to Erlang: names, answers, failures, threads and nesting.
-module(py_callback_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([a_registered_function_is_an_attribute/1,
         a_function_can_be_imported_by_name/1,
         an_unknown_function_is_an_error/1,
         an_unregistered_function_is_gone/1,
         failures_have_class_and_reason/1,
         a_killed_callback_is_an_error/1,
         the_code_around_a_call_runs_once/1,
         nesting_needs_one_context_only/1,
         nesting_works_through_other_processes/1,
         a_context_that_hangs_is_stood_in_for/1,
         nesting_works_from_threads_and_executors/1,
         many_callbacks_at_once_get_their_own_answers/1,
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

the_code_around_a_call_runs_once(_Config) ->
    ok = py:exec("before = after = 0\n"
                 "def count():\n"
                 "    global before, after\n"
                 "    before += 1\n"
                 "    erlang.echo(1)\n"
                 "    after += 1\n"
                 "    return (before, after)\n"),
    {ok, {1, 1}} = py:call('__main__', count, []),
    {ok, {2, 2}} = py:call('__main__', count, []).

nesting_needs_one_context_only(_Config) ->
    1 = py:num_workers(),
    ok = py:exec("def down(n):\n    return n if n == 0 else 1 + erlang.eval(f'down({n - 1})')\n"),
    {ok, 1} = py:call('__main__', down, [1]),
    {ok, 50} = py:call('__main__', down, [50]).

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

many_callbacks_at_once_get_their_own_answers(_Config) ->
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
