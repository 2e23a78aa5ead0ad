%% Bad input, one row each: what is said of it, and that the context that met it is unharmed.
-module(py_bad_input_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([calls_that_cannot_be/1,
         code_that_cannot_be/1,
         values_that_cannot_cross/1,
         values_that_python_cannot_give/1,
         callbacks_that_cannot_be/1,
         references_that_are_none/1,
         contexts_that_are_gone/1,
         streams_that_cannot_be/1,
         arguments_that_are_refused_before_python_sees_them/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 2}]),
    ok = py:exec("import sys, types, erlang\n"
                 "m = sys.modules['bad_input'] = types.ModuleType('bad_input')\n"
                 "exec('''\n"
                 "def one(a): return a\n"
                 "def named(*, key): return key\n"
                 "def positional(a, /): return a\n"
                 "def deep(n):\n"
                 "    x = []\n"
                 "    for _ in range(n): x = [x]\n"
                 "    return x\n"
                 "def cycle(kind):\n"
                 "    x = [] if kind == 'list' else {}\n"
                 "    if kind == 'list': x.append((x,))\n"
                 "    else: x['self'] = [x]\n"
                 "    return x\n"
                 "not_callable = 7\n"
                 "''', m.__dict__)\n"),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

%% Each row: what it is, what is done, and how the culprit is named. It is done in a context that is known, before and after.
rows(Rows) ->
    ok = py:bind(),
    {ok, Thread} = py:call(threading, get_native_id, []),
    ok = py:exec("import erlang\nkept = 0"),
    Wrong = lists:append([wrong(Row, Thread) || Row <- Rows]),
    Count = length(Rows),
    {ok, Count} = py:eval("kept"),
    ok = py:unbind(),
    {messages, []} = process_info(self(), messages),
    [] = Wrong,
    py_test:wait_until(fun() -> maps:with([contexts, idle, bound, queued], py:stats()) =:= #{contexts => 2, idle => 2, bound => 0, queued => 0} end).

wrong({What, Do, Names}, Thread) ->
    Result = try Do() catch Class:Reason -> {raised, Class, Reason} end,
    ok = py:exec("kept += 1"),
    {ok, Thread} = py:call(threading, get_native_id, []),
    case Names(Result) of
        true -> [];
        false -> [{What, Result}]
    end.

%% An error of this kind whose text has this word.
names(Class, Word) ->
    fun({error, {Kind, Text}}) when is_binary(Text) -> name(Kind) =:= name(Class) andalso binary:match(Text, Word) =/= nomatch;
       (_) -> false
    end.

name(Name) when is_atom(Name) -> atom_to_binary(Name);
name(Name) -> Name.

is(Wanted) ->
    fun(Result) -> Result =:= Wanted end.

badarg() ->
    is({raised, error, badarg}).

calls_that_cannot_be(_Config) ->
    Call = fun(M, F, A) -> fun() -> py:call(M, F, A) end end,
    With = fun(M, F, A, K) -> fun() -> py:call(M, F, A, K) end end,
    rows([{unknown_module, Call(no_such_module, f, []), names('ModuleNotFoundError', <<"no_such_module">>)},
          {unknown_submodule, Call('json.no_such', f, []), names('ModuleNotFoundError', <<"json.no_such">>)},
          {empty_module, Call('', f, []), names('ValueError', <<"mpty module name">>)},
          {odd_module, Call(<<"../etc/passwd">>, f, []), fun({error, {'ModuleNotFoundError', _}}) -> true; (_) -> false end},
          {unknown_function, Call(math, nope, []), names('AttributeError', <<"nope">>)},
          {unknown_in_main, Call('__main__', nope, []), names('AttributeError', <<"nope">>)},
          {unknown_in_path, Call(os, 'path.nope', []), names('AttributeError', <<"nope">>)},
          {empty_function, Call(math, '', []), fun({error, {'AttributeError', _}}) -> true; (_) -> false end},
          {not_callable, Call(bad_input, not_callable, []), names('TypeError', <<"not callable">>)},
          {too_few, Call(bad_input, one, []), names('TypeError', <<"one()">>)},
          {too_many, Call(bad_input, one, [1, 2]), names('TypeError', <<"one()">>)},
          {too_few_in_c, Call(math, sqrt, []), names('TypeError', <<"sqrt">>)},
          {unknown_keyword, With(bad_input, one, [1], #{b => 2}), names('TypeError', <<"'b'">>)},
          {keyword_given_twice, With(bad_input, one, [1], #{a => 2}), names('TypeError', <<"'a'">>)},
          {keyword_missing, Call(bad_input, named, []), names('TypeError', <<"key">>)},
          {keyword_not_allowed, With(bad_input, positional, [], #{a => 1}), names('TypeError', <<"positional">>)},
          {keyword_with_a_blank, With(bad_input, named, [], #{<<"no name">> => 1}), is({error, {bad_keyword, <<"no name">>}})},
          {keyword_empty, With(bad_input, named, [], #{<<>> => 1}), is({error, {bad_keyword, <<>>}})},
          {keyword_a_number, With(bad_input, named, [], #{7 => 1}), is({error, {bad_keyword, 7}})},
          {keyword_a_tuple, With(bad_input, named, [], #{{a} => 1}), is({error, {bad_keyword, {a}}})},
          {keyword_a_string, With(bad_input, named, [], #{"key" => 1}), is({error, {bad_keyword, "key"}})},
          {keyword_not_utf8, With(bad_input, named, [], #{<<255>> => 1}), is({error, {bad_keyword, <<255>>}})},
          {keyword_with_a_nul, With(bad_input, named, [], #{<<"a", 0>> => 1}), is({error, {bad_keyword, <<"a", 0>>}})},
          {keywords_that_collide, With(bad_input, named, [], #{key => 1, <<"key">> => 2}),
           fun({error, {key_collision, Key}}) -> lists:member(Key, [key, <<"key">>]); (_) -> false end},
          {improper_arguments, Call(bad_input, one, [1 | 2]), is({error, {improper_list, [1 | 2]}})},
          {module_not_utf8, Call(<<255>>, f, []), fun({error, {'ValueError', _}}) -> true; (_) -> false end},
          {function_not_utf8, Call(math, <<255>>, []), fun({error, {'ValueError', _}}) -> true; (_) -> false end}]).

code_that_cannot_be(_Config) ->
    Eval = fun(Code) -> fun() -> py:eval(Code) end end,
    Exec = fun(Code) -> fun() -> py:exec(Code) end end,
    Syntax = fun({error, {'SyntaxError', _}}) -> true; ({error, {'IndentationError', _}}) -> true; (_) -> false end,
    Value = fun({error, {'ValueError', _}}) -> true; (_) -> false end,
    Many = lists:duplicate(300, $() ++ "1" ++ lists:duplicate(300, $)),
    rows([{half_an_expression, Eval("1 +"), Syntax},
          {a_statement, Eval("x = 1"), Syntax},
          {nothing, Eval(""), Syntax},
          {two_lines, Eval("1\n2"), Syntax},
          {half_a_statement, Exec("def"), Syntax},
          {bad_indent, Exec("if 1:\npass"), Syntax},
          {odd_character, Exec(<<"x = “1”"/utf8>>), Syntax},
          {too_many_brackets, Eval(Many), fun({error, {Class, _}}) -> lists:member(Class, ['SyntaxError', 'MemoryError', 'RecursionError']); (_) -> false end},
          {a_nul, Eval(<<"1", 0>>), Value},
          {not_utf8, Eval(<<255>>), Value},
          {not_utf8_statement, Exec(<<"x = '", 200, "'">>), Value},
          {unknown_name, Eval("nothing_like_it"), names('NameError', <<"nothing_like_it">>)},
          {unknown_import, Exec("import nothing_like_it"), names('ModuleNotFoundError', <<"nothing_like_it">>)},
          {return_outside, Exec("return 1"), Syntax},
          {await_outside, Eval("await x"), Syntax}]).

values_that_cannot_cross(_Config) ->
    Give = fun(Term) -> fun() -> py:call(bad_input, one, [Term]) end end,
    Nest = fun(Wrap, Depth) -> lists:foldl(fun(_, Term) -> Wrap(Term) end, 0, lists:seq(1, Depth)) end,
    Deep = is({error, {too_deep, 1000}}),
    Collision = fun({error, {key_collision, _}}) -> true; (_) -> false end,
    rows([{deep_list, Give(Nest(fun(T) -> [T] end, 5000)), Deep},
          {deep_tuple, Give(Nest(fun(T) -> {T} end, 100000)), Deep},
          {deep_map, Give(Nest(fun(T) -> #{k => T} end, 5000)), Deep},
          {deep_key, Give(Nest(fun(T) -> {T, 1} end, 5000)), Deep},
          {deep_local, fun() -> py:eval("x", #{x => Nest(fun(T) -> [T] end, 5000)}) end, Deep},
          {colliding_text, Give(#{a => 1, <<"a">> => 2}), Collision},
          {colliding_numbers, Give(#{1 => 1, 1.0 => 2}), Collision},
          {list_as_key, Give(#{[1] => 2}), is({error, {unhashable_key, [1]}})},
          {map_as_key, Give(#{#{} => 2}), is({error, {unhashable_key, #{}}})},
          {improper_inside, Give([[1 | 2]]), is({ok, [[1 | 2]]})}]).

values_that_python_cannot_give(_Config) ->
    Eval = fun(Code) -> fun() -> py:eval(Code) end end,
    Unconvertible = fun(Name) -> is({error, {unconvertible, Name}}) end,
    rows([{an_object, Eval("object()"), Unconvertible(<<"object">>)},
          {a_function, Eval("len"), Unconvertible(<<"builtin_function_or_method">>)},
          {a_generator, Eval("(x for x in ())"), Unconvertible(<<"generator">>)},
          {a_class, Eval("dict"), Unconvertible(<<"type">>)},
          {an_exception, Eval("ValueError('x')"), Unconvertible(<<"ValueError">>)},
          {inside, Eval("[{'a': (1, {2: 3j})}]"), Unconvertible(<<"complex">>)},
          {a_key, Eval("{object: 1}"), Unconvertible(<<"type">>)},
          {a_surrogate, Eval("'\\ud800'"), Unconvertible(<<"str with lone surrogates">>)},
          {a_marker_inside, Eval("[erlang.schedule('f')]"), Unconvertible(<<"ScheduleMarker">>)},
          {deep, fun() -> py:call(bad_input, deep, [100000]) end, is({error, {too_deep, 1000}})},
          {cyclic_list, fun() -> py:call(bad_input, cycle, [list]) end, is({error, cyclic})},
          {cyclic_dict, fun() -> py:call(bad_input, cycle, [dict]) end, is({error, cyclic})},
          {colliding_keys, Eval("{'a': 1, b'a': 2}"), is({error, {key_collision, <<"a">>}})}]).

callbacks_that_cannot_be(_Config) ->
    ok = py:register_function(known, fun([X]) -> X end),
    Dead = spawn(fun() -> ok end),
    py_test:wait_until(fun() -> not is_process_alive(Dead) end),
    Eval = fun(Code) -> fun() -> py:eval(Code, #{dead => Dead}) end end,
    rows([{unknown, Eval("erlang.call('no_such_function')"), names(<<"ErlangError">>, <<"no_such_function">>)},
          {unknown_attribute, Eval("erlang.no_such_function(1)"), names('AttributeError', <<"no_such_function">>)},
          {unknown_import, fun() -> py:exec("from erlang import no_such_function") end, names('ImportError', <<"no_such_function">>)},
          {wrong_arity, Eval("erlang.known(1, 2)"), names(<<"ErlangError">>, <<"function_clause">>)},
          {no_name, Eval("erlang.call()"), fun({error, {'TypeError', _}}) -> true; (_) -> false end},
          {odd_name, Eval("erlang.call(7)"), fun({error, _}) -> true; (_) -> false end},
          {an_object, Eval("erlang.known(object())"), names('TypeError', <<"object">>)},
          {keywords, Eval("erlang.known(1, x=1)"), names('TypeError', <<"call() takes no keyword">>)},
          {keywords_to_send, Eval("erlang.send(dead, 1, x=1)"), names('TypeError', <<"send() takes no keyword">>)},
          {dead_pid, Eval("erlang.send(dead, 1)"), is({ok, none})},
          {unknown_process, Eval("erlang.send('nobody_of_that_name', 1)"), names('ValueError', <<"nobody_of_that_name">>)},
          {not_a_process, Eval("erlang.send(7, 1)"), fun({error, {'TypeError', _}}) -> true; (_) -> false end},
          {an_object_sent, Eval("erlang.send(dead, object())"), names('TypeError', <<"object">>)},
          {long_atom, Eval("erlang.atom('a' * 256)"), names('ValueError', <<"255">>)},
          {atom_of_a_number, Eval("erlang.atom(7)"), fun({error, {'TypeError', _}}) -> true; (_) -> false end},
          {scheduled_unknown, Eval("erlang.schedule('no_such_function')"),
           fun({error, Reason}) -> string:find(io_lib:format("~tp", [Reason]), "no_such_function") =/= nomatch; (_) -> false end},
          {scheduled_nowhere, Eval("erlang.schedule_py('no_such_module', 'f', [])"), names('ModuleNotFoundError', <<"no_such_module">>)},
          {time_slice_of_nothing, Eval("erlang.consume_time_slice(0)"), names('ValueError', <<"100">>)}]),
    ok = py:unregister_function(known).

%% Made elsewhere, used up, of another kind.
references_that_are_none(_Config) ->
    {ok, Object} = py:call(builtins, object, [], #{}, #{return => ref}),
    {ok, Stream} = py:stream_start(builtins, range, [0]),
    receive {py_stream, Stream, done} -> ok end,
    Task = py:call_async(math, sqrt, [16.0]),
    {ok, 4.0} = py:await(Task),
    Remote = binary_to_term(<<131, 90, 3:16, 119, 7, "far@far", 0:32, 1:32, 2:32, 3:32>>),
    References = [make_ref(), Remote, Object, Stream, Task],
    rows([{cancelled_task, fun() -> py:cancel(Task) end, is(false)},
          {cancelled_stream, fun() -> py:cancel(Stream) end, is(false)},
          {interrupted_task, fun() -> py:interrupt(Task) end, is(false)},
          {awaited_twice, fun() -> py:await(Task, 1) end, is({error, timeout})},
          {stream_acked_after_its_end, fun() -> py:stream_ack(Stream, 1) end, is(ok)},
          {stream_cancelled_after_its_end, fun() -> py:stream_cancel(Stream) end, is(ok)}]
         ++ [{{What, Ref}, Do, Says} || Ref <- References -- [Task, Stream],
                                        {What, Do, Says} <- [{cancel, fun() -> py:cancel(Ref) end, is(false)},
                                                             {interrupt, fun() -> py:interrupt(Ref) end, is(false)},
                                                             {await, fun() -> py:await(Ref, 1) end, is({error, timeout})},
                                                             {ack, fun() -> py:stream_ack(Ref, 1) end, badarg()},
                                                             {stop, fun() -> py:stream_cancel(Ref) end, badarg()}]]
         ++ [{{What, Ref}, Do, badarg()} || Ref <- References,
                                            {What, Do} <- [{unbind, fun() -> py:unbind(Ref) end},
                                                           {ctx_call, fun() -> py:ctx_call(Ref, math, sqrt, [1.0]) end},
                                                           {ctx_eval, fun() -> py:ctx_eval(Ref, "1") end},
                                                           {ctx_exec, fun() -> py:ctx_exec(Ref, "pass") end}]]
         %% As a value it is just that.
         ++ [{{value, Ref}, fun() -> py:call(bad_input, one, [Ref]) end, is({ok, Ref})} || Ref <- [make_ref(), Remote, Task]]).

contexts_that_are_gone(_Config) ->
    {ok, Lent} = py:bind(new),
    ok = py:unbind(Lent),
    NotBound = is({raised, error, context_not_bound}),
    Ended = element(3, hd(py_context:all())),
    exit(element(2, hd(py_context:all())), kill),
    py_test:wait_until(fun() -> py_request:eval(Ended, "1", #{}, infinity) =:= {error, closed} end),
    py_test:wait_until(fun() -> py:num_workers() =:= 2 andalso length(py_context:all()) =:= 2 end),
    rows([{given_back_call, fun() -> py:ctx_call(Lent, math, sqrt, [1.0]) end, NotBound},
          {given_back_eval, fun() -> py:ctx_eval(Lent, "1") end, NotBound},
          {given_back_exec, fun() -> py:ctx_exec(Lent, "pass") end, NotBound},
          {given_back_twice, fun() -> py:unbind(Lent) end, is(ok)},
          {ended_call, fun() -> py_request:call(Ended, call, {math, sqrt}, [1.0], #{}, infinity) end, is({error, closed})},
          {ended_bind, fun() -> py_nif:context_bind(Ended, self(), true) end, is(false)},
          {ended_close, fun() -> py_nif:context_close(Ended) end, is(ok)},
          {lent_to_the_dead, fun() -> py_pool:checkout(dead()) end, is({error, noproc})},
          {not_a_context, fun() -> py:bind(old) end, badarg()}]).

dead() ->
    {Pid, Monitor} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Monitor, process, Pid, normal} -> Pid end.

streams_that_cannot_be(_Config) ->
    Last = fun(M, F, A) ->
               fun() ->
                   {ok, Ref} = py:stream_start(M, F, A),
                   receive {py_stream, Ref, End} -> End end
               end
           end,
    rows([{unknown_module, Last(no_such_module, f, []), names('ModuleNotFoundError', <<"no_such_module">>)},
          {unknown_function, Last(math, nope, []), names('AttributeError', <<"nope">>)},
          {wrong_arity, Last(bad_input, one, []), names('TypeError', <<"one()">>)},
          {not_iterable, Last(bad_input, one, [7]), names('TypeError', <<"int">>)},
          {improper, Last(bad_input, one, [1 | 2]), is({error, {improper_list, [1 | 2]}})},
          {collected, fun() -> py:stream(bad_input, one, [7]) end, names('TypeError', <<"int">>)},
          {expression, fun() -> py:stream_eval("7") end, names('TypeError', <<"int">>)},
          {syntax, fun() -> py:stream_eval("(x for") end, fun({error, {'SyntaxError', _}}) -> true; (_) -> false end},
          {dead_owner, fun() -> py:stream_start(builtins, range, [1], #{owner => dead()}) end, is({error, noproc})}]).

arguments_that_are_refused_before_python_sees_them(_Config) ->
    rows([{What, Do, badarg()} || {What, Do} <- [
        {arguments, fun() -> py:call(math, sqrt, 16.0) end},
        {keywords, fun() -> py:call(math, sqrt, [16.0], [{a, 1}]) end},
        {module, fun() -> py:call(7, sqrt, []) end},
        {module_text, fun() -> py:call([0, x], sqrt, []) end},
        {function, fun() -> py:call(math, {sqrt}, []) end},
        {locals, fun() -> py:eval("1", [{x, 1}]) end},
        {code, fun() -> py:eval(["1", not_text]) end},
        {cast, fun() -> py:cast(math, sqrt, x) end},
        {task, fun() -> py:call_async(math, sqrt, x) end},
        {stream, fun() -> py:stream(math, sqrt, x) end},
        {stream_option, fun() -> py:stream_start(math, sqrt, [], #{what => 1}) end},
        {demand, fun() -> py:stream_start(math, sqrt, [], #{demand => -1}) end},
        {bind, fun() -> py:bind(all) end},
        {with_context, fun() -> py:with_context(x) end},
        {register, fun() -> py:register_function(f, not_a_fun) end},
        {register_arity, fun() -> py:register_function(f, fun() -> ok end) end},
        {counter, fun() -> py:state_incr(k, 1.5) end}]]).
