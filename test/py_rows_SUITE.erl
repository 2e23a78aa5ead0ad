%% Bugs that comparable systems had, each designed out here and each with a name: M is memory, D deadlocks, W wrong data, S
%% security, L loops and timers, F descriptors and transports. Every row has cases that begin with its name, in this suite or where
%% their topic is: `rows/0' finds them all.
-module(py_rows_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([rows/0]).
-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([every_row_has_a_case/1,
         m1_a_buffer_that_grows_and_shrinks_meanwhile_crosses_whole/1,
         m2_a_context_that_dies_in_a_callback_ends_well/1,
         m2_a_callback_is_answered_once/1,
         m3_memory_that_is_not_there_is_an_error/1,
         m4_text_that_is_no_utf8_is_an_error_like_any_other/1,
         m4_a_nul_in_a_name_is_an_error/1,
         m5_what_belongs_to_a_thread_works_from_call_to_call/1,
         m6_references_end_on_whatever_thread_they_end/1,
         m6_another_interpreter_does_not_get_at_the_bridge/1,
         m7_a_context_survives_whatever_a_request_does/1,
         d1_everything_at_once_ends/1,
         d3_a_write_that_blocks_holds_no_scheduler/1,
         d4_an_answer_is_found_among_others/1,
         d5_the_application_stops_whatever_is_running/1,
         d6_nothing_of_ours_is_swallowed_by_except/1,
         w3_values_cross_unharmed_through_a_callback/1,
         w4_no_value_becomes_another_silently/1,
         s1_no_text_of_python_becomes_an_atom/1,
         s2_names_are_names_and_no_code/1,
         s2_a_path_is_a_path_and_no_command/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 4}]),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    Config.

%% Whatever a case does, all contexts are there, idle and whole, and nothing is left in the mailbox.
end_per_testcase(_Case, _Config) ->
    ok = py:unbind(),
    py_test:wait_until(fun() -> 
        maps:with([contexts, idle, bound, queued], py:stats()) =:= #{contexts => 4, idle => 4, bound => 0, queued => 0}
    end),
    {messages, []} = process_info(self(), messages),
    ok.

define(Code) ->
    [ok = Result || Result <- py_pool:broadcast(["import erlang, sys, threading\n", Code])],
    ok.

%% Which cases serve which row: [{"m1", [{py_binary_SUITE, m1_a_binary_...}, ...]}, ...].
rows() ->
    Suites = filelib:wildcard(filename:join(filename:dirname(code:which(?MODULE)), "*_SUITE.beam")),
    Cases = [{Suite, Case} || File <- Suites, Suite <- [list_to_atom(filename:basename(File, ".beam"))],
                              {Case, 1} <- Suite:module_info(exports)],
    Rows = [Letter ++ integer_to_list(N) || {Letter, Last} <- [{"m", 7}, {"d", 6}, {"w", 5}, {"s", 4}, {"l", 10}, {"f", 9}], N <- lists:seq(1, Last)],
    [{Row, [One || {_, Case} = One <- Cases, lists:prefix(Row ++ "_", atom_to_list(Case))]} || Row <- Rows].

every_row_has_a_case(_Config) ->
    [ct:pal("~ts: ~tp", [Row, Cases]) || {Row, Cases} <- rows()],
    [] = [Row || {Row, []} <- rows()].

%% A thread resizes it all the time. Whoever looks at it meanwhile sees one state of it, never two.
m1_a_buffer_that_grows_and_shrinks_meanwhile_crosses_whole(_Config) ->
    ok = define("if not hasattr(sys, 'moving'): sys.moving = bytearray(b'a')\n"
                "def move(on):\n"
                "    def work():\n"
                "        n = 0\n"
                "        while sys.moves:\n"
                "            n += 1\n"
                "            try: sys.moving[:] = bytes([97 + n % 26]) * (1 + n * 7919 % 200000)\n"
                "            except BufferError: pass\n"
                "    sys.moves = on\n"
                "    if on:\n"
                "        sys.mover = threading.Thread(target=work)\n"
                "        sys.mover.start()\n"
                "    else:\n"
                "        sys.mover.join()\n"
                "def look(n):\n"
                "    return sys.moving if n % 2 else memoryview(sys.moving)\n"),
    {ok, none} = py:call('__main__', move, [true]),
    Whole = fun(<<First, _/binary>> = Data) -> Data =:= binary:copy(<<First>>, byte_size(Data)) end,
    [begin {ok, Data} = py:call('__main__', look, [N]), true = Whole(Data) end || N <- lists:seq(1, 500)],
    {ok, none} = py:call('__main__', move, [false]).

%% The process of the context is killed while its thread waits for Erlang; the answer comes when nobody wants it any more.
m2_a_context_that_dies_in_a_callback_ends_well(_Config) ->
    Self = self(),
    Late = maps:get(late_callbacks, py:stats()),
    ok = py:register_function(hold, fun([]) -> Self ! {holds, self()}, receive go_on -> done end end),
    ok = define(""),
    [begin
         [{N, Victim, Context} | _] = py_context:all(),
         Caller = spawn_monitor(fun() -> exit({told, py_request:eval(Context, "erlang.hold()", #{}, infinity)}) end),
         Callback = receive {holds, Pid} -> Pid end,
         exit(Victim, kill),
         receive {'DOWN', Monitor, process, _, {told, {error, _}}} when Monitor =:= element(2, Caller) -> ok end,
         Callback ! go_on,
         py_test:wait_until(fun() -> lists:keymember(N, 1, py_context:all()) andalso py:num_workers() =:= 4 end),
         ok = define("")
     end || _ <- lists:seq(1, 10)],
    py_test:wait_until(fun() -> maps:get(late_callbacks, py:stats()) >= Late + 10 end),
    ok = py:unregister_function(hold).

m2_a_callback_is_answered_once(_Config) ->
    Self = self(),
    ok = py:register_function(twice, fun([]) ->
        Ticket = py_request:target(),
        Self ! {first, py_nif:callback_answer(Ticket, {ok, 1})},
        Self ! {second, py_nif:callback_answer(Ticket, {ok, 2})},
        3
    end),
    ok = define(""),
    [begin
         {ok, 1} = py:eval("erlang.twice()"),
         receive {first, true} -> ok end,
         receive {second, false} -> ok end
     end || _ <- lists:seq(1, 50)],
    ok = py:unregister_function(twice).

%% Each of the first allocations that a request makes fails once, on every kind of value.
m3_memory_that_is_not_there_is_an_error(_Config) ->
    ok = py:bind(),
    {error, {'MemoryError', _}} = py:eval("bytearray(1 << 60)"),
    case py:eval("__import__('_testcapi').set_nomemory and 1") of
        {ok, 1} ->
            Term = #{<<"key">> => [1 bsl 80, 1.5, {<<"text">>, {bytes, <<"bytes">>}}, self(), [1 | 2]], 7 => #{}},
            Same = {ok, Wanted} = py:call(copy, copy, [Term]),
            ok = py:exec("import _testcapi, copy\n"
                         "def fail(at):\n    _testcapi.set_nomemory(at, at + 1)\n"
                         "def work():\n    _testcapi.remove_mem_hooks()\n"),
            Results = [begin
                           %% It may hit the end of this call, or the beginning of the last.
                           Set = py:call('__main__', fail, [At]),
                           Result = py:call(copy, copy, [Term]),
                           py_test:wait_until(fun() -> py:call('__main__', work, []) =:= {ok, none} end),
                           Same = py:call(copy, copy, [Term]),
                           case Set of {ok, none} -> Result; _ -> Set end
                       end || At <- lists:seq(1, 100)],
            %% Some failed, and those that did not have the right value.
            {Failed, Passed} = lists:partition(fun({error, _}) -> true; (_) -> false end, Results),
            true = length(Failed) > 5,
            [{ok, Wanted} = Result || Result <- Passed],
            [case Reason of
                 {'MemoryError', _} -> ok;
                 dropped -> ok
             end || {error, Reason} <- Failed];
        {error, {_, _}} ->
            ok = ct:comment("this Python has no _testcapi")
    end.

m4_text_that_is_no_utf8_is_an_error_like_any_other(_Config) ->
    ok = define("class Odd(Exception):\n"
                "    def __str__(self): raise ValueError('no text')\n"
                "Words = type('two words', (Exception,), {})\n"
                "def throw(kind):\n"
                "    if kind == 'text': raise ValueError('a\\ud800b')\n"
                "    if kind == 'str': raise Odd()\n"
                "    if kind == 'words': raise Words('x')\n"
                "    if kind == 'nul': raise ValueError('a\\0b')\n"
                "    if kind == 'long': raise ValueError('x' * 1000000)\n"
                "    if kind == 'bytes': raise OSError(2, 'no', b'\\xff'.decode(errors='surrogateescape'))\n"
                "    if kind == 'file': exec(compile('1 / 0', '/tmp/\\udcff', 'exec'))\n"
                "    if kind == 'note':\n"
                "        e = ValueError('noted'); e.__notes__ = ['\\ud800', 7]; raise e\n"
                "    if kind == 'group': raise BaseExceptionGroup('g\\ud800', [ValueError('\\ud800')])\n"),
    [begin
         {error, {Class, Text} = Reason} = py:call('__main__', throw, [Kind]),
         true = is_atom(Class) orelse is_binary(Class),
         true = is_binary(Text) andalso is_list(unicode:characters_to_list(Text)),
         true = is_binary(unicode:characters_to_binary(py:format_error(Reason))),
         {Kind, true} = {Kind, Text =/= <<>>}
     end || Kind <- [text, words, nul, long, bytes, file, note]
                        ++ [group || {ok, true} <- [py:eval("sys.version_info >= (3, 11)")]]],
    {error, {_, Said}} = py:call('__main__', throw, [str]),
    true = is_binary(Said),
    {error, {'ValueError', <<"a", 0, "b">>}} = py:call('__main__', throw, [nul]).

m4_a_nul_in_a_name_is_an_error(_Config) ->
    ok = define(""),
    ok = py:register_function(present, fun(_) -> true end),
    [{error, {Class, _}} = Result || {Class, Result} <- [
        {'ModuleNotFoundError', py:call(<<"ma", 0, "th">>, sqrt, [1.0])},
        {'ModuleNotFoundError', py:call('ma\0th', sqrt, [1.0])},
        {'AttributeError', py:call(math, <<"sqrt", 0>>, [1.0])},
        {bad_keyword, py:call(builtins, dict, [], #{<<"a", 0>> => 1})},
        {'ValueError', py:eval(<<"1 +", 0, " 1">>)},
        {'ValueError', py:exec(<<"pass", 0>>)},
        {'AttributeError', py:eval("getattr(erlang, 'pre\\0sent')")},
        {'AttributeError', py:eval("getattr(erlang, 'present\\0')")},
        {'FileNotFoundError', py:activate_venv(<<"/tmp/a", 0, "b">>)}]],
    {error, {_, _}} = py:eval("erlang.call('present\\0')"),
    {ok, none} = py:eval("erlang.whereis('kernel_sup\\0')"),
    {error, {'ValueError', _}} = py:eval("erlang.send('kernel_sup\\0', 1)"),
    {ok, Odd} = py:eval("erlang.atom('a\\0b')"),
    'a\0b' = Odd,
    ok = py:unregister_function(present).

%% Thread locals, locks with an owner, connections of sqlite3: from call to call, around callbacks and in a stream.
m5_what_belongs_to_a_thread_works_from_call_to_call(_Config) ->
    ok = py:register_function(again, fun([N]) -> {ok, V} = py:call('__main__', touch, [N]), V end),
    ok = py:bind(),
    ok = py:exec("import erlang, threading\n"
                 "local, lock, ident = threading.local(), threading.RLock(), threading.get_native_id()\n"
                 "local.count = 0\n"
                 "lock.acquire()\n"
                 "try:\n"
                 "    import sqlite3\n"
                 "    db = sqlite3.connect(':memory:')\n"
                 "    db.execute('create table t (n)')\n"
                 "except ImportError:\n"
                 "    db = None\n"
                 "def touch(n):\n"
                 "    assert threading.get_native_id() == ident\n"
                 "    local.count += 1\n"
                 "    lock.acquire(); lock.release()\n"
                 "    if db: db.execute('insert into t values (?)', (n,))\n"
                 "    return local.count if n == 0 else erlang.again(n - 1)\n"
                 "def pour():\n"
                 "    while True:\n"
                 "        yield touch(0)\n"),
    [begin {ok, Count} = py:call('__main__', touch, [9]), Count = 10 * N end || N <- lists:seq(1, 20)],
    {ok, Stream} = py:stream_start('__main__', pour, [], #{demand => 1}),
    [begin
         First = 199 + 2 * N,
         receive {py_stream, Stream, {data, Value}} -> First = Value end,
         {ok, Next} = py:call('__main__', touch, [0]),
         Next = First + 1,
         ok = py:stream_ack(Stream, 1)
     end || N <- lists:seq(1, 20)],
    ok = py:stream_cancel(Stream),
    Drain = fun Drain() -> receive {py_stream, Stream, {data, _}} -> Drain(); {py_stream, Stream, {error, cancelled}} -> ok end end,
    ok = Drain(),
    ok = py:exec("lock.release()"),
    ok = py:unregister_function(again).

%% Objects held by Erlang processes that just end, lent bytes, and terms held by Python: none is dropped by a thread that may not.
m6_references_end_on_whatever_thread_they_end(_Config) ->
    ok = define("if not hasattr(sys, 'ended'): sys.ended = []\n"
                "class Counted:\n"
                "    def __del__(self):\n"
                "        sys.ended.append(threading.get_ident())\n"
                "def hold(term):\n"
                "    sys.held = (term, lambda: term)\n"
                "    return bytes(70000)\n"),
    {ok, Before} = py:eval("len(sys.ended)"),
    Holders = [spawn_monitor(fun() ->
        Refs = [begin {ok, Ref} = py:call('__main__', 'Counted', [], #{}, #{return => ref}), Ref end || _ <- lists:seq(1, 20)],
        {ok, Lent} = py:call('__main__', hold, [fun() -> Refs end]),
        70000 = byte_size(Lent)
    end) || _ <- lists:seq(1, 50)],
    [receive {'DOWN', Monitor, process, _, Reason} -> normal = Reason end || {_, Monitor} <- Holders],
    {ok, _} = py:call('__main__', hold, [none]),
    py_test:wait_until(fun() ->
        %% Without a GIL an object is let go by the thread that made it, when that runs Python the next time.
        _ = py_pool:broadcast("pass"),
        py:eval("len(sys.ended)") =:= {ok, Before + 1000}
    end).

%% Objects of one interpreter mean nothing in another: the bridge refuses to be there, and nothing comes to harm.
m6_another_interpreter_does_not_get_at_the_bridge(_Config) ->
    ok = define("def elsewhere():\n"
                "    try:\n"
                "        import _interpreters as api\n"
                "    except ImportError:\n"
                "        try: import _xxsubinterpreters as api\n"
                "        except ImportError: return 'none here'\n"
                "    there = api.create()\n"
                "    try:\n"
                "        said = api.run_string(there, 'import erlang._bridge')\n"
                "        return 'came in' if said is None else 'refused'\n"
                "    except Exception as error:\n"
                "        return 'refused'\n"),
    {ok, Said} = py:call('__main__', elsewhere, []),
    true = lists:member(Said, [<<"refused">>, <<"none here">>]).

%% One after the other in the same context, which has its thread and its state afterwards.
m7_a_context_survives_whatever_a_request_does(_Config) ->
    ok = py:bind(),
    ok = py:exec("import erlang, sys, threading\n"
                 "kept = []\n"
                 "class Mine(BaseException): pass\n"
                 "class Rude(Exception):\n"
                 "    def __str__(self): raise SystemExit\n"
                 "    __repr__ = __str__\n"
                 "def throw(what): raise what\n"
                 "def deep(n): return deep(n + 1)\n"
                 "def endless():\n    while True: pass\n"
                 "class Bomb:\n"
                 "    def __del__(self): raise KeyboardInterrupt\n"
                 "def bomb(): Bomb(); return 1\n"
                 "def leave_error():\n    x = []\n    x.append(x)\n    return x\n"),
    {ok, Thread} = py:call(threading, get_native_id, []),
    Bad = ["throw(SystemExit(3))", "throw(KeyboardInterrupt())", "throw(GeneratorExit())", "throw(StopIteration(1))",
           "throw(MemoryError())", "throw(Mine('x'))", "throw(Rude())", "throw(erlang.Interrupted())", "deep(0)",
           "object()", "leave_error()", "erlang.call('no_such_function')", "1 / 0", "nothing", "1 +", "'\\ud800'",
           "sys.exit()", "exit()", "[[[object()]]]", "{1: 'a', True: object()}"],
    [begin
         case py:eval(Code) of
             {error, _} -> ok;
             Other -> error({no_error, Code, Other})
         end,
         {ok, {Thread, _}} = py:eval("(threading.get_native_id(), kept.append(1))")
     end || Code <- Bad],
    {ok, 1} = py:eval("bomb()"),
    {error, timeout} = py:eval("endless()", #{}, 20),
    Wanted = length(Bad),
    {ok, {Thread, Wanted}} = py:eval("(threading.get_native_id(), len(kept))").

%% Every lock of the NIF is wanted by schedulers and by attached threads at once, while Python switches threads as often as it can.
d1_everything_at_once_ends(_Config) ->
    ok = define("def churn(n):\n"
                "    def work():\n"
                "        for i in range(n):\n"
                "            erlang.here(i); erlang.whereis('kernel_sup'); hasattr(erlang, 'gone'); erlang.state_incr('d1')\n"
                "    threads = [threading.Thread(target=work) for _ in range(4)]\n"
                "    for t in threads: t.start()\n"
                "    for t in threads: t.join()\n"),
    ok = py:register_function(here, fun([I]) -> I end),
    {ok, Interval} = py:eval("sys.getswitchinterval()"),
    {ok, none} = py:eval("sys.setswitchinterval(1e-6)"),
    Each = fun(Fun) -> spawn_monitor(fun() -> [Fun(N) || N <- lists:seq(1, 100)] end) end,
    Churn = [Each(Fun) || Fun <- [
        fun(_) -> py:stats() end,
        fun(_) -> case py:bind() of ok -> py:unbind(); {error, no_workers_available} -> ok end end,
        fun(N) -> py:cancel(py:call_async(time, sleep, [N / 100000])) end,
        fun(N) -> py:eval("sum(range(3000))", #{}, N rem 3) end,
        fun(_) -> {error, Reason} = py:eval("1 / 0"), py:format_error(Reason) end,
        fun(N) -> ok = py:register_function("d1_" ++ integer_to_list(N rem 5), fun(X) -> X end) end,
        fun(_) -> {ok, [0, 1]} = py:stream_eval("(x for x in range(2))") end,
        fun(_) -> {ok, _} = py:call(builtins, object, [], #{}, #{return => ref}) end,
        fun(_) -> ok = py:cast(math, sqrt, [1.0]) end]],
    {ok, none} = py:call('__main__', churn, [100], #{}, infinity),
    [receive {'DOWN', Monitor, process, _, Reason} -> normal = Reason end || {_, Monitor} <- Churn],
    {ok, none} = py:eval("sys.setswitchinterval(i)", #{i => Interval}),
    [ok = py:unregister_function(Name) || <<"d1_", _/binary>> = Name <- py_callback:names()],
    ok = py:state_remove(d1),
    ok = py:unregister_function(here).

%% All contexts but one hang in a write to a pipe that is full, until the last one reads it empty.
d3_a_write_that_blocks_holds_no_scheduler(_Config) ->
    ok = define("import os\n"
                "if not hasattr(sys, 'pipe'): sys.pipe = os.pipe()\n"
                "def fill(): return os.write(sys.pipe[1], bytes(1000000))\n"
                "def drain(n):\n"
                "    left = n\n"
                "    while left: left -= len(os.read(sys.pipe[0], min(left, 65536)))\n"
                "    return n\n"),
    Writers = [py:call_async('__main__', fill, []) || _ <- lists:seq(1, 3)],
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 1 end),
    Everywhere = [spawn_opt(fun() -> _ = lists:sort([rand:uniform() || _ <- lists:seq(1, 1000)]) end, [monitor, {scheduler, N}])
                  || N <- lists:seq(1, erlang:system_info(schedulers_online)), _ <- lists:seq(1, 10)],
    [receive {'DOWN', Monitor, process, Pid, normal} -> ok end || {Pid, Monitor} <- Everywhere],
    {ok, _} = file:read_file(code:which(?MODULE)),
    [receive {py_response, Ref, Early} -> error({over_too_soon, Early}) after 0 -> ok end || Ref <- Writers],
    {ok, 3000000} = py:call('__main__', drain, [3000000]),
    [{ok, 1000000} = py:await(Ref) || Ref <- Writers].

%% In any order, among messages that look alike.
d4_an_answer_is_found_among_others(_Config) ->
    Noise = [{py_response, make_ref(), {ok, 0}}, {async_result, make_ref(), {ok, 0}}, {make_ref(), {ok, 0}}, {py_result, make_ref(), 0}],
    [self() ! Message || Message <- Noise],
    Refs = [{N, py:call_async(builtins, abs, [-N])} || N <- lists:seq(1, 200)],
    {ok, 3} = py:call(builtins, abs, [-3], #{}, infinity),
    [{ok, N} = py:await(Ref, infinity) || {N, Ref} <- lists:reverse(Refs)],
    [receive Message -> ok after 0 -> error({taken, Message}) end || Message <- Noise].

%% A tight loop, a sleep in C, a wait for Erlang, a stream without credit, a bound context, a queue.
d5_the_application_stops_whatever_is_running(_Config) ->
    [begin
         ok = py:register_function(never, fun([]) -> receive never -> ok end end),
         ok = define("import time\ndef spin():\n    while True: pass\n"),
         Codes = ["spin()", "time.sleep(3)", "erlang.never()", "spin()", "1", "2"],
         Callers = [spawn_monitor(fun() -> exit({told, py:eval(Code, #{}, infinity)}) end) || Code <- Codes],
         py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 0 end),
         ok = application:stop(erlang_python),
         [receive
              {'DOWN', Monitor, process, _, {told, {error, _}}} -> ok;
              {'DOWN', Monitor, process, _, {told, {ok, Value}}} -> true = lists:member(Value, [none, 1, 2])
          end || {_, Monitor} <- Callers],
         {error, closed} = py:eval("1"),
         ok = application:start(erlang_python),
         {ok, 4.0} = py:call(math, sqrt, [16.0]),
         py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 4 end)
     end || _ <- lists:seq(1, 3)].

%% Waiting for Erlang is no exception, and being stopped is one that frameworks do not catch.
d6_nothing_of_ours_is_swallowed_by_except(_Config) ->
    ok = py:register_function(plus, fun([N]) -> {ok, M} = py:eval("n + 1", #{n => N}), M end),
    ok = define("def careful(n):\n"
                "    seen = []\n"
                "    for i in range(n):\n"
                "        try: seen.append(erlang.plus(i))\n"
                "        except BaseException as error: seen.append(repr(error))\n"
                "    return seen\n"
                "def framework():\n"
                "    while True:\n"
                "        try:\n"
                "            n = 0\n"
                "            while True: n += 1\n"
                "        except Exception: pass\n"
                "def marked():\n"
                "    try: return erlang.schedule('plus', 1)\n"
                "    except BaseException: return 'swallowed'\n"),
    {ok, Seen} = py:call('__main__', careful, [50]),
    Seen = lists:seq(1, 50),
    {ok, 2} = py:call('__main__', marked, []),
    Before = maps:get(interrupted, py:stats()),
    {error, timeout} = py:call('__main__', framework, [], #{}, 20),
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 4 end),
    true = maps:get(interrupted, py:stats()) > Before,
    ok = py:unregister_function(plus).

%% There and back, as an argument and as an answer: what a way through text would lose.
w3_values_cross_unharmed_through_a_callback(_Config) ->
    Self = self(),
    ok = py:register_function(mirror, fun([Value]) -> Self ! {seen, Value}, Value end),
    ok = define("def both(value):\n"
                "    back = erlang.mirror(value)\n"
                "    assert back == value and type(back) is type(value), (back, value)\n"
                "    return back\n"),
    Values = [<<"back\\slash">>, <<"\\">>, <<"\\n">>, <<"'\"'''\"\"\"">>, <<"a\nb\tc\r">>, <<0>>, <<>>, <<"None">>, <<"nan">>,
              <<"{'a': 1}">>, <<"1">>, <<"true">>, <<"grün 日本 \x{1F600}"/utf8>>, 0.1 + 0.2, 1 / 3, 5.0e-324, 1.7976931348623157e308,
              123456789012345.67, 1 bsl 53 + 1, 1 bsl 64, -(1 bsl 200) - 1, 0, [], [[]], {}, {{}}, #{}, #{<<>> => <<>>},
              [<<>>, 0, 0.0, false, none, [], {}, #{}], true, false, none, lists:seq(1, 300)],
    [begin
         {ok, Value} = py:call('__main__', both, [Value]),
         receive {seen, Seen} -> Value = Seen end
     end || Value <- Values],
    {ok, <<255, 0, 254>>} = py:call('__main__', both, [{bytes, <<255, 0, 254>>}]),
    receive {seen, <<255, 0, 254>>} -> ok end,
    ok = py:unregister_function(mirror).

%% By every way there is into Erlang: an unknown object is an error, and a big number is that number.
w4_no_value_becomes_another_silently(_Config) ->
    Self = self(),
    Big = 1 bsl 100000 - 1,
    ok = py:register_function(take, fun([Value]) -> Self ! {took, Value}, Value end),
    ok = define("def value(odd): return object() if odd else 2 ** 100000 - 1\n"
                "def pour(odd): yield value(odd)\n"),
    {error, {unconvertible, <<"object">>}} = py:eval("value(True)"),
    {error, {unconvertible, <<"object">>}} = py:eval("{'a': [value(True)]}"),
    {error, {unconvertible, <<"object">>}} = py:stream_eval("pour(True)"),
    [{error, {'TypeError', <<"object objects have no counterpart in Erlang">>}} = py:eval(Code, #{pid => Self})
     || Code <- ["erlang.take(value(True))", "erlang.send(pid, value(True))", "erlang.state_set('w4', value(True))",
                 "erlang.state_set(value(True), 1)"]],
    {error, {_, _}} = py:eval("erlang.schedule('take', value(True))"),
    {ok, Big} = py:eval("value(False)"),
    {ok, Big} = py:eval("erlang.take(value(False))"),
    receive {took, Big} -> ok end,
    {ok, [Big]} = py:stream_eval("pour(False)"),
    {ok, none} = py:eval("erlang.send(pid, value(False))", #{pid => Self}),
    receive Big -> ok after 60000 -> error(nothing_came) end,
    {ok, true} = py:eval("n == value(False)", #{n => Big}),
    {error, not_found} = py:state_fetch(w4),
    {ok, _} = py:eval("erlang.state_set('w4', value(False))"),
    {ok, Big} = py:state_fetch(w4),
    ok = py:state_remove(w4),
    ok = py:unregister_function(take).

%% Texts that nobody has seen before, in every place where an atom could be made of one.
s1_no_text_of_python_becomes_an_atom(_Config) ->
    ok = py:register_function(known, fun(_) -> ok end),
    ok = define("import logging\n"
                "logger = logging.getLogger('s1')\n"
                "def use(text):\n"
                "    def quiet(f):\n"
                "        try: f()\n"
                "        except Exception: pass\n"
                "    quiet(lambda: erlang.call(text)); quiet(lambda: getattr(erlang, text)); quiet(lambda: erlang.whereis(text))\n"
                "    quiet(lambda: erlang.send(text, 1)); quiet(lambda: erlang.state_set(text, text)); erlang.state_remove(text)\n"
                "    quiet(lambda: erlang.known(text, {text: text}, (text,))); quiet(lambda: erlang.schedule(text))\n"
                "    logger.debug(text, extra={text: text})\n"
                "    return {text: [text]}\n"
                "def fail(text): raise type(text, (Exception,), {})(text)\n"),
    Round = fun(Name, Count) ->
        [begin
             Text = <<Name/binary, (integer_to_binary(N))/binary>>,
             {ok, _} = py:call('__main__', use, [Text]),
             {error, {Text, Text}} = py:call('__main__', fail, [Text]),
             {error, _} = py:call(Text, f, []),
             {error, _} = py:call(math, Text, []),
             {error, _} = py:call(builtins, len, [], #{Text => 1}),
             {ok, Text} = py:eval("x", #{<<"x">> => Text}),
             [] = [Known || {ok, Known} <- [existing(Text)]]
         end || N <- lists:seq(1, Count)]
    end,
    Round(<<"s1_first_">>, 1),
    Before = erlang:system_info(atom_count),
    Round(<<"s1_text_">>, 200),
    %% Others may load code meanwhile; six thousand texts have left nothing.
    true = erlang:system_info(atom_count) - Before < 200,
    ok = py:unregister_function(known).

existing(Text) ->
    try {ok, binary_to_existing_atom(Text)} catch error:badarg -> none end.

%% What looks like code and is given as a name does not run: it is not found.
s2_names_are_names_and_no_code(Config) ->
    Flag = filename:join(proplists:get_value(priv_dir, Config), "s2_ran"),
    Open = ["open(", io_lib:format("~p", [Flag]), ", 'w')"],
    Codes = [unicode:characters_to_binary(Code) || Code <- [
        Open, ["__import__('builtins').", Open], ["os; ", Open], ["os\n", Open], ["x'); ", Open, " #"], ["lambda: ", Open],
        ["a=", Open], ["**", Open], ["{", Open, "}"], ["f(", Open, ")"]]],
    [begin
         {error, {'ModuleNotFoundError', _}} = only(py:call(Code, f, [])),
         {error, {Missing, _}} = py:call(builtins, Code, []),
         true = lists:member(Missing, ['AttributeError', 'TypeError']),
         {error, {NoMain, _}} = py:call('__main__', Code, []),
         true = lists:member(NoMain, ['AttributeError', 'TypeError']),
         {error, {bad_keyword, Code}} = py:call(builtins, dict, [], #{Code => 1}),
         {error, _} = py:eval("erlang.call(x)", #{x => Code}),
         {ok, Code} = py:eval("x", #{x => Code, Code => 1})
     end || Code <- Codes],
    false = filelib:is_regular(Flag).

%% `a.b' of something that is no module is not found either, under whichever name Python has for that.
only({error, {'ModuleNotFoundError', _}} = Error) -> Error;
only({error, {Class, _}}) when Class =:= 'ImportError'; Class =:= 'ValueError'; Class =:= 'AttributeError' ->
    {error, {'ModuleNotFoundError', Class}}.

