%% @private
%% @doc Generators: collected into a list, or sent value by value to a consumer.
-module(py_stream).

-export([collect/6, collect_eval/4, start/5, ack/2, cancel/1]).

-export_type([options/0]).
-type options() :: #{demand => non_neg_integer(), kwargs => map(), owner => pid()}.

-spec collect(py_nif:target(), term(), term(), list(), map(), timeout()) -> {ok, [term()]} | {error, term()}.
collect(Target, Module, Function, Args, Kwargs, Timeout) ->
    py_request:call(Target, collect, {py_name:name(Module), py_name:name(Function)}, Args, Kwargs, Timeout).

-spec collect_eval(py_nif:target(), unicode:chardata(), map(), timeout()) -> {ok, [term()]} | {error, term()}.
collect_eval(Target, Code, Locals, Timeout) ->
    py_request:call(Target, collect_eval, {py_name:code(Code), Locals}, [], #{}, Timeout).

-spec start(py_nif:target(), term(), term(), list(), options()) -> {ok, py_nif:stream()} | {error, term()}.
start(Target, Module, Function, Args, Options) ->
    [] = maps:keys(maps:without([demand, kwargs, owner], Options)),
    Owner = maps:get(owner, Options, self()),
    Credit = maps:get(demand, Options, infinity),
    #{} = Kwargs = maps:get(kwargs, Options, #{}),
    Started = py_nif:stream_start(Target, Owner, Credit, call, py_name:name(Module), py_name:name(Function), Args, Kwargs),
    case Started of
        {error, not_bound} -> error(context_not_bound);
        _ -> Started
    end.

-spec ack(py_nif:stream(), pos_integer()) -> ok.
ack(Stream, More) ->
    py_nif:stream_ack(Stream, More).

-spec cancel(py_nif:stream()) -> ok.
cancel(Stream) ->
    _ = py_nif:stream_cancel(Stream),
    ok.
