%% @private
%% @doc The scope of a request as ASGI 3.0 has it, made of what users write down. Keys are atoms or binaries; what is missing gets its
%% default, what is unknown is passed on.
-module(py_asgi_scope).

-export([new/2, header/1, name/1, decoded/1]).

-export_type([scope/0]).
-type scope() :: #{atom() | binary() => term()}.

%% @doc The scope of a request of a type.
-spec new(http | websocket, scope()) -> #{binary() => term()}.
new(Type, Scope) when is_map(Scope) ->
    Given = maps:fold(fun(Key, Value, Keys) -> put_new(name(Key), Value, Keys) end, #{}, Scope),
    true = maps:get(<<"type">>, Given, Type) =:= Type orelse maps:get(<<"type">>, Given) =:= atom_to_binary(Type),
    {Path, Raw} = paths(Given),
    Headers = [{{bytes, Name}, {bytes, Value}} || {Name, Value} <- headers(maps:get(<<"headers">>, Given, []))],
    Known = #{<<"type">> => atom_to_binary(Type),
              <<"asgi">> => #{<<"version">> => <<"3.0">>, <<"spec_version">> => <<"2.5">>},
              <<"http_version">> => text(maps:get(<<"http_version">>, Given, <<"1.1">>)),
              <<"scheme">> => text(maps:get(<<"scheme">>, Given, scheme(Type))),
              <<"path">> => Path,
              <<"raw_path">> => {bytes, Raw},
              <<"query_string">> => {bytes, bytes(maps:get(<<"query_string">>, Given, <<>>))},
              <<"root_path">> => lossy(bytes(maps:get(<<"root_path">>, Given, <<>>))),
              <<"headers">> => Headers,
              <<"client">> => address(maps:get(<<"client">>, Given, none)),
              <<"server">> => address(maps:get(<<"server">>, Given, none))},
    maps:merge(Given, maps:merge(Known, of_type(Type, Given))).

of_type(http, Given) ->
    #{<<"method">> => string:uppercase(text(maps:get(<<"method">>, Given, <<"GET">>)))};
of_type(websocket, Given) ->
    Extensions = maps:get(<<"extensions">>, Given, #{}),
    #{<<"subprotocols">> => [text(Name) || Name <- maps:get(<<"subprotocols">>, Given, [])],
      <<"extensions">> => Extensions#{<<"websocket.http.response">> => #{}}}.

scheme(http) -> <<"http">>;
scheme(websocket) -> <<"ws">>.

%% Who has the raw path only has its percent signs decoded; who has a path only has it taken as it is, for both.
paths(#{<<"path">> := Path, <<"raw_path">> := Raw}) ->
    {lossy(bytes(Path)), bytes(Raw)};
paths(#{<<"raw_path">> := Raw}) ->
    {decoded(bytes(Raw)), bytes(Raw)};
paths(Given) ->
    Path = bytes(maps:get(<<"path">>, Given, <<"/">>)),
    {lossy(Path), Path}.

headers(Headers) when is_map(Headers) -> headers(maps:to_list(Headers));
headers(Headers) when is_list(Headers) -> [header(Header) || Header <- Headers].

%% @doc A header with its name in lower case, as ASGI has them.
-spec header({term(), term()} | [term()]) -> {binary(), binary()}.
header({Name, Value}) -> {string:lowercase(bytes(Name)), bytes(Value)};
header([Name, Value]) -> header({Name, Value}).

address({Host, Port}) when is_tuple(Host), is_integer(Port) -> {list_to_binary(inet:ntoa(Host)), Port};
address({Host, Port}) when is_integer(Port); Port =:= none -> {text(Host), Port};
address([Host, Port]) -> address({Host, Port});
address(Nobody) when Nobody =:= none; Nobody =:= undefined -> none.

%% Two keys that Python would not tell apart.
put_new(Key, Value, Keys) when not is_map_key(Key, Keys) -> Keys#{Key => Value}.

%% @doc The name of a key.
-spec name(atom() | binary()) -> binary().
name(Key) when is_atom(Key) -> atom_to_binary(Key);
name(Key) when is_binary(Key) -> Key.

text(Text) when is_atom(Text) -> atom_to_binary(Text);
text(Text) -> lossy(bytes(Text)).

bytes(Bytes) when is_binary(Bytes) -> Bytes;
bytes(Atom) when is_atom(Atom) -> atom_to_binary(Atom);
bytes(Text) when is_list(Text) -> unicode:characters_to_binary(Text).

%% @doc A path with its percent signs decoded. One that means nothing stays.
-spec decoded(binary()) -> binary().
decoded(Path) ->
    lossy(unquoted(Path)).

unquoted(<<$%, High, Low, Rest/binary>>) ->
    case {digit(High), digit(Low)} of
        {H, L} when is_integer(H), is_integer(L) -> <<(16 * H + L), (unquoted(Rest))/binary>>;
        _ -> <<$%, (unquoted(<<High, Low, Rest/binary>>))/binary>>
    end;
unquoted(<<Byte, Rest/binary>>) ->
    <<Byte, (unquoted(Rest))/binary>>;
unquoted(<<>>) ->
    <<>>.

digit(Char) when Char >= $0, Char =< $9 -> Char - $0;
digit(Char) when Char >= $a, Char =< $f -> Char - $a + 10;
digit(Char) when Char >= $A, Char =< $F -> Char - $A + 10;
digit(_Char) -> none.

%% As UTF-8, with what is not replaced, so that it is a `str' to Python.
lossy(Bytes) ->
    case unicode:characters_to_binary(Bytes) of
        Text when is_binary(Text) -> Text;
        {_, Text, <<_, Rest/binary>>} -> <<Text/binary, 16#FFFD/utf8, (lossy(Rest))/binary>>
    end.
