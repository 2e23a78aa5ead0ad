%%% The port: a Python process at the other end of a pipe, `{packet, 4}` and the external term format.
%%% One process owns the port; calls go through it and are told apart by a number.
-module(arm_port).

-export([start/0, call/3, cast/3, prepare_casts/0, await_casts/1, register_same/0]).

-spec start() -> ok.
start() ->
    Self = self(),
    Python = os:getenv("BENCH_PYTHON"),
    Program = filename:join(os:getenv("BENCH_BEAM"), "port_peer.py"),
    Owner = spawn_link(fun() ->
        Port = open_port({spawn_executable, Python}, [{args, ["-u", Program]}, {packet, 4}, binary, nouse_stdio]),
        {os_pid, Pid} = erlang:port_info(Port, os_pid),
        ok = bench_clock:count(Pid),
        register(?MODULE, self()),
        Self ! {started, self()},
        serve(Port, #{}, 0)
    end),
    receive {started, Owner} -> ok end.

serve(Port, Waiting, Number) ->
    receive
        {call, Caller, Tag, Request} ->
            true = port_command(Port, term_to_binary({Number, Request})),
            serve(Port, Waiting#{Number => {Caller, Tag}}, Number + 1);
        {cast, Request} ->
            true = port_command(Port, term_to_binary({none, Request})),
            serve(Port, Waiting, Number);
        {Port, {data, Data}} ->
            case binary_to_term(Data) of
                {callback, Value} ->
                    true = port_command(Port, term_to_binary(Value)),
                    serve(Port, Waiting, Number);
                {Answered, Answer} ->
                    {{Caller, Tag}, Left} = maps:take(Answered, Waiting),
                    Caller ! {Tag, Answer},
                    serve(Port, Left, Number)
            end
    end.

-spec call(module(), atom(), [term()]) -> term().
call(Module, Function, Args) ->
    Tag = make_ref(),
    ?MODULE ! {call, self(), Tag, {Module, Function, Args}},
    receive {Tag, {ok, Value}} -> Value; {Tag, {error, Why}} -> exit(Why) end.

-spec cast(module(), atom(), [term()]) -> ok.
cast(Module, Function, Args) ->
    ?MODULE ! {cast, {Module, Function, Args}},
    ok.

-spec prepare_casts() -> ok.
prepare_casts() -> ok.

-spec await_casts(pos_integer()) -> ok.
await_casts(Calls) -> bench_clock:wanted(call(bench_python, total, []), Calls).

%% The port answers callbacks with what they bring.
-spec register_same() -> ok.
register_same() -> ok.
