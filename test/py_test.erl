%% What the suites share: starting the application, and waiting for something to become true.
-module(py_test).

-export([start/0, start/1, stop/0, cases/1, module/2, wait_until/1, wait_until/2]).

start() ->
    start([]).

%% Starts the application with an environment of its own.
start(Env) ->
    _ = application:load(erlang_python),
    [ok = application:set_env(erlang_python, Key, Value) || {Key, Value} <- Env],
    {ok, _} = application:ensure_all_started(erlang_python),
    ok.

stop() ->
    ok = application:stop(erlang_python),
    ok = application:unload(erlang_python).

%% Gives all contexts a Python module.
module(Name, Source) ->
    {ok, Module} = py:call(types, 'ModuleType', [list_to_binary(Name)], #{}, #{return => ref}),
    {ok, Names} = py:call(builtins, vars, [Module], #{}, #{return => ref}),
    {ok, none} = py:call(builtins, exec, [unicode:characters_to_binary(Source), Names]),
    {ok, none} = py:eval("__import__('sys').modules.update({name: module})", #{name => list_to_binary(Name), module => Module}),
    ok.

%% Every exported function with one argument is a case.
cases(Module) ->
    Others = [module_info, init_per_suite, end_per_suite],
    [Name || {Name, 1} <- Module:module_info(exports), not lists:member(Name, Others)].

wait_until(Condition) ->
    wait_until(Condition, 2000).

%% With so many looks, 5 ms apart.
wait_until(_Condition, 0) ->
    error({never_came_true, py:stats()});
wait_until(Condition, Tries) ->
    case Condition() of
        true -> ok;
        false -> receive after 5 -> wait_until(Condition, Tries - 1) end
    end.