s2_a_path_is_a_path_and_no_command(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    Flag = filename:join(Dir, "s2_command_ran"),
    Paths = [lists:flatten(Path) || Path <- [["/nowhere; touch ", Flag], ["/nowhere`touch ", Flag, "`"], ["$(touch ", Flag, ")"],
                                             ["'; import os; open('", Flag, "', 'w'); '"]]],
    Before = application:get_env(erlang_python, python),
    [begin
         {error, _} = py:activate_venv(Path),
         ok = application:set_env(erlang_python, python, Path),
         {error, {no_python, _}} = py_python:find()
     end || Path <- Paths],
    case Before of
        {ok, Python} -> ok = application:set_env(erlang_python, python, Python);
        undefined -> ok = application:unset_env(erlang_python, python)
    end,
    %% A directory of such a name is just that.
    Odd = filename:join(Dir, "odd ' name; $(x) `y` \"z\""),
    Base = maps:from_list([{Name, list_to_binary(Odd)} || Name <- [base, platbase]]),
    {ok, Packages} = py:call(sysconfig, get_path, [<<"purelib">>, <<"venv">>, Base]),
    ok = filelib:ensure_dir(filename:join(Packages, "x")),
    ok = file:write_file(filename:join(Odd, "pyvenv.cfg"), "home = /usr\n"),
    ok = file:write_file(filename:join(Packages, "in_an_odd_place.py"), "here = 1\n"),
    ok = py:activate_venv(Odd),
    {ok, 1} = py:eval("__import__('in_an_odd_place').here"),
    ok = py:deactivate_venv(),
    false = filelib:is_regular(Flag).
