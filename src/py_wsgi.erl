%% @doc WSGI apps (PEP 3333), run from Erlang.
%%
%% ```
%% {ok, {200, Headers, Body}} = py_wsgi:run(<<"my_site">>, <<"application">>, #{path => <<"/">>}).
%% '''
%%
%% An app runs on the thread of a context, as calls do: it may block, and holds up no event loop.
-module(py_wsgi).

-export([run/3, run/4]).

-export_type([request/0, options/0]).

%% A request as {@link py_asgi} has it (`method', `path' or `raw_path', `query_string', `headers', `client', `server', `scheme', ...), or
%% an environment of WSGI, by the names that has: `<<"REQUEST_METHOD">>', `<<"PATH_INFO">>' ... Either may have a body under
%% `<<"wsgi.input">>'.
-type request() :: #{atom() | binary() => term()}.
-type options() :: #{timeout => timeout(), body => iodata()}.

-define(TIMEOUT, 30000).

%% @equiv run(Module, Callable, Request, #{})
-spec run(py:name(), py:name(), request()) -> {ok, py_asgi:response()} | {error, term()}.
run(Module, Callable, Request) ->
    run(Module, Callable, Request, #{}).

%% @doc Gives an app a request, and waits for its response: 30 000 ms, or `timeout'. `body' is the body of the request.
-spec run(py:name(), py:name(), request(), options()) -> {ok, py_asgi:response()} | {error, term()}.
run(Module, Callable, Request, Options) when is_map(Request) ->
    [] = maps:keys(maps:without([timeout, body], Options)),
    Given = maps:fold(fun(Key, Value, Keys) -> Keys#{py_asgi_scope:name(Key) => Value} end, #{}, Request),
    {Environ, Body} = case maps:take(<<"wsgi.input">>, Given) of
                          {Input, Rest} -> {Rest, Input};
                          error -> {Given, maps:get(body, Options, <<>>)}
                      end,
    Args = [py_name:text(Module), py_name:text(Callable), environ(Environ), {bytes, iolist_to_binary(Body)}],
    py_request:call(py_request:target(), call, {'erlang._wsgi', run}, Args, #{}, maps:get(timeout, Options, ?TIMEOUT)).

%% By the names of ASGI, or by those of WSGI.
environ(Given) ->
    case maps:keys(maps:with([<<"path">>, <<"raw_path">>, <<"method">>, <<"headers">>], Given)) of
        [] -> maps:map(fun(_Key, Value) -> value(Value) end, Given);
        _ -> of_scope(py_asgi_scope:new(http, Given))
    end.

of_scope(#{<<"method">> := Method, <<"path">> := Path, <<"root_path">> := Root, <<"query_string">> := Query, <<"scheme">> := Scheme,
           <<"http_version">> := Version, <<"headers">> := Headers, <<"client">> := Client, <<"server">> := Server}) ->
    Fixed = #{<<"REQUEST_METHOD">> => Method,
              <<"SCRIPT_NAME">> => {bytes, Root},
              <<"PATH_INFO">> => {bytes, Path},
              <<"QUERY_STRING">> => Query,
              <<"SERVER_PROTOCOL">> => <<"HTTP/", Version/binary>>,
              <<"wsgi.url_scheme">> => Scheme},
    Named = maps:merge(peer(<<"REMOTE_ADDR">>, <<"REMOTE_PORT">>, Client), peer(<<"SERVER_NAME">>, <<"SERVER_PORT">>, Server)),
    lists:foldl(fun header/2, maps:merge(Fixed, Named), Headers).

peer(_Host, _Port, none) -> #{};
peer(Host, Port, {Name, Number}) when is_integer(Number) -> #{Host => Name, Port => integer_to_binary(Number)};
peer(Host, _Port, {Name, none}) -> #{Host => Name}.

%% Those that came twice are one, as RFC 9110 (5.2) has it.
header({{bytes, Name}, {bytes, Value}}, Environ) ->
    Key = key(Name),
    Joined = case Environ of
                 #{Key := {bytes, Before}} -> <<Before/binary, (separator(Name))/binary, Value/binary>>;
                 #{} -> Value
             end,
    Environ#{Key => {bytes, Joined}}.

separator(<<"cookie">>) -> <<"; ">>;
separator(_Name) -> <<", ">>.

key(<<"content-type">>) -> <<"CONTENT_TYPE">>;
key(<<"content-length">>) -> <<"CONTENT_LENGTH">>;
key(Name) -> <<"HTTP_", (binary:replace(string:uppercase(Name), <<"-">>, <<"_">>, [global]))/binary>>.

value(Value) when is_binary(Value) -> {bytes, Value};
value(Value) when is_list(Value) -> {bytes, unicode:characters_to_binary(Value)};
value(Value) -> Value.
