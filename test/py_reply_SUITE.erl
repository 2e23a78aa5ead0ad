%% Correlated replies: one winner, deadlines, owners that die, overload, counters, and both languages answering each other.
-module(py_reply_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([an_answer_reaches_who_waits/1,
         each_end_is_told_as_it_was/1,
         a_second_answer_is_told_that_it_lost/1,
         a_name_is_taken_until_its_waiter_ends/1,
         any_term_is_a_trace_id/1,
         a_waiter_of_before_does_not_reach_the_next_of_its_name/1,
         deadlines_are_in_milliseconds_and_never_early/1,
         exactly_one_of_complete_cancel_and_expire_wins/1,
         the_owner_s_death_ends_its_waiters/1,
         a_dead_owner_is_refused/1,
         more_than_the_limit_are_refused/1,
         who_gives_up_leaves_no_message_behind/1,
         another_process_may_be_the_one_who_is_told/1,
         large_answers_hold_no_scheduler/1,
         a_million_leave_no_memory_behind/1,
         bad_options_are_named/1,
         python_waits_and_erlang_answers/1,
         erlang_waits_and_python_answers/1,
         ends_are_exceptions_in_python/1,
         what_does_not_convert_ends_no_waiter/1,
         waiters_show_no_payload/1,
         a_blocking_wait_is_interrupted_and_ends_its_waiter/1,
         async_01_a_blocking_section_delays_what_else_runs_on_its_loop/1,
         async_02_moved_to_a_worker_it_does_not/1,
         async_03_cancellation_and_timeouts_pass_through_waiters/1,
         async_04_the_same_code_runs_on_asyncio_on_our_loop_and_under_trio/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start(),
    ok = py_test:module("replies", "
import asyncio, erlang, threading
from erlang import reply

def ask(trace, timeout):
    return reply.register(trace, timeout).wait()

def end_of(trace, timeout=30.0):
    try:
        return ('success', reply.register(trace, timeout).wait())
    except BaseException as error:
        return (type(error).__name__, getattr(error, 'reason', None))

async def ask_async(trace, timeout):
    return await reply.register(trace, timeout)

async def beside(section):
    free = threading.Event()
    async def unrelated():
        free.set()
    task = asyncio.ensure_future(unrelated())
    try:
        return await section(free)
    finally:
        await task

async def blocking():
    async def section(free):
        return free.wait(0.2)
    return await beside(section)

async def moved():
    async def section(free):
        return await asyncio.get_running_loop().run_in_executor(None, free.wait, 60)
    return await beside(section)

async def cancelled(trace):
    waiter = reply.register(trace)
    task = asyncio.ensure_future(waiter)
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return (reply.complete(trace, 1), waiter.cancel())

async def timed_out(trace):
    waiter = reply.register(trace, None)
    try:
        await asyncio.wait_for(waiter, 0.01)
    except asyncio.TimeoutError:
        return reply.complete(trace, 1)

async def deadline(trace):
    try:
        await reply.register(trace, 0.01)
    except TimeoutError as error:
        return (str(error), reply.complete(trace, 1))

async def exchange(n):
    # The same for every library: questions answered out of order by threads, one of them never.
    import anyio
    answers = {}
    async def one(i):
        try:
            answers[i] = await waiters[i]
        except TimeoutError:
            answers[i] = 'late'
        except reply.ReplyError as error:
            answers[i] = ('error', error.reason)
    waiters = {i: reply.register(('exchange', i), None if i else 0.02) for i in range(n)}
    def answer():
        for i in reversed(range(1, n)):
            reply.fail(('exchange', i), i) if i % 3 == 0 else reply.complete(('exchange', i), i * i)
    async with anyio.create_task_group() as group:
        for i in range(n):
            group.start_soon(one, i)
        threading.Thread(target=answer).start()
    with anyio.move_on_after(0.01) as scope:
        await reply.register('exchange abandoned', None)
    return [answers[i] for i in range(n)] + [scope.cancelled_caught, reply.complete('exchange abandoned')]

def on_stdlib(n):
    loop = asyncio.SelectorEventLoop()
    try:
        return loop.run_until_complete(exchange(n))
    finally:
        loop.close()

def on_ours(n):
    return erlang.run(exchange(n))

def on_trio(n):
    # As a guest of our loop.
    import trio
    async def main():
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        trio.lowlevel.start_guest_run(
            exchange, n, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=done.set_result)
        return (await done).unwrap()
    return erlang.run(main())
"),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

an_answer_reaches_who_waits(_Config) ->
    {ok, Waiter} = py_reply:register(<<"a">>, #{timeout => 60000}),
    Self = self(),
    spawn_link(fun() -> Self ! {won, py_reply:complete(<<"a">>, {ok, 17})} end),
    {ok, 17} = py_reply:await(Waiter),
    receive {won, true} -> ok end,
    0 = py_reply:in_flight().

each_end_is_told_as_it_was(_Config) ->
    Ends = [{{ok, 1}, fun(W) -> py_reply:complete(W, {ok, 1}) end},
            {{ok, plain}, fun(W) -> py_reply:complete(W, plain) end},
            {{ok, ok}, fun(W) -> py_reply:complete(W, {ok, ok}) end},
            {{error, no}, fun(W) -> py_reply:complete(W, {error, no}) end},
            {{error, timeout}, fun(W) -> py_reply:complete(W, {error, timeout}) end},
            {{error, {cancelled, why}}, fun(W) -> py_reply:cancel(W, why) end},
            {{error, {cancelled, cancelled}}, fun(W) -> py_reply:cancel(W) end}],
    [begin
         {ok, Waiter} = py_reply:register(name),
         true = End(Waiter),
         Result = py_reply:await(Waiter)
     end || {Result, End} <- Ends],
    {ok, Late} = py_reply:register(name, #{timeout => 0}),
    {error, timeout} = py_reply:await(Late).

a_second_answer_is_told_that_it_lost(_Config) ->
    Before = py_reply:counters(),
    {ok, Waiter} = py_reply:register(twice),
    true = py_reply:complete(twice, first),
    false = py_reply:complete(twice, second),
    false = py_reply:complete(Waiter, second),
    false = py_reply:cancel(twice),
    false = py_reply:complete(never_there, x),
    {ok, Gone} = py_reply:register(gone),
    true = py_reply:cancel(gone),
    false = py_reply:complete(gone, x),
    {ok, first} = py_reply:await(Waiter),
    {error, {cancelled, cancelled}} = py_reply:await(Gone),
    nothing_is_left(),
    #{registered := 2, completed := 1, cancelled := 1, expired := 0, duplicate_terminal := 3, late_reply_drop := 2} =
        since(Before).

a_name_is_taken_until_its_waiter_ends(_Config) ->
    {ok, Waiter} = py_reply:register(<<"taken">>),
    {error, already_registered} = py_reply:register(<<"taken">>),
    {error, {<<"AlreadyRegisteredError">>, _}} = py:eval("__import__('erlang').reply.register('taken')"),
    true = py_reply:cancel(<<"taken">>),
    {error, {cancelled, _}} = py_reply:await(Waiter),
    {ok, Again} = py_reply:register(<<"taken">>),
    true = py_reply:cancel(Again),
    {error, {cancelled, _}} = py_reply:await(Again).

any_term_is_a_trace_id(_Config) ->
    Names = [a, "a", <<"a">>, 1, 1.0, {a, [b]}, #{a => 1}, make_ref(), self(), 1 bsl 100, []],
    Waiters = [begin {ok, Waiter} = py_reply:register(Name), {Name, Waiter} end || Name <- Names],
    [true = py_reply:complete(Name, {ok, {answer, Name}}) || Name <- Names],
    [{ok, {answer, Name}} = py_reply:await(Waiter) || {Name, Waiter} <- Waiters].

a_waiter_of_before_does_not_reach_the_next_of_its_name(_Config) ->
    {ok, First} = py_reply:register(again),
    true = py_reply:cancel(First),
    {error, {cancelled, _}} = py_reply:await(First),
    {ok, Second} = py_reply:register(again),
    false = py_reply:complete(First, wrong),
    true = py_reply:complete(Second, right),
    {ok, right} = py_reply:await(Second).

deadlines_are_in_milliseconds_and_never_early(_Config) ->
    [begin
         Start = erlang:monotonic_time(),
         {ok, Waiter} = py_reply:register(short, #{timeout => Millis}),
         {error, timeout} = py_reply:await(Waiter),
         true = erlang:monotonic_time() - Start >= erlang:convert_time_unit(Millis, millisecond, native)
     end || Millis <- [1, 2, 5, 20]],
    %% In the order of their deadlines.
    Waiters = [begin {ok, W} = py_reply:register({order, Millis}, #{timeout => Millis}), W end || Millis <- [60, 20, 40]],
    [20, 40, 60] = [receive {py_reply, _, {order, Millis}, {error, timeout}} -> Millis end || _ <- Waiters].

exactly_one_of_complete_cancel_and_expire_wins(_Config) ->
    Before = py_reply:counters(),
    Self = self(),
    Rounds = 1000,
    Ends = [begin
         {ok, Waiter} = py_reply:register({race, N}, #{timeout => N rem 3}),
         Racers = [spawn_link(fun() -> receive go -> Self ! {self(), End({race, N})} end end)
                   || End <- [fun(Who) -> py_reply:complete(Who, {ok, N}) end, fun(Who) -> py_reply:cancel(Who, N) end]],
         N rem 2 =:= 0 andalso (receive after 1 -> ok end),
         [Racer ! go || Racer <- Racers],
         Won = [receive {Racer, Result} -> Result end || Racer <- Racers],
         case {py_reply:await(Waiter), Won} of
             {{ok, N}, [true, false]} -> completed;
             {{error, {cancelled, N}}, [false, true]} -> cancelled;
             {{error, timeout}, [false, false]} -> expired
         end
     end || N <- lists:seq(1, Rounds)],
    nothing_is_left(),
    After = since(Before),
    [true = maps:get(End, After) =:= length([E || E <- Ends, E =:= End]) || End <- [completed, cancelled, expired]],
    0 = py_reply:in_flight().

the_owner_s_death_ends_its_waiters(_Config) ->
    Before = py_reply:counters(),
    Self = self(),
    {Owner, Monitor} = spawn_monitor(fun() ->
        [{ok, _} = py_reply:register({owned, N}, #{timeout => infinity}) || N <- lists:seq(1, 100)],
        Self ! ready,
        receive after infinity -> ok end
    end),
    receive ready -> ok end,
    100 = py_reply:in_flight(),
    exit(Owner, kill),
    receive {'DOWN', Monitor, process, Owner, killed} -> ok end,
    py_test:wait_until(fun() -> py_reply:in_flight() =:= 0 end),
    false = py_reply:complete({owned, 1}, late),
    #{cancelled := 100, late_reply_drop := 1} = since(Before),
    {ok, Waiter} = py_reply:register({owned, 1}),
    true = py_reply:cancel(Waiter),
    {error, _} = py_reply:await(Waiter).

a_dead_owner_is_refused(_Config) ->
    {Dead, Monitor} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Monitor, process, Dead, _} -> ok end,
    {error, noproc} = py_reply:register(dead, #{reply_to => Dead}),
    0 = py_reply:in_flight().

more_than_the_limit_are_refused(_Config) ->
    ok = py_nif:reply_limit(2),
    try
        {ok, _} = py_reply:register({limit, 1}),
        {ok, Second} = py_reply:register({limit, 2}),
        {error, overloaded} = py_reply:register({limit, 3}),
        {error, {<<"OverloadedError">>, _}} = py:eval("__import__('erlang').reply.register('over')"),
        true = py_reply:complete(Second, done),
        {ok, done} = py_reply:await(Second),
        {ok, _} = py_reply:register({limit, 3})
    after
        ok = py_nif:reply_limit(1000000),
        [py_reply:cancel({limit, N}) || N <- [1, 2, 3]]
    end,
    flush().

who_gives_up_leaves_no_message_behind(_Config) ->
    {ok, Waiter} = py_reply:register(given_up, #{timeout => infinity}),
    {error, timeout} = py_reply:await(Waiter, 10),
    false = py_reply:complete(given_up, late),
    nothing_is_left().

another_process_may_be_the_one_who_is_told(_Config) ->
    Self = self(),
    Other = spawn_link(fun() -> receive Message -> Self ! {other, Message} end end),
    {ok, Waiter} = py_reply:register(<<"for another">>, #{reply_to => Other}),
    true = py_reply:complete(<<"for another">>, {ok, 1}),
    receive {other, {py_reply, Waiter, <<"for another">>, {ok, 1}}} -> ok end,
    nothing_is_left().

large_answers_hold_no_scheduler(_Config) ->
    {ok, Waiter} = py_reply:register(large),
    Large = lists:seq(1, 1000000),
    true = py_reply:complete(large, {ok, Large}),
    {ok, Large} = py_reply:await(Waiter).

a_million_leave_no_memory_behind(_Config) ->
    Round = fun(N) ->
        {ok, Waiter} = py_reply:register(N, #{timeout => 600000}),
        true = py_reply:complete(N, {ok, N}),
        {ok, N} = py_reply:await(Waiter)
    end,
    Many = fun(From, To) ->
        {Pid, Monitor} = spawn_monitor(fun() -> lists:foreach(Round, lists:seq(From, To)) end),
        receive {'DOWN', Monitor, process, Pid, normal} -> ok end
    end,
    Many(1, 50000),
    Before = resident(),
    Many(50001, 1050000),
    Grown = resident() - Before,
    true = Grown < 32 * 1024 * 1024 orelse error({grown, Grown}),
    0 = py_reply:in_flight().

bad_options_are_named(_Config) ->
    ?assertError({unknown_options, [deadline]}, py_reply:register(a, #{deadline => 1})),
    ?assertError({bad_option, {timeout, -1}}, py_reply:register(a, #{timeout => -1})),
    ?assertError({bad_option, {reply_to, nobody}}, py_reply:register(a, #{reply_to => nobody})),
    ?assertError(badarg, py_reply:register(a, [])),
    {error, {'ValueError', _}} = py:call(replies, ask, [a, -1.0]),
    {error, {'ValueError', _}} = py:eval("__import__('erlang').reply.register('a', float('nan'))"),
    0 = py_reply:in_flight().

python_waits_and_erlang_answers(_Config) ->
    [begin
         Ref = Start(Name),
         py_test:wait_until(fun() -> py_reply:in_flight() =:= 1 end),
         true = py_reply:complete(Name, {ok, #{<<"answer">> => Name}}),
         {ok, #{<<"answer">> := Name}} = py:await(Ref)
     end || {Start, Name} <- [{fun(N) -> py:call_async(replies, ask, [N, 60.0]) end, <<"blocking">>},
                              {fun(N) -> py:async_call(replies, ask_async, [N, 60.0]) end, <<"on a loop">>}]].

erlang_waits_and_python_answers(_Config) ->
    {ok, First} = py_reply:register(<<"of python">>),
    {ok, true} = py:eval("__import__('erlang').reply.complete('of python', [1, 'two'])"),
    {ok, false} = py:eval("__import__('erlang').reply.complete('of python', 2)"),
    {ok, [1, <<"two">>]} = py_reply:await(First),
    {ok, Second} = py_reply:register(<<"of python">>),
    {ok, true} = py:eval("__import__('erlang').reply.fail('of python', 'because')"),
    {error, <<"because">>} = py_reply:await(Second),
    {ok, Third} = py_reply:register(<<"of python">>),
    {ok, true} = py:eval("__import__('erlang').reply.cancel('of python', 'enough')"),
    {error, {cancelled, <<"enough">>}} = py_reply:await(Third),
    {ok, #{<<"completed">> := Completed}} = py:eval("__import__('erlang').reply.counters()"),
    Completed = maps:get(completed, py_reply:counters()),
    {ok, 0} = py:eval("__import__('erlang').reply.in_flight()").

ends_are_exceptions_in_python(_Config) ->
    [begin
         Ref = py:call_async(replies, end_of, [<<"ending">>]),
         py_test:wait_until(fun() -> py_reply:in_flight() =:= 1 end),
         true = End(<<"ending">>),
         {ok, Seen} = py:await(Ref)
     end || {Seen, End} <- [{{<<"success">>, 1}, fun(W) -> py_reply:complete(W, 1) end},
                            {{<<"ReplyError">>, <<"no">>}, fun(W) -> py_reply:complete(W, {error, no}) end},
                            {{<<"ReplyError">>, <<"timeout">>}, fun(W) -> py_reply:complete(W, {error, timeout}) end},
                            {{<<"ReplyCancelledError">>, 5}, fun(W) -> py_reply:cancel(W, 5) end}]],
    {ok, {<<"TimeoutError">>, none}} = py:call(replies, end_of, [<<"ending">>, 0.001]).

what_does_not_convert_ends_no_waiter(_Config) ->
    {ok, Waiter} = py_reply:register(<<"kept">>),
    {error, {'TypeError', _}} = py:eval("__import__('erlang').reply.complete('kept', object())"),
    true = py_reply:complete(<<"kept">>, still_there),
    {ok, still_there} = py_reply:await(Waiter).

waiters_show_no_payload(_Config) ->
    {ok, Text} = py:eval("(lambda r: (r.complete('shown', 'secret'), repr(w), [w.wait(), repr(w)][1]))(r) "
                         "if (w := (r := __import__('erlang').reply).register('shown')) else 0"),
    {true, Waiting, Ended} = Text,
    nomatch = binary:match(<<Waiting/binary, Ended/binary>>, <<"secret">>),
    {_, _} = binary:match(Ended, <<"success">>),
    {ok, Waiter} = py_reply:register(shown_too),
    true = py_reply:complete(shown_too, secret),
    nomatch = string:find(io_lib:format("~p ~p", [Waiter, py_reply:counters()]), "secret"),
    {ok, secret} = py_reply:await(Waiter).

a_blocking_wait_is_interrupted_and_ends_its_waiter(_Config) ->
    {error, timeout} = py:call(replies, ask, [<<"blocked">>, none], #{}, 50),
    py_test:wait_until(fun() -> py_reply:in_flight() =:= 0 end),
    false = py_reply:complete(<<"blocked">>, late),
    {ok, 4} = py:eval("2 + 2").

%% The unrelated work is what the section waits for: it gives up, or is set free.
async_01_a_blocking_section_delays_what_else_runs_on_its_loop(_Config) ->
    {ok, false} = py_event_loop:run(replies, blocking, [], #{timeout => 60000}).

async_02_moved_to_a_worker_it_does_not(_Config) ->
    {ok, true} = py_event_loop:run(replies, moved, [], #{timeout => 60000}).

async_03_cancellation_and_timeouts_pass_through_waiters(_Config) ->
    {ok, {false, false}} = py_event_loop:run(replies, cancelled, [<<"cancelled">>]),
    {ok, false} = py_event_loop:run(replies, timed_out, [<<"timed out">>]),
    {ok, {Text, false}} = py_event_loop:run(replies, deadline, [<<"deadline">>]),
    {_, _} = binary:match(Text, <<"deadline">>),
    %% A caller that gives up cancels its task, and that its waiter.
    {error, timeout} = py_event_loop:run(replies, ask_async, [<<"given up">>, none], #{timeout => 20}),
    py_test:wait_until(fun() -> py_reply:in_flight() =:= 0 end),
    false = py_reply:complete(<<"given up">>, late).

async_04_the_same_code_runs_on_asyncio_on_our_loop_and_under_trio(_Config) ->
    Wanted = [<<"late">> | [case N rem 3 of 0 -> {<<"error">>, N}; _ -> N * N end || N <- lists:seq(1, 19)]] ++ [true, false],
    [{ok, Wanted} = py:call(replies, Where, [20]) || Where <- [on_stdlib, on_ours, on_trio]],
    0 = py_reply:in_flight().

%% What has been counted since.
since(Before) ->
    maps:map(fun(Name, Number) -> Number - maps:get(Name, Before) end, py_reply:counters()).

nothing_is_left() ->
    receive {py_reply, _, _, _} = Message -> error({left, Message}) after 50 -> ok end.

flush() ->
    receive {py_reply, _, _, _} -> flush() after 50 -> ok end.

resident() ->
    {ok, Statm} = file:read_file("/proc/self/statm"),
    [_, Pages | _] = binary:split(Statm, <<" ">>, [global]),
    binary_to_integer(Pages) * 4096.
