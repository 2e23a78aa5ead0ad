%% Loops of callback ids: descriptors and timers by number, waited for by a process of Erlang or by whoever asks.
-module(py_event_worker_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([a_pipe_becomes_readable/1,
         a_pipe_is_writable/1,
         readiness_is_reported_until_it_is_dealt_with/1,
         both_directions_of_one_descriptor/1,
         removal_is_idempotent/1,
         a_removed_reader_is_not_pending/1,
         an_old_reference_does_not_remove_a_new_registration/1,
         l5_a_timer_is_never_early/1,
         a_cancelled_timer_does_not_fire/1,
         timers_fire_in_their_order/1,
         l6_thirty_thousand_timers_all_fire/1,
         a_wakeup_ends_a_wait/1,
         a_destroyed_loop_refuses_everything/1,
         destroying_ends_a_wait/1,
         f4_forged_and_foreign_references_are_refused/1,
         f1_a_closed_descriptor_is_refused_and_its_number_reused/1,
         f9_descriptors_above_1024/1,
         udp_as_in_the_guides/1,
         tcp_connections_are_accepted/1,
         a_worker_collects_while_nobody_polls/1,
         a_worker_notifies/1,
         a_router_serves_many_loops/1,
         another_worker_takes_over/1,
         l2_nothing_is_stranded_between_a_worker_and_its_loop/1,
         l8_loops_do_not_steal_each_others_events/1,
         l7_an_idle_worker_is_not_woken/1,
         tasks_are_handed_on/1,
         tasks_of_a_destroyed_loop_are_answered/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 2}, {event_loop_pool_size, 2}]),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) ->
    {messages, []} = process_info(self(), messages),
    ok.

-define(LONG, 60000).

new() ->
    {ok, Loop} = py_nif:event_loop_new(),
    Loop.

pipe() ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    {Read, Write}.

close(Fds) ->
    [ok = py_nif:close_test_fd(Fd) || Fd <- Fds],
    ok.

%% Events, as many as there are to be, in the order they come.
events(_Loop, Count) when Count =< 0 ->
    [];
events(Loop, Count) ->
    {ok, _} = py_nif:poll_events(Loop, ?LONG),
    Events = py_nif:get_pending(Loop),
    Events ++ events(Loop, Count - length(Events)).

a_pipe_becomes_readable(_Config) ->
    Loop = new(),
    {Read, Write} = pipe(),
    {ok, _} = py_nif:add_reader(Loop, Read, 7),
    {ok, 0} = py_nif:poll_events(Loop, 0),
    {ok, 1} = py_nif:write_test_fd(Write, <<"x">>),
    {ok, 1} = py_nif:poll_events(Loop, ?LONG),
    [{7, read}] = py_nif:get_pending(Loop),
    [] = py_nif:get_pending(Loop),
    {ok, <<"x">>} = py_nif:read_test_fd(Read, 10),
    {error, would_block} = py_nif:read_test_fd(Read, 10),
    {ok, 0} = py_nif:poll_events(Loop, 0),
    ok = close([Read, Write]),
    ok = py_nif:event_loop_destroy(Loop).

a_pipe_is_writable(_Config) ->
    Loop = new(),
    {Read, Write} = pipe(),
    {ok, Ref} = py_nif:add_writer(Loop, Write, 8),
    [{8, write}] = events(Loop, 1),
    ok = py_nif:remove_writer(Loop, Ref),
    {ok, 0} = py_nif:poll_events(Loop, 0),
    ok = close([Read, Write]).

readiness_is_reported_until_it_is_dealt_with(_Config) ->
    Loop = new(),
    {Read, Write} = pipe(),
    {ok, _} = py_nif:add_reader(Loop, Read, 1),
    {ok, 1} = py_nif:write_test_fd(Write, <<"x">>),
    %% Pending once, however often it is looked for.
    {ok, 1} = py_nif:poll_events(Loop, ?LONG),
    {ok, 1} = py_nif:poll_events(Loop, ?LONG),
    [{1, read}] = py_nif:get_pending(Loop),
    %% Nobody has read.
    [{1, read}] = events(Loop, 1),
    ok = close([Read, Write]).

