%% Bugs that comparable systems had, inside the VM, on the loops that Erlang owns: L is loops and timers, F descriptors and transports.
%% Every row has cases that begin with its name, here or where their topic is: `py_rows_SUITE:rows/0' finds them all. The loop's own
%% cases of the same names run inside the VM too, by a call (`pytests/erlang/test_inside.py').
-module(py_loop_rows_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([log/2]).
-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([l1_timers_fire_on_every_loop_and_on_their_own/1,
         l2_work_queued_while_the_loop_is_busy_needs_no_other_wakeup/1,
         l2_each_task_wakes_a_loop_that_waits/1,
         l3_every_queued_task_runs_once_and_in_order/1,
         l4_a_handle_cancelled_by_its_former_owner_cancels_nobody_else/1,
         l5_no_timer_of_a_loop_is_early/1,
         l7_f9_an_idle_vm_with_a_thousand_connections_is_not_woken/1,
         l8_loops_see_their_own_events_only/1,
         l9_a_loop_does_not_run_inside_itself/1,
         f1_a_reused_number_does_not_get_the_events_of_its_former_owner/1,
         f2_ten_thousand_connections_over_four_loops_leave_nothing_in_the_log/1,
         f3_only_its_owner_arms_a_loop/1,
         f5_ssl_speaks_tls_on_the_wire/1,
         f6_write_eof_closes_one_direction/1,
         f6_drain_waits_for_a_peer_that_does_not_read/1,
         f7_a_burst_of_clients_is_accepted/1,
         f8_a_cancelled_call_on_a_socket_leaves_nothing_registered/1,
         tasks_of_one_process_are_in_order_whatever_others_do/1,
         every_task_is_answered_once_while_loops_crash/1,
         a_crash_of_a_loop_is_told_to_its_callers_only/1,
         bad_tasks_are_answered_to_the_one_who_asked/1]).

-define(LONG, 120000).
-define(LOOPS, 4).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 2}, {event_loop_pool_size, ?LOOPS}]),
    {ok, _} = py:call(sys, 'path.append', [unicode:characters_to_binary(proplists:get_value(data_dir, Config))]),
    {ok, none} = py:eval("__import__('loop_rows') and None"),
    Config.

end_per_suite(_Config) ->
    {ok, _} = py:eval("__import__('sys').modules.pop('loop_rows') and None"),
    py_test:stop().

init_per_testcase(_Case, Config) ->
    Config.

%% Whatever a case does, no task is left, all loops are there, and nothing more is said.
end_per_testcase(_Case, _Config) ->
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py_event_loop_pool:get_stats()) =:= 0 end),
    py_test:wait_until(fun() -> length(py_loop:all()) =:= ?LOOPS + 2 end),
    {ok, none} = run(sleeps, [0]),
    {messages, []} = process_info(self(), messages),
    ok.

