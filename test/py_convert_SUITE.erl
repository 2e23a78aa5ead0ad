%% Terms and objects, both ways: the table, its limits, and random terms there and back.
-module(py_convert_SUITE).

%% Debian's package of PropEr has no header: what the macros stand for is written out.
-import(proper_types, [bind/3, sized/1, oneof/1, integer/0, range/2, float/0, boolean/0, atom/0, binary/0, bitstring/0,
                       list/1, loose_tuple/1]).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([each_row_of_the_table_crosses/1,
         each_row_of_the_table_comes_back/1,
         integers_of_any_size_come_back/1,
         floats_beyond_numbers_are_atoms/1,
         binaries_are_text_or_bytes/1,
         opaque_terms_come_back_the_same/1,
         pids_and_references_come_back_the_same/1,
         atoms_from_python_are_bounded/1,
         what_has_no_counterpart_is_named/1,
         m3_depth_is_limited_both_ways/1,
         what_python_shares_is_limited/1,
         cycles_are_refused/1,
         colliding_keys_are_refused/1,
         dicts_of_any_size_become_maps/1,
         moments_are_text/1,
         views_with_gaps_cross/1,
         m3_containers_changed_meanwhile_do_no_harm/1,
         random_terms_come_back/1,
         large_binaries_come_back/1]).

