%% Values that Erlang and Python share.
-module(py_state_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([a_value_is_stored_fetched_and_removed/1,
         what_is_not_there_is_said_so/1,
         erlang_and_python_see_the_same/1,
         a_key_is_the_same_as_atom_and_as_text/1,
         keys_are_of_any_kind/1,
         both_names_of_python_do_the_same/1,
         counters_count_from_nothing/1,
         counters_lose_nothing_from_many_sides/1,
         a_counter_that_is_no_integer_is_refused/1,
         what_has_no_counterpart_is_refused/1,
         it_is_there_from_any_thread/1,
         it_survives_the_end_of_its_writers/1,
         s3_the_number_of_keys_is_bounded/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start(),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    ok = py:state_clear(),
    Config.

end_per_testcase(_Case, _Config) ->
    {messages, []} = process_info(self(), messages),
    ok.

python(Code) ->
    python(Code, #{}).

python(Code, Locals) ->
    py:eval(["__import__('erlang').", Code], Locals).

a_value_is_stored_fetched_and_removed(_Config) ->
    ok = py:state_store(<<"key">>, #{a => [1, 2]}),
    {ok, #{a := [1, 2]}} = py:state_fetch(<<"key">>),
    [<<"key">>] = py:state_keys(),
    ok = py:state_remove(<<"key">>),
    {error, not_found} = py:state_fetch(<<"key">>),
    [] = py:state_keys().

what_is_not_there_is_said_so(_Config) ->
    {error, not_found} = py:state_fetch(nothing),
    ok = py:state_remove(nothing),
    {ok, none} = python("state_get('nothing')"),
    {ok, 7} = python("state_get('nothing', 7)"),
    {ok, none} = python("state_delete('nothing')").

erlang_and_python_see_the_same(_Config) ->
    ok = py:state_store(<<"from_erlang">>, {pid, self()}),
    Self = self(),
    {ok, {<<"pid">>, Self}} = python("state_get('from_erlang')"),
    {ok, none} = python("state_set('from_python', {'list': [1, 2.5, None], 'bytes': b'\\xff'})"),
    {ok, #{<<"list">> := [1, 2.5, none], <<"bytes">> := <<255>>}} = py:state_fetch(<<"from_python">>),
    [<<"from_erlang">>, <<"from_python">>] = lists:sort(py:state_keys()),
    {ok, Keys} = python("state_keys()"),
    [<<"from_erlang">>, <<"from_python">>] = lists:sort(Keys),
    {ok, none} = python("state_clear()"),
    [] = py:state_keys().

a_key_is_the_same_as_atom_and_as_text(_Config) ->
    ok = py:state_store(name, 1),
    {ok, 1} = py:state_fetch(<<"name">>),
    {ok, 1} = python("state_get('name')"),
    {ok, none} = python("state_set(None, 2)"),
    {ok, 2} = py:state_fetch(undefined),
    ok = py:state_store(true, 3),
    {ok, 3} = python("state_get(True)"),
    {ok, none} = python("state_get('true')").

keys_are_of_any_kind(_Config) ->
    [begin
         ok = py:state_store(Key, Key),
         {ok, Key} = py:state_fetch(Key),
         {ok, Key} = python("state_get(k)", #{k => Key})
     end || Key <- [1, -1.5, {1, <<"two">>}, [1, 2], <<>>, self(), 1 bsl 80]].

both_names_of_python_do_the_same(_Config) ->
    {ok, none} = python("state_store('k', 1)"),
    {ok, 1} = python("state_fetch('k')"),
    {ok, none} = python("state_remove('k')"),
    {ok, none} = python("state_fetch('k')").

counters_count_from_nothing(_Config) ->
    1 = py:state_incr(hits),
    6 = py:state_incr(hits, 5),
    5 = py:state_decr(hits),
    2 = py:state_decr(hits, 3),
    {ok, 3} = python("state_incr('hits')"),
    {ok, 13} = python("state_incr('hits', 10)"),
    {ok, 12} = python("state_decr('hits')"),
    {ok, 2} = python("state_decr('hits', 10)"),
    {ok, 2} = py:state_fetch(hits),
    -1 = py:state_decr(fresh),
    Big = 1 bsl 100,
    ?assertEqual(Big - 1, py:state_incr(fresh, Big)).

counters_lose_nothing_from_many_sides(_Config) ->
    Workers = [spawn_monitor(fun() -> count(N) end) || N <- lists:seq(1, 20)],
    [receive {'DOWN', Monitor, process, Pid, Reason} -> normal = Reason end || {Pid, Monitor} <- Workers],
    {ok, 1000} = py:state_fetch(many).

count(N) when N rem 2 =:= 0 ->
    [py:state_incr(many) || _ <- lists:seq(1, 50)];
count(_) ->
    {ok, _} = python("__name__ and [__import__('erlang').state_incr('many') for _ in range(50)]").

a_counter_that_is_no_integer_is_refused(_Config) ->
    ok = py:state_store(text, <<"text">>),
    ?assertError({not_an_integer, <<"text">>}, py:state_incr(text)),
    ?assertError(badarg, py:state_incr(hits, 1.5)),
    ?assertError(badarg, py:state_decr(hits, x)),
    {error, {'TypeError', <<"the value of 'text' is not an integer">>}} = python("state_incr('text')"),
    {error, {'TypeError', <<"a counter counts in integers, not 1.5">>}} = python("state_incr('hits', 1.5)"),
    {error, {'TypeError', <<"a counter counts in integers, not 'x'">>}} = python("state_decr('hits', 'x')"),
    {ok, <<"text">>} = py:state_fetch(text).

what_has_no_counterpart_is_refused(_Config) ->
    {error, {'TypeError', <<"object objects have no counterpart in Erlang">>}} = python("state_set('k', object())"),
    {error, {'TypeError', _}} = python("state_set()"),
    {error, not_found} = py:state_fetch(k).

it_is_there_from_any_thread(_Config) ->
    Code = "import erlang, concurrent.futures\n"
           "def spread():\n"
           "    with concurrent.futures.ThreadPoolExecutor(4) as pool:\n"
           "        return max(pool.map(lambda _: erlang.state_incr('spread'), range(40)))\n",
    [ok = Result || Result <- py_pool:broadcast(Code)],
    {ok, 40} = py:call('__main__', spread, []).

it_survives_the_end_of_its_writers(_Config) ->
    {Pid, Monitor} = spawn_monitor(fun() -> py:state_store(left, 1) end),
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end,
    exit(whereis(py_callback), kill),
    py_test:wait_until(fun() -> whereis(py_callback) =/= undefined end),
    {ok, 1} = py:state_fetch(left).

s3_the_number_of_keys_is_bounded(_Config) ->
    ok = application:set_env(erlang_python, state_limit, 3),
    try
        [ok = py:state_store(N, N) || N <- [1, 2, 3]],
        {error, {state_full, 3}} = py:state_store(4, 4),
        ok = py:state_store(3, three),
        ?assertError({state_full, 3}, py:state_incr(5)),
        2 = py:state_incr(1),
        {error, {'RuntimeError', <<"the shared state has 3 keys, which is its limit (state_limit)">>}} =
            python("state_set(4, 4)"),
        {error, {'RuntimeError', _}} = python("state_incr(4)"),
        ok = py:state_remove(1),
        ok = py:state_store(4, 4)
    after
        ok = application:unset_env(erlang_python, state_limit)
    end.
