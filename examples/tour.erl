%% A tour of Python in this VM: each step is shown as it could be typed into a shell, is run, and its result printed.
%% `make run' gives it. It ends by itself.
-module(tour).

-export([main/0]).

%% Runs all steps; the VM ends with 1 if one fails.
-spec main() -> no_return().
main() ->
    {ok, _} = application:ensure_all_started(erlang_python),
    try lists:foldl(fun chapter/2, erl_eval:new_bindings(), chapters()) of
        _ -> halt(0)
    catch
        Class:Reason:Stack ->
            io:format("~nthe tour broke off: ~tp:~tp~n~tp~n", [Class, Reason, Stack]),
            halt(1)
    end.

chapters() ->
    [{"Calls",
      ["py:version().",
       "py:call(math, sqrt, [16.0]).",
       "py:call('os.path', join, [<<\"a\">>, <<\"b\">>]).",
       "py:eval(\"x ** 100\", #{x => 3})."]},
     {"Keyword arguments",
      ["py:call(builtins, int, [<<\"ff\">>], #{base => 16}).",
       "py:call(builtins, sorted, [[3, 1, 2]], #{reverse => true})."]},
     {"State: this process has a context to itself from here on",
      ["py:bind().",
       "py:exec(\"seen = []\").",
       "py:exec(\"seen.append('hello')\").",
       "py:eval(\"seen\")."]},
     {"A callback: Python calls Erlang",
      ["py:register_function(area, fun([W, H]) -> W * H end).",
       "py:exec(\"import erlang\").",
       "py:eval(\"erlang.area(3, 4) + 1\")."]},
     {"Nesting: Erlang, Python, Erlang, Python ... in one context",
      ["py:register_function(down, fun([N]) -> {ok, V} = py:call('__main__', depth, [N]), V end).",
       "py:exec(\"def depth(n): return 0 if n == 0 else 1 + erlang.down(n - 1)\").",
       "py:call('__main__', depth, [50])."]},
     {"A stream: a generator, two values in flight at most",
      ["py:stream_eval(\"(n * n for n in range(5))\").",
       "{ok, Ref} = py:stream_start(itertools, count, [7], #{demand => 2}).",
       "[receive {py_stream, Ref, What} -> What end || _ <- [1, 2]].",
       "py:stream_ack(Ref, 1).",
       "receive {py_stream, Ref, Next} -> Next after 1000 -> nothing end.",
       "receive {py_stream, Ref, _} -> unasked after 100 -> nothing end.",
       "py:stream_cancel(Ref).",
       "receive {py_stream, Ref, End} -> End end."]},
     {"An error, with its Python traceback",
      ["{error, Reason} = py:call(json, loads, [<<\"{oops\">>]).",
       "io:put_chars(py:format_error(Reason))."]},
     {"A timeout that really stops Python",
      ["py:exec(\"def spin():\\n    while True: pass\").",
       "py:call('__main__', spin, [], #{}, 100).",
       "py:eval(\"'at your service again'\").",
       "maps:get(interrupted, py:stats()) > 0."]}].

chapter({Title, Steps}, Bindings) ->
    io:format("~n~ts~n~ts~n", [Title, lists:duplicate(string:length(Title), $-)]),
    lists:foldl(fun step/2, Bindings, Steps).

step(Code, Bindings) ->
    io:format("> ~ts~n", [Code]),
    {ok, Tokens, _} = erl_scan:string(Code),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, Value, After} = erl_eval:exprs(Expressions, Bindings),
    io:format("~tp~n", [Value]),
    After.
