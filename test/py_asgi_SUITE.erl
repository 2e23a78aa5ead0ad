%% ASGI apps run from Erlang: scope, bodies, streams, lifespans, WebSockets, and apps that misbehave.
-module(py_asgi_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([a_scope_has_its_defaults/1,
         a_scope_is_of_asgis_types/1,
         a_raw_path_alone_is_decoded/1,
         w6_headers_keep_order_and_duplicates/1,
         w6_requests_share_nothing/1,
         a_body_arrives_and_the_response_is_collected/1,
         what_is_no_scope_is_refused/1,
         a_response_does_not_wait_for_what_comes_after_it/1,
         w7_no_disconnect_is_invented/1,
         tasks_and_timeouts_work_in_an_app/1,
         requests_run_at_once/1,
         a_request_that_takes_too_long_is_cancelled/1,
         code_that_never_waits_is_stopped_by_its_timeout/1,
         run_async_answers_by_a_message/1,
         await_response_takes_it/1,
         a_dead_caller_cancels_its_request/1,
         a_stream_comes_piece_by_piece/1,
         demand_bounds_what_an_app_sends/1,
         a_dead_owner_stops_its_stream/1,
         a_disconnect_reaches_the_app_and_sending_fails/1,
         a_body_is_sent_piece_by_piece_and_waited_for/1,
         a_stream_that_is_over_takes_nothing/1,
         a_lifespan_begins_once_per_loop/1,
         a_lifespan_ends_with_its_loop/1,
         an_app_that_does_not_start_serves_nothing/1,
         a_websocket_echoes/1,
         an_owner_gives_a_websocket_away_with_what_it_has_not_received/1,
         a_websocket_is_closed_by_the_app/1,
         an_app_that_returns_closes_its_websocket/1,
         a_rejected_websocket_is_a_403/1,
         a_refused_websocket_has_the_apps_response/1,
         a_websocket_app_that_fails_says_so/1,
         missing_apps_are_errors/1,
         apps_that_raise_are_errors/1,
         the_traceback_of_an_app_is_logged/1,
         bad_messages_are_errors/1,
         async_01_blocking_code_delays_its_loop/1,
         async_02_blocking_code_on_a_thread_does_not/1,
         frameworks_serve_the_same_site/1,
         frameworks_stream_all_they_have/1,
         frameworks_have_websockets/1]).
-export([log/2]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{event_loop_pool_size, 2}]),
    {ok, _} = py:call(sys, 'path.append', [unicode:characters_to_binary(proplists:get_value(data_dir, Config))]),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    {ok, none} = py:call(asgi_apps, reset, []),
    Config.

end_per_testcase(_Case, _Config) ->
    {ok, none} = py:call(asgi_apps, 'gate.set', []),
    ok.

run(App, Scope) -> run(App, Scope, <<>>).
run(App, Scope, Body) -> py_asgi:run(asgi_apps, App, Scope, Body).

text(App, Scope) ->
    {ok, {200, _, Body}} = run(App, Scope),
    Body.

said() ->
    {ok, Said} = py:eval("__import__('asgi_apps').said"),
    Said.

wait_until_said(What) ->
    py_test:wait_until(fun() -> lists:member(What, said()) end, 12000).

a_scope_has_its_defaults(_) ->
    Body = text(show, #{}),
    [?assertMatch({_, _}, binary:match(Body, Part))
     || Part <- [<<"('type', 'http')">>, <<"('asgi', {">>, <<"'version': '3.0'">>, <<"'spec_version': '2.5'">>,
                 <<"('http_version', '1.1')">>, <<"('method', 'GET')">>, <<"('scheme', 'http')">>, <<"('path', '/')">>,
                 <<"('raw_path', b'/')">>, <<"('query_string', b'')">>, <<"('root_path', '')">>, <<"('headers', [])">>]].

a_scope_is_of_asgis_types(_) ->
    Scope = #{<<"method">> => post, path => <<"/a">>, query_string => <<"q=1">>, root_path => <<"/r">>, http_version => <<"1.0">>,
              headers => [{<<"a">>, <<255>>}], client => {{127, 0, 0, 1}, 80}, server => {<<"h">>, none}},
    ?assertEqual(<<"[]">>, text(types, Scope)),
    Body = text(show, Scope),
    ?assertMatch({_, _}, binary:match(Body, <<"('client', ('127.0.0.1', 80))">>)),
    ?assertMatch({_, _}, binary:match(Body, <<"('server', ('h', None))">>)),
    ?assertMatch({_, _}, binary:match(Body, <<"('method', 'POST')">>)).