both_directions_of_one_descriptor(_Config) ->
    Loop = new(),
    {ok, {Listener, Port}} = py_nif:create_test_tcp_listener(0),
    {ok, Client} = py_nif:connect_test_tcp(<<"127.0.0.1">>, Port),
    {ok, Server} = accepted(Listener),
    {ok, Reader} = py_nif:add_reader(Loop, Server, 1),
    {ok, Writer} = py_nif:add_writer(Loop, Server, 2),
    [{2, write}] = events(Loop, 1),
    {ok, 1} = py_nif:write_test_fd(Client, <<"x">>),
    ok = seen(Loop, {1, read}),
    ok = py_nif:remove_writer(Loop, Writer),
    [{1, read}] = events(Loop, 1),
    ok = py_nif:remove_reader(Loop, Reader),
    {ok, 0} = py_nif:poll_events(Loop, 0),
    ok = close([Listener, Client, Server]).

seen(Loop, Event) ->
    case lists:member(Event, events(Loop, 1)) of
        true -> ok;
        false -> seen(Loop, Event)
    end.

accepted(Listener) ->
    case py_nif:accept_test_tcp(Listener) of
        {error, would_block} -> accepted(Listener);
        Accepted -> Accepted
    end.

removal_is_idempotent(_Config) ->
    Loop = new(),
    {Read, Write} = pipe(),
    {ok, Ref} = py_nif:add_reader(Loop, Read, 1),
    ok = py_nif:remove_reader(Loop, Ref),
    ok = py_nif:remove_reader(Loop, Ref),
    ok = close([Read, Write]).

a_removed_reader_is_not_pending(_Config) ->
    Loop = new(),
    {Read, Write} = pipe(),
    {ok, Ref} = py_nif:add_reader(Loop, Read, 1),
    {ok, 1} = py_nif:write_test_fd(Write, <<"x">>),
    {ok, 1} = py_nif:poll_events(Loop, ?LONG),
    ok = py_nif:remove_reader(Loop, Ref),
    [] = py_nif:get_pending(Loop),
    {ok, 0} = py_nif:poll_events(Loop, 0),
    ok = close([Read, Write]).

an_old_reference_does_not_remove_a_new_registration(_Config) ->
    Loop = new(),
    {Read, Write} = pipe(),
    {ok, Old} = py_nif:add_reader(Loop, Read, 1),
    {ok, New} = py_nif:add_reader(Loop, Read, 2),
    ok = py_nif:remove_reader(Loop, Old),
    {ok, 1} = py_nif:write_test_fd(Write, <<"x">>),
    [{2, read}] = events(Loop, 1),
    ok = py_nif:remove_reader(Loop, New),
    ok = close([Read, Write]).

l5_a_timer_is_never_early(_Config) ->
    Loop = new(),
    Start = erlang:monotonic_time(nanosecond),
    {ok, _} = py_nif:call_later(Loop, 20, 3),
    [{3, timer}] = events(Loop, 1),
    ?assert(erlang:monotonic_time(nanosecond) - Start >= 20000000).

a_cancelled_timer_does_not_fire(_Config) ->
    Loop = new(),
    {ok, Timer} = py_nif:call_later(Loop, 1, 1),
    {ok, _} = py_nif:call_later(Loop, 5, 2),
    ok = py_nif:cancel_timer(Loop, Timer),
    ok = py_nif:cancel_timer(Loop, Timer),
    [{2, timer}] = events(Loop, 1).

timers_fire_in_their_order(_Config) ->
    Loop = new(),
    [{ok, _} = py_nif:call_later(Loop, 10 - N, N) || N <- lists:seq(1, 9)],
    ?assertEqual([{N, timer} || N <- lists:seq(9, 1, -1)], events(Loop, 9)).

l6_thirty_thousand_timers_all_fire(_Config) ->
    Loop = new(),
    Ids = lists:seq(1, 30000),
    [{ok, _} = py_nif:call_later(Loop, N rem 20, N) || N <- Ids],
    ?assertEqual([{N, timer} || N <- Ids], lists:sort(events(Loop, 30000))).

a_wakeup_ends_a_wait(_Config) ->
    Loop = new(),
    Self = self(),
    spawn_link(fun() -> Self ! {polled, py_nif:poll_events(Loop, 600000)} end),
    ok = py_nif:event_loop_wakeup(Loop),
    receive {polled, Result} -> {ok, 0} = Result end.

