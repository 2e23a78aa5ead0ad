%% @private
%% @doc Opens libpython for everything that is loaded later. See crates/loader.
-module(py_loader).

-export([load/2]).

%% @doc Loads the loader from the directory `Priv', and with it the library `Libpython'.
-spec load(file:filename(), binary()) -> ok | {error, term()}.
load(Priv, Libpython) ->
    case erlang:load_nif(filename:join(Priv, "erlang_python_loader"), 0) of
        ok -> opened(Libpython);
        {error, {reload, _}} -> opened(Libpython);
        {error, _} = Error -> Error
    end.

opened(Libpython) ->
    case open(Libpython) of
        {ok, ok} -> ok;
        {error, Text} -> {error, {libpython, Libpython, Text}}
    end.

-spec open(binary()) -> {ok, ok} | {error, binary()}.
open(_Libpython) -> erlang:nif_error(not_loaded).
