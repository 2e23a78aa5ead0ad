%% Large binaries, which Erlang has of Python without a copy.
-module(py_binary_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([large_bytes_cross_unchanged/1,
         m1_a_binary_outlives_the_object_it_came_from/1,
         bytes_are_lent_and_given_back/1,
         what_may_change_is_copied/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 1}]),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) ->
    ok.

large_bytes_cross_unchanged(_Config) ->
    Pattern = list_to_binary(lists:seq(0, 255)),
    [begin
         Wanted = binary:copy(Pattern, Times),
         {ok, Wanted} = py:eval("bytes(range(256)) * n", #{n => Times}),
         {ok, Wanted} = py:call(copy, copy, [{bytes, Wanted}])
     end || Times <- [255, 256, 257, 4096, 65536]],
    Text = unicode:characters_to_binary(lists:duplicate(70000, 8364)),
    {ok, Text} = py:eval("chr(8364) * 70000"),
    {ok, [Text, #{<<"k">> := Text}]} = py:eval("[t, {'k': t}]", #{t => Text}).

%% Python forgets it, uses its memory for other things, and Erlang still has what it was given.
m1_a_binary_outlives_the_object_it_came_from(_Config) ->
    {ok, Binary} = py:eval("bytes(range(256)) * 4096"),
    Part = binary:part(Binary, 500000, 512),
    {ok, _} = py:gc(),
    ok = py:exec("junk = [b'x' * 1048576 for _ in range(50)]\ndel junk"),
    true = Binary =:= binary:copy(list_to_binary(lists:seq(0, 255)), 4096),
    true = Part =:= binary:part(binary:copy(list_to_binary(lists:seq(0, 255)), 4096), 500000, 512),
    %% Other processes have the same bytes, and may be the last.
    Self = self(),
    Pid = spawn_link(fun() -> receive {check, Bin} -> garbage_collect(), Self ! {same, erlang:crc32(Bin)} end end),
    Pid ! {check, Binary},
    Sum = erlang:crc32(Binary),
    receive {same, Sum} -> ok after 5000 -> error(no_answer) end.

references() ->
    {ok, Count} = py:eval("__import__('sys').getrefcount(large)"),
    Count.

bytes_are_lent_and_given_back(_Config) ->
    ok = py:exec("large = bytes(1000000)"),
    Before = references(),
    Self = self(),
    Holder = spawn_link(fun() ->
        {ok, Bin} = py:eval("large"),
        Self ! held,
        receive stop -> Self ! byte_size(Bin) end
    end),
    receive held -> ok after 5000 -> error(not_held) end,
    true = references() > Before,
    Holder ! stop,
    receive 1000000 -> ok after 5000 -> error(not_read) end,
    py_test:wait_until(fun() -> references() =:= Before end).

what_may_change_is_copied(_Config) ->
    ok = py:exec("changing = bytearray(b'a' * 100000)"),
    {ok, One} = py:eval("changing"),
    {ok, Two} = py:eval("memoryview(changing)"),
    ok = py:exec("changing[:] = b'b' * 100000\nchanging.clear()"),
    Wanted = binary:copy(<<"a">>, 100000),
    {Wanted, Wanted} = {One, Two},
    ok.
