%% @doc Graphs of work: nodes are Python functions, coroutines, Erlang functions and Redis commands. A graph is compiled once, which
%% refuses what cannot work and names the culprit, and run any number of times.
%%
%% ```
%% {ok, Plan} = py_dag:compile(#{nodes => [
%%     #{name => viewer, kind => input},
%%     #{name => follows, kind => redis, command => [<<"SMEMBERS">>, {input, viewer}]},
%%     #{name => score, kind => cpu, call => {ranking, score}, inputs => [viewer, follows], timeout => 50, fallback => []},
%%     #{name => top, kind => erl, function => fun([Scores]) -> lists:sublist(Scores, 10) end, inputs => [score]}]}),
%% {ok, #{top := Top}} = py_dag:run(Plan, #{viewer => 17}).
%% '''
%%
%% A node is a map with a `name' (an atom, a binary or a string), a `kind', and what the kind needs:
%% <ul>
%% <li>`input': every run gives a value for it</li>
%% <li>`cpu': `call => {Module, Function}', and perhaps `kwargs'; a Python function on a context, or on one with an interpreter of its own
%% with `on => subinterp' (see {@link py_subinterp_pool}; where this Python has none, on a context)</li>
%% <li>`async': likewise, a coroutine function on an event loop, the same one for all of a run</li>
%% <li>`erl': `function => fun(([Value]) -> Value)', in a process of its own</li>
%% <li>`redis': `command => [Part]', where a part is a binary, a number, an atom or `{input, Name}'; `server => Name' if there are several</li>
%% </ul>
%% and, if need be, `inputs' (names, in the order of the arguments), `timeout' in milliseconds, `fallback' (the value it has if it
%% fails or is too late), `region' and `limit' (names of what the graph has as `regions => #{Name => Milliseconds}' and `limits => #{Name =>
%% InFlight}'), and `map => InFlight': the first input is a list then, and the node's work is done for each of its items, so many at a time.
-module(py_dag).

-export([python/2]).
-export([compile/1, run/2, run/3, start/2, start/3, await/1, await/2, cancel/1, cancel/2, dot/1, trace/1, svg/1]).

-export_type([plan/0, run/0, graph/0, options/0]).

%% The runs that Python waits for, by its keys.
-define(RUNS, py_dag_runs).

-type name() :: atom() | binary() | string().
-type plan() :: py_nif:graph_plan().
-type run() :: py_nif:graph_run().
-type graph() :: #{nodes := [map()], regions => #{term() => pos_integer()}, limits => #{term() => pos_integer()},
                   redis => map() | #{term() => map()}}.
-type options() :: #{deadline => timeout(), mode => fail_fast | drain | collect, outputs => [name()], owner => pid(),
                     events => boolean(), record => boolean()}.