a_raw_path_alone_is_decoded(_) ->
    Shown = fun(Scope, Part) -> ?assertMatch({_, _}, binary:match(text(show, Scope), Part)) end,
    Shown(#{raw_path => <<"/a%20b/%C3%A9">>}, <<"('path', '/a b/é')"/utf8>>),
    Shown(#{raw_path => <<"/a%20b/%C3%A9">>}, <<"('raw_path', b'/a%20b/%C3%A9')">>),
    Shown(#{raw_path => <<"/%zz%f">>}, <<"('path', '/%zz%f')">>),
    Shown(#{raw_path => <<"/%FF">>}, <<"('path', '/�')"/utf8>>),
    Shown(#{path => <<"/a%20b">>}, <<"('path', '/a%20b')">>),
    Shown(#{path => <<"/a%20b">>}, <<"('raw_path', b'/a%20b')">>).

w6_headers_keep_order_and_duplicates(_) ->
    Headers = [{<<"X-B">>, <<"1">>}, {"accept", "a"}, [<<"x-b">>, <<"2">>], {<<"x-c">>, <<200>>}],
    Body = text(show, #{headers => Headers}),
    Expected = <<"('headers', [(b'x-b', b'1'), (b'accept', b'a'), (b'x-b', b'2'), (b'x-c', b'\\xc8')])">>,
    ?assertMatch({_, _}, binary:match(Body, Expected)),
    {ok, {201, Back, _}} = run(echo, #{}, <<>>),
    ?assertEqual([{<<"x-a">>, <<"1">>}, {<<"x-b">>, <<"2">>}, {<<"x-a">>, <<"3">>}], Back).

w6_requests_share_nothing(_) ->
    Methods = [<<"GET">>, <<"POST">>, <<"PUT">>, <<"DELETE">>, <<"PATCH">>],
    [?assertMatch({ok, {201, _, <<Method:(byte_size(Method))/binary, " ", _/binary>>}},
                  run(echo, #{method => Method, path => <<"/same">>}, <<"x">>))
     || _ <- lists:seq(1, 20), Method <- Methods].

a_body_arrives_and_the_response_is_collected(_) ->
    Body = binary:copy(<<0, 255, "abc">>, 200000),
    ?assertEqual({ok, <<"POST ", Body/binary>>}, body(run(echo, #{method => <<"POST">>}, Body))),
    ?assertEqual({ok, <<"POST ab">>}, body(run(echo, #{method => <<"POST">>}, ["a", <<"b">>]))).

body({ok, {_, _, Body}}) -> {ok, Body}.

what_is_no_scope_is_refused(_) ->
    Bad = [[], #{headers => [{1, 2}]}, #{path => 3}, #{1 => 2}, #{path => <<"/">>, <<"path">> => <<"/">>}, #{type => websocket},
           #{client => 7}],
    [?assertError(_, run(show, Scope)) || Scope <- Bad],
    ?assertError(_, run(show, #{}, not_a_body)),
    ?assertError(_, py_asgi:run(asgi_apps, show, #{}, <<>>, #{unknown => 1})),
    ?assertError(_, py_asgi:run(asgi_apps, show, #{}, <<>>, #{lifespan => perhaps})).

a_response_does_not_wait_for_what_comes_after_it(_) ->
    ?assertEqual(<<"early">>, text('after', #{})),
    ok = wait_until_said({<<"after">>, <<"http.disconnect">>}),
    {ok, none} = py:call(asgi_apps, 'gate.set', []),
    wait_until_said(<<"the rest">>).

w7_no_disconnect_is_invented(_) ->
    ?assertEqual(<<"nobody left">>, text(waits_for_disconnect, #{})),
    ?assertEqual([], said()).

tasks_and_timeouts_work_in_an_app(_) ->
    ?assertEqual(<<"ok">>, text(gathers, #{})).

%% Each waits for all of them.
requests_run_at_once(_) ->
    Refs = [element(2, py_asgi:run_async(asgi_apps, meets, #{query_string => <<"200">>}, <<>>)) || _ <- lists:seq(1, 200)],
    [?assertMatch({ok, {200, _, <<"met">>}}, py_asgi:await_response(Ref, 60000)) || Ref <- Refs].

a_request_that_takes_too_long_is_cancelled(_) ->
    ?assertEqual({error, timeout}, py_asgi:run(asgi_apps, sleeps, #{query_string => <<"600">>}, <<>>, #{timeout => 50})),
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py_event_loop_pool:get_stats()) =:= 0 end, 12000).

code_that_never_waits_is_stopped_by_its_timeout(_) ->
    ?assertEqual({error, timeout}, py_asgi:run(asgi_apps, spins, #{}, <<>>, #{timeout => 50})),
    ?assertMatch({ok, {201, _, _}}, run(echo, #{})).

run_async_answers_by_a_message(_) ->
    {ok, Ref} = py_asgi:run_async(asgi_apps, echo, #{}, <<"x">>),
    ?assertMatch({201, _, <<"GET x">>}, receive {py_result, Ref, Response} -> Response after 60000 -> nothing end),
    {ok, Failed} = py_asgi:run_async(asgi_apps, raises, #{}, <<>>),
    ?assertMatch({'LookupError', <<"before the start">>}, receive {py_error, Failed, Reason} -> Reason after 60000 -> nothing end).

await_response_takes_it(_) ->
    {ok, Ref} = py_asgi:run_async(asgi_apps, echo, #{}, <<"x">>),
    ?assertMatch({ok, {201, _, <<"GET x">>}}, py_asgi:await_response(Ref)),
    {ok, Slow} = py_asgi:run_async(asgi_apps, sleeps, #{query_string => <<"600">>}, <<>>, #{}),
    ?assertEqual({error, timeout}, py_asgi:await_response(Slow, 20)),
    ?assertEqual({error, timeout}, py_asgi:await_response(Slow, 20)),
    {ok, Failed} = py_asgi:run_async(asgi_apps, raises, #{}, <<>>),
    ?assertMatch({error, {'LookupError', _}}, py_asgi:await_response(Failed)),
    ?assertEqual({messages, []}, process_info(self(), messages)).

a_dead_caller_cancels_its_request(_) ->
    {Pid, Monitor} = spawn_monitor(fun() -> run(sleeps, #{query_string => <<"600">>}) end),
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py_event_loop_pool:get_stats()) =:= 1 end, 12000),
    exit(Pid, kill),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    py_test:wait_until(fun() -> maps:get(waiting_tasks, py_event_loop_pool:get_stats()) =:= 0 end, 12000).

%% What comes of a request, until its end.
events(Ref) ->
    receive
        {py_asgi, Ref, done} -> [done];
        {py_asgi, Ref, {error, _} = Error} -> [Error];
        {py_asgi, Ref, Event} -> [Event | events(Ref)]
    after 60000 ->
        [nothing]
    end.

event(Ref) ->
    receive {py_asgi, Ref, Event} -> Event after 60000 -> nothing end.

a_stream_comes_piece_by_piece(_) ->
    {ok, Ref} = py_asgi:stream(asgi_apps, counts, #{query_string => <<"3">>}, <<>>),
    ?assertEqual([{start, 200, []}, {body, <<"0">>, true}, {body, <<"1">>, true}, {body, <<"2">>, true}, {body, <<>>, false}, done],
                 events(Ref)),
    {ok, Bad} = py_asgi:stream(asgi_apps, raises_after_start, #{}, <<>>),
    ?assertMatch([{start, 200, []}, {error, {'LookupError', <<"after the start">>}}], events(Bad)),
    {ok, Missing} = py_asgi:stream(asgi_apps, no_such_app, #{}, <<>>),
    ?assertMatch([{error, _}], events(Missing)),
    {ok, Late} = py_asgi:stream(asgi_apps, raises_after_end, #{}, <<>>),
    ?assertMatch([{start, 200, []}, {body, <<"whole">>, false}, done], events(Late)),
    {ok, Half} = py_asgi:stream(asgi_apps, returns_half, #{}, <<>>),
    ?assertMatch([{start, 200, []}, {body, <<"half">>, true}, {error, {'RuntimeError', _}}], events(Half)).

demand_bounds_what_an_app_sends(_) ->
    {ok, Ref} = py_asgi:stream(asgi_apps, counts, #{query_string => <<"100">>}, <<>>, #{demand => 2}),
    ?assertEqual({start, 200, []}, event(Ref)),
    ?assertEqual({body, <<"0">>, true}, event(Ref)),
    ?assertEqual({body, <<"1">>, true}, event(Ref)),
    ok = wait_until_said(2),
    %% The app waits in its third one: another request on the same loop comes and goes meanwhile.
    ?assertMatch({ok, {201, _, _}}, run(echo, #{})),
    ?assertEqual([0, 1, 2], said()),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    ok = py_asgi:ack(Ref),
    ?assertEqual({body, <<"2">>, true}, event(Ref)),
    ok = py_asgi:ack(Ref, 1000),
    ?assertEqual(99, length(events(Ref))).

a_dead_owner_stops_its_stream(_) ->
    Test = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        {ok, Ref} = py_asgi:stream(asgi_apps, endless, #{}, <<>>, #{demand => 10}),
        {start, _, _} = event(Ref),
        Test ! begun,
        receive never -> ok end
    end),
    receive begun -> ok end,
    exit(Pid, kill),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    wait_until_said(<<"stopped">>).

a_disconnect_reaches_the_app_and_sending_fails(_) ->
    {ok, Ref} = py_asgi:stream(asgi_apps, hears_disconnect, #{}, <<>>),
    ?assertEqual({start, 200, []}, event(Ref)),
    ok = py_asgi:disconnect(Ref),
    ?assertEqual([done], events(Ref)),
    ?assertEqual([<<"http.disconnect">>, <<"OSError">>], said()).

a_body_is_sent_piece_by_piece_and_waited_for(_) ->
    {ok, Ref} = py_asgi:stream(asgi_apps, uploads, #{method => put}, <<"a">>, #{more_body => true, demand => 1}),
    ?assertEqual({start, 200, []}, event(Ref)),
    ?assertEqual({body, <<"a">>, true}, event(Ref)),
    ok = py_asgi:ack(Ref),
    ?assertEqual(ok, py_asgi:body(Ref, <<"b">>, true)),
    ?assertEqual({body, <<"b">>, true}, event(Ref)),
    %% Taken by the app, which cannot give it back; the next one it does not take.
    ?assertEqual(ok, py_asgi:body(Ref, <<"c">>, true)),
    ?assertEqual({error, timeout}, py_asgi:body(Ref, <<"d">>, true, 50)),
    ok = py_asgi:ack(Ref, 10),
    ?assertEqual(ok, py_asgi:body(Ref, ["e"], false)),
    ?assertEqual([{body, <<"c">>, true}, {body, <<"d">>, true}, {body, <<"e">>, false}, done], events(Ref)),
    ?assertEqual({messages, []}, process_info(self(), messages)).

a_stream_that_is_over_takes_nothing(_) ->
    {ok, Ref} = py_asgi:stream(asgi_apps, counts, #{query_string => <<"0">>}, <<>>),
    [_ | _] = events(Ref),
    py_test:wait_until(fun() -> ets:info(py_asgi_streams, size) =:= 0 end, 12000),
    ok = py_asgi:ack(Ref),
    ok = py_asgi:disconnect(Ref),
    ?assertEqual({error, closed}, py_asgi:body(Ref, <<"x">>, false)).

on_loops(Fun) ->
    Test = self(),
    Pids = [spawn(fun() -> Test ! {self(), Fun()} end) || _ <- lists:seq(1, 40)],
    [receive {Pid, Result} -> Result end || Pid <- Pids].

lives() ->
    {ok, Lives} = py:eval("__import__('asgi_apps').lives"),
    Lives.

a_lifespan_begins_once_per_loop(_) ->
    %% Python stays when the application stops, so other suites may have been counted.
    #{<<"started">> := Started, <<"stopped">> := Stopped} = lives(),
    Two = #{<<"started">> => Started + 2, <<"stopped">> => Stopped},
    [begin
         ?assertEqual([<<"0">>], lists:usort(on_loops(fun() -> text(living, #{}) end))),
         ?assertEqual(Two, lives())
     end || _ <- [1, 2]].

a_lifespan_ends_with_its_loop(_) ->
    _ = text(living, #{}),
    {ok, Loop} = py_event_loop_pool:get_loop(),
    #{<<"started">> := Started, <<"stopped">> := Stopped} = lives(),
    {ok, Loops} = py_event_loop_pool:get_all_loops(),
    {Loop, Pid} = lists:keyfind(Loop, 1, Loops),
    ok = proc_lib:stop(Pid, shutdown, 60000),
    ?assertMatch(#{<<"stopped">> := Now} when Now =:= Stopped + 1, lives()),
    py_test:wait_until(fun() -> {ok, Loop} =/= py_event_loop_pool:get_loop() andalso
                                    element(1, py_event_loop_pool:get_loop()) =:= ok end, 12000),
    _ = text(living, #{}),
    ?assertMatch(#{<<"started">> := Now} when Now =:= Started + 1, lives()).

an_app_that_does_not_start_serves_nothing(_) ->
    [?assertEqual({error, {<<"LifespanError">>, <<"no database">>}}, run(refuses_to_start, #{})) || _ <- [1, 2]],
    ?assertEqual([], said()),
    ?assertMatch({error, {<<"LifespanError">>, _}}, py_asgi:run(asgi_apps, has_no_lifespan, #{}, <<>>, #{lifespan => on})),
    ?assertMatch({ok, _}, py_asgi:run(asgi_apps, has_no_lifespan, #{}, <<>>, #{lifespan => off})).

a_websocket_echoes(_) ->
    {ok, Ref} = py_asgi:websocket(asgi_apps, ws_echo, #{path => <<"/">>, subprotocols => [<<"a">>, <<"b">>]}),
    ?assertEqual({accept, <<"b">>, [{<<"x-a">>, <<"1">>}]}, event(Ref)),
    ok = py_asgi:send(Ref, {text, <<"é"/utf8>>}),
    ?assertEqual({send, {text, <<"é"/utf8>>}}, event(Ref)),
    ok = py_asgi:send(Ref, {binary, [<<0, 255>>]}),
    ?assertEqual({send, {binary, <<0, 255>>}}, event(Ref)),
    ok = py_asgi:close(Ref, 4000, <<"bye">>),
    ?assertEqual([done], events(Ref)),
    ?assertEqual([{4000, <<"bye">>}], said()).

an_owner_gives_a_websocket_away_with_what_it_has_not_received(_) ->
    Test = self(),
    Heir = spawn_link(fun() ->
                          {ok, Ref} = receive {yours, Given} -> {ok, Given} end,
                          Got = [receive {py_asgi, Ref, Event} -> Event after 60000 -> nothing end || _ <- [1, 2]],
                          Test ! {got, Got},
                          receive {py_asgi, Ref, Last} -> Test ! {last, Last} end
                      end),
    {Giver, Monitor} = spawn_monitor(fun() ->
                                         {ok, Ref} = py_asgi:websocket(asgi_apps, ws_echo, #{}),
                                         ok = py_asgi:send(Ref, {text, <<"one">>}),
                                         ok = py_asgi:send(Ref, {text, <<"two">>}),
                                         receive {py_asgi, Ref, {accept, _, _}} -> ok end,
                                         ok = py_asgi:give_away(Ref, Heir),
                                         Heir ! {yours, Ref},
                                         Test ! {ref, Ref}
                                     end),
    %% The app does not depend on who had it.
    ok = receive {'DOWN', Monitor, process, Giver, normal} -> ok end,
    Ref = receive {ref, Given} -> Given end,
    ?assertEqual([{send, {text, <<"one">>}}, {send, {text, <<"two">>}}], receive {got, Got} -> Got end),
    ok = py_asgi:send(Ref, {text, <<"close">>}),
    ?assertMatch({close, 4001, _}, receive {last, Last} -> Last end),
    ?assertEqual({error, closed}, py_asgi:give_away(make_ref(), self())).

a_websocket_is_closed_by_the_app(_) ->
    {ok, Ref} = py_asgi:websocket(asgi_apps, ws_echo, #{}),
    ?assertEqual({accept, none, [{<<"x-a">>, <<"1">>}]}, event(Ref)),
    ok = py_asgi:send(Ref, {text, <<"close">>}),
    ?assertEqual([{close, 4001, <<"as you wish">>}, done], events(Ref)).

an_app_that_returns_closes_its_websocket(_) ->
    {ok, Ref} = py_asgi:websocket(asgi_apps, ws_echo, #{}),
    {accept, _, _} = event(Ref),
    ok = py_asgi:send(Ref, {text, <<"return">>}),
    ?assertEqual([{close, 1000, <<>>}, done], events(Ref)).

a_rejected_websocket_is_a_403(_) ->
    {ok, Ref} = py_asgi:websocket(asgi_apps, ws_rejects, #{}),
    ?assertEqual([{reject, 403, [], <<>>}, done], events(Ref)),
    py_test:wait_until(fun() -> said() =/= [] end, 12000),
    ?assertMatch([#{<<"type">> := <<"websocket.disconnect">>}], said()).

a_refused_websocket_has_the_apps_response(_) ->
    {ok, Ref} = py_asgi:websocket(asgi_apps, ws_refuses, #{}),
    ?assertEqual([{reject, 401, [{<<"x-why">>, <<"no">>}], <<"not you">>}, done], events(Ref)).

a_websocket_app_that_fails_says_so(_) ->
    {ok, Early} = py_asgi:websocket(asgi_apps, ws_out_of_order, #{}),
    ?assertMatch([{error, {'RuntimeError', _}}], events(Early)),
    {ok, Late} = py_asgi:websocket(asgi_apps, ws_raises, #{}),
    ?assertMatch([{accept, none, []}, {error, {'LookupError', <<"after accept">>}}], events(Late)).

missing_apps_are_errors(_) ->
    Missing = fun(Module, Name) -> py_asgi:run(Module, Name, #{}, <<>>) end,
    ?assertMatch({error, {<<"AppNotFoundError">>, <<"there is no module no_such_module">>}}, Missing(no_such_module, app)),
    ?assertMatch({error, {<<"AppNotFoundError">>, _}}, Missing(<<"asgi_apps.deeper">>, app)),
    ?assertMatch({error, {<<"AppNotFoundError">>, _}}, Missing(asgi_apps, no_such_app)),
    ?assertMatch({error, {<<"AppNotFoundError">>, <<"asgi_apps:not_callable cannot be called", _/binary>>}},
                 Missing(asgi_apps, not_callable)),
    ?assertMatch({error, {'TypeError', _}}, Missing(asgi_apps, not_async)).

apps_that_raise_are_errors(_) ->
    ?assertEqual({error, {'LookupError', <<"before the start">>}}, run(raises, #{})),
    ?assertEqual({error, {'LookupError', <<"after the start">>}}, run(raises_after_start, #{})),
    ?assertMatch({ok, {200, [], <<"whole">>}}, run(raises_after_end, #{})),
    [?assertEqual({error, {'RuntimeError', <<"the app returned before its response was complete">>}}, run(App, #{}))
     || App <- [returns, returns_half]].

log(#{msg := {string, Text}} = Event, #{config := Pid}) -> Pid ! {logged, maps:get(level, Event), unicode:characters_to_binary(Text)};
log(#{msg := Msg} = Event, #{config := Pid}) -> Pid ! {logged, maps:get(level, Event), iolist_to_binary(io_lib:format("~tp", [Msg]))}.

the_traceback_of_an_app_is_logged(_) ->
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => self(), level => error}),
    try
        [begin
             _ = run(App, #{}),
             Logged = receive {logged, error, Text} -> Text after 60000 -> nothing end,
             ?assertMatch({_, _}, binary:match(Logged, <<"Traceback">>)),
             ?assertMatch({_, _}, binary:match(Logged, Part))
         end || {App, Part} <- [{raises, <<"before the start">>}, {raises_after_start, <<"after the start">>},
                                {raises_after_end, <<"after the end">>}, {returns, <<"before its response was complete">>}]]
    after
        ok = logger:remove_handler(?MODULE)
    end.

bad_messages_are_errors(_) ->
    {ok, Names} = py:eval("list(__import__('asgi_apps').BAD)"),
    [begin
         Scope = #{query_string => Name},
         Expected = Name =/= <<"after_end">>,
         ?assertEqual({Name, Expected}, {Name, element(1, run(sends, Scope)) =:= error}),
         %% One that does not care has not completed its response all the same.
         ?assertEqual({Name, Expected}, {Name, element(1, run(swallows, Scope)) =:= error})
     end || Name <- Names].

%% A blocking section in a coroutine delays unrelated work on the same loop.
async_01_blocking_code_delays_its_loop(_) ->
    true = register(asgi_test, self()),
    {ok, Blocks} = py_asgi:run_async(asgi_apps, blocks, #{}, <<>>),
    receive {<<"blocks">>, _} -> ok after 60000 -> error(nothing) end,
    {ok, Other} = py_asgi:run_async(asgi_apps, echo, #{}, <<>>),
    receive {py_result, Other, _} -> error(not_delayed) after 200 -> ok end,
    {ok, none} = py:call(asgi_apps, 'gate.set', []),
    ?assertMatch({ok, {201, _, _}}, py_asgi:await_response(Other)),
    ?assertMatch({ok, {200, _, <<"done">>}}, py_asgi:await_response(Blocks)).

%% Moved to a thread it does not.
async_02_blocking_code_on_a_thread_does_not(_) ->
    true = register(asgi_test, self()),
    {ok, Blocks} = py_asgi:run_async(asgi_apps, blocks, #{query_string => <<"aside">>}, <<>>),
    receive {<<"blocks">>, _} -> ok after 60000 -> error(nothing) end,
    [?assertMatch({ok, {201, _, _}}, run(echo, #{})) || _ <- lists:seq(1, 20)],
    {ok, none} = py:call(asgi_apps, 'gate.set', []),
    ?assertMatch({ok, {200, _, <<"done">>}}, py_asgi:await_response(Blocks)).

frameworks_serve_the_same_site(_) ->
    Accept = [{<<"host">>, <<"site">>}, {<<"accept">>, <<"a/b">>}],
    [begin
         {ok, {200, Headers, Body}} = py_asgi:run(frameworks, App, #{path => <<"/hello/you">>, query_string => <<"q=1%20x">>,
                                                                     headers => Accept}, <<>>),
         ?assertEqual({App, <<"application/json">>}, {App, proplists:get_value(<<"content-type">>, Headers)}),
         {ok, Json} = py:call(json, loads, [Body]),
         ?assertMatch({App, #{<<"name">> := <<"you">>, <<"q">> := <<"1 x">>, <<"accept">> := [<<"a/b">>]}}, {App, Json}),
         Echo = #{method => <<"POST">>, path => <<"/echo">>, headers => [{<<"host">>, <<"site">>}]},
         {ok, {200, _, Size}} = py_asgi:run(frameworks, App, Echo, binary:copy(<<"x">>, 100000)),
         ?assertMatch({_, _}, binary:match(Size, <<"100000">>)),
         ?assertMatch({ok, {404, _, _}}, py_asgi:run(frameworks, App, #{path => <<"/none">>, headers => Accept}, <<>>))
     end || App <- [starlette_app, fastapi_app, quart_app, django_app]],
    [?assertMatch({ok, {200, _, <<"{\"main\":true}">>}}, py_asgi:run(frameworks, App, #{path => <<"/sync">>}, <<>>))
     || App <- [starlette_app, fastapi_app]].

frameworks_stream_all_they_have(_) ->
    Whole = iolist_to_binary([[integer_to_list(N), ","] || N <- lists:seq(0, 49)]),
    Scope = #{path => <<"/stream">>, headers => [{<<"host">>, <<"site">>}]},
    [begin
         ?assertMatch({ok, {200, _, Whole}}, py_asgi:run(frameworks, App, Scope, <<>>)),
         {ok, Ref} = py_asgi:stream(frameworks, App, Scope, <<>>),
         [{start, 200, _} | Pieces] = events(Ref),
         ?assertEqual({App, done, Whole}, {App, lists:last(Pieces), iolist_to_binary([Piece || {body, Piece, _} <- Pieces])})
     end || App <- [starlette_app, fastapi_app, quart_app, django_app]].

frameworks_have_websockets(_) ->
    [begin
         {ok, Ref} = py_asgi:websocket(frameworks, App, #{path => <<"/socket">>, headers => [{<<"host">>, <<"site">>}]}),
         ?assertMatch({App, {accept, none, _}}, {App, event(Ref)}),
         ok = py_asgi:send(Ref, {text, <<"hello">>}),
         ?assertEqual({App, {send, {text, <<"HELLO">>}}}, {App, event(Ref)}),
         ok = py_asgi:close(Ref, 1000, <<>>),
         ?assertEqual({App, done}, {App, lists:last(events(Ref))}),
         {ok, None} = py_asgi:websocket(frameworks, App, #{path => <<"/none">>, headers => [{<<"host">>, <<"site">>}]}),
         ?assertMatch({App, [{reject, _, _, _}, done]}, {App, events(None)})
     end || App <- [starlette_app, fastapi_app, quart_app]].