a_destroyed_loop_refuses_everything(_Config) ->
    Loop = new(),
    {Read, Write} = pipe(),
    {ok, Ref} = py_nif:add_reader(Loop, Read, 1),
    {ok, Timer} = py_nif:call_later(Loop, 1, 1),
    ok = py_nif:event_loop_destroy(Loop),
    Gone = {error, invalid_loop},
    Gone = py_nif:event_loop_destroy(Loop),
    Gone = py_nif:add_reader(Loop, Read, 1),
    Gone = py_nif:add_writer(Loop, Write, 1),
    Gone = py_nif:remove_reader(Loop, Ref),
    Gone = py_nif:call_later(Loop, 1, 1),
    Gone = py_nif:cancel_timer(Loop, Timer),
    Gone = py_nif:poll_events(Loop, 0),
    Gone = py_nif:get_pending(Loop),
    Gone = py_nif:event_loop_wakeup(Loop),
    Gone = py_nif:event_loop_set_worker(Loop, self()),
    Gone = py_nif:event_loop_set_router(Loop, self()),
    Gone = py_nif:process_ready_tasks(Loop),
    Gone = py_nif:submit_task(Loop, self(), make_ref(), math, sqrt, [4], #{}),
    {error, invalid_loop} = start_failed(fun() -> py_event_worker:start_link(w, Loop) end),
    ok = close([Read, Write]).

%% In a process of its own: whether the starter is sent an exit signal besides depends on the OTP.
start_failed(Start) ->
    {_, Monitor} = spawn_monitor(fun() ->
        false = process_flag(trap_exit, true),
        exit({said, Start()})
    end),
    receive {'DOWN', Monitor, _, _, {said, Result}} -> Result end.

destroying_ends_a_wait(_Config) ->
    Loop = new(),
    Self = self(),
    spawn_link(fun() -> Self ! {polled, py_nif:poll_events(Loop, 600000)} end),
    ok = py_nif:event_loop_destroy(Loop),
    receive {polled, Result} -> {error, invalid_loop} = Result end.

f4_forged_and_foreign_references_are_refused(_Config) ->
    {Loop, Other} = {new(), new()},
    {Read, Write} = pipe(),
    {ok, Ref} = py_nif:add_reader(Loop, Read, 1),
    {ok, Timer} = py_nif:call_later(Loop, 600000, 1),
    [{error, invalid_loop} = py_nif:add_reader(Bad, Read, 1) || Bad <- [make_ref(), 42, Ref, Timer]],
    [{error, invalid_fd} = py_nif:remove_reader(Loop, Bad) || Bad <- [make_ref(), 42, Timer, Loop]],
    [{error, invalid_timer} = py_nif:cancel_timer(Loop, Bad) || Bad <- [make_ref(), 42, Ref, Loop]],
    {error, invalid_fd} = py_nif:remove_reader(Other, Ref),
    {error, invalid_fd} = py_nif:remove_writer(Loop, Ref),
    {error, invalid_timer} = py_nif:cancel_timer(Other, Timer),
    [{error, invalid_pid} = py_nif:event_loop_set_worker(Loop, Bad) || Bad <- [make_ref(), 42, dead()]],
    {error, not_owner} = py_nif:event_loop_arm(Loop, make_ref()),
    ?assertError(badarg, py_nif:call_later(Loop, -1, 1)),
    ?assertError(badarg, py_nif:add_reader(Loop, Read, -1)),
    {error, ebadf} = py_nif:read_test_fd(0, 1),
    ok = close([Read, Write]).

dead() ->
    {Pid, Monitor} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Monitor, process, Pid, _} -> Pid end.

f1_a_closed_descriptor_is_refused_and_its_number_reused(_Config) ->
    Loop = new(),
    {Read, Write} = pipe(),
    {ok, _} = py_nif:add_reader(Loop, Read, 1),
    ok = close([Read, Write]),
    {error, ebadf} = py_nif:add_reader(Loop, 1000000, 1),
    {error, ebadf} = py_nif:add_reader(Loop, -1, 1),
    %% Most likely the same numbers.
    {NewRead, NewWrite} = pipe(),
    {ok, _} = py_nif:add_reader(Loop, NewRead, 2),
    {ok, 1} = py_nif:write_test_fd(NewWrite, <<"x">>),
    [{2, read}] = events(Loop, 1),
    ok = close([NewRead, NewWrite]).

