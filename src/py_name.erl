%% @private
%% @doc Names and code, in the forms users write them.
-module(py_name).

-export([name/1, code/1, text/1]).

%% @doc The name of a module or function: an atom as it is, and text as UTF-8.
-spec name(atom() | binary() | string()) -> atom() | binary().
name(Name) when is_atom(Name); is_binary(Name) -> Name;
name(Name) when is_list(Name) -> code(Name);
name(Name) -> erlang:error(badarg, [Name]).

%% @doc A name as text.
-spec text(atom() | binary() | string()) -> binary().
text(Name) when is_atom(Name) -> atom_to_binary(Name, utf8);
text(Name) -> name(Name).

%% @doc Text as UTF-8.
-spec code(unicode:chardata()) -> binary().
code(Code) when is_binary(Code) ->
    Code;
code(Code) ->
    case unicode:characters_to_binary(Code) of
        Text when is_binary(Text) -> Text;
        _ -> erlang:error(badarg, [Code])
    end.
