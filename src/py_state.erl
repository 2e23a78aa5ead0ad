%% @doc Values that Erlang and Python share, by key: `py:state_store/2' here, `erlang.state_set' there.
%%
%% They live in an ETS table, so reading and writing passes through no process, and counters are atomic. Text is one kind of thing in
%% Python: a key that is an atom is the same as the binary of its name. How many keys there may be is bounded (`state_limit' in the
%% environment of the application), for programs make keys of what they are given.
-module(py_state).

-export([store/2, fetch/1, remove/1, keys/0, clear/0, incr/2, table/0]).
-export([python/2]).

-define(TABLE, ?MODULE).
-define(LIMIT, 1000000).

%% @private
%% Made by the supervisor, which outlives those who use it.
-spec table() -> ets:table().
table() ->
    ets:new(?TABLE, [named_table, public, set, {read_concurrency, true}, {write_concurrency, true}]).

%% @doc Keeps a value under a key.
-spec store(term(), term()) -> ok | {error, {state_full, pos_integer()}}.
store(Key, Value) ->
    case room(key(Key)) of
        {ok, Known} ->
            true = ets:insert(?TABLE, {Known, Value}),
            ok;
        {error, _} = Error ->
            Error
    end.

%% @doc The value of a key.
-spec fetch(term()) -> {ok, term()} | {error, not_found}.
fetch(Key) ->
    case ets:lookup(?TABLE, key(Key)) of
        [{_, Value}] -> {ok, Value};
        [] -> {error, not_found}
    end.

%% @doc Forgets a key, if it is there.
-spec remove(term()) -> ok.
remove(Key) ->
    true = ets:delete(?TABLE, key(Key)),
    ok.

%% @doc All keys, in no order.
-spec keys() -> [term()].
keys() ->
    ets:select(?TABLE, [{{'$1', '_'}, [], ['$1']}]).

%% @doc Forgets everything.
-spec clear() -> ok.
clear() ->
    true = ets:delete_all_objects(?TABLE),
    ok.

%% @doc Adds to a counter, which begins at 0: its new value.
-spec incr(term(), integer()) -> integer().
incr(Key, Amount) when is_integer(Amount) ->
    case room(key(Key)) of
        {ok, Known} ->
            try
                ets:update_counter(?TABLE, Known, {2, Amount}, {Known, 0})
            catch
                error:badarg -> erlang:error({not_an_integer, Known}, [Key, Amount])
            end;
        {error, Reason} ->
            erlang:error(Reason, [Key, Amount])
    end;
incr(Key, Amount) ->
    erlang:error(badarg, [Key, Amount]).

%% Keys as Python has them: one kind of text, and one kind of nothing.
key(Key) when is_boolean(Key) -> Key;
key(Nothing) when Nothing =:= none; Nothing =:= nil; Nothing =:= undefined -> none;
key(Key) when is_atom(Key) -> atom_to_binary(Key, utf8);
key(Key) -> Key.

room(Key) ->
    Limit = application:get_env(erlang_python, state_limit, ?LIMIT),
    case ets:info(?TABLE, size) < Limit orelse ets:member(?TABLE, Key) of
        true -> {ok, Key};
        false -> {error, {state_full, Limit}}
    end.

%% @private
%% What `erlang.state_*' ask for.
-spec python(binary(), [term()]) -> term().
python(<<"store">>, [Key, Value]) -> store(Key, Value);
python(<<"fetch">>, [Key]) -> fetch(Key);
python(<<"remove">>, [Key]) -> remove(Key);
python(<<"keys">>, []) -> keys();
python(<<"clear">>, []) -> clear();
python(<<"incr">>, [Key, Amount]) ->
    try
        {ok, incr(Key, Amount)}
    catch
        error:Reason -> {error, Reason}
    end.
