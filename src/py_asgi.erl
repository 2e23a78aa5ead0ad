%% @doc ASGI apps, run from Erlang.
%%
%% ```
%% {ok, {200, Headers, Body}} = py_asgi:run(<<"my_site">>, <<"app">>, #{path => <<"/">>}, <<>>).
%% '''
%%
%% A request runs as a task on the event loop of the calling process ({@link py_event_loop_pool}), beside others; code in it that
%% blocks delays those, so synchronous endpoints belong on threads, where Starlette, FastAPI and Django put them by themselves, and
%% synchronous apps to {@link py_wsgi}. An app's lifespan is begun by the first request on each loop, and its `state' is in the scope of
%% all of them.
%%
%% The scope is a map, with atoms or binaries as keys: `method', `path' or `raw_path', `query_string', `headers' and whatever else ASGI
%% has. Headers are pairs of binaries, in order, or a map.
-module(py_asgi).

-export([run/4, run/5, run_async/4, run_async/5, await_response/1, await_response/2]).
-export([stream/4, stream/5, body/3, body/4, websocket/3, websocket/4, send/2, send/3, close/1, close/3]).
-export([ack/1, ack/2, disconnect/1, give_away/2]).
-export([serve/1, stop/1, info/1]).

-export_type([scope/0, options/0, stream_options/0, serve_options/0, response/0, event/0, frame/0]).

-type scope() :: py_asgi_scope:scope().
-type headers() :: [{binary(), binary()}].
-type response() :: {Status :: pos_integer(), headers(), Body :: binary()}.
-type options() :: #{timeout => timeout(), lifespan => auto | on | off}.
-type stream_options() :: #{lifespan => auto | on | off, demand => non_neg_integer(), owner => pid(), more_body => boolean()}.
%% What the owner of a stream or a WebSocket is sent, as `{py_asgi, Ref, Event}'. Nothing comes after `done' and `{error, _}'.
-type event() :: {start, Status :: pos_integer(), headers()} | {body, binary(), More :: boolean()}
               | {accept, Subprotocol :: binary() | none, headers()} | {send, frame()} | {close, Code :: integer(), Reason :: binary()}
               | {reject, Status :: pos_integer(), headers(), Body :: binary()}
               | done | {error, term()}.
-type frame() :: {text | binary, iodata()}.

%% `app' is a module and a name in it, or both in one text, as in `<<"my_site:app">>'. Times are in seconds, sizes in bytes.
-type serve_options() :: #{app := {py:name(), py:name()} | binary() | string(),
                           host => binary() | string() | inet:ip_address(), port => inet:port_number(),
                           loops => pos_integer(), lifespan => auto | on | off, interface => asgi | wsgi, root_path => binary(),
                           backlog => pos_integer(), reuse_port => boolean(),
                           max_head => pos_integer(), max_headers => pos_integer(), max_body => non_neg_integer(),
                           max_message => pos_integer(), keep_alive => number(), head_timeout => number(),
                           body_timeout => number(), shutdown_timeout => number()}.

-define(TIMEOUT, 30000).

