%% Loops, workers and clients are killed at random while a web server is at work.
%%
%% Each response is checked to be that of its request: whole, and with its name in it. A client whose server was killed is cut off, or told
%% 500 where a worker was, and asks again. None hangs, and in the end nothing is left but what listens.
%%
%% CHAOS_SECONDS says for how long, and CHAOS_SEED which random choices.
-module(py_web_chaos_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([no_response_crosses_connections_in_a_storm/1]).

-define(CLIENTS, 24).
-define(LOOPS, 2).
%% Only to end a hang.
-define(HANG, 120000).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{event_loop_pool_size, ?LOOPS}, {num_workers, 3}]),
    {ok, none} = py:call(sys, 'path.append', [unicode:characters_to_binary(proplists:get_value(data_dir, Config))]),
    ok = py:register_function(web_chaos, fun([Name]) -> {ok, Value} = py:call(chaos_site, worked, [Name]), Value end),
    Config.

end_per_suite(_Config) ->
    ok = py:unregister_function(web_chaos),
    py_test:stop().

no_response_crosses_connections_in_a_storm(_Config) ->
    Seconds = number("CHAOS_SECONDS", 8),
    Seed = number("CHAOS_SEED", erlang:unique_integer([positive]) bxor erlang:system_time()),
    io:format(user, "~nCHAOS_SEED=~b CHAOS_SECONDS=~b~n", [Seed, Seconds]),
    {ok, Asgi} = py_asgi:serve(#{app => <<"chaos_site:app">>, port => 0}),
    {ok, Wsgi} = py_asgi:serve(#{app => <<"chaos_site:wsgi">>, port => 0, interface => wsgi}),
    Ports = {maps:get(port, py_asgi:info(Asgi)), maps:get(port, py_asgi:info(Wsgi))},
    %% Each kill would be told of, and what it did to the apps.
    Quiet = logger:get_primary_config(),
    ok = logger:set_primary_config(level, none),
    try
        storm(Seed, Seconds, Ports)
    after
        logger:set_primary_config(Quiet)
    end,
    [py_test:wait_until(fun() -> map_get(loops, py_asgi:info(Server)) =:= ?LOOPS end, 12000) || Server <- [Asgi, Wsgi]],
    %% All are served as before.
    [{whole, _} = ask(Kind, Ports, none, <<"at last">>) || Kind <- kinds()],
    [ok = py_asgi:stop(Server) || Server <- [Asgi, Wsgi]],
    ok.

number(Name, Default) ->
    case os:getenv(Name, "") of
        "" -> Default;
        Text -> list_to_integer(Text)
    end.

storm(Seed, Seconds, Ports) ->
    Until = erlang:monotonic_time(millisecond) + 1000 * Seconds,
    Start = fun(Number) -> spawn_monitor(fun() -> client({Seed, Number, 1}, Ports, Until) end) end,
    Clients = maps:from_list([{Monitor, Pid} || Number <- lists:seq(1, ?CLIENTS), {Pid, Monitor} <- [Start(Number)]]),
    Storm = self(),
    {Monkey, Watched} = spawn_monitor(fun() -> _ = rand:seed(exsss, {Seed, 0, 0}), monkey(Storm) end),
    Counted = watch(Clients, Start, ?CLIENTS, Until, #{}),
    exit(Monkey, kill),
    receive {'DOWN', Watched, process, Monkey, killed} -> ok end,
    io:format(user, "responses ~0p~n", [Counted]),
    %% Each kind was answered, and there was a storm.
    [?assert(maps:get({Kind, whole}, Counted, 0) > 0) || Kind <- kinds()],
    ?assert(lists:sum([Count || {{_, cut}, Count} <- maps:to_list(Counted)]) > 0).

%% Clients that are killed are replaced; one that ends otherwise has found something wrong.
watch(Clients, _Start, _Next, _Until, Counted) when map_size(Clients) =:= 0 ->
    Counted;
watch(Clients, Start, Next, Until, Counted) ->
    receive
        {kill, Nth} ->
            Pids = maps:values(Clients),
            true = exit(lists:nth(Nth rem length(Pids) + 1, Pids), kill),
            watch(Clients, Start, Next, Until, Counted);
        {'DOWN', Monitor, process, _, killed} when is_map_key(Monitor, Clients) ->
            Rest = maps:remove(Monitor, Clients),
            case erlang:monotonic_time(millisecond) < Until of
                true -> {Pid, New} = Start(Next + 1), watch(Rest#{New => Pid}, Start, Next + 1, Until, Counted);
                false -> watch(Rest, Start, Next, Until, Counted)
            end;
        {'DOWN', Monitor, process, _, {done, Count}} when is_map_key(Monitor, Clients) ->
            Sum = maps:merge_with(fun(_, One, Other) -> One + Other end, Counted, Count),
            watch(maps:remove(Monitor, Clients), Start, Next, Until, Sum);
        {'DOWN', Monitor, process, _, Wrong} when is_map_key(Monitor, Clients) ->
            error({wrong, Wrong})
    %% The monkey goes on, so it is not the silence that tells.
    after max(0, Until + ?HANG - erlang:monotonic_time(millisecond)) ->
        error({hang, [process_info(Pid, [current_stacktrace, dictionary]) || Pid <- maps:values(Clients)]})
    end.

%% Loops come back within milliseconds, and supervisors allow for some deaths in ten seconds only.
monkey(Storm) ->
    receive after 300 + rand:uniform(400) -> ok end,
    _ = case rand:uniform(4) of
            1 -> kill([Pid || {_, Pid, _} <- py_context:all()]);
            2 -> Storm ! {kill, rand:uniform(1000)};
            _ -> kill([Pid || {_, Pid, _} <- py_loop:all()])
        end,
    monkey(Storm).

kill([]) -> true;
kill(Pids) -> exit(lists:nth(rand:uniform(length(Pids)), Pids), kill).

kinds() -> [echo, thread, stream, work, wsgi, socket].

client(Random, Ports, Until) ->
    _ = rand:seed(exsss, Random),
    client_loop(Ports, Until, none, #{}).

client_loop(Ports, Until, Kept, Counted) ->
    case erlang:monotonic_time(millisecond) < Until of
        false ->
            exit({done, Counted});
        true ->
            Kind = lists:nth(rand:uniform(length(kinds())), kinds()),
            Name = integer_to_binary(erlang:unique_integer([positive])),
            _ = put(asks, {Kind, Name}),
            {How, Next} = ask(Kind, Ports, Kept, Name),
            client_loop(Ports, Until, Next, maps:update_with({Kind, How}, fun(Count) -> Count + 1 end, 1, Counted))
    end.

%% One request, on a connection that was kept or on a new one: the response was whole, it was a 500, or the connection was cut.
ask(Kind, {Asgi, Wsgi}, Kept, Name) when Kind =:= socket; Kind =:= wsgi ->
    ok = forget(Kept),
    Port = case Kind of socket -> Asgi; wsgi -> Wsgi end,
    case open(Port) of
        {ok, Socket} ->
            Answer = case Kind of
                         socket -> over_websocket(Socket, Name);
                         wsgi -> exchange(wsgi, Socket, Name)
                     end,
            ok = gen_tcp:close(Socket),
            {Answer, none};
        cut ->
            {cut, none}
    end;
ask(Kind, {Asgi, _} = Ports, none, Name) ->
    case open(Asgi) of
        {ok, Socket} -> ask(Kind, Ports, Socket, Name);
        cut -> {cut, none}
    end;
ask(Kind, _Ports, Socket, Name) ->
    case exchange(Kind, Socket, Name) of
        whole -> {whole, Socket};
        Other -> ok = forget(Socket), {Other, none}
    end.

forget(none) -> ok;
forget(Socket) -> gen_tcp:close(Socket).

%% While no loop listens, connections are refused.
open(Port) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {packet, raw}], ?HANG) of
        {ok, Socket} -> {ok, Socket};
        {error, timeout} -> error(hangs);
        {error, _} -> receive after 5 -> cut end
    end.

exchange(Kind, Socket, Name) ->
    Path = atom_to_binary(Kind),
    Size = integer_to_binary(byte_size(Name)),
    _ = gen_tcp:send(Socket, ["POST /", Path, " HTTP/1.1\r\nhost: a\r\ncontent-length: ", Size, "\r\n\r\n", Name]),
    case response(Socket) of
        {200, Body} -> ?assertEqual(expected(Kind, Name), Body), whole;
        {500, _} -> ?assertEqual(work, Kind), refused;
        cut -> cut
    end.

expected(Kind, Name) ->
    Times = case Kind of
                stream -> 5;
                wsgi -> 5;
                _ -> 1
            end,
    binary:copy(<<(atom_to_binary(Kind))/binary, " ", Name/binary>>, Times).

%% The VM's own parser reads it: another one than the server's.
response(Socket) ->
    ok = inet:setopts(Socket, [{packet, http_bin}]),
    case gen_tcp:recv(Socket, 0, ?HANG) of
        {ok, {http_response, {1, 1}, Status, _}} -> headers(Socket, Status, none);
        {error, timeout} -> error(hangs);
        {error, _} -> cut
    end.

headers(Socket, Status, Framing) ->
    case gen_tcp:recv(Socket, 0, ?HANG) of
        {ok, {http_header, _, 'Content-Length', _, Length}} -> headers(Socket, Status, {length, binary_to_integer(Length)});
        {ok, {http_header, _, 'Transfer-Encoding', _, <<"chunked">>}} -> headers(Socket, Status, chunked);
        {ok, {http_header, _, _, _, _}} -> headers(Socket, Status, Framing);
        {ok, http_eoh} -> body(Socket, Status, Framing);
        {error, timeout} -> error(hangs);
        {error, _} -> cut
    end.

body(Socket, Status, {length, Length}) ->
    ok = inet:setopts(Socket, [{packet, raw}]),
    case exactly(Socket, Length) of
        cut -> cut;
        Body -> {Status, Body}
    end;
body(Socket, Status, chunked) ->
    chunks(Socket, Status, <<>>).

chunks(Socket, Status, Before) ->
    ok = inet:setopts(Socket, [{packet, line}]),
    case gen_tcp:recv(Socket, 0, ?HANG) of
        {ok, Line} ->
            Size = binary_to_integer(string:trim(Line), 16),
            ok = inet:setopts(Socket, [{packet, raw}]),
            case exactly(Socket, Size + 2) of
                cut -> cut;
                <<"\r\n">> -> {Status, Before};
                Chunk -> chunks(Socket, Status, <<Before/binary, (binary:part(Chunk, 0, Size))/binary>>)
            end;
        {error, timeout} -> error(hangs);
        {error, _} -> cut
    end.

exactly(_Socket, 0) -> <<>>;
exactly(Socket, Size) ->
    case gen_tcp:recv(Socket, Size, ?HANG) of
        {ok, Bytes} -> Bytes;
        {error, timeout} -> error(hangs);
        {error, _} -> cut
    end.

over_websocket(Socket, Name) ->
    _ = gen_tcp:send(Socket, "GET /socket HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                             "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"),
    case upgraded(Socket) of
        ok -> talk(Socket, Name, 3);
        cut -> cut
    end.

upgraded(Socket) ->
    ok = inet:setopts(Socket, [{packet, http_bin}]),
    case gen_tcp:recv(Socket, 0, ?HANG) of
        {ok, {http_response, {1, 1}, 101, _}} -> upgraded(Socket);
        {ok, {http_header, _, _, _, _}} -> upgraded(Socket);
        {ok, http_eoh} -> inet:setopts(Socket, [{packet, raw}]);
        {error, timeout} -> error(hangs);
        {error, _} -> cut
    end.

talk(_Socket, _Name, 0) ->
    whole;
talk(Socket, Name, Left) ->
    Message = <<Name/binary, "-", (integer_to_binary(Left))/binary>>,
    Size = byte_size(Message),
    _ = gen_tcp:send(Socket, <<16#82, 1:1, Size:7, 0:32, Message/binary>>),
    Answer = <<"socket ", Message/binary>>,
    case exactly(Socket, 2) of
        <<16#82, Length>> ->
            case exactly(Socket, Length) of
                cut -> cut;
                Echo -> ?assertEqual(Answer, Echo), talk(Socket, Name, Left - 1)
            end;
        %% It is told that the server goes.
        <<16#88, _>> -> cut;
        cut -> cut
    end.