-define(SHARING, [<<"list">>, <<"tuple">>, <<"dict">>, <<"large">>, <<"text">>, <<"bytes">>, <<"int">>]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start(),
    ok = py:exec("import sys, types\n"
                 "m = types.ModuleType('mirror')\n"
                 "exec('''\n"
                 "import erlang\n"
                 "def same(x): return x\n"
                 "def kind(x): return type(x).__name__\n"
                 "def text(x): return repr(x)\n"
                 "def deep(n):\n"
                 "    x = []\n"
                 "    for _ in range(n): x = [x]\n"
                 "    return x\n"
                 "def shared(kind, times):\n"
                 "    wrap = {'list': lambda x: [x, x], 'tuple': lambda x: (x, x), 'dict': lambda x: {1: x, 2: x},\n"
                 "            'large': lambda x: {n: x for n in range(200)}, 'text': lambda x: ['t' * 60000, x, x],\n"
                 "            'bytes': lambda x: [b't' * 60000, x, x], 'int': lambda x: (1 << 500000, x, x)}[kind]\n"
                 "    x = 1\n"
                 "    for _ in range(times):\n"
                 "        x = wrap(x)\n"
                 "    return x\n"
                 "def cycle():\n"
                 "    x = [1]\n"
                 "    x.append({'a': (x,)})\n"
                 "    return x\n"
                 "''', m.__dict__)\n"
                 "sys.modules['mirror'] = m\n"),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

same(Term) ->
    py:call(mirror, same, [Term]).

kind(Term) ->
    {ok, Kind} = py:call(mirror, kind, [Term]),
    Kind.

text(Term) ->
    {ok, Text} = py:call(mirror, text, [Term]),
    Text.

each_row_of_the_table_crosses(_Config) ->
    Rows = [{1, <<"1">>}, {1.5, <<"1.5">>}, {true, <<"True">>}, {false, <<"False">>}, {none, <<"None">>},
            {nil, <<"None">>}, {undefined, <<"None">>}, {abc, <<"'abc'">>}, {<<"text">>, <<"'text'">>},
            {<<255>>, <<"b'\\xff'">>}, {{bytes, <<"text">>}, <<"b'text'">>}, {[1, a], <<"[1, 'a']">>},
            {{1, a}, <<"(1, 'a')">>}, {#{a => 1}, <<"{'a': 1}">>}, {[], <<"[]">>}, {{}, <<"()">>}, {#{}, <<"{}">>},
            {<<>>, <<"''">>}, {'grün', <<"'grün'"/utf8>>}, {'日本', <<"'日本'"/utf8>>}],
    [Text = text(Term) || {Term, Text} <- Rows],
    <<"Pid">> = kind(self()),
    <<"Ref">> = kind(make_ref()),
    <<"Term">> = kind([1 | 2]),
    <<"Term">> = kind(<<1:3>>),
    <<"Term">> = kind(fun lists:reverse/1).

each_row_of_the_table_comes_back(_Config) ->
    Rows = [{"1", 1}, {"-1", -1}, {"1.5", 1.5}, {"True", true}, {"False", false}, {"None", none}, {"'text'", <<"text">>},
            {"b'\\xff'", <<255>>}, {"bytearray(b'x')", <<"x">>}, {"memoryview(b'x')", <<"x">>}, {"[1, 'a']", [1, <<"a">>]},
            {"(1, 'a')", {1, <<"a">>}}, {"{'a': 1}", #{<<"a">> => 1}}, {"{7}", [7]}, {"frozenset([7])", [7]},
            {"[]", []}, {"()", {}}, {"{}", #{}}, {"''", <<>>}, {"__import__('erlang').atom('ok')", ok},
            {"'grün'", <<"grün"/utf8>>}, {"float('1e300')", 1.0e300}],
    [{ok, Term} = py:eval(unicode:characters_to_binary(Code)) || {Code, Term} <- Rows].

integers_of_any_size_come_back(_Config) ->
    Sizes = [0, 1, 30, 31, 59, 60, 62, 63, 64, 65, 127, 128, 2039, 2040, 2041, 20000],
    [begin
         {ok, N} = same(N),
         Text = integer_to_binary(N),
         {ok, Text} = py:call(builtins, str, [N])
     end || Size <- Sizes, Size < 10000, Delta <- [-1, 0, 1], Sign <- [-1, 1], N <- [Sign * ((1 bsl Size) + Delta)]],
    [{ok, N} = same(N) || Size <- Sizes, N <- [1 bsl Size, -(1 bsl Size)]],
    {ok, true} = py:eval("x == 2**20000 - 1", #{x => (1 bsl 20000) - 1}).

floats_beyond_numbers_are_atoms(_Config) ->
    {ok, [nan, infinity, neg_infinity]} = py:eval("[float('nan'), float('inf'), float('-inf')]"),
    {ok, Zero} = same(-0.0),
    <<1:1, _:63>> = <<Zero/float>>.

binaries_are_text_or_bytes(_Config) ->
    <<"str">> = kind(<<"grün"/utf8>>),
    <<"bytes">> = kind(<<"gr", 252, "n">>),
    <<"bytes">> = kind({bytes, <<"grün"/utf8>>}),
    <<"tuple">> = kind({bytes, not_a_binary}),
    {ok, <<0, "a", 0>>} = same(<<0, "a", 0>>),
    {error, {unconvertible, <<"str with lone surrogates">>}} = py:eval("'\\ud800'").

opaque_terms_come_back_the_same(_Config) ->
    Port = hd(erlang:ports()),
    Terms = [[1 | 2], [a, b | c], <<1:3>>, fun lists:reverse/1, fun(X) -> X + 1 end, Port, {[1 | 2], #{a => <<5:7>>}}],
    [{ok, Term} = same(Term) || Term <- Terms, Term =/= {[1 | 2], #{a => <<5:7>>}}],
    {ok, {[1 | 2], #{<<"a">> := <<5:7>>}}} = same(lists:last(Terms)),
    {ok, true} = py:eval("x == y and hash(x) == hash(y) and x != z", #{x => [1 | 2], y => [1 | 2], z => [1 | 3]}).

pids_and_references_come_back_the_same(_Config) ->
    Self = self(),
    Ref = make_ref(),
    {ok, Self} = same(Self),
    {ok, Ref} = same(Ref),
    %% Of another node, as they come over the wire.
    Remote = binary_to_term(<<131, 88, 119, 7, "far@far", 1:32, 0:32, 1:32>>),
    {ok, Remote} = same(Remote),
    {ok, true} = py:eval("a == b and len({a, b}) == 1 and str(a).startswith('<')", #{a => Self, b => Self}).

atoms_from_python_are_bounded(_Config) ->
    ok = py_nif:atom_limit(0),
    {ok, ok} = py:eval("__import__('erlang').atom('ok')"),
    {error, {'RuntimeError', _}} = py:eval("__import__('erlang').atom('never_seen_' + 'before_1')"),
    ok = py_nif:atom_limit(10000),
    {ok, Atom} = py:eval("__import__('erlang').atom('never_seen_' + 'before_2')"),
    true = is_atom(Atom),
    {ok, Wide} = py:eval(<<"__import__('erlang').atom('日' + '本' * 3)"/utf8>>),
    '日本本本' = Wide,
    {error, {'ValueError', _}} = py:eval("__import__('erlang').atom('a' * 256)").

what_has_no_counterpart_is_named(_Config) ->
    {error, {unconvertible, <<"object">>}} = py:eval("object()"),
    {error, {unconvertible, <<"complex">>}} = py:eval("[1, {'a': (1j,)}]"),
    {error, {unconvertible, <<"module">>}} = py:eval("__import__('sys')").

m3_depth_is_limited_both_ways(_Config) ->
    Deep = fun(N) -> lists:foldl(fun(_, Term) -> [Term] end, [], lists:seq(1, N)) end,
    {ok, _} = same(Deep(900)),
    {error, {too_deep, 1000}} = same(Deep(2000)),
    {error, {too_deep, 1000}} = same(lists:foldl(fun(_, T) -> {T} end, a, lists:seq(1, 100000))),
    {error, {too_deep, 1000}} = same(lists:foldl(fun(_, T) -> #{a => T} end, a, lists:seq(1, 2000))),
    {error, {too_deep, 1000}} = py:call(mirror, deep, [100000]),
    {ok, _} = py:call(mirror, deep, [900]),
    {ok, 100000} = py:call(builtins, len, [lists:seq(1, 100000)]).

%% Shared forty times over it would be more than there is memory: the VM would end.
what_python_shares_is_limited(_Config) ->
    Limit = 1000000,
    ok = py_nif:term_limit(Limit),
    try
        [{error, {too_large, Limit}} = py:call(mirror, shared, [Kind, 40]) || Kind <- ?SHARING],
        [{ok, _} = py:call(mirror, shared, [Kind, 1]) || Kind <- ?SHARING],
        {error, {'ValueError', Text}} = py:eval("__import__('erlang').send(me, ['x' * 1000] * 2000)", #{me => self()}),
        {_, _} = binary:match(Text, <<"term_limit">>),
        %% What is lent is not copied.
        {ok, _} = py:eval("'x' * 10_000_000")
    after
        py_nif:term_limit(2 bsl 30)
    end,
    {ok, _} = py:call(mirror, shared, [<<"list">>, 16]).

cycles_are_refused(_Config) ->
    {error, cyclic} = py:call(mirror, cycle, []).

colliding_keys_are_refused(_Config) ->
    {error, {key_collision, _}} = same(#{a => 1, <<"a">> => 2}),
    {error, {key_collision, _}} = same(#{1 => a, 1.0 => b}),
    {error, {key_collision, _}} = same(#{true => a, 1 => b}),
    {error, {unhashable_key, [1]}} = same(#{[1] => a}),
    {error, {key_collision, <<"a">>}} = py:eval("{'a': 1, b'a': 2}").

%% Around the sizes at which the VM makes maps in another way, up to many, also within each other.
dicts_of_any_size_become_maps(_Config) ->
    [begin
         Wanted = maps:from_list([{I, {I, integer_to_binary(I)}} || I <- lists:seq(1, N)]),
         {ok, Wanted} = py:eval("{i: (i, str(i)) for i in range(1, n + 1)}", #{n => N}),
         {ok, Wanted} = same(Wanted),
         {ok, #{0 := Wanted, 1 := [Wanted]}} = py:eval("{0: d, 1: [d]}", #{d => Wanted}),
         Texts = maps:from_list([{integer_to_binary(I), Wanted} || I <- lists:seq(1, 130), N < 200]),
         {ok, Texts} = same(Texts),
         %% Two that become one, wherever they are.
         {error, {key_collision, <<"twin">>}} =
             py:eval("{**{str(i): i for i in range(n)}, 'twin': 1, **{-i: i for i in range(n)}, b'twin': 2}", #{n => N})
     end || N <- [0, 1, 31, 32, 33, 127, 128, 129, 130, 1000, 5000, 100000]],
    {error, {unconvertible, <<"object">>}} = py:eval("{i: object() if i == 900 else i for i in range(1000)}"),
    {error, cyclic} = py:eval("(lambda d: (d.update({i: d for i in range(1000)}), d)[1])({})").

moments_are_text(_Config) ->
    {ok, <<"2026-01-02T03:04:05">>} = py:eval("__import__('datetime').datetime(2026, 1, 2, 3, 4, 5)"),
    {ok, <<"2026-01-02">>} = py:eval("__import__('datetime').date(2026, 1, 2)"),
    {ok, <<"03:04:05">>} = py:eval("__import__('datetime').time(3, 4, 5)").

views_with_gaps_cross(_Config) ->
    {ok, <<"ace">>} = py:eval("memoryview(b'abcdef')[::2]"),
    {ok, <<"fedcba">>} = py:eval("memoryview(b'abcdef')[::-1]").

%% An object whose conversion runs Python code that empties what it is in.
m3_containers_changed_meanwhile_do_no_harm(_Config) ->
    Code = "import datetime\n"
           "def trap(kind):\n"
           "    class Evil(datetime.date):\n"
           "        def isoformat(self):\n"
           "            box.clear()\n"
           "            return 'x' * 100\n"
           "    items = [Evil(2026, 1, 1) for _ in range(50)]\n"
           "    box = dict(enumerate(items)) if kind == 'dict' else items\n"
           "    return box\n",
    _ = py_pool:broadcast(Code),
    {ok, Map} = py:call('__main__', trap, [dict]),
    50 = map_size(Map),
    {error, {'IndexError', _}} = py:call('__main__', trap, [list]).

random_terms_come_back(_Config) ->
    Property = proper:forall(value(), fun(Term) -> same(Term) =:= {ok, expected(Term)} end),
    true = proper:quickcheck(Property, [{numtests, 300}, {max_size, 15}, quiet]).

%% Terms whose way there and back is known.
value() ->
    sized(fun value/1).

value(0) ->
    oneof([integer(), big(), float(), boolean(), atom(), binary(), proper_unicode:utf8(), bitstring(), none]);
value(Size) ->
    Smaller = value(Size div 3),
    oneof([value(0), list(Smaller), loose_tuple(Smaller), bind(list({key(), Smaller}), fun maps:from_list/1, false)]).

big() ->
    bind({range(60, 500), integer()}, fun({Bits, N}) -> (1 bsl Bits) * (N + 1) + N end, false).

key() ->
    oneof([binary(), range(2, 1000000)]).

expected(Term) when is_atom(Term), Term =/= true, Term =/= false ->
    case lists:member(Term, [none, nil, undefined]) of
        true -> none;
        false -> atom_to_binary(Term, utf8)
    end;
expected([_ | _] = List) -> [expected(Term) || Term <- List];
expected({bytes, Data}) when is_binary(Data) -> Data;
expected(Tuple) when is_tuple(Tuple) -> list_to_tuple([expected(Term) || Term <- tuple_to_list(Tuple)]);
expected(Map) when is_map(Map) -> maps:from_list([{expected(K), expected(V)} || {K, V} <- maps:to_list(Map)]);
expected(Term) -> Term.

large_binaries_come_back(_Config) ->
    [begin
         Data = crypto_free_bytes(Size),
         {ok, Data} = same({bytes, Data}),
         {ok, Size} = py:call(builtins, len, [{bytes, Data}])
     end || Size <- [65535, 65536, 65537, 1 bsl 20, 1 bsl 26]].

crypto_free_bytes(Size) ->
    Block = << <<(N * 37 rem 256)>> || N <- lists:seq(1, 4096) >>,
    binary:part(binary:copy(Block, Size div 4096 + 1), 0, Size).
