%% Contexts, callers, callbacks and servers are killed at random while all of them are at work.
%%
%% Each answer is checked to be its caller's own, or an error that says what was killed; who lives gets exactly one; and after each
%% round nothing is left: no message, no lent context, no process, no descriptor, no thread, no memory.
%%
%% CHAOS_SECONDS says for how long, and CHAOS_SEED which random choices (those of a run are printed with its seed; what they hit
%% also depends on the machine).
-module(py_chaos_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([a_storm_leaves_nothing_behind/1]).

-define(CALLERS, 24).
-define(CONTEXTS, 4).
%% Only to end a hang.
-define(HANG, 120000).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, ?CONTEXTS}]),
    %% A module, so that contexts that are started again have it too.
    ok = py:exec("import sys, types\n"
                 "m = sys.modules['chaos'] = types.ModuleType('chaos')\n"
                 "exec('''\n"
                 "import erlang, threading, time\n"
                 "from concurrent.futures import ThreadPoolExecutor\n"
                 "def value(n): return [n, 'v', n * n]\n"
                 "def fail(n): raise ValueError(str(n))\n"
                 "def back(n): return erlang.chaos_back(n)\n"
                 "def nest(n, depth): return n if depth == 0 else erlang.chaos_nest(n, depth)\n"
                 "def by_thread(n):\n"
                 "    said = []\n"
                 "    def work():\n"
                 "        try: said.append(erlang.chaos_back(n))\n"
                 "        except Exception as error: said.append(error)\n"
                 "    thread = threading.Thread(target=work)\n"
                 "    thread.start()\n"
                 "    thread.join()\n"
                 "    if isinstance(said[0], Exception): raise said[0]\n"
                 "    return said[0]\n"
                 "def by_executor(n):\n"
                 "    with ThreadPoolExecutor(2) as pool:\n"
                 "        return list(pool.map(erlang.chaos_back, [n, n + 1]))\n"
                 "def spin():\n"
                 "    while True: pass\n"
                 "def nap(n, seconds):\n"
                 "    time.sleep(seconds)\n"
                 "    return n\n"
                 "def pour(n, count):\n"
                 "    for i in range(count): yield [n, i]\n"
                 "def chain(n, steps):\n"
                 "    return n if steps == 0 else erlang.schedule_py('chaos', 'chain', [n, steps - 1])\n"
                 "def hand_over(n): return erlang.schedule('chaos_back', n)\n"
                 "class Thing:\n"
                 "    def __init__(self, n): self.n = n\n"
                 "def n_of(thing): return thing.n\n"
                 "''', m.__dict__)\n"),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

a_storm_leaves_nothing_behind(_Config) ->
    Seconds = number("CHAOS_SECONDS", 12),
    Seed = number("CHAOS_SEED", erlang:unique_integer([positive]) bxor erlang:system_time()),
    %% Also where the log of the cases is not shown.
    io:format(user, "~nCHAOS_SEED=~b CHAOS_SECONDS=~b~n", [Seed, Seconds]),
    _ = ets:new(chaos, [named_table, public, {write_concurrency, true}]),
    ok = functions(),
    Quiet = logger:get_primary_config(),
    %% Supervisors would tell of each kill.
    ok = logger:set_primary_config(level, none),
    Round = max(3, min(10, Seconds div 4)),
    Rounds = max(3, Seconds div Round),
    try
        Measures = [round(Seed, Number, Round) || Number <- lists:seq(1, Rounds)],
        flat(Measures)
    after
        logger:set_primary_config(Quiet),
        [ok = py:unregister_function(Name) || Name <- [chaos_back, chaos_nest]],
        ets:delete(chaos)
    end.

number(Name, Default) ->
    case os:getenv(Name, "") of
        "" -> Default;
        Text -> list_to_integer(Text)
    end.