%% @doc Checks a graph. What is wrong is named: `{duplicate_node, Name}', `{missing_input, Node, Input}', `{cycle, Names}', `{unknown_kind, Node,
%% Kind}', `{bad_node, Node, Why}' and so on.
-spec compile(graph()) -> {ok, plan()} | {error, term()}.
compile(#{nodes := Nodes} = Graph) when is_list(Nodes) ->
    try
        Regions = places(maps:get(regions, Graph, #{})),
        Limits = places(maps:get(limits, Graph, #{})),
        Servers = servers(maps:get(redis, Graph, #{})),
        case maps:keys(maps:without([nodes, regions, limits, redis], Graph)) of
            [] -> ok;
            Unknown -> throw({unknown_options, Unknown})
        end,
        Written = [node(Node, Regions, Limits, Servers) || Node <- Nodes],
        py_nif:graph_compile(Written, values(Regions), values(Limits), values(Servers))
    catch
        throw:Reason -> {error, Reason}
    end;
compile(Graph) ->
    {error, {bad_plan, Graph}}.

%% @equiv run(Plan, Inputs, #{})
-spec run(plan(), #{name() => term()}) -> {ok, #{name() => term()}} | {error, term()}.
run(Plan, Inputs) ->
    run(Plan, Inputs, #{}).

%% @doc Runs a plan and waits for its outputs: the nodes whose values no other takes, or those that `outputs' names; only what they need
%% runs. `{error, {node_failed, Node, Reason}}' is the first failure; with `mode => drain' it comes when what had begun is done, and with
%% `mode => collect' every output is `{ok, Value}' or `{error, Reason}'. `deadline' is in milliseconds.
-spec run(plan(), #{name() => term()}, options()) -> {ok, #{name() => term()}} | {error, term()}.
run(Plan, Inputs, Options) ->
    case start(Plan, Inputs, maps:merge(Options, #{owner => self(), events => false})) of
        {ok, Run} -> await(Run, infinity);
        {error, _} = Error -> Error
    end.

%% @equiv start(Plan, Inputs, #{})
-spec start(plan(), #{name() => term()}) -> {ok, run()} | {error, term()}.
start(Plan, Inputs) ->
    start(Plan, Inputs, #{}).

%% @doc Starts a run. Its owner, by default the caller, is sent `{py_dag, Run, {done, Result}}', and with `events => true' before that
%% `{py_dag, Run, {started | finished | failed | timeout | cancelled, Node, Nanoseconds}}'. When the owner dies the run is cancelled. With
%% `record => true' it can be drawn.
-spec start(plan(), #{name() => term()}, options()) -> {ok, run()} | {error, term()}.
start(Plan, Inputs, Options) when is_map(Inputs), is_map(Options) ->
    try
        case maps:keys(maps:without([deadline, mode, outputs, owner, events, record], Options)) of
            [] -> ok;
            Unknown -> throw({unknown_options, Unknown})
        end,
        Mode = one_of(mode, maps:get(mode, Options, fail_fast), [fail_fast, drain, collect]),
        Outputs = case maps:get(outputs, Options, all) of
                      all -> all;
                      Names -> [text(Name) || Name <- Names]
                  end,
        Given = [{text(Name), Value} || {Name, Value} <- maps:to_list(Inputs)],
        py_nif:graph_start(Plan, Given, maps:get(owner, Options, self()), maps:get(deadline, Options, infinity), Mode, Outputs,
                           maps:get(events, Options, false), maps:get(record, Options, false))
    catch
        throw:Reason -> {error, Reason}
    end.

%% @equiv await(Run, infinity)
-spec await(run()) -> {ok, #{name() => term()}} | {error, term()}.
await(Run) ->
    await(Run, infinity).

%% @doc The result of a run of this process. When the time is over the run is cancelled, and nothing comes later. Who does not own the run
%% gets `{error, not_owner}', and who has had its result `{error, already_awaited}'.
-spec await(run(), timeout()) -> {ok, #{name() => term()}} | {error, term()}.
await(Run, Timeout) ->
    case py_nif:graph_state(Run) of
        running ->
            receive
                {py_dag, Run, {done, Result}} -> Result
            after Timeout ->
                give_up(Run, cancel(Run))
            end;
        done ->
            receive
                {py_dag, Run, {done, Result}} -> Result
            after 0 ->
                {error, already_awaited}
            end;
        not_owner ->
            {error, not_owner}
    end.

%% The result is on its way in any case; it counts if it was there first.
give_up(Run, Cancelled) ->
    receive
        {py_dag, Run, {done, _}} when Cancelled -> {error, timeout};
        {py_dag, Run, {done, Result}} -> Result
    end.

%% @equiv cancel(Run, cancelled)
-spec cancel(run()) -> boolean().
cancel(Run) ->
    cancel(Run, cancelled).

%% @doc Cancels a run: what is queued never starts, what runs is stopped, and its result is `{error, {cancelled, Reason}}', or `{error,
%% cancelled}' if that is the reason. Whether this ended it. From any process.
-spec cancel(run(), term()) -> boolean().
cancel(Run, Reason) ->
    py_nif:graph_cancel(Run, Reason).

%% @doc The plan for Graphviz.
-spec dot(plan()) -> binary().
dot(Plan) ->
    py_nif:graph_dot(Plan).

%% @doc What happened in a run that was started with `record => true', as Chrome's trace viewer reads it.
-spec trace(run()) -> binary() | undefined.
trace(Run) ->
    py_nif:graph_picture(Run, trace).

%% @doc Likewise, as a picture: a timeline with the critical path.
-spec svg(run()) -> binary() | undefined.
svg(Run) ->
    py_nif:graph_picture(Run, svg).

%% @private
%% What `erlang.dag' asks for.
-spec python(binary(), [term()]) -> term().
python(<<"compile">>, [Nodes, Regions, Limits, Redis]) ->
    compile(#{nodes => [from_python(Node) || Node <- Nodes], regions => Regions, limits => Limits, redis => servers_of_python(Redis)});
python(<<"run">>, [Key, Plan, Inputs, Options]) ->
    case start(Plan, Inputs, maps:from_list([option(Pair) || Pair <- maps:to_list(Options)])) of
        {ok, Run} ->
            true = ets:insert(?RUNS, {Key, Run}),
            try
                await(Run)
            after
                ets:delete(?RUNS, Key)
            end;
        {error, _} = Error ->
            Error
    end;
python(<<"cancel">>, [Key]) ->
    [cancel(Run) || {_, Run} <- ets:lookup(?RUNS, Key)],
    ok;
python(<<"dot">>, [Plan]) ->
    dot(Plan).

option({<<"mode">>, Mode}) -> {mode, one_of(mode, known(Mode, [fail_fast, drain, collect]), [fail_fast, drain, collect])};
option({<<"outputs">>, Outputs}) -> {outputs, Outputs};
option({<<"deadline">>, Deadline}) -> {deadline, Deadline}.

%% A word of Python's that is one of ours; itself, if it is none.
known(Word, Words) ->
    case [Known || Known <- Words, atom_to_binary(Known) =:= Word] of
        [Known] -> Known;
        [] -> Word
    end.

from_python(Node) ->
    maps:from_list([part_of_python(Pair) || {_, Value} = Pair <- maps:to_list(Node), Value =/= none orelse element(1, Pair) =:= <<"fallback">>]).

part_of_python({<<"kind">>, Kind}) -> {kind, known(Kind, [input, cpu, async, erl, redis])};
part_of_python({<<"function">>, Name}) -> {function, fun(Args) -> py_callback:apply_function(Name, Args) end};
part_of_python({<<"command">>, Parts}) -> {command, [case Part of {<<"input">>, Name} -> {input, Name}; _ -> Part end || Part <- Parts]};
part_of_python({Name, Value}) -> {known(Name, [name, inputs, timeout, region, limit, fallback, map, call, kwargs, server, on]), place_of_python(Name, Value)}.

place_of_python(<<"on">>, Place) -> known(Place, [pool, subinterp]);
place_of_python(_Name, Value) -> Value.

servers_of_python(Redis) ->
    Words = [host, port, path, connections, in_flight, protocol, user, password, timeout],
    maps:from_list([{known(Name, Words), case Value of #{} -> servers_of_python(Value); _ -> Value end} || {Name, Value} <- maps:to_list(Redis)]).

%% Names and what they stand for, by place.
places(Map) when is_map(Map) ->
    Pairs = maps:to_list(Map),
    [is_integer(Number) andalso Number > 0 orelse throw({bad_plan, {Name, Number}}) || {Name, Number} <- Pairs],
    {maps:from_list(lists:zip([Name || {Name, _} <- Pairs], lists:seq(0, length(Pairs) - 1))), [Number || {_, Number} <- Pairs]};
places(Other) ->
    throw({bad_plan, Other}).

values({_Places, Values}) -> Values.

place(_What, _Node, none, _All) -> none;
place(What, Node, Name, {Places, _}) ->
    case Places of
        #{Name := Place} -> Place;
        _ -> throw({bad_node, Node, {What, Name}})
    end.

node(#{name := Name, kind := Kind} = Node, Regions, Limits, Servers) ->
    Text = text(Name),
    Inputs = inputs(Kind, Node),
    Work = work(Kind, Node, Servers, Inputs),
    Known = [name, kind, inputs, timeout, region, limit, fallback, map, call, kwargs, on, function, command, server],
    case maps:keys(maps:without(Known, Node)) of
        [] -> ok;
        Unknown -> throw({bad_node, Name, {unknown_options, Unknown}})
    end,
    Fallback = case Node of
                   #{fallback := Value} -> {value, Value};
                   _ -> none
               end,
    Terms = {positive(timeout, Node), place(region, Name, maps:get(region, Node, none), Regions),
             place(limit, Name, maps:get(limit, Node, none), Limits), Fallback},
    {Text, Name, Work, [text(Input) || Input <- Inputs], positive(map, Node), Terms};
node(Node, _Regions, _Limits, _Servers) ->
    throw({bad_node, Node, {needs, [name, kind]}}).

positive(What, #{name := Name} = Node) ->
    case maps:get(What, Node, none) of
        none -> none;
        Number when is_integer(Number), Number > 0 -> Number;
        Other -> throw({bad_node, Name, {What, Other}})
    end.

%% A command names its inputs itself, if they are not given.
inputs(redis, #{command := Command} = Node) when not is_map_key(inputs, Node), is_list(Command) ->
    lists:usort([Name || {input, Name} <- Command]);
inputs(_Kind, #{name := Name} = Node) ->
    case maps:get(inputs, Node, []) of
        Inputs when is_list(Inputs) -> Inputs;
        Other -> throw({bad_node, Name, {inputs, Other}})
    end.

work(input, _Node, _Servers, _Inputs) ->
    input;
work(Kind, #{call := {Module, Function}} = Node, _Servers, _Inputs) when Kind =:= cpu; Kind =:= async ->
    Place = case {Kind, maps:get(on, Node, pool)} of
                {cpu, subinterp} -> apart(maps:get(name, Node));
                {Kind, pool} -> Kind;
                {_, Other} -> throw({bad_node, maps:get(name, Node), {on, Other}})
            end,
    {call, Place, text(Module), text(Function), maps:get(kwargs, Node, #{})};
work(erl, #{function := Function}, _Servers, _Inputs) when is_function(Function, 1) ->
    {erl, Function};
work(redis, #{name := Name, command := [_ | _] = Command} = Node, Servers, Inputs) ->
    {redis, server(Name, maps:get(server, Node, none), Servers), [part(Name, Part, Inputs) || Part <- Command]};
work(Kind, #{name := Name}, _Servers, _Inputs) ->
    case lists:member(Kind, [cpu, async, erl, redis]) of
        true -> throw({bad_node, Name, {needs, maps:get(Kind, #{cpu => call, async => call, erl => function, redis => command})}});
        false -> throw({unknown_kind, Name, Kind})
    end.

%% Interpreters of their own, which are there from now on; where Python has none, the contexts.
apart(Node) ->
    case py_subinterp_pool:place() of
        {ok, subinterp} -> subinterp;
        {ok, pool} -> cpu;
        {error, Reason} -> throw({bad_node, Node, Reason})
    end.

part(Node, {input, Name}, Inputs) ->
    case index(text(Name), [text(Input) || Input <- Inputs], 1) of
        none -> throw({missing_input, Node, Name});
        Place -> {input, Place}
    end;
part(_Node, Part, _Inputs) when is_binary(Part) -> Part;
part(_Node, Part, _Inputs) when is_integer(Part) -> integer_to_binary(Part);
part(_Node, Part, _Inputs) when is_atom(Part) -> atom_to_binary(Part);
part(Node, Part, _Inputs) -> throw({bad_node, Node, {command, Part}}).

index(_Name, [], _Place) -> none;
index(Name, [Name | _], Place) -> Place;
index(Name, [_ | Names], Place) -> index(Name, Names, Place + 1).

%% One server, or several by name. A server is `#{host, port}' or `#{path}', with `connections', `in_flight', `protocol' (2 or 3), `user',
%% `password' and `timeout'.
servers(Map) when map_size(Map) =:= 0 ->
    {#{}, []};
servers(#{} = Map) when is_map_key(host, Map); is_map_key(port, Map); is_map_key(path, Map) ->
    {#{none => 0}, [one_server(Map)]};
servers(#{} = Map) ->
    Pairs = maps:to_list(Map),
    {maps:from_list(lists:zip([Name || {Name, _} <- Pairs], lists:seq(0, length(Pairs) - 1))), [one_server(Server) || {_, Server} <- Pairs]};
servers(Other) ->
    throw({bad_plan, {redis, Other}}).

server(Node, Name, {Places, _}) ->
    case Places of
        #{Name := Place} -> Place;
        _ -> throw({bad_node, Node, {server, Name}})
    end.

one_server(#{} = Server) ->
    Address = case Server of
                  #{path := Path} -> {unix, text(Path)};
                  _ -> {tcp, address(maps:get(host, Server, "127.0.0.1"), maps:get(port, Server, 6379))}
              end,
    Auth = case Server of
               #{password := Password} -> {text(maps:get(user, Server, <<"default">>)), text(Password)};
               _ -> none
           end,
    {Address, maps:get(connections, Server, 1), maps:get(in_flight, Server, 1000), maps:get(protocol, Server, 3), Auth,
     maps:get(timeout, Server, none)};
one_server(Other) ->
    throw({bad_plan, {redis, Other}}).

address(Host, Port) when is_integer(Port) ->
    case inet:getaddr(if is_binary(Host) -> binary_to_list(Host); true -> Host end, inet) of
        {ok, Ip} -> unicode:characters_to_binary([inet:ntoa(Ip), $:, integer_to_list(Port)]);
        {error, Reason} -> throw({bad_plan, {redis, {Host, Reason}}})
    end.

one_of(What, Value, Values) ->
    lists:member(Value, Values) orelse throw({bad_option, {What, Value}}),
    Value.

text(Name) ->
    py_name:text(Name).