%% @equiv run(Module, Callable, Scope, Body, #{})
-spec run(py:name(), py:name(), scope(), iodata()) -> {ok, response()} | {error, term()}.
run(Module, Callable, Scope, Body) ->
    run(Module, Callable, Scope, Body, #{}).

%% @doc Gives an app a request, and waits for its response: 30 000 ms, or `timeout'. What the app does after its response goes on.
%%
%% `lifespan' says what an app that fails when it is offered one means: that it has none (`auto'), or that it cannot start (`on'); with
%% `off' it is offered none.
-spec run(py:name(), py:name(), scope(), iodata(), options()) -> {ok, response()} | {error, term()}.
run(Module, Callable, Scope, Body, Options) ->
    Args = arguments(Module, Callable, Scope, Body, Options),
    Timeout = maps:get(timeout, Options, ?TIMEOUT),
    py_loop:run(py_event_loop_pool:get_loop(), task, {'erlang._asgi', run}, Args, #{}, Timeout).

%% @equiv run_async(Module, Callable, Scope, Body, #{})
-spec run_async(py:name(), py:name(), scope(), iodata()) -> {ok, py:ref()} | {error, term()}.
run_async(Module, Callable, Scope, Body) ->
    run_async(Module, Callable, Scope, Body, #{}).

%% @doc Likewise, without waiting: `{py_result, Ref, Response}' or `{py_error, Ref, Reason}' is sent, or taken by
%% {@link await_response/2}.
-spec run_async(py:name(), py:name(), scope(), iodata(), options()) -> {ok, py:ref()} | {error, term()}.
run_async(Module, Callable, Scope, Body, Options) ->
    Args = arguments(Module, Callable, Scope, Body, Options),
    case py_event_loop_pool:get_loop() of
        {ok, Loop} -> py_request:start(py_request:on_loop(Loop), py_result, task, {'erlang._asgi', run}, Args, #{});
        {error, _} = Error -> Error
    end.

%% @equiv await_response(Ref, 30000)
-spec await_response(py:ref()) -> {ok, response()} | {error, term()}.
await_response(Ref) ->
    await_response(Ref, ?TIMEOUT).

%% @doc Waits for a response. When the time is over the request is cancelled, and nothing comes later.
-spec await_response(py:ref(), timeout()) -> {ok, response()} | {error, term()}.
await_response(Ref, Timeout) ->
    case taken(Ref, Timeout) of
        {error, timeout} ->
            case py_nif:task_forget(Ref) of
                true -> {error, timeout};
                %% It is over, so its answer has been sent, unless it was taken before.
                false -> taken(Ref, 100)
            end;
        Result ->
            Result
    end.

taken(Ref, Timeout) ->
    receive
        {py_result, Ref, Response} -> {ok, Response};
        {py_error, Ref, Reason} -> {error, Reason}
    after Timeout ->
        {error, timeout}
    end.

%% @equiv stream(Module, Callable, Scope, Body, #{})
-spec stream(py:name(), py:name(), scope(), iodata()) -> {ok, reference()} | {error, term()}.
stream(Module, Callable, Scope, Body) ->
    stream(Module, Callable, Scope, Body, #{}).

%% @doc Gives an app a request, and has its response sent piece by piece to the owner, by default the calling process: `{py_asgi, Ref,
%% {start, Status, Headers}}', `{py_asgi, Ref, {body, Data, More}}', and `{py_asgi, Ref, done}' or `{py_asgi, Ref, {error, Reason}}'.
%%
%% With `demand => N' no more than that many pieces are sent before {@link ack/2} asks for more: an app that is faster waits. With
%% `more_body => true' more of the request follows, by {@link body/3}. When the owner dies, the app is cancelled.
-spec stream(py:name(), py:name(), scope(), iodata(), stream_options()) -> {ok, reference()} | {error, term()}.
stream(Module, Callable, Scope, Body, Options) ->
    More = maps:get(more_body, Options, false),
    true = is_boolean(More),
    start(http, Module, Callable, Scope, maps:remove(more_body, Options), [{bytes, iolist_to_binary(Body)}, More]).

%% @equiv body(Ref, Data, More, 30000)
-spec body(reference(), iodata(), boolean()) -> ok | {error, closed | timeout}.
body(Ref, Data, More) ->
    body(Ref, Data, More, ?TIMEOUT).

%% @doc The next piece of a request's body. Waits until the app has taken it.
-spec body(reference(), iodata(), boolean(), timeout()) -> ok | {error, closed | timeout}.
body(Ref, Data, More, Timeout) when is_boolean(More) ->
    py_asgi_stream:call(Ref, {body, {bytes, iolist_to_binary(Data)}, More}, Timeout).

%% @equiv websocket(Module, Callable, Scope, #{})
-spec websocket(py:name(), py:name(), scope()) -> {ok, reference()} | {error, term()}.
websocket(Module, Callable, Scope) ->
    websocket(Module, Callable, Scope, #{}).

%% @doc Offers an app a WebSocket. The owner is sent `{py_asgi, Ref, {accept, Subprotocol, Headers}}', or `{py_asgi, Ref, {reject, Status,
%% Headers, Body}}': nothing is accepted before the app does. Then `{py_asgi, Ref, {send, {text | binary, Data}}}' and in the end
%% `{py_asgi, Ref, {close, Code, Reason}}', and `done' or `{error, Reason}'. Options are those of {@link stream/5}.
-spec websocket(py:name(), py:name(), scope(), stream_options()) -> {ok, reference()} | {error, term()}.
websocket(Module, Callable, Scope, Options) ->
    start(websocket, Module, Callable, Scope, Options, []).

%% @equiv send(Ref, Frame, 30000)
-spec send(reference(), frame()) -> ok | {error, closed | timeout}.
send(Ref, Frame) ->
    send(Ref, Frame, ?TIMEOUT).

%% @doc A message of the client. Waits until the app has taken it.
-spec send(reference(), frame(), timeout()) -> ok | {error, closed | timeout}.
send(Ref, {Kind, Data}, Timeout) when Kind =:= text; Kind =:= binary ->
    py_asgi_stream:call(Ref, {Kind, {bytes, iolist_to_binary(Data)}}, Timeout).

%% @equiv close(Ref, 1005, <<>>)
-spec close(reference()) -> ok.
close(Ref) ->
    close(Ref, 1005, <<>>).

%% @doc The client has closed the WebSocket.
-spec close(reference(), integer(), iodata()) -> ok.
close(Ref, Code, Reason) when is_integer(Code) ->
    py_asgi_stream:tell(Ref, {disconnect, Code, {bytes, iolist_to_binary(Reason)}}).

%% @doc The client is gone: the app hears of it by `receive()', and what it sends fails.
-spec disconnect(reference()) -> ok.
disconnect(Ref) ->
    close(Ref, 1006, <<>>).

%% @equiv ack(Ref, 1)
-spec ack(reference()) -> ok.
ack(Ref) ->
    ack(Ref, 1).

%% @doc Asks for so many more pieces.
-spec ack(reference(), pos_integer()) -> ok.
ack(Ref, More) when is_integer(More), More > 0 ->
    py_asgi_stream:tell(Ref, {ack, More}).

%% @doc Makes another process the owner of a stream or a WebSocket: it is sent what is to come, and what the calling process, the owner so
%% far, has not received. After that the app does not depend on the caller's life any more.
-spec give_away(reference(), pid()) -> ok | {error, closed}.
give_away(Ref, Owner) ->
    py_asgi_stream:give_away(Ref, Owner).

%% @doc Serves an app over HTTP/1.1 and WebSocket, from event loops of this VM, under supervision: at `port', 8000 if nothing is said and
%% one of the kernel's choice if it is 0, of `host', by default `127.0.0.1'.
%%
%% `loops' is how many loops of {@link py_event_loop_pool} serve it, by default all; each begins the app's lifespan, and an app that does
%% not start is not served. A port that is taken is `{error, eaddrinuse}'; with `reuse_port => true' it may be shared with others that
%% want to, another server of this VM or of another one. A loop that dies listens again when it is replaced. WSGI apps (`interface => wsgi') run on threads.
-spec serve(serve_options()) -> {ok, pid()} | {error, term()}.
serve(#{app := App} = Options) ->
    [] = maps:keys(maps:without([app, host, port, loops, lifespan, interface, root_path, backlog, reuse_port, max_head, max_headers, max_body,
                                 max_message, keep_alive, head_timeout, body_timeout, shutdown_timeout], Options)),
    Loops = maps:get(loops, Options, py_loop_sup:pool_size()),
    Port = maps:get(port, Options, 8000),
    true = is_integer(Loops) andalso Loops >= 1 andalso Loops =< py_loop_sup:pool_size(),
    true = is_integer(Port) andalso Port >= 0 andalso Port =< 65535,
    Interface = maps:get(interface, Options, asgi),
    true = Interface =:= asgi orelse Interface =:= wsgi,
    true = is_boolean(maps:get(reuse_port, Options, false)),
    Given = Options#{app => app(App), loops => Loops, port => Port, host => host(maps:get(host, Options, <<"127.0.0.1">>)),
                     lifespan => lifespan(Options), interface => atom_to_binary(Interface)},
    case supervisor:start_child(py_asgi_sup, [Given]) of
        {ok, Server} when is_pid(Server) -> {ok, Server};
        {error, Reason} -> {error, Reason}
    end.

%% @doc Ends a server: it takes no more connections, has `shutdown_timeout' seconds to answer what it serves, and cancels the rest.
-spec stop(pid()) -> ok | {error, not_found}.
stop(Server) ->
    case supervisor:terminate_child(py_asgi_sup, Server) of
        ok -> ok;
        {error, _} -> {error, not_found}
    end.

%% @doc Where a server listens, and on how many loops.
-spec info(pid()) -> #{host := binary(), port := inet:port_number(), loops := non_neg_integer()}.
info(Server) ->
    py_asgi_server:info(Server).

app({Module, Name}) ->
    {py_name:text(Module), py_name:text(Name)};
app(Text) ->
    [Module, Name] = binary:split(unicode:characters_to_binary(Text), <<":">>),
    {Module, Name}.

host(Address) when is_tuple(Address) -> list_to_binary(inet:ntoa(Address));
host(Name) -> unicode:characters_to_binary(Name).

start(Type, Module, Callable, Scope, Options, Body) ->
    [] = maps:keys(maps:without([lifespan, demand, owner], Options)),
    Owner = maps:get(owner, Options, self()),
    true = is_pid(Owner),
    App = {py_name:text(Module), py_name:text(Callable), py_asgi_scope:new(Type, Scope), lifespan(Options)},
    py_asgi_stream:start(Owner, App, {demand(Options), Body}).

arguments(Module, Callable, Scope, Body, Options) ->
    [] = maps:keys(maps:without([timeout, lifespan], Options)),
    [py_name:text(Module), py_name:text(Callable), py_asgi_scope:new(http, Scope), {bytes, iolist_to_binary(Body)},
     lifespan(Options)].

lifespan(Options) ->
    case maps:get(lifespan, Options, auto) of
        Policy when Policy =:= auto; Policy =:= on; Policy =:= off -> atom_to_binary(Policy)
    end.

demand(Options) ->
    case maps:get(demand, Options, infinity) of
        infinity -> none;
        Demand when is_integer(Demand), Demand >= 0 -> Demand
    end.
