%% WSGI apps run from Erlang: environment, bodies, and apps that misbehave.
-module(py_wsgi_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([an_environment_has_its_defaults/1,
         a_scope_becomes_an_environment/1,
         values_stand_for_bytes/1,
         a_body_arrives_and_the_response_is_collected/1,
         what_is_returned_is_closed/1,
         an_app_may_change_its_mind_before_the_body/1,
         an_app_runs_on_a_worker_beside_others/1,
         a_request_that_takes_too_long_is_stopped/1,
         apps_that_misbehave_are_errors/1,
         django_serves/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 4}]),
    Data = proplists:get_value(data_dir, Config),
    [{ok, _} = py:call(sys, 'path.append', [unicode:characters_to_binary(Dir)])
     || Dir <- [Data, filename:join([Data, "..", "py_asgi_SUITE_data"])]],
    Config.

end_per_suite(_Config) ->
    py_test:stop().

run(App, Request) -> py_wsgi:run(wsgi_apps, App, Request).

text(App, Request) ->
    {ok, {200, _, Body}} = run(App, Request),
    Body.

shown(Request, Parts) ->
    Body = text(show, Request),
    [?assertMatch({Part, {_, _}}, {Part, binary:match(Body, Part)}) || Part <- Parts].

an_environment_has_its_defaults(_) ->
    shown(#{}, [<<"('REQUEST_METHOD', 'GET')">>, <<"('SCRIPT_NAME', '')">>, <<"('PATH_INFO', '/')">>, <<"('QUERY_STRING', '')">>,
                <<"('SERVER_PROTOCOL', 'HTTP/1.1')">>, <<"('SERVER_NAME', 'localhost')">>, <<"('SERVER_PORT', '80')">>,
                <<"('wsgi.version', (1, 0))">>, <<"('wsgi.url_scheme', 'http')">>, <<"('wsgi.multithread', True)">>,
                <<"('wsgi.multiprocess', False)">>, <<"('wsgi.run_once', False)">>]),
    shown(#{<<"REQUEST_METHOD">> => <<"PUT">>, 'PATH_INFO' => "/x", <<"HTTP_X">> => <<"y">>},
          [<<"('REQUEST_METHOD', 'PUT')">>, <<"('PATH_INFO', '/x')">>, <<"('HTTP_X', 'y')">>]).

a_scope_becomes_an_environment(_) ->
    Scope = #{method => <<"post">>, raw_path => <<"/a%20b">>, query_string => <<"q=1">>, scheme => <<"https">>, root_path => <<"/r">>,
              headers => [{<<"Host">>, <<"h">>}, {<<"Content-Type">>, <<"t">>}, {<<"X-A">>, <<"1">>}, {<<"x-a">>, <<"2">>},
                          {<<"cookie">>, <<"a=1">>}, {<<"cookie">>, <<"b=2">>}],
              client => {{127, 0, 0, 1}, 1234}, server => {<<"h">>, 443}},
    shown(Scope, [<<"('REQUEST_METHOD', 'POST')">>, <<"('PATH_INFO', '/a b')">>, <<"('QUERY_STRING', 'q=1')">>,
                  <<"('wsgi.url_scheme', 'https')">>, <<"('SCRIPT_NAME', '/r')">>, <<"('HTTP_HOST', 'h')">>, <<"('CONTENT_TYPE', 't')">>,
                  <<"('HTTP_X_A', '1, 2')">>, <<"('HTTP_COOKIE', 'a=1; b=2')">>, <<"('REMOTE_ADDR', '127.0.0.1')">>,
                  <<"('REMOTE_PORT', '1234')">>, <<"('SERVER_NAME', 'h')">>, <<"('SERVER_PORT', '443')">>]).

%% PEP 3333: each character of an environment's text is one byte.
values_stand_for_bytes(_) ->
    Bytes = <<"('PATH_INFO', '/Ã©')"/utf8>>,
    shown(#{<<"PATH_INFO">> => <<"/é"/utf8>>}, [Bytes]),
    shown(#{raw_path => <<"/%C3%A9">>}, [Bytes]).

a_body_arrives_and_the_response_is_collected(_) ->
    Body = binary:copy(<<0, 255, "abc">>, 200000),
    ?assertEqual({ok, {201, [], <<"POST ", Body/binary>>}}, py_wsgi:run(wsgi_apps, echo, #{method => post}, #{body => Body})),
    ?assertEqual({ok, {201, [], <<"GET ab">>}}, run(echo, #{<<"wsgi.input">> => ["a", <<"b">>]})),
    ?assertEqual({ok, {200, [], <<"12345">>}}, py_wsgi:run(wsgi_apps, length, #{}, #{body => <<"12345">>})),
    ?assertEqual(<<"abc">>, text(writes, #{})),
    {ok, {200, Headers, _}} = run(show, #{}),
    ?assertEqual([{<<"Content-Type">>, <<"text/plain">>}, {<<"x-a">>, <<"1">>}, {<<"x-a">>, <<"2">>}], Headers).

closed() ->
    {ok, Closed} = py:eval("len(__import__('wsgi_apps').closed)"),
    Closed.

what_is_returned_is_closed(_) ->
    {ok, _} = run(closes, #{}),
    ?assertEqual(1, closed()),
    ?assertEqual({error, {'LookupError', <<"in the middle">>}}, run(breaks, #{})),
    ?assertEqual(2, closed()).

an_app_may_change_its_mind_before_the_body(_) ->
    ?assertEqual({ok, {500, [{<<"x-b">>, <<"1">>}], <<"sorry">>}}, run(recovers, #{})).

an_app_runs_on_a_worker_beside_others(_) ->
    ?assertEqual(<<"none">>, text(is_on_no_loop, #{})),
    Test = self(),
    Pids = [spawn(fun() -> Test ! {self(), text(meets, #{})} end) || _ <- [1, 2]],
    ?assertEqual([<<"met">>, <<"met">>], [receive {Pid, Text} -> Text end || Pid <- Pids]).

a_request_that_takes_too_long_is_stopped(_) ->
    ?assertEqual({error, timeout}, py_wsgi:run(wsgi_apps, spins, #{}, #{timeout => 50})),
    ?assertEqual(<<"abc">>, text(writes, #{})).

apps_that_misbehave_are_errors(_) ->
    ?assertEqual({error, {'LookupError', <<"before the start">>}}, run(raises, #{})),
    [?assertMatch({App, {error, {'RuntimeError', _}}}, {App, run(App, #{})}) || App <- [never_starts, returns_nothing, starts_twice]],
    [?assertMatch({App, {error, {'ValueError', _}}}, {App, run(App, #{})}) || App <- [bad_status, bad_header]],
    [?assertMatch({App, {error, {'TypeError', _}}}, {App, run(App, #{})}) || App <- [bytes_header, text, number]],
    [?assertMatch({App, {error, {<<"AppNotFoundError">>, _}}}, {App, run(App, #{})}) || App <- [not_callable, missing]],
    ?assertError(_, run(show, [])),
    ?assertError(_, py_wsgi:run(wsgi_apps, show, #{}, #{unknown => 1})).

django_serves(_) ->
    Request = #{path => <<"/sync/you">>, query_string => <<"q=1">>, headers => [{<<"host">>, <<"site">>}, {<<"accept">>, <<"a/b">>}]},
    {ok, {200, _, Body}} = py_wsgi:run(frameworks, django_wsgi_app, Request),
    ?assertEqual({ok, #{<<"name">> => <<"you">>, <<"q">> => <<"1">>, <<"accept">> => [<<"a/b">>]}}, py:call(json, loads, [Body])).