%% Callbacks are known by their processes while they run, so that some can be killed.
functions() ->
    ok = py:register_function(chaos_back, fun([N]) -> running(fun() -> pause(N), N end) end),
    ok = py:register_function(chaos_nest, fun([N, Depth]) ->
        running(fun() ->
            {ok, Value} = py:call(chaos, nest, [N, Depth - 1], #{}, infinity),
            Value
        end)
    end).

running(Fun) ->
    true = ets:insert(chaos, {{callback, self()}}),
    try Fun() after ets:delete(chaos, {callback, self()}) end.

pause(N) when N rem 5 =:= 0 -> receive after N rem 4 -> ok end;
pause(_) -> ok.

%% One round: storm, calm, and a look at what is left.
round(Seed, Number, Seconds) ->
    Before = maps:with([started, answered, late, callbacks], py:stats()),
    %% Should it hang, this says where.
    {ok, none} = py:call(faulthandler, dump_traceback_later, [Seconds + ?HANG div 1000 - 20], #{file => 2}),
    Deaths = counters:new(1, []),
    Start = fun(Index) ->
                Random = {Seed, Number, counters:get(Deaths, 1) * 1000 + Index},
                spawn_monitor(fun() -> caller(Random) end)
            end,
    Callers = maps:from_list([{Pid, {Index, Monitor}} || Index <- lists:seq(1, ?CALLERS), {Pid, Monitor} <- [Start(Index)]]),
    Self = self(),
    {Monkey, _} = spawn_monitor(fun() -> _ = rand:seed(exsss, {Seed, Number, 0}), monkey(Self) end),
    _ = erlang:send_after(Seconds * 1000, self(), storm_over),
    {Living, Killed} = storm(Callers, Start, Deaths, 0),
    exit(Monkey, kill),
    receive {'DOWN', _, process, Monkey, _} -> ok end,
    flush_kills(),
    [Pid ! stop || Pid <- maps:keys(Living)],
    Done = lists:sum([ended(Pid, Monitor) || {Pid, {_, Monitor}} <- maps:to_list(Living)]),
    calm(),
    {ok, none} = py:call(faulthandler, cancel_dump_traceback_later, []),
    After = py:stats(),
    Counted = maps:map(fun(Name, Value) -> maps:get(Name, After) - Value end, Before),
    Measure = measure(),
    %% What was skipped is answered to nobody.
    true = maps:get(skipped, After) =< maps:get(late, After),
    io:format(user, "round ~b: ~b requests of the living, ~b callers killed, ~0p, ~0p~n", [Number, Done, Killed, Counted, Measure]),
    true = Done > 0,
    Measure.

%% Callers that are killed are replaced; one that ends otherwise has found something wrong.
storm(Callers, Start, Deaths, Killed) ->
    receive
        storm_over ->
            {Callers, Killed};
        {kill, caller, Nth} ->
            Pids = maps:keys(Callers),
            exit(lists:nth(Nth rem length(Pids) + 1, Pids), kill),
            storm(Callers, Start, Deaths, Killed);
        {'DOWN', Monitor, process, Pid, killed} ->
            {{Index, Monitor}, Rest} = maps:take(Pid, Callers),
            ok = counters:add(Deaths, 1, 1),
            {New, NewMonitor} = Start(Index),
            storm(Rest#{New => {Index, NewMonitor}}, Start, Deaths, Killed + 1);
        {'DOWN', _, process, _, Reason} ->
            error(Reason)
    end.

flush_kills() ->
    receive {kill, caller, _} -> flush_kills() after 0 -> ok end.

%% How many requests it made. Killed at the last moment, it does not say.
ended(Pid, Monitor) ->
    receive
        {'DOWN', Monitor, process, Pid, {done, Count}} -> Count;
        {'DOWN', Monitor, process, Pid, killed} -> 0;
        {'DOWN', Monitor, process, Pid, Reason} -> error(Reason)
    after ?HANG ->
        error({no_answer, process_info(Pid, [dictionary, current_stacktrace, messages]), py:stats()})
    end.

%% Every context is there and idle, nothing is queued or lent, no callback runs.
calm() ->
    py_test:wait_until(fun() ->
        maps:with([contexts, idle, bound, queued, awake], py:stats())
            =:= #{contexts => ?CONTEXTS, idle => ?CONTEXTS, bound => 0, queued => 0, awake => 0}
            andalso length(py_context:all()) =:= ?CONTEXTS
            andalso not lists:any(fun({{callback, Pid}}) -> is_process_alive(Pid) end, ets:tab2list(chaos))
    end, 24000),
    true = ets:delete_all_objects(chaos),
    [{ok, N} = py_request:eval(Context, "n", #{n => N}, ?HANG) || {N, _, Context} <- py_context:all()],
    {ok, 7} = py:call(chaos, back, [7], #{}, infinity),
    {ok, _} = py:gc(),
    [garbage_collect(Pid) || Pid <- processes()],
    {messages, []} = process_info(self(), messages),
    ok.

measure() ->
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [Rss]} = re:run(Status, "VmRSS:\\s+([0-9]+) kB", [{capture, all_but_first, list}]),
    {match, [Threads]} = re:run(Status, "Threads:\\s+([0-9]+)", [{capture, all_but_first, list}]),
    {ok, Files} = file:list_dir("/proc/self/fd"),
    #{rss => list_to_integer(Rss) div 1024, threads => list_to_integer(Threads), files => length(Files),
      processes => erlang:system_info(process_count), atoms => erlang:system_info(atom_count),
      erlang => erlang:memory(total) bsr 20}.

%% The first round warms up. From then on what is counted stays, but for code that is loaded late (a round has tens of thousands of
%% requests and dozens of contexts, so what they leave would show), and memory does not grow from round to round.
flat([_ | Measures]) ->
    First = hd(Measures),
    Last = lists:last(Measures),
    Grown = fun(Name) -> maps:get(Name, Last) - maps:get(Name, First) end,
    true = Grown(files) =< 3 orelse error({files, Measures}),
    true = Grown(processes) =< 5 orelse error({processes, Measures}),
    true = Grown(atoms) =< 1000 orelse error({atoms, Measures}),
    true = Grown(erlang) =< 20 orelse error({erlang, Measures}),
    Half = length(Measures) div 2,
    {Early, Later} = lists:split(max(1, Half), [maps:get(rss, Measure) || Measure <- Measures]),
    %% What the second half needs at the most, against what the first did: a leak grows on.
    true = lists:min(Later) =< lists:max(Early) + 16 orelse error({rss, Measures}),
    ok.

%% Whom it hits: contexts, callers, callbacks, servers. Contexts and servers not so often that their supervisors would give up:
%% 100 and 20 restarts in ten seconds are too many.
monkey(Storm) ->
    monkey(Storm, #{}).

monkey(Storm, Last) ->
    receive after rand:uniform(30) -> ok end,
    Whom = case rand:uniform(100) of
               N when N =< 15 -> context;
               N when N =< 50 -> caller;
               N when N =< 90 -> callback;
               _ -> server
           end,
    Now = erlang:monotonic_time(millisecond),
    case Now - maps:get(Whom, Last, Now - 10000) >= pause_after(Whom) of
        true -> hit(Whom, Storm), monkey(Storm, Last#{Whom => Now});
        false -> monkey(Storm, Last)
    end.

pause_after(context) -> 150;
pause_after(server) -> 1000;
pause_after(_) -> 0.

hit(context, _) -> kill([Pid || {_, Pid, _} <- py_context:all()]);
hit(caller, Storm) -> Storm ! {kill, caller, rand:uniform(1000)};
hit(callback, _) -> kill([Pid || {{callback, Pid}} <- ets:tab2list(chaos)]);
hit(server, _) -> kill([Pid || Name <- [py_callback, py_pool, py_output, py_logger], Pid <- [whereis(Name)], is_pid(Pid)]).

kill([]) -> true;
kill(Pids) -> exit(lists:nth(rand:uniform(length(Pids)), Pids), kill).

caller(Random) ->
    _ = rand:seed(exsss, Random),
    caller_loop(0).

caller_loop(Count) ->
    receive
        stop -> exit({done, Count})
    after 0 ->
        N = erlang:unique_integer([positive]),
        Deed = lists:nth(rand:uniform(length(deeds())), deeds()),
        _ = put(deed, {Deed, N}),
        Result = try do(Deed, N) catch error:context_not_bound -> {error, closed} end,
        wanted(Deed, N, Result) orelse exit({wrong, Deed, N, Result}),
        case process_info(self(), messages) of
            {messages, []} -> ok;
            {messages, [stop]} -> ok;
            {messages, Left} -> exit({left, Deed, N, Left})
        end,
        caller_loop(Count + 1)
    end.

deeds() ->
    [value, locals, cast, task, task_late, cancel, interrupt, collect, stream, stream_cancelled, bound, context, back, nest, thread,
     executor, spin, nap, nap_late, thing, bytes, fail, chain, hand_over, statements].

do(value, N) -> py:call(chaos, value, [N], #{}, infinity);
do(locals, N) -> py:eval("[n, 'v', n * n]", #{n => N}, infinity);
do(statements, N) -> py:exec(["assert ", integer_to_list(N), " > 0"], infinity);
do(cast, N) -> py:cast(chaos, value, [N]);
do(task, N) -> py:await(py:call_async(chaos, value, [N]), infinity);
do(task_late, N) -> py:await(py:call_async(chaos, nap, [N, 0.002]), rand:uniform(4));
do(cancel, N) ->
    Ref = py:call_async(chaos, nap, [N, 0.001]),
    receive after rand:uniform(3) - 1 -> ok end,
    _ = py:cancel(Ref),
    py:await(Ref, infinity);
do(interrupt, _) ->
    Ref = py:call_async(chaos, spin, []),
    receive after rand:uniform(3) - 1 -> ok end,
    _ = py:interrupt(Ref),
    py:await(Ref, infinity);
do(collect, N) -> py:stream(chaos, pour, [N, 20], #{}, infinity);
do(stream, N) ->
    start_stream(N, 20, 1000);
do(stream_cancelled, N) ->
    start_stream(N, 1000, rand:uniform(10));
do(bound, N) -> case py:bind() of ok -> try kept(N) after py:unbind() end; Error -> Error end;
do(context, N) ->
    py:with_context(fun(Context) ->
        case py:ctx_exec(Context, ["kept = ", integer_to_list(N)]) of
            ok -> py:ctx_eval(Context, "kept", #{}, infinity);
            Error -> Error
        end
    end);
do(back, N) -> py:call(chaos, back, [N], #{}, infinity);
do(nest, N) -> py:call(chaos, nest, [N, 4], #{}, infinity);
do(thread, N) -> py:call(chaos, by_thread, [N], #{}, infinity);
do(executor, N) -> py:call(chaos, by_executor, [N], #{}, infinity);
do(spin, _) -> py:call(chaos, spin, [], #{}, rand:uniform(5));
do(nap, N) -> py:call(chaos, nap, [N, rand:uniform(20) / 1000], #{}, infinity);
do(nap_late, N) -> py:call(chaos, nap, [N, rand:uniform(10) / 1000], #{}, rand:uniform(10));
do(thing, N) ->
    case py:call(chaos, 'Thing', [N], #{}, #{return => ref, timeout => infinity}) of
        {ok, Thing} -> py:call(chaos, n_of, [Thing], #{}, infinity);
        Error -> Error
    end;
do(bytes, N) -> py:call(copy, copy, [{bytes, bytes(N)}], #{}, infinity);
do(fail, N) -> py:call(chaos, fail, [N], #{}, infinity);
do(chain, N) -> py:call(chaos, chain, [N, 5], #{}, infinity);
do(hand_over, N) -> py:call(chaos, hand_over, [N], #{}, infinity).

bytes(N) -> binary:copy(<<255, N:64>>, 12000).

kept(N) ->
    case py:exec(["kept = ", integer_to_list(N)], infinity) of
        ok -> py:eval("kept", #{}, infinity);
        Error -> Error
    end.

start_stream(N, Count, Last) ->
    case py:stream_start(chaos, pour, [N, Count], #{demand => rand:uniform(5)}) of
        {ok, Ref} -> streamed(Ref, N, 0, Last);
        Error -> Error
    end.

%% Takes so many values, in their order, and then cancels; all of them and the end are to come.
streamed(Ref, _N, Next, Next) ->
    ok = py:stream_cancel(Ref),
    rest(Ref, Next);
streamed(Ref, N, Next, Last) ->
    receive
        {py_stream, Ref, {data, [N, Next]}} -> ok = py:stream_ack(Ref, 1), streamed(Ref, N, Next + 1, Last);
        {py_stream, Ref, done} -> {ok, Next};
        {py_stream, Ref, {error, Reason}} -> {error, Reason};
        {py_stream, Ref, Other} -> exit({wrong_value, N, Next, Other})
    end.

rest(Ref, Next) ->
    receive
        {py_stream, Ref, {data, _}} -> rest(Ref, Next + 1);
        {py_stream, Ref, {error, cancelled}} -> {ok, cancelled};
        {py_stream, Ref, done} -> {ok, cancelled};
        {py_stream, Ref, {error, Reason}} -> {error, Reason}
    end.

%% What the deed comes to, by itself, or by what was killed.
wanted(Deed, N, {ok, Value}) -> Value =:= right(Deed, N);
wanted(Deed, _, ok) -> Deed =:= cast orelse Deed =:= statements;
%% The context was killed, before it ran or while it did.
wanted(_, _, {error, Reason}) when Reason =:= closed; Reason =:= dropped; Reason =:= interrupted -> true;
wanted(Deed, _, {error, timeout}) -> lists:member(Deed, [task_late, spin, nap_late]);
wanted(Deed, _, {error, cancelled}) -> Deed =:= cancel;
wanted(Deed, _, {error, no_workers_available}) -> Deed =:= bound orelse Deed =:= context;
wanted(fail, N, {error, {'ValueError', Text}}) -> Text =:= integer_to_binary(N);
%% The callback was killed, or the process that starts them.
wanted(Deed, _, {error, {exit, callback_died}}) -> Deed =:= hand_over orelse Deed =:= chain;
wanted(Deed, _, {error, {Class, Text}}) when is_binary(Text) ->
    lists:member(Deed, [back, nest, thread, executor, hand_over])
        andalso (class(Class) =:= <<"ErlangError">>
                 orelse (Class =:= 'RuntimeError' andalso Text =:= <<"the application erlang_python is not running">>));
wanted(_, _, _) -> false.

class(Class) when is_atom(Class) -> atom_to_binary(Class);
class(Class) -> Class.

right(Deed, N) when Deed =:= value; Deed =:= locals; Deed =:= task -> [N, <<"v">>, N * N];
right(collect, N) -> [[N, I] || I <- lists:seq(0, 19)];
right(stream, _) -> 20;
right(stream_cancelled, _) -> cancelled;
right(executor, N) -> [N, N + 1];
right(bytes, N) -> bytes(N);
right(_, N) -> N.
