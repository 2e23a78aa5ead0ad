%% The web server inside the VM: several loops at one port, loops that die, the end, and apps that cannot be served.
-module(py_asgi_serve_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([an_app_is_served_by_several_loops/1,
         each_loop_has_a_lifespan_of_its_own/1,
         a_websocket_is_served/1,
         a_wsgi_app_is_served/1,
         apps_that_cannot_be_served_are_errors/1,
         a_port_that_is_taken_is_an_error/1,
         a_port_of_another_server_is_shared_only_when_asked_for/1,
         bad_options_are_refused/1,
         a_loop_that_dies_listens_again/1,
         a_server_that_ends_answers_what_it_serves/1,
         a_server_that_ends_cancels_what_takes_too_long/1,
         a_server_that_dies_listens_no_more/1,
         no_answer_crosses_connections_while_loops_are_killed/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{event_loop_pool_size, 2}]),
    Tests = filename:dirname(filename:absname(string:trim(proplists:get_value(data_dir, Config), trailing, "/"))),
    [{ok, _} = py:call(sys, 'path.append', [unicode:characters_to_binary(filename:join(Tests, Dir))])
     || Dir <- ["py_asgi_SUITE_data", "py_wsgi_SUITE_data"]],
    Config.

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    {ok, none} = py:call(asgi_apps, reset, []),
    Config.

end_per_testcase(_Case, _Config) ->
    {ok, none} = py:call(asgi_apps, 'gate.set', []),
    [ok = py_asgi:stop(Server) || {_, Server, _, _} <- supervisor:which_children(py_asgi_sup)],
    ok.

serve(App) -> serve(App, #{}).

serve(App, Options) ->
    {ok, Server} = py_asgi:serve(Options#{app => {asgi_apps, App}, port => 0}),
    #{port := Port} = py_asgi:info(Server),
    {Server, Port}.

connect(Port) ->
    gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {packet, raw}], 60000).

request(Path, Body) ->
    ["POST ", Path, " HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: ", integer_to_list(iolist_size(Body)), "\r\n\r\n", Body].

%% The status and the body of the only response on a new connection.
fetch(Port, Path) -> fetch(Port, Path, <<>>).

fetch(Port, Path, Body) ->
    {ok, Socket} = connect(Port),
    ok = gen_tcp:send(Socket, request(Path, Body)),
    answer(all_of(Socket, <<>>)).

all_of(Socket, Before) ->
    case gen_tcp:recv(Socket, 0, 60000) of
        {ok, More} -> all_of(Socket, <<Before/binary, More/binary>>);
        {error, closed} -> Before;
        {error, Reason} -> {error, Reason, Before}
    end.

answer(<<"HTTP/1.1 ", Status:3/binary, _/binary>> = Answer) ->
    [_Head, Body] = binary:split(Answer, <<"\r\n\r\n">>),
    {binary_to_integer(Status), Body};
answer(Other) ->
    Other.

an_app_is_served_by_several_loops(_) ->
    {Server, Port} = serve(echo, #{loops => 2}),
    ?assertMatch(#{host := <<"127.0.0.1">>, loops := 2}, py_asgi:info(Server)),
    [?assertEqual({201, <<"POST ", Body/binary>>}, fetch(Port, "/", Body))
     || N <- lists:seq(1, 50), Body <- [integer_to_binary(N)]],
    ok = py_asgi:stop(Server),
    ?assertMatch({error, econnrefused}, connect(Port)).

each_loop_has_a_lifespan_of_its_own(_) ->
    {ok, #{<<"started">> := Before}} = py:eval("__import__('asgi_apps').lives"),
    {_, Port} = serve(living, #{loops => 2}),
    {ok, #{<<"started">> := After}} = py:eval("__import__('asgi_apps').lives"),
    ?assertEqual(2, After - Before),
    [?assertEqual({200, <<"0">>}, fetch(Port, "/")) || _ <- lists:seq(1, 20)].

a_websocket_is_served(_) ->
    {_, Port} = serve(ws_echo),
    {ok, Socket} = connect(Port),
    ok = gen_tcp:send(Socket, "GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                              "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"),
    {ok, <<"HTTP/1.1 101 ", _/binary>> = Head} = gen_tcp:recv(Socket, 0, 60000),
    ?assertMatch({_, _}, binary:match(Head, <<"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=">>)),
    ok = gen_tcp:send(Socket, <<16#81, 16#82, 0, 0, 0, 0, "hi">>),
    ?assertEqual({ok, <<16#81, 2, "hi">>}, gen_tcp:recv(Socket, 4, 60000)).

a_wsgi_app_is_served(_) ->
    {ok, Server} = py_asgi:serve(#{app => <<"wsgi_apps:echo">>, interface => wsgi, port => 0}),
    %% Its pieces as they came.
    ?assertEqual({201, <<"4\r\nPOST\r\n1\r\n \r\n5\r\nhello\r\n0\r\n\r\n">>},
                 fetch(maps:get(port, py_asgi:info(Server)), "/", <<"hello">>)).

apps_that_cannot_be_served_are_errors(_) ->
    Serve = fun(App) -> py_asgi:serve(#{app => App, port => 0}) end,
    ?assertMatch({error, {<<"AppNotFoundError">>, _}}, Serve({no_such_module, app})),
    ?assertMatch({error, {<<"AppNotFoundError">>, _}}, Serve(<<"asgi_apps:no_such_app">>)),
    ?assertMatch({error, {<<"AppNotFoundError">>, _}}, Serve("asgi_apps:not_callable")),
    ?assertMatch({error, {<<"LifespanError">>, <<"no database">>}}, Serve({asgi_apps, refuses_to_start})),
    ?assertEqual([], supervisor:which_children(py_asgi_sup)).

a_port_that_is_taken_is_an_error(_) ->
    {ok, Listening} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listening),
    ?assertEqual({error, eaddrinuse}, py_asgi:serve(#{app => {asgi_apps, echo}, port => Port})).

a_port_of_another_server_is_shared_only_when_asked_for(_) ->
    {First, Port} = serve(echo, #{loops => 2}),
    Again = #{app => {asgi_apps, echo}, port => Port},
    ?assertEqual({error, eaddrinuse}, py_asgi:serve(Again)),
    ?assertEqual({201, <<"POST x">>}, fetch(Port, "/", <<"x">>)),
    {ok, Second} = py_asgi:serve(Again#{reuse_port => true}),
    ok = py_asgi:stop(First),
    ?assertEqual({201, <<"POST y">>}, fetch(Port, "/", <<"y">>)),
    ok = py_asgi:stop(Second),
    {ok, Third} = py_asgi:serve(Again),
    ?assertMatch(#{port := Port}, py_asgi:info(Third)).

bad_options_are_refused(_) ->
    [?assertError(_, py_asgi:serve(Options))
     || Options <- [#{}, #{app => 7}, #{app => <<"a:b">>, unknown => 1}, #{app => <<"a:b">>, loops => 0}, #{app => <<"a:b">>, port => x}]].

%% One that was killed before may not be back yet.
kill_loop(Key) ->
    py_test:wait_until(fun() -> lists:keymember(Key, 1, py_loop:all()) end, 12000),
    {Key, Pid, _} = lists:keyfind(Key, 1, py_loop:all()),
    exit(Pid, kill).

%% The dying loop may answer for a while, so the thread that answers is looked at.
a_loop_that_dies_listens_again(_) ->
    {Server, Port} = serve(thread, #{loops => 1}),
    {200, Before} = fetch(Port, "/"),
    kill_loop(1),
    py_test:wait_until(fun() -> is_other(Port, Before) end, 12000),
    ?assertMatch(#{loops := 1}, py_asgi:info(Server)).

is_other(Port, Before) ->
    case connect(Port) of
        {ok, Socket} ->
            _ = gen_tcp:send(Socket, request("/", <<>>)),
            case answer(all_of(Socket, <<>>)) of
                {200, Thread} -> Thread =/= Before;
                _ -> false
            end;
        {error, _} ->
            false
    end.

a_server_that_ends_answers_what_it_serves(_) ->
    true = register(asgi_test, self()),
    {Server, Port} = serve(blocks_aside, #{loops => 2}),
    {ok, Socket} = connect(Port),
    ok = gen_tcp:send(Socket, request("/", <<>>)),
    receive {<<"blocks">>, _} -> ok after 60000 -> error(nothing) end,
    Test = self(),
    _ = spawn_link(fun() -> Test ! {stopped, py_asgi:stop(Server)} end),
    py_test:wait_until(fun() -> connect(Port) =:= {error, econnrefused} end, 12000),
    {ok, none} = py:call(asgi_apps, 'gate.set', []),
    ?assertEqual({200, <<"done">>}, answer(all_of(Socket, <<>>))),
    receive {stopped, ok} -> ok after 60000 -> error(nothing) end.

a_server_that_ends_cancels_what_takes_too_long(_) ->
    {Server, Port} = serve(endless, #{shutdown_timeout => 0.05}),
    {ok, Socket} = connect(Port),
    ok = gen_tcp:send(Socket, request("/", <<>>)),
    {ok, <<"HTTP/1.1 200 ", _/binary>>} = gen_tcp:recv(Socket, 0, 60000),
    ok = py_asgi:stop(Server),
    py_test:wait_until(fun() -> {ok, [<<"stopped">>]} =:= py:eval("__import__('asgi_apps').said") end, 12000).

a_server_that_dies_listens_no_more(_) ->
    {Server, Port} = serve(echo),
    {201, _} = fetch(Port, "/"),
    Monitor = monitor(process, Server),
    exit(Server, kill),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    %% Its supervisor has started another one, at a port of its own.
    py_test:wait_until(fun() -> connect(Port) =:= {error, econnrefused} end, 12000).

%% Clients whose connection breaks come again; whoever is answered has its own answer.
no_answer_crosses_connections_while_loops_are_killed(_) ->
    {Server, Port} = serve(echo, #{loops => 2}),
    Test = self(),
    Client = fun(Name) -> fun() -> Test ! {self(), client(Port, Name, 100, 0)} end end,
    Clients = [spawn_link(Client(integer_to_binary(N))) || N <- lists:seq(1, 20)],
    [begin
         kill_loop(1 + N rem 2),
         receive after 100 -> ok end
     end || N <- lists:seq(1, 6)],
    Answered = [receive {Pid, Count} -> Count after 120000 -> error(hangs) end || Pid <- Clients],
    ?assertEqual([100], lists:usort(Answered)),
    py_test:wait_until(fun() -> map_get(loops, py_asgi:info(Server)) =:= 2 end, 12000).

client(_Port, _Name, 0, Answered) ->
    Answered;
client(Port, Name, Left, Answered) ->
    Body = <<Name/binary, "-", (integer_to_binary(Left))/binary>>,
    Expected = {201, <<"POST ", Body/binary>>},
    case connect(Port) of
        {ok, Socket} ->
            _ = gen_tcp:send(Socket, request("/", Body)),
            case all_of(Socket, <<>>) of
                {error, timeout, _} -> error(hangs);
                {error, _, _} -> client(Port, Name, Left, Answered);
                <<>> -> client(Port, Name, Left, Answered);
                Whole -> Expected = answer(Whole), client(Port, Name, Left - 1, Answered + 1)
            end;
        {error, _} ->
            receive after 5 -> ok end,
            client(Port, Name, Left, Answered)
    end.