f9_descriptors_above_1024(_Config) ->
    Pipes = [pipe() || _ <- lists:seq(1, 600)],
    Loop = new(),
    {Read, Write} = lists:last(Pipes),
    ?assert(Read > 1024),
    {ok, _} = py_nif:add_reader(Loop, Read, 1),
    {ok, 1} = py_nif:write_test_fd(Write, <<"x">>),
    [{1, read}] = events(Loop, 1),
    [ok = close([R, W]) || {R, W} <- Pipes].

udp_as_in_the_guides(_Config) ->
    Loop = new(),
    {ok, {Fd, Port}} = py_nif:create_test_udp_socket(0),
    {error, would_block} = py_nif:recvfrom_test_udp(Fd, 1024),
    {ok, FdRef} = py_nif:add_reader(Loop, Fd, 1),
    ok = py_nif:set_udp_broadcast(Fd, true),
    ok = py_nif:sendto_test_udp(Fd, <<"hello">>, <<"127.0.0.1">>, Port),
    [{1, read}] = events(Loop, 1),
    {ok, {<<"hello">>, {<<"127.0.0.1">>, Port}}} = py_nif:recvfrom_test_udp(Fd, 1024),
    ok = py_nif:remove_reader(Loop, FdRef),
    ok = py_nif:close_test_fd(Fd),
    {error, ebadf} = py_nif:close_test_fd(Fd),
    ok = py_nif:event_loop_destroy(Loop).

tcp_connections_are_accepted(_Config) ->
    Loop = new(),
    {ok, {Listener, Port}} = py_nif:create_test_tcp_listener(0),
    {error, would_block} = py_nif:accept_test_tcp(Listener),
    {ok, _} = py_nif:add_reader(Loop, Listener, 1),
    {ok, Client} = py_nif:connect_test_tcp(<<"127.0.0.1">>, Port),
    [{1, read}] = events(Loop, 1),
    {ok, Server} = py_nif:accept_test_tcp(Listener),
    ok = close([Client, Server, Listener]).

a_worker_collects_while_nobody_polls(_Config) ->
    Loop = new(),
    {ok, Worker} = py_event_worker:start_link(<<"worker">>, Loop),
    ok = py_nif:event_loop_set_worker(Loop, Worker),
    {Read, Write} = pipe(),
    {ok, _} = py_nif:add_reader(Loop, Read, 1),
    {ok, 1} = py_nif:write_test_fd(Write, <<"x">>),
    {ok, _} = py_nif:call_later(Loop, 1, 2),
    ?assertEqual([{1, read}, {2, timer}], collected(Loop, 2)),
    ok = py_event_worker:stop(Worker),
    ok = close([Read, Write]).

collected(Loop, Count) ->
    collected(Loop, Count, []).

collected(_Loop, Count, Events) when length(Events) >= Count ->
    Events;
collected(Loop, Count, Events) ->
    case py_nif:get_pending(Loop) of
        [] -> receive after 1 -> collected(Loop, Count, Events) end;
        %% What was not read is ready again, perhaps before the others are.
        More -> collected(Loop, Count, lists:usort(More ++ Events))
    end.

