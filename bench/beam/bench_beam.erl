%%% Entry of the measurements of calls from Erlang into Python: `<topic> <arm> key=value ...`, one JSON line.
%%%
%%% An arm is a module with `start/0` and `call/3`; what an arm cannot do ends the program with code 3.
-module(bench_beam).

-export([main/0]).

-define(LACKS, 3).

-spec main() -> no_return().
main() ->
    [Topic, Arm | Params] = init:get_plain_arguments(),
    % Not in the process that started the VM: it is not scheduled as others are.
    {Pid, Monitor} = spawn_monitor(fun() -> exit({shutdown, measure(Topic, Arm, params(Params))}) end),
    receive
        {'DOWN', Monitor, process, Pid, {shutdown, Line}} ->
            io:put_chars([Line, $\n]),
            erlang:halt(0);
        {'DOWN', Monitor, process, Pid, {lacks, What}} ->
            io:put_chars(standard_error, [What, $\n]),
            erlang:halt(?LACKS);
        {'DOWN', Monitor, process, Pid, Reason} ->
            io:format(standard_error, "~0tp~n", [Reason]),
            erlang:halt(1)
    end.

measure(Topic, Arm, Params) ->
    Module = list_to_atom("arm_" ++ Arm),
    {module, Module} = code:ensure_loaded(Module),
    ok = Module:start(),
    Numbers = (list_to_atom("topic_" ++ Topic)):run(Module, Params),
    Fields = [{"topic", Topic}, {"impl", Arm} | Numbers],
    ["{", lists:join(", ", [[$", Key, "\": ", json(Value)] || {Key, Value} <- Fields]), "}"].

json(Value) when is_float(Value) -> io_lib:format("~.6f", [Value]);
json(Value) when is_integer(Value) -> integer_to_list(Value);
json(Value) -> [$", Value, $"].

%% Of two values for one key the later counts.
params(Params) ->
    maps:from_list([
        {list_to_atom(Key), value(Value)}
     || Param <- Params, [Key, Value] <- [string:split(Param, "=")]
    ]).

value(Text) ->
    case string:to_integer(Text) of
        {Number, ""} -> Number;
        _ -> list_to_atom(Text)
    end.
