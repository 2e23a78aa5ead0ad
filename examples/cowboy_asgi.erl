%% A Cowboy handler for ASGI apps, as it could stand in a project of yours: requests are answered piece by piece, and WebSockets are
%% accepted when the app accepts them.
%%
%%   {"/[...]", cowboy_asgi, {<<"example_site">>, <<"app">>}}
%%
%% Back-pressure goes both ways: an app waits for a client that reads slowly (`demand' and `ack'), and a client for an app that does. Who
%% feeds the app is a process of its own, so that what the app sends meanwhile is passed on. A client that goes takes the process of its
%% request with it, and so the app's task.
-module(cowboy_asgi).
-behaviour(cowboy_websocket).

-export([init/2, terminate/3]).
-export([websocket_init/1, websocket_handle/2, websocket_info/2]).

%% How many pieces of a response, or messages, may be on their way.
-define(DEMAND, 16).
%% How much of a body is read at once, and for how long it is waited for.
-define(READ, #{length => 65536, period => 100}).

-type app() :: {binary(), binary()}.
-type state() :: #{ref => reference(), feeder => pid()}.

-spec init(cowboy_req:req(), app()) -> {ok | cowboy_websocket, cowboy_req:req(), state()}
                                     | {cowboy_websocket, cowboy_req:req(), state(), cowboy_websocket:opts()}.
init(Req, App) ->
    case cowboy_req:parse_header(<<"upgrade">>, Req, []) of
        [<<"websocket">>] -> offer(Req, App);
        _ -> {ok, serve(Req, App), #{}}
    end.

%% HTTP

serve(Req, {Module, Name}) ->
    {More, First, Read} = read(Req),
    {ok, Ref} = py_asgi:stream(Module, Name, scope(Read), First, #{demand => ?DEMAND, more_body => More}),
    Feeder = feeder(fun({Data, HasMore}) -> py_asgi:body(Ref, Data, HasMore) end),
    _ = [self() ! {taken, Feeder} || More],
    Answered = answer(Ref, Feeder, Read),
    true = unlink(Feeder),
    true = exit(Feeder, kill),
    Answered.

read(Req) ->
    {How, Data, Read} = cowboy_req:read_body(Req, ?READ),
    {How =:= more, Data, Read}.

answer(Ref, Feeder, Req) ->
    receive
        {py_asgi, Ref, {start, Status, Headers}} ->
            answer(Ref, Feeder, cowboy_req:stream_reply(Status, together(Headers), Req));
        {py_asgi, Ref, {body, Data, true}} ->
            ok = cowboy_req:stream_body(Data, nofin, Req),
            ok = py_asgi:ack(Ref),
            answer(Ref, Feeder, Req);
        {py_asgi, Ref, {body, Data, false}} ->
            ok = cowboy_req:stream_body(Data, fin, Req),
            Req;
        {py_asgi, Ref, {error, Reason}} ->
            failed(Reason, Req);
        {taken, Feeder} ->
            {More, Data, Read} = read(Req),
            Feeder ! {feed, self(), {Data, More}},
            answer(Ref, Feeder, Read)
    end.

%% The log has it already. A response that has begun can only be cut off.
failed(_Reason, #{has_sent_resp := _}) -> exit(shutdown);
failed(_Reason, Req) -> cowboy_req:reply(500, Req).

%% Cowboy has a map: what comes twice is joined, but for cookies.
together(Headers) ->
    lists:foldl(fun({<<"set-cookie">> = Name, Value}, Map) ->
                        maps:update_with(Name, fun(Before) -> Before ++ [Value] end, [Value], Map);
                   ({Name, Value}, Map) ->
                        maps:update_with(Name, fun(Before) -> [Before, <<", ">>, Value] end, Value, Map)
                end, #{}, Headers).

%% WebSocket

offer(Req, {Module, Name}) ->
    Offered = cowboy_req:parse_header(<<"sec-websocket-protocol">>, Req, []),
    Scheme = case cowboy_req:scheme(Req) of <<"https">> -> <<"wss">>; _ -> <<"ws">> end,
    Scope = (scope(Req))#{subprotocols => Offered, scheme => Scheme},
    {ok, Ref} = py_asgi:websocket(Module, Name, maps:remove(method, Scope), #{demand => 0}),
    receive
        {py_asgi, Ref, {accept, Chosen, Headers}} ->
            Accepted = cowboy_req:set_resp_headers(maps:merge(together(Headers), protocol(Chosen)), Req),
            ok = py_asgi:give_away(Ref, maps:get(pid, Req)),
            {cowboy_websocket, Accepted, #{ref => Ref}, #{idle_timeout => infinity}};
        {py_asgi, Ref, {reject, Status, Headers, Body}} ->
            {ok, cowboy_req:reply(Status, together(Headers), Body, Req), #{}};
        {py_asgi, Ref, {error, Reason}} ->
            {ok, failed(Reason, Req), #{}}
    end.

protocol(none) -> #{};
protocol(Chosen) -> #{<<"sec-websocket-protocol">> => Chosen}.

%% In the process of the connection, which has the app from now on.
-spec websocket_init(state()) -> {ok, state()}.
websocket_init(#{ref := Ref} = State) ->
    ok = py_asgi:ack(Ref, ?DEMAND),
    {ok, State#{feeder => feeder(fun(Frame) -> py_asgi:send(Ref, Frame) end)}}.

%% Nothing more is read until the app has taken it.
-spec websocket_handle(term(), state()) -> {cowboy_websocket:commands(), state()}.
websocket_handle({Kind, _Data} = Frame, #{feeder := Feeder} = State) when Kind =:= text; Kind =:= binary ->
    Feeder ! {feed, self(), Frame},
    {[{active, false}], State};
websocket_handle(_PingOrPong, State) ->
    {[], State}.

-spec websocket_info(term(), state()) -> {cowboy_websocket:commands(), state()}.
websocket_info({taken, Feeder}, #{feeder := Feeder} = State) -> {[{active, true}], State};
websocket_info({py_asgi, Ref, Event}, #{ref := Ref} = State) -> {heard(Event, Ref), State};
websocket_info(_Other, State) -> {[], State}.

heard({send, {Kind, Data}}, Ref) -> ok = py_asgi:ack(Ref), [{Kind, Data}];
heard({close, Code, Reason}, _Ref) -> [{close, Code, Reason}];
heard({error, _Reason}, _Ref) -> [{close, 1011, <<>>}];
heard(done, _Ref) -> [].

%% The app hears by which code the client went.
-spec terminate(term(), cowboy_req:req() | map(), state()) -> ok.
terminate({remote, Code, Reason}, _Req, #{ref := Ref}) -> py_asgi:close(Ref, Code, Reason);
terminate(_Why, _Req, #{ref := Ref}) -> py_asgi:disconnect(Ref);
terminate(_Why, _Req, _State) -> ok.

%% Both

scope(Req) ->
    #{method => cowboy_req:method(Req), raw_path => cowboy_req:path(Req), query_string => cowboy_req:qs(Req),
      scheme => cowboy_req:scheme(Req), headers => cowboy_req:headers(Req), client => cowboy_req:peer(Req),
      server => {cowboy_req:host(Req), cowboy_req:port(Req)}}.

%% Gives the app one thing after the other, and says when each is taken.
feeder(Give) ->
    spawn_link(fun() -> feed(Give) end).

feed(Give) ->
    receive
        {feed, From, What} ->
            case Give(What) of
                ok -> From ! {taken, self()}, feed(Give);
                {error, _} -> ok
            end
    end.
