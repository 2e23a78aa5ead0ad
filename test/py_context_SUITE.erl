%% Contexts: namespaces, threads, and their restart.
-module(py_context_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([each_context_has_its_own_namespace/1,
         m5_a_context_keeps_its_thread/1,
         a_late_interrupt_does_not_hit_the_next_request/1,
         a_killed_context_is_restarted_alone/1,
         the_caller_of_a_killed_context_is_told/1,
         who_waits_for_a_killed_context_that_hangs_is_told/1,
         a_closed_context_refuses_requests/1,
         a_bound_context_serves_only_those_who_name_it/1,
         blocked_calls_hold_no_scheduler/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start(),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

contexts() ->
    [Context || {_, _, Context} <- py_context:all()].

each_context_has_its_own_namespace(_Config) ->
    [ok = py_request:exec(Context, "me = " ++ integer_to_list(N), 5000) || {N, _, Context} <- py_context:all()],
    [{ok, N} = py_request:eval(Context, "me", #{}, 5000) || {N, _, Context} <- py_context:all()].

m5_a_context_keeps_its_thread(_Config) ->
    [begin
         Ident = fun() -> py_request:call(Context, call, {threading, get_ident}, [], #{}, 5000) end,
         {ok, Thread} = Ident(),
         [{ok, Thread} = Ident() || _ <- lists:seq(1, 20)]
     end || Context <- contexts()].

%% A C function runs no bytecode, so the exception meant for it is still to come when it returns: here, when the lock is free.
a_late_interrupt_does_not_hit_the_next_request(_Config) ->
    [Context, Other | _] = contexts(),
    Before = maps:get(interrupted, py:stats()),
    ok = py_request:exec(Other, "import sys, threading; sys.gate = threading.Lock(); sys.gate.acquire()", 5000),
    ok = py_request:exec(Context, "import sys; gate = sys.gate", 5000),
    {error, timeout} = py_request:call(Context, call, {'__main__', 'gate.acquire'}, [], #{}, 10),
    py_test:wait_until(fun() -> maps:get(interrupted, py:stats()) > Before end),
    ok = py_request:exec(Other, "sys.gate.release()", 5000),
    {ok, 3} = py_request:eval(Context, "[x for x in range(4)][3]", #{}, 5000).

a_killed_context_is_restarted_alone(_Config) ->
    [ok = py_request:exec(Context, "mark = 1", 5000) || Context <- contexts()],
    [{1, Victim, _} | Others] = py_context:all(),
    exit(Victim, kill),
    py_test:wait_until(fun() -> length(py_context:all()) =:= 4 andalso py:num_workers() =:= 4 end),
    [{1, New, Context} | Others] = py_context:all(),
    true = New =/= Victim,
    {error, {'NameError', _}} = py_request:eval(Context, "mark", #{}, 5000),
    [{ok, 1} = py_request:eval(Other, "mark", #{}, 5000) || {_, _, Other} <- Others].

the_caller_of_a_killed_context_is_told(_Config) ->
    [{N, Victim, Context} | _] = py_context:all(),
    Self = self(),
    spawn(fun() -> Self ! {told, py_request:eval(Context, "[0 for _ in iter(int, 1)]", #{}, 20000)} end),
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) < 4 end),
    exit(Victim, kill),
    receive {told, {error, Reason}} -> true = Reason =/= timeout after 10000 -> error(not_told) end,
    py_test:wait_until(fun() -> length(py_context:all()) =:= 4 andalso lists:keymember(N, 1, py_context:all()) end).

%% Its thread is in C and cannot be stopped. The gate opens only when all have been told, so nobody waited for its end.
who_waits_for_a_killed_context_that_hangs_is_told(_Config) ->
    [{N, Victim, Context}, {_, _, Other} | _] = py_context:all(),
    ok = py_request:exec(Other, "import sys, threading; sys.shut = threading.Lock(); sys.shut.acquire()", infinity),
    ok = py_request:exec(Context, "import sys\nshut = sys.shut\ndef hang():\n    yield 1\n    shut.acquire()\n    yield 2\n", infinity),
    Late = maps:get(late, py:stats()),
    {ok, Stream} = py_nif:stream_start(Context, self(), 1, call, '__main__', hang, [], #{}),
    receive {py_stream, Stream, {data, 1}} -> ok end,
    Tell = fun(How) -> fun() -> exit({told, py_request:call(Context, call, {'__main__', 'shut.acquire'}, [], #{}, How)}) end end,
    Queued = spawn_monitor(Tell(infinity)),
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 3 end),
    {_, FirstMonitor} = Queued,
    %% One that runs, by a caller; others are queued behind it: a caller, a task, the stream.
    Second = spawn_monitor(Tell(600000)),
    Task = py_nif:task_start(Context, py_response, call, '__main__', 'shut.acquire', [], #{}),
    ok = py:stream_ack(Stream, 1),
    %% Long enough for the caller to have left its reference; the other way is that it finds the context closed.
    receive after 100 -> ok end,
    exit(Victim, kill),
    [receive {'DOWN', Monitor, process, _, {told, {error, Reason}}} -> true = lists:member(Reason, [closed, dropped]) end
     || Monitor <- [FirstMonitor, element(2, Second)]],
    receive {py_response, Task, {error, _}} -> ok end,
    receive {py_stream, Stream, {error, _}} -> ok end,
    ok = py_request:exec(Other, "sys.shut.release()", infinity),
    py_test:wait_until(fun() -> maps:get(late, py:stats()) > Late end),
    py_test:wait_until(fun() -> length(py_context:all()) =:= 4 andalso lists:keymember(N, 1, py_context:all()) end),
    %% Likewise for a task and for a stream that are the ones to run.
    [begin
         [{Number, Pid, Where}, {_, _, There} | _] = py_context:all(),
         ok = py_request:exec(There, "import sys, threading; sys.shut = threading.Lock(); sys.shut.acquire()", infinity),
         ok = py_request:exec(Where, "import sys\nshut = sys.shut\ndef hang():\n    shut.acquire()\n    yield 2\n", infinity),
         Before = maps:get(started, py:stats()),
         Ref = case Kind of
                   task ->
                       py_nif:task_start(Where, py_response, call, '__main__', 'shut.acquire', [], #{});
                   stream ->
                       {ok, New} = py_nif:stream_start(Where, self(), infinity, call, '__main__', hang, [], #{}),
                       New
               end,
         %% Not only on its way: what is queued is dropped.
         py_test:wait_until(fun() -> maps:get(started, py:stats()) > Before end),
         exit(Pid, kill),
         receive {_, Ref, {error, closed}} -> ok end,
         ok = py_request:exec(There, "sys.shut.release()", infinity),
         py_test:wait_until(fun() -> length(py_context:all()) =:= 4 andalso lists:keymember(Number, 1, py_context:all()) end),
         receive {_, Ref, Twice} -> error(Twice) after 0 -> ok end
     end || Kind <- [task, stream]].

a_closed_context_refuses_requests(_Config) ->
    [{_, Victim, Context} | _] = py_context:all(),
    exit(Victim, kill),
    py_test:wait_until(fun() -> py_request:eval(Context, "1", #{}, 1000) =:= {error, closed} end),
    py_test:wait_until(fun() -> length(py_context:all()) =:= 4 end).

a_bound_context_serves_only_those_who_name_it(_Config) ->
    [Context | _] = contexts(),
    Binding = py_nif:context_bind(Context, self(), true),
    false = py_nif:context_bind(Context, self(), true),
    1 = maps:get(checked_out, py_pool:get_stats()),
    {ok, Thread} = py_request:call(Context, call, {threading, get_ident}, [], #{}, 5000),
    Others = [py:call_async(threading, get_ident, []) || _ <- lists:seq(1, 200)],
    [begin {ok, Other} = py:await(Ref), true = Other =/= Thread end || Ref <- Others],
    true = py_nif:context_unbind(Binding),
    0 = maps:get(checked_out, py_pool:get_stats()).

%% While every context sleeps in C, files are read as ever and no scheduler is held.
blocked_calls_hold_no_scheduler(_Config) ->
    Sleepers = [py:call_async(time, sleep, [0.5]) || _ <- contexts()],
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 0 end),
    {ok, _} = file:read_file(code:which(?MODULE)),
    [receive {py_response, Ref, _} -> error(over_too_soon) after 0 -> ok end || Ref <- Sleepers],
    [{ok, none} = py:await(Ref) || Ref <- Sleepers].