run(Function, Args) ->
    py_event_loop:run(loop_rows, Function, Args, #{timeout => ?LONG}).

task(Function, Args) ->
    py_event_loop:create_task(loop_rows, Function, Args).

await(Ref) ->
    py_event_loop:await(Ref, ?LONG).

%% Runs a function on every loop of the pool at once, each with an argument of its own in front: what they answer, in order.
on_all(Function, Args) ->
    {ok, Loops} = py_event_loop_pool:get_all_loops(),
    Keys = lists:seq(1, length(Loops)),
    [ok = py_event_loop:run_async(Loop, #{ref => Key, caller => self(), module => loop_rows, func => Function, args => Args(Key)})
     || {Key, {Loop, _}} <- lists:zip(Keys, Loops)],
    [receive {async_result, Key, Result} -> Result after ?LONG -> error({no_answer, Key}) end || Key <- Keys].

%% Keeps the loop of `py_event_loop' busy until told to go on.
hold() ->
    Self = self(),
    ok = py:register_function(rows_hold, fun([]) -> Self ! {held, self()}, receive go_on -> none end end),
    Ref = task(holds, [<<"rows_hold">>]),
    receive {held, Pid} -> {Ref, Pid} after ?LONG -> error(not_held) end.

release({Ref, Pid}) ->
    Pid ! go_on,
    {ok, none} = await(Ref),
    py:unregister_function(rows_hold).

%% In a process of its own each; what they return, in order.
parallel(Funs) ->
    Pids = [spawn_monitor(fun() -> exit({returned, Fun()}) end) || Fun <- Funs],
    [receive {'DOWN', Monitor, process, _, Reason} -> {returned, Value} = Reason, Value end || {_, Monitor} <- Pids].

l1_timers_fire_on_every_loop_and_on_their_own(_Config) ->
    Results = on_all(timers_of, fun(_) -> [500] end),
    [{ok, [500, true, _]} = Result || Result <- Results],
    ?LOOPS = length(lists:usort([Thread || {ok, [_, _, Thread]} <- Results])),
    %% A second loop and a third, all at once.
    Sleeps = [fun() -> py_event_loop_pool:run(loop_rows, sleeps, [0.01, N], #{timeout => ?LONG}) end || N <- lists:seq(1, 50)],
    ?assertEqual([{ok, N} || N <- lists:seq(1, 50)], parallel(Sleeps)).

l2_work_queued_while_the_loop_is_busy_needs_no_other_wakeup(_Config) ->
    [begin
         Held = hold(),
         Refs = [task(sleeps, [0, N]) || N <- lists:seq(1, 100)],
         ok = release(Held),
         ?assertEqual([{ok, N} || N <- lists:seq(1, 100)], [await(Ref) || Ref <- Refs])
     end || _ <- lists:seq(1, 20)].

%% Each is asked for when the one before is answered: a single wake-up that is lost ends it.
l2_each_task_wakes_a_loop_that_waits(_Config) ->
    [{ok, N} = run(sleeps, [0, N]) || N <- lists:seq(1, 3000)].

l3_every_queued_task_runs_once_and_in_order(_Config) ->
    {ok, _} = run(take, []),
    Held = hold(),
    Parent = self(),
    Writers = [spawn_link(fun() ->
                                  Refs = [task(note, [[K, N]]) || N <- lists:seq(1, 200)],
                                  Parent ! {queued, self()},
                                  [{ok, none} = await(Ref) || Ref <- Refs],
                                  Parent ! {answered, self()}
                          end) || K <- lists:seq(1, 20)],
    [receive {queued, Pid} -> ok after ?LONG -> error(not_queued) end || Pid <- Writers],
    ok = release(Held),
    [receive {answered, Pid} -> ok after ?LONG -> error(not_answered) end || Pid <- Writers],
    {ok, Said} = run(take, []),
    4000 = length(Said),
    [?assertEqual(lists:seq(1, 200), [N || [Key, N] <- Said, Key =:= K]) || K <- lists:seq(1, 20)].

l4_a_handle_cancelled_by_its_former_owner_cancels_nobody_else(_Config) ->
    {ok, 300} = run(former_owners, [300]),
    {ok, Loop} = py_nif:event_loop_new(),
    [begin
         {ok, Old} = py_nif:call_later(Loop, 0, N),
         {ok, 1} = py_nif:poll_events(Loop, ?LONG),
         [{N, timer}] = py_nif:get_pending(Loop),
         {ok, _New} = py_nif:call_later(Loop, 1, -N + 100000),
         ok = py_nif:cancel_timer(Loop, Old),
         {ok, 1} = py_nif:poll_events(Loop, ?LONG),
         Wanted = -N + 100000,
         [{Wanted, timer}] = py_nif:get_pending(Loop)
     end || N <- lists:seq(1, 100)],
    ok = py_nif:event_loop_destroy(Loop).

l5_no_timer_of_a_loop_is_early(_Config) ->
    [{ok, +0.0} = Early || Early <- on_all(never_early, fun(_) -> [[0.0001, 0.0009, 0.001, 0.0015, 0.0123, 0.02]] end)].

%% A thousand clients on one loop, a timer that is far away, and nothing to do: none of our threads and processes runs at all.
l7_f9_an_idle_vm_with_a_thousand_connections_is_not_woken(_Config) ->
    {ok, Port} = run(serve_idle, []),
    Sockets = [begin
                   {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
                   ok = gen_tcp:send(Socket, <<"x">>),
                   {ok, <<"x">>} = gen_tcp:recv(Socket, 1),
                   Socket
               end || _ <- lists:seq(1, 1000)],
    {ok, Highest} = run(highest_fd, []),
    ?assert(Highest > 1024),
    %% Threads of loops that have none end when they were not needed for a while.
    py_test:wait_until(fun() -> not lists:keymember("py_crew", 3, ran()) end, 24000),
    %% Who has worked may look around once more before it sleeps.
    py_test:wait_until(fun() -> Before = ran(), timer:sleep(200), Before =:= ran() end),
    Before = ran(),
    %% The loop of the async driver has none.
    true = length([Thread || {thread, _, "py_loop", _} = Thread <- Before]) >= ?LOOPS + 1,
    timer:sleep(3000),
    ?assertEqual(Before, ran()),
    %% They are all there.
    [begin ok = gen_tcp:send(Socket, <<"y">>), {ok, <<"y">>} = gen_tcp:recv(Socket, 1), ok = gen_tcp:close(Socket) end
     || Socket <- Sockets],
    {ok, none} = run(end_idle, []).

%% How often each thread of ours was given a core, how much each process of ours has done, and what was counted.
ran() ->
    {ok, Tasks} = file:list_dir("/proc/self/task"),
    Threads = [{thread, Task, Name, switches(Task)} || Task <- Tasks, Name <- [comm(Task)], lists:prefix("py_", Name)],
    Pids = [Pid || {_, Pid, _, _} <- supervisor:which_children(py_loop_sup), is_pid(Pid)],
    Processes = [{process, Pid, process_info(Pid, reductions)} || Pid <- Pids],
    lists:sort(Threads) ++ lists:sort(Processes) ++ [{counted, maps:without([memory], py_nif:stats())}].

comm(Task) ->
    case file:read_file(filename:join(["/proc/self/task", Task, "comm"])) of
        {ok, Name} -> string:trim(binary_to_list(Name));
        {error, _} -> ""
    end.

switches(Task) ->
    case file:read_file(filename:join(["/proc/self/task", Task, "status"])) of
        {ok, Status} ->
            Pattern = "^(?:non)?voluntary_ctxt_switches:\\s*(\\d+)",
            {match, Counts} = re:run(Status, Pattern, [global, multiline, {capture, [1], list}]),
            [list_to_integer(Count) || [Count] <- Counts];
        {error, _} ->
            ended
    end.

l8_loops_see_their_own_events_only(_Config) ->
    [{ok, true} = Result || Result <- on_all(readers, fun(_) -> [300] end)].

l9_a_loop_does_not_run_inside_itself(_Config) ->
    {ok, [[_, _, _] = Texts, true]} = run(inside_itself, []),
    [{match, _} = re:run(Text, "running") || Text <- Texts].

f1_a_reused_number_does_not_get_the_events_of_its_former_owner(_Config) ->
    [{ok, true} = Result || Result <- on_all(reused_numbers, fun(_) -> [200] end)].

f2_ten_thousand_connections_over_four_loops_leave_nothing_in_the_log(_Config) ->
    ok = logger:add_handler(?FUNCTION_NAME, ?MODULE, #{config => self(), level => all}),
    Results = on_all(many_connections, fun(Key) -> [2500, integer_to_binary(Key)] end),
    ok = logger:remove_handler(?FUNCTION_NAME),
    ?assertEqual([{ok, [2500, []]} || _ <- lists:seq(1, ?LOOPS)], Results),
    [] = logged().

log(Event, #{config := Pid}) ->
    Pid ! {logged, Event}.

%% What was logged, but for what the test framework says.
logged() ->
    receive
        {logged, #{level := Level, msg := Message}} when Level =/= debug, Level =/= info -> [Message | logged()];
        {logged, _} -> logged()
    after 0 ->
        []
    end.

%% Many processes change a loop while its worker waits for it; nobody else may wait.
f3_only_its_owner_arms_a_loop(_Config) ->
    {ok, Loop} = py_nif:event_loop_new(),
    {ok, Worker} = py_event_worker:start_link(rows, Loop, #{notify => self()}),
    {error, not_owner} = py_nif:event_loop_arm(Loop, make_ref()),
    Change = fun() ->
                     {ok, {Read, Write}} = py_nif:create_test_pipe(),
                     [begin
                          {ok, Reader} = py_nif:add_reader(Loop, Read, N),
                          {ok, Timer} = py_nif:call_later(Loop, N rem 3, N),
                          {error, not_owner} = py_nif:event_loop_arm(Loop, make_ref()),
                          ok = py_nif:event_loop_wakeup(Loop),
                          ok = py_nif:cancel_timer(Loop, Timer),
                          ok = py_nif:remove_reader(Loop, Reader)
                      end || N <- lists:seq(1, 200)],
                     [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]],
                     ok
             end,
    [ok = Done || Done <- parallel(lists:duplicate(8, Change))],
    {ok, _} = py_nif:call_later(Loop, 1, 99),
    ok = pending(Loop, {99, timer}),
    ok = py_event_worker:stop(Worker),
    ok = py_nif:event_loop_destroy(Loop),
    Flush = fun Flush() -> receive {py_event, Loop} -> Flush() after 0 -> ok end end,
    Flush().

pending(Loop, Event) ->
    case lists:member(Event, py_nif:get_pending(Loop)) of
        true -> ok;
        false -> receive {py_event, Loop} -> pending(Loop, Event) after ?LONG -> error({not_told, Event}) end
    end.

%% Against Erlang's own TLS, in both roles; and what speaks no TLS learns nothing.
f5_ssl_speaks_tls_on_the_wire(Config) ->
    {ok, _} = application:ensure_all_started(ssl),
    {Certificate, Key, Authority} = certificate(proplists:get_value(priv_dir, Config)),
    {ok, Port} = run(tls_port, [Certificate, Key]),
    {ok, Secure} = ssl:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {verify, verify_none}], ?LONG),
    ok = ssl:send(Secure, <<"over tls">>),
    {ok, <<"over tls">>} = ssl:recv(Secure, 8, ?LONG),
    ok = ssl:close(Secure),
    {ok, Plain} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Plain, <<"in the clear\n">>),
    nomatch = binary:match(all_of(Plain), <<"in the clear">>),
    {ok, none} = run(close_port, []),
    {ok, Listener} = ssl:listen(0, [binary, {active, false}, {certfile, Certificate}, {keyfile, Key}, {ip, {127, 0, 0, 1}}]),
    {ok, {_, ServerPort}} = ssl:sockname(Listener),
    Ref = task(tls_client, [ServerPort, Authority]),
    {ok, Waiting} = ssl:transport_accept(Listener, ?LONG),
    {ok, Accepted} = ssl:handshake(Waiting, ?LONG),
    {ok, <<"secret\n">>} = ssl:recv(Accepted, 7, ?LONG),
    ok = ssl:send(Accepted, <<"answer\n">>),
    %% One that waits in `recv' does not always answer the end of the other side.
    ok = ssl:setopts(Accepted, [{active, true}]),
    receive {ssl_closed, Accepted} -> ok after ?LONG -> error(not_closed) end,
    {ok, [<<"answer\n">>, true]} = await(Ref),
    ok = ssl:close(Listener).

all_of(Socket) ->
    case gen_tcp:recv(Socket, 0, ?LONG) of
        {ok, Data} -> <<Data/binary, (all_of(Socket))/binary>>;
        {error, Reason} when Reason =:= closed; Reason =:= econnreset -> <<>>
    end.

%% Files: a certificate, its key, and who signed it.
certificate(Dir) ->
    Strong = [{key, {namedCurve, secp256r1}}, {digest, sha256}],
    Chain = #{root => Strong, intermediates => [], peer => Strong},
    #{server_config := Server, client_config := Client} = public_key:pkix_test_data(#{server_chain => Chain, client_chain => Chain}),
    {Kind, Key} = proplists:get_value(key, Server),
    list_to_tuple([begin
                       Path = filename:join(Dir, Name),
                       ok = file:write_file(Path, public_key:pem_encode([{Type, Der, not_encrypted} || {Type, Der} <- Entries])),
                       unicode:characters_to_binary(Path)
                   end || {Name, Entries} <- [{"certificate.pem", [{'Certificate', proplists:get_value(cert, Server)}]},
                                              {"key.pem", [{Kind, Key}]},
                                              {"authority.pem", [{'Certificate', Der} || Der <- proplists:get_value(cacerts, Client)]}]]).

f6_write_eof_closes_one_direction(_Config) ->
    {ok, Listener} = gen_tcp:listen(0, [binary, {active, false}, {exit_on_close, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listener),
    Ref = task(half_close, [Port]),
    {ok, Socket} = gen_tcp:accept(Listener, ?LONG),
    Said = all_of(Socket),
    %% Everything was said and that direction is over; the other one is open.
    ok = gen_tcp:send(Socket, Said),
    {ok, [<<"all of it">>, [], [], [<<"lost">>]]} = await(Ref),
    ok = gen_tcp:close(Socket),
    ok = gen_tcp:close(Listener).

%% A hundred MiB for a peer that reads only later: what is buffered stays at what one write and the mark make.
f6_drain_waits_for_a_peer_that_does_not_read(_Config) ->
    {ok, Listener} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listener),
    Ref = task(drains, [Port, 1600]),
    {ok, Socket} = gen_tcp:accept(Listener, ?LONG),
    %% It waits, and its loop does not.
    {ok, none} = run(sleeps, [0.05]),
    1 = maps:get(waiting_tasks, py_event_loop_pool:get_stats()),
    104857600 = read(Socket, 0),
    {ok, Most} = await(Ref),
    ?assert(Most =< 262144),
    ok = gen_tcp:close(Socket),
    ok = gen_tcp:close(Listener).

read(Socket, Count) ->
    case gen_tcp:recv(Socket, 0, ?LONG) of
        {ok, Data} -> read(Socket, Count + byte_size(Data));
        {error, closed} -> Count
    end.

%% They come while the loop is busy.
f7_a_burst_of_clients_is_accepted(_Config) ->
    {ok, Port} = run(open_port, []),
    Held = hold(),
    Sockets = [begin {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]), Socket end
               || _ <- lists:seq(1, 100)],
    [ok = gen_tcp:send(Socket, integer_to_binary(N)) || {N, Socket} <- lists:zip(lists:seq(1001, 1100), Sockets)],
    ok = release(Held),
    [begin
         Wanted = integer_to_binary(N),
         {ok, Wanted} = gen_tcp:recv(Socket, 4, ?LONG),
         ok = gen_tcp:close(Socket)
     end || {N, Socket} <- lists:zip(lists:seq(1001, 1100), Sockets)],
    {ok, none} = run(close_port, []).

f8_a_cancelled_call_on_a_socket_leaves_nothing_registered(_Config) ->
    [{ok, true} = Result || Result <- on_all(cancelled_sock_calls, fun(_) -> [100] end)].

%% One process writes, others keep all loops busy.
tasks_of_one_process_are_in_order_whatever_others_do(_Config) ->
    {ok, _} = run(take, []),
    Others = [fun() -> [{ok, N} = py_event_loop_pool:run(loop_rows, sleeps, [0, N], #{timeout => ?LONG}) || N <- lists:seq(1, 200)], ok end
              || _ <- lists:seq(1, 20)],
    Writer = fun() ->
                     Refs = [py_event_loop_pool:create_task(loop_rows, note, [N]) || N <- lists:seq(1, 5000)],
                     [{ok, none} = await(Ref) || Ref <- Refs],
                     ok
             end,
    [ok = Done || Done <- parallel([Writer | Others])],
    {ok, Said} = run(take, []),
    ?assertEqual(lists:seq(1, 5000), Said).

%% Tasks that end, wait, are cancelled, interrupted and given up, while loops are killed under them: one answer each, no more.
every_task_is_answered_once_while_loops_crash(_Config) ->
    Asker = fun() ->
                    Self = self(),
                    [begin
                         Ref = py_event_loop_pool:create_task(loop_rows, sleeps, [N rem 3 / 1000, N]),
                         case N rem 5 of
                             0 -> _ = py:cancel(Ref);
                             1 -> _ = py:interrupt(Ref);
                             _ -> ok
                         end,
                         case py_event_loop:await(Ref, case N rem 7 of 0 -> 1; _ -> ?LONG end) of
                             {ok, N} -> ok;
                             {error, _} -> ok
                         end,
                         ok = py_event_loop:run_async(element(2, py_event_loop:get_loop()),
                                                      #{ref => N, caller => Self, module => loop_rows, func => sleeps, args => [0, N]}),
                         receive {async_result, N, {ok, N}} -> ok after ?LONG -> error({no_answer, N}) end
                     end || N <- lists:seq(1, 200)],
                    process_info(self(), messages)
            end,
    Killer = fun() ->
                     [begin
                          {ok, Loops} = py_event_loop_pool:get_all_loops(),
                          [exit(Owner, kill) || {_, Owner} <- lists:sublist(Loops, 1 + N rem ?LOOPS, 1)],
                          timer:sleep(100)
                      end || N <- lists:seq(1, 10)],
                     {messages, []}
             end,
    [{messages, []} = Left || Left <- parallel([Killer | lists:duplicate(10, Asker)])].

a_crash_of_a_loop_is_told_to_its_callers_only(_Config) ->
    Self = self(),
    {ok, Before} = py_event_loop_pool:get_all_loops(),
    Jobs = [{Key, Loop, Owner} || {Key, {Loop, Owner}} <- lists:zip(lists:seq(1, ?LOOPS), Before)],
    [ok = py_event_loop:run_async(Loop, #{ref => {Key, N}, caller => Self, module => loop_rows, func => waits, args => [Self, {Key, N}]})
     || {Key, Loop, _} <- Jobs, N <- [1, 2, 3]],
    [receive {Key, N} -> ok after ?LONG -> error(not_begun) end || {Key, _, _} <- Jobs, N <- [1, 2, 3]],
    [{1, _, Victim} | Others] = Jobs,
    exit(Victim, kill),
    [receive {async_result, {1, N}, {error, _}} -> ok after ?LONG -> error(not_told) end || N <- [1, 2, 3]],
    py_test:wait_until(fun() -> {ok, Now} = py_event_loop_pool:get_all_loops(), length(Now) =:= ?LOOPS end),
    {ok, After} = py_event_loop_pool:get_all_loops(),
    [true = lists:member({Loop, Owner}, After) || {_, Loop, Owner} <- Others],
    %% Those of the other loops go on, until their owners end in turn.
    receive {async_result, _, _} = Told -> error({told, Told}) after 0 -> ok end,
    [exit(Owner, kill) || {_, _, Owner} <- Others],
    [receive {async_result, {Key, N}, {error, _}} -> ok after ?LONG -> error(not_told) end || {Key, _, _} <- Others, N <- [1, 2, 3]],
    py_test:wait_until(fun() -> length(py_loop:all()) =:= ?LOOPS + 2 end).

%% By every way there is to ask: an answer, to this process or to the one that is named, and no other.
bad_tasks_are_answered_to_the_one_who_asked(_Config) ->
    {ok, Loop} = py_event_loop:get_loop(),
    {ok, Bare} = py_nif:event_loop_new(),
    {ok, Worker} = py_event_worker:start_link(rows, Bare),
    {ok, Gone} = py_nif:event_loop_new(),
    ok = py_nif:event_loop_destroy(Gone),
    Deep = lists:foldl(fun(_, Term) -> [Term] end, [], lists:seq(1, 100000)),
    Bad = [{no_such_module, f, []}, {loop_rows, no_such_function, []}, {loop_rows, kept, []}, {loop_rows, sleeps, []},
           {loop_rows, sleeps, [1, 2, 3]}, {loop_rows, sleeps, [<<"soon">>]}, {loop_rows, sleeps, [0 | 1]}, {loop_rows, sleeps, [Deep]},
           {loop_rows, odd, []}, {loop_rows, cancels_itself, []}, {<<255>>, f, []}, {loop_rows, <<"a", 0>>, []}],
    Sent = fun(Tag, Ref) -> receive {Tag, Ref, Reason} -> {error, Reason} after ?LONG -> error({no_answer, Ref}) end end,
    Result = fun(Ref) -> receive {async_result, Ref, Answer} -> Answer after ?LONG -> error({no_answer, Ref}) end end,
    Name = fun(Text) when is_atom(Text) -> atom_to_binary(Text); (Text) -> Text end,
    Ways = [fun(M, F, A) -> py_event_loop:run(M, F, A, #{timeout => ?LONG}) end,
            fun(M, F, A) -> py_event_loop_pool:run(M, F, A, #{timeout => ?LONG}) end,
            fun(M, F, A) -> await(py_event_loop:create_task(M, F, A)) end,
            fun(M, F, A) -> await(py_event_loop_pool:create_task(M, F, A)) end,
            fun(M, F, A) -> py:await(py:async_call(M, F, A), ?LONG) end,
            fun(M, F, A) -> {error, {gather_failed, [{1, Reason}]}} = py:async_gather([{M, F, A}], ?LONG), {error, Reason} end,
            fun(M, F, A) -> {ok, Ref} = py_async_driver:submit(M, F, A, #{}), Sent(py_error, Ref) end,
            fun(M, F, A) ->
                    Self = self(),
                    spawn_link(fun() -> Self ! {submitted, py_async_driver:submit(M, F, A, #{}, Self)} end),
                    receive {submitted, {ok, Ref}} -> Sent(py_error, Ref) after ?LONG -> error(not_submitted) end
            end,
            fun(M, F, A) -> ok = py_nif:submit_coroutine(self(), 7, Name(M), Name(F), A, #{}), Sent(call_error, 7) end,
            fun(M, F, A) -> ok = py_nif:submit_task(Loop, self(), 8, Name(M), Name(F), A, #{}), Result(8) end,
            fun(M, F, A) -> ok = py_nif:submit_task(Bare, self(), 9, Name(M), Name(F), A, #{}), Result(9) end],
    [begin
         Given = Way(M, F, A),
         ?assertMatch({{M, F}, _, {error, _}}, {{M, F}, N, Given})
     end || {M, F, A} <- Bad, {N, Way} <- lists:zip(lists:seq(1, length(Ways)), Ways)],
    Job = #{ref => 1, caller => self(), module => loop_rows, func => sleeps, args => [0]},
    [{error, invalid_loop} = py_event_loop:run_async(Ref, Job) || Ref <- [Gone, make_ref(), self(), 42, <<"loop">>]],
    [?assertError(badarg, py_event_loop:run_async(Loop, Wrong))
     || Wrong <- [maps:remove(ref, Job), Job#{caller => nobody}, Job#{args => none}, Job#{kwargs => none}, none]],
    [begin
         ok = py_nif:submit_task(Any, self(), Kwargs, <<"loop_rows">>, <<"sleeps">>, [0], Kwargs),
         ?assertMatch({error, _}, Result(Kwargs))
     end || Any <- [Loop, Bare], Kwargs <- [none, [], #{<<"no name">> => 1}, #{1 => 2}]],
    {messages, []} = process_info(self(), messages),
    ok = py_event_worker:stop(Worker),
    ok = py_nif:event_loop_destroy(Bare).
