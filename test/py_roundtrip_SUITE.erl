%% Random terms and objects, there and back: what comes back is what the table of conversion says, whichever side it began on.
-module(py_roundtrip_SUITE).

-import(proper_types, [bind/3, sized/1, oneof/1, integer/0, range/2, float/0, boolean/0, atom/0, binary/0, bitstring/0, list/1,
                       loose_tuple/1, non_empty/1]).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([terms_of_every_kind_come_back/1,
         objects_of_every_kind_come_back/1,
         integers_of_thousands_of_digits_come_back/1,
         the_depth_is_the_same_both_ways/1,
         cycles_through_any_container_are_refused/1,
         one_object_in_many_places_is_no_cycle/1,
         keys_that_become_one_are_refused/1,
         a_collision_is_found_among_many_keys/1,
         opaque_terms_may_be_large/1,
         keys_that_python_cannot_hash_are_named/1,
         sets_are_lists_of_their_members/1,
         moments_are_iso_8601/1,
         text_with_lone_surrogates_is_refused_wherever_it_is/1,
         what_says_it_is_a_moment_and_gives_no_text_is_named/1,
         refs_are_the_very_objects/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start(),
    ok = py_test:module("there", "
import datetime, gc, weakref
def same(x): return x
def plain(x):
    '''What Erlang makes of an object, as an object.'''
    if isinstance(x, float) and x != x: return 'nan'
    if isinstance(x, float) and x in (float('inf'), float('-inf')): return 'infinity' if x > 0 else 'neg_infinity'
    if isinstance(x, (bytes, bytearray, memoryview)):
        try: return bytes(x).decode()
        except UnicodeDecodeError: return bytes(x)
    if isinstance(x, (datetime.date, datetime.time)): return x.isoformat()
    if isinstance(x, list): return [plain(y) for y in x]
    if isinstance(x, tuple): return tuple(plain(y) for y in x)
    if isinstance(x, dict): return {plain(k): plain(v) for k, v in x.items()}
    return x
def exact(x):
    '''With all types, and dicts in order.'''
    if isinstance(x, (list, tuple)): return [type(x).__name__, *map(exact, x)]
    if isinstance(x, dict): return ['dict', *sorted((repr(exact(k)), exact(v)) for k, v in x.items())]
    return [type(x).__name__, repr(x)]
def is_plain(code, x): return exact(plain(eval(code, globals()))) == exact(x)
def nested(kind, n):
    x = 0
    for _ in range(n):
        x = [x] if kind == 'list' else {0: x} if kind == 'value' else (x,)
    return {x: 0} if kind == 'key' else x
def cycle(kind):
    x, y = [], {}
    return {'list': lambda: (x.append(x), x)[1], 'dict': lambda: (y.update(k=y), y)[1],
            'tuple': lambda: (x.append((x,)), x)[1], 'both': lambda: (x.append(y), y.update(k=x), (x,))[2],
            'far': lambda: (x.extend([1, 'a', {'k': [(2, x)]}]), x)[1]}[kind]()
class Thing:
    pass
def thing(): return Thing()
def mark(x, mark): x.mark = mark
def marked(x): return x.mark
def living(): gc.collect(); return sum(isinstance(x, Thing) for x in gc.get_objects())
class Odd(datetime.date):
    def isoformat(self): return 5
"),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

same(Term) ->
    py:call(there, same, [Term]).

check(Generator, Tests, Holds) ->
    case proper:quickcheck(proper:forall(Generator, Holds), [{numtests, Tests}, {max_size, 20}, quiet, long_result]) of
        true -> ok;
        Counterexample -> ct:fail({fails_for, Counterexample})
    end.

%% Terms, and what they come back as.

terms_of_every_kind_come_back(_Config) ->
    check(value(), 400, fun(Term) -> same(Term) =:= {ok, expected(Term)} end).

value() ->
    sized(fun value/1).

value(0) ->
    oneof([integer(), big(1, 600), float(), boolean(), none, atom(), binary(), proper_unicode:utf8(), bitstring(), opaque(),
           bind(binary(), fun(Data) -> {bytes, Data} end, false)]);
value(Size) ->
    Smaller = value(Size div 3),
    oneof([value(0), list(Smaller), loose_tuple(Smaller), improper(Smaller),
           bind(list({key(), Smaller}), fun maps:from_list/1, false)]).

big(From, To) ->
    bind({range(From, To), range(1, 1 bsl 60), oneof([1, -1])}, fun({Times, N, Sign}) -> Sign * digits(Times, N) end, false).

%% A number with so many times sixty bits, each of them another.
digits(Times, Seed) ->
    lists:foldl(fun(I, N) -> (N bsl 60) bor ((Seed * I * 2654435761) band ((1 bsl 60) - 1)) end, Seed, lists:seq(1, Times)).

improper(Inner) ->
    bind({non_empty(list(Inner)), integer()}, fun({Items, Tail}) -> Items ++ Tail end, false).

opaque() ->
    oneof([self(), make_ref(), hd(erlang:ports()), fun lists:reverse/1, fun(X) -> {X, same} end, remote(pid), remote(ref), remote(port)]).

%% Of another node, as they come over the wire: NEW_PID_EXT, NEWER_REFERENCE_EXT, V4_PORT_EXT.
remote(pid) -> binary_to_term(<<131, 88, 119, 7, "far@far", 1:32, 0:32, 1:32>>);
remote(ref) -> binary_to_term(<<131, 90, 3:16, 119, 7, "far@far", 1:32, 5:32, 6:32, 7:32>>);
remote(port) -> binary_to_term(<<131, 120, 119, 7, "far@far", 9:64, 1:32>>).

key() ->
    oneof([binary(), range(2, 1000000), {range(2, 9), binary()}, opaque()]).

expected(Term) when Term =:= true; Term =:= false -> Term;
expected(Term) when Term =:= none; Term =:= nil; Term =:= undefined -> none;
expected(Term) when is_atom(Term) -> atom_to_binary(Term, utf8);
expected({bytes, Data}) when is_binary(Data) -> Data;
expected(Tuple) when is_tuple(Tuple) -> list_to_tuple([expected(Term) || Term <- tuple_to_list(Tuple)]);
expected(Map) when is_map(Map) -> maps:from_list([{expected(K), expected(V)} || {K, V} <- maps:to_list(Map)]);
expected([_ | _] = List) ->
    %% An improper list is one piece: nothing in it is looked at.
    try length(List) of
        _ -> [expected(Term) || Term <- List]
    catch
        error:badarg -> List
    end;
expected(Term) -> Term.

integers_of_thousands_of_digits_come_back(_Config) ->
    check(big(500, 4000), 30, fun(N) ->
        Text = string:lowercase(integer_to_binary(abs(N), 16)),
        {ok, N} =:= same(N) andalso {ok, Text} =:= py:eval("'%x' % abs(n)", #{n => N})
            andalso {ok, N} =:= py:eval("s * int(t, 16)", #{t => Text, s => N div abs(N)})
    end).

%% Objects, as Python writes them, and the terms they are.

objects_of_every_kind_come_back(_Config) ->
    check(object(), 400, fun({Code, Term}) ->
        Text = iolist_to_binary(Code),
        py:eval(Text) =:= {ok, Term} andalso py:call(there, is_plain, [Text, Term]) =:= {ok, true}
    end).

object() ->
    sized(fun object/1).

object(0) ->
    oneof([{"None", none}, {"True", true}, {"False", false}, {"float('nan')", nan}, {"float('inf')", infinity},
           {"float('-inf')", neg_infinity},
           bind(oneof([integer(), big(1, 40)]), fun(N) -> {["0x", integer_to_binary(abs(N), 16), [" * -1" || N < 0]], N} end, false),
           bind(float(), fun(F) -> {float_to_binary(F, [{scientific, 20}]), F} end, false),
           text(), data("b"), data("bytearray"), data("memoryview")]);
object(Size) ->
    Smaller = object(Size div 3),
    oneof([object(0),
           bind(list(Smaller), fun(Items) -> {[$[, codes(Items), $]], terms(Items)} end, false),
           bind(list(Smaller), fun(Items) -> {[$(, [[C, ", "] || {C, _} <- Items], $)], list_to_tuple(terms(Items))} end, false),
           bind(list({object_key(), Smaller}), fun dict/1, false)]).

codes(Items) -> lists:join(", ", [Code || {Code, _} <- Items]).
terms(Items) -> [Term || {_, Term} <- Items].

dict(Pairs) ->
    %% Each key once, as Erlang sees them.
    Distinct = maps:values(maps:from_list([{Term, Pair} || {{_, Term}, _} = Pair <- Pairs])),
    {[${, lists:join(", ", [[K, ": ", V] || {{K, _}, {V, _}} <- Distinct]), $}],
     maps:from_list([{K, V} || {{_, K}, {_, V}} <- Distinct])}.

object_key() ->
    oneof([text(), data("b"), bind(range(2, 1 bsl 70), fun(N) -> {integer_to_binary(N), N} end, false),
           bind(text(), fun({Code, Term}) -> {["(", Code, ", 2)"], {Term, 2}} end, false)]).

text() ->
    bind(list(oneof([range(0, 127), range(0, 16#D7FF), range(16#E000, 16#10FFFF)])), fun(Text) ->
        {[$', [io_lib:format("\\U~8.16.0b", [C]) || C <- Text], $'], unicode:characters_to_binary(Text)}
    end, false).

data(Kind) ->
    bind(binary(), fun(Data) ->
        Literal = ["b'", [io_lib:format("\\x~2.16.0b", [Byte]) || <<Byte>> <= Data], $'],
        {case Kind of "b" -> Literal; _ -> [Kind, $(, Literal, $)] end, Data}
    end, false).

%% Limits.

nested(list, N) -> fold(N, fun(Term) -> [Term] end);
nested(tuple, N) -> fold(N, fun(Term) -> {Term} end);
nested(value, N) -> fold(N, fun(Term) -> #{0 => Term} end);
nested(key, N) -> #{fold(N, fun(Term) -> {Term} end) => 0}.

fold(N, Wrap) ->
    lists:foldl(fun(_, Term) -> Wrap(Term) end, 0, lists:seq(1, N)).

the_depth_is_the_same_both_ways(_Config) ->
    [begin
         Deep = nested(Kind, N),
         Wanted = case N + (case Kind of key -> 1; _ -> 0 end) =< 1000 of
             true -> {ok, Deep};
             false -> {error, {too_deep, 1000}}
         end,
         {Kind, N, Wanted} = {Kind, N, same(Deep)},
         {Kind, N, Wanted} = {Kind, N, py:call(there, nested, [Kind, N])}
     end || Kind <- [list, tuple, value, key], N <- [1, 500, 998, 999, 1000, 1001, 1002, 5000]].

cycles_through_any_container_are_refused(_Config) ->
    [{Kind, {error, cyclic}} = {Kind, py:call(there, cycle, [Kind])} || Kind <- [list, dict, tuple, both, far]],
    {error, {'ValueError', <<"a container that contains itself">>}} =
        py:eval("__import__('erlang').send(p, __import__('there').cycle('both'))", #{p => self()}).

one_object_in_many_places_is_no_cycle(_Config) ->
    {ok, {[1], [1], #{<<"k">> := [[1], [1]]}}} = py:eval("(lambda x: (x, x, {'k': [x, x]}))([1])").

keys_that_become_one_are_refused(_Config) ->
    %% Two terms that are equal keys in Python.
    [{Map, {error, {key_collision, _}}} = {Map, same(Map)}
     || Map <- [#{a => 1, <<"a">> => 2}, #{1 => a, 1.0 => b}, #{true => a, 1 => b}, #{false => a, 0.0 => b}, #{none => a, nil => b},
                #{nil => a, undefined => b}, #{{1, x} => a, {1.0, <<"x">>} => b}, #{k => #{<<255>> => 1, {bytes, <<255>>} => 2}},
                #{(1 bsl 70) => a, float(1 bsl 70) => b}]],
    %% Two objects that are one key in Erlang.
    [{Code, {error, {key_collision, Key}}} = {Code, py:eval(Code)}
     || {Code, Key} <- [{"{'a': 1, b'a': 2}", <<"a">>}, {"{None: 1, __import__('erlang').atom('none'): 2}", none},
                        {"{float('nan'): 1, float('nan'): 2}", nan}, {"{(1, 'a'): 1, (1, b'a'): 2}", {1, <<"a">>}},
                        {"[{True: 1, __import__('erlang').atom('true'): 2}]", true},
                        {"{frozenset([1]): 1, frozenset([__import__('erlang').atom('x')]): 2, frozenset([b'x']): 3, frozenset(['x']): 4}",
                         [<<"x">>]}]].

a_collision_is_found_among_many_keys(_Config) ->
    {error, {key_collision, <<"199999">>}} = py:eval("{**{str(i): i for i in range(200000)}, b'199999': 1}").

opaque_terms_may_be_large(_Config) ->
    Large = [binary:copy(<<"x">>, 1 bsl 23) | tail],
    {ok, Large} = same(Large),
    Many = [[binary:copy(<<N>>, 65536) | N] || N <- lists:seq(1, 50)],
    {ok, Many} = same(Many).

keys_that_python_cannot_hash_are_named(_Config) ->
    [{Key, {error, {unhashable_key, Key}}} = {Key, same(#{Key => 1})} || Key <- [[], [1], #{}, {1, [2]}, #{a => 1}]].

sets_are_lists_of_their_members(_Config) ->
    check(list(range(-1000, 1000)), 50, fun(Items) ->
        Wanted = lists:usort(Items),
        [begin
             {ok, Members} = py:eval([Kind, "(items)"], #{items => Items}),
             lists:sort(Members) =:= Wanted
         end || Kind <- ["set", "frozenset"]] =:= [true, true]
    end),
    {ok, [[]]} = py:eval("{frozenset()}").

moments_are_iso_8601(_Config) ->
    {ok, Datetime} = py:call(importlib, import_module, [datetime], #{}, #{return => ref}),
    Moment = {range(1, 9999), range(1, 12), range(1, 28), range(0, 23), range(0, 59), range(0, 59), range(0, 999999)},
    check(Moment, 100, fun({Y, Mo, D, H, Mi, S, Us}) ->
        Date = io_lib:format("~4..0b-~2..0b-~2..0b", [Y, Mo, D]),
        Time = [io_lib:format("~2..0b:~2..0b:~2..0b", [H, Mi, S]), [io_lib:format(".~6..0b", [Us]) || Us > 0]],
        Rows = [{"datetime.date(a, b, c)", Date}, {"datetime.time(d, e, f, g)", Time},
                {"datetime.datetime(a, b, c, d, e, f, g)", [Date, "T", Time]},
                {"datetime.datetime(a, b, c, d, e, f, g, datetime.timezone.utc)", [Date, "T", Time, "+00:00"]},
                {"datetime.time(d, e, f, g, datetime.timezone(datetime.timedelta(hours=-3, minutes=-30)))", [Time, "-03:30"]}],
        Names = #{a => Y, b => Mo, c => D, d => H, e => Mi, f => S, g => Us, datetime => Datetime},
        lists:all(fun({Code, Text}) ->
            py:eval(Code, Names) =:= {ok, iolist_to_binary(Text)}
        end, Rows)
    end).

text_with_lone_surrogates_is_refused_wherever_it_is(_Config) ->
    Refused = {error, {unconvertible, <<"str with lone surrogates">>}},
    check({range(16#D800, 16#DFFF), range(0, 3)}, 40, fun({Surrogate, Around}) ->
        Text = io_lib:format("('x' * ~b + chr(~b) + 'y' * ~b)", [Around, Surrogate, Around]),
        [Refused] =:= lists:usort([py:eval(io_lib:format(Form, [Text]))
                                   || Form <- ["~s", "[~s]", "(1, ~s)", "{~s: 1}", "{1: ~s}", "{~s}"]])
    end).

what_says_it_is_a_moment_and_gives_no_text_is_named(_Config) ->
    {error, {unconvertible, <<"int">>}} = py:eval("__import__('there').Odd(2026, 1, 1)").

refs_are_the_very_objects(_Config) ->
    {ok, Before} = py:call(there, living, []),
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        {ok, Ref} = py:call(there, thing, [], #{}, #{return => ref}),
        true = is_reference(Ref),
        {error, {unconvertible, <<"Thing">>}} = py:call(there, thing, []),
        %% There and back by every way it is the same one, deep in other terms too.
        {ok, none} = py:call(there, mark, [Ref, 17]),
        {ok, 17} = py:call(there, marked, [Ref]),
        {ok, true} = py:eval("x['k'][0] is y and z == {y: 1}", #{x => #{k => [Ref]}, y => Ref, z => #{Ref => 1}}),
        {ok, Again} = py:call(there, same, [Ref], #{}, #{return => ref}),
        {ok, 17} = py:call(there, marked, [Again]),
        %% Kept where no garbage collection takes them.
        undefined = put(kept, [Ref, Again]),
        {ok, Living} = py:call(there, living, []),
        Self ! {living, Living}
    end),
    receive {'DOWN', Monitor, process, Pid, Reason} -> normal = Reason end,
    receive {living, Living} -> true = Living > Before end,
    %% Whoever had it is gone, and so is it.
    py_test:wait_until(fun() -> {ok, Before} =:= py:call(there, living, []) end),
    %% A ref to what cannot be hashed is no key.
    {ok, List} = py:call(builtins, list, [], #{}, #{return => ref}),
    {error, {unhashable_key, List}} = same(#{List => 1}).