a_worker_notifies(_Config) ->
    Loop = new(),
    {ok, Worker} = py_event_worker:start_link(w, Loop, #{notify => self()}),
    {ok, _} = py_nif:call_later(Loop, 1, 5),
    receive {py_event, Loop} -> ok after ?LONG -> error(not_told) end,
    [{5, timer}] = py_nif:get_pending(Loop),
    ok = py_event_worker:stop(Worker).

a_router_serves_many_loops(_Config) ->
    First = new(),
    {ok, Router} = py_event_router:start_link(First, #{notify => self()}),
    Loops = [First | [new() || _ <- lists:seq(1, 20)]],
    [ok = py_nif:event_loop_set_router(Loop, Router) || Loop <- Loops],
    [{ok, _} = py_nif:call_later(Loop, 5, N) || {N, Loop} <- lists:zip(lists:seq(0, 20), Loops)],
    [receive {py_event, Loop} -> [{N, timer}] = py_nif:get_pending(Loop) after ?LONG -> error(not_told) end
     || {N, Loop} <- lists:zip(lists:seq(0, 20), Loops)],
    [ok = py_nif:event_loop_destroy(Loop) || Loop <- Loops],
    ok = py_event_router:stop(Router).

another_worker_takes_over(_Config) ->
    Loop = new(),
    {ok, First} = py_event_worker:start_link(1, Loop, #{notify => self()}),
    ok = py_event_worker:stop(First),
    {ok, Second} = py_event_worker:start_link(2, Loop, #{notify => self()}),
    {ok, _} = py_nif:call_later(Loop, 1, 5),
    receive {py_event, Loop} -> [{5, timer}] = py_nif:get_pending(Loop) after ?LONG -> error(not_told) end,
    %% Also while the first one lives.
    {ok, Third} = py_event_worker:start_link(3, Loop, #{notify => self()}),
    {ok, _} = py_nif:call_later(Loop, 1, 6),
    receive {py_event, Loop} -> [{6, timer}] = py_nif:get_pending(Loop) after ?LONG -> error(not_told) end,
    ok = py_event_worker:stop(Second),
    ok = py_event_worker:stop(Third).

%% Each event is caused by the one before: a single one that is missed ends it.
l2_nothing_is_stranded_between_a_worker_and_its_loop(_Config) ->
    Loop = new(),
    {ok, Worker} = py_event_worker:start_link(w, Loop, #{notify => self()}),
    {Read, Write} = pipe(),
    {ok, _} = py_nif:add_reader(Loop, Read, 1),
    [begin
         {ok, 1} = py_nif:write_test_fd(Write, <<"x">>),
         receive {py_event, Loop} -> ok after ?LONG -> error({stranded, N}) end,
         {ok, <<"x">>} = py_nif:read_test_fd(Read, 10),
         [{1, read}] = py_nif:get_pending(Loop)
     end || N <- lists:seq(1, 5000)],
    ok = py_event_worker:stop(Worker),
    ok = close([Read, Write]).

l8_loops_do_not_steal_each_others_events(_Config) ->
    Self = self(),
    Pids = [spawn_link(fun() ->
                               Loop = new(),
                               Ids = lists:seq(K * 1000, K * 1000 + 99),
                               [{ok, _} = py_nif:call_later(Loop, N rem 10, N) || N <- Ids],
                               Self ! {self(), [{N, timer} || N <- Ids] =:= lists:sort(events(Loop, 100))}
                       end) || K <- lists:seq(1, 8)],
    [receive {Pid, Result} -> true = Result end || Pid <- Pids].

l7_an_idle_worker_is_not_woken(_Config) ->
    Loop = new(),
    {ok, Worker} = py_event_worker:start_link(w, Loop),
    {Read, Write} = pipe(),
    {ok, _} = py_nif:add_reader(Loop, Read, 1),
    {ok, _} = py_nif:call_later(Loop, 600000, 2),
    %% It has dealt with what was said to it.
    _ = sys:get_state(Worker),
    timer:sleep(50),
    {reductions, Before} = process_info(Worker, reductions),
    timer:sleep(1500),
    {reductions, After} = process_info(Worker, reductions),
    ?assertEqual(Before, After),
    ok = py_event_worker:stop(Worker),
    ok = close([Read, Write]).

tasks_are_handed_on(_Config) ->
    Loop = new(),
    %% Before there is a worker, and after.
    ok = py_nif:submit_task(Loop, self(), early, <<"math">>, <<"sqrt">>, [4], #{}),
    {ok, Worker} = py_event_worker:start_link(w, Loop),
    receive {async_result, early, {ok, 2.0}} -> ok after ?LONG -> error(no_answer) end,
    Ids = lists:seq(1, 1000),
    [ok = py_nif:submit_task(Loop, self(), Id, <<"operator">>, <<"add">>, [Id, 1], #{}) || Id <- Ids],
    [receive {async_result, Id, Result} -> {ok, N} = Result, N = Id + 1 after ?LONG -> error(no_answer) end || Id <- Ids],
    ok = py_nif:submit_task(Loop, self(), bad, <<"nowhere">>, <<"f">>, [], #{}),
    receive {async_result, bad, {error, {'ModuleNotFoundError', _}}} -> ok after ?LONG -> error(no_answer) end,
    ok = py_event_worker:stop(Worker).

tasks_of_a_destroyed_loop_are_answered(_Config) ->
    Loop = new(),
    ok = py_nif:submit_task(Loop, self(), lost, <<"math">>, <<"sqrt">>, [4], #{}),
    ok = py_nif:event_loop_destroy(Loop),
    receive {async_result, lost, {error, _}} -> ok after ?LONG -> error(no_answer) end.
