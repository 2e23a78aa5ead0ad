%% @private
%% @doc The application: starts Python, once per VM, and then what uses it.
-module(erlang_python_app).
-behaviour(application).

-export([start/2, stop/1]).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Args) ->
    case py_python:start() of
        ok ->
            ok = py_nif:atom_limit(application:get_env(erlang_python, atom_limit, 10000)),
            ok = py_nif:term_limit(application:get_env(erlang_python, term_limit, 2 bsl 30)),
            ok = py_nif:reply_limit(application:get_env(erlang_python, reply_limit, 1000000)),
            ok = py_nif:subinterp_memory(application:get_env(erlang_python, subinterp_memory_limit, infinity)),
            erlang_python_sup:start_link();
        {error, _} = Error ->
            Error
    end.

%% @doc The contexts end with their processes; Python itself stays, as it cannot be started twice.
-spec stop(term()) -> ok.
stop(_State) ->
    py_loop:forget_all().
