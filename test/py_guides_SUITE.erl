%% The examples of the guides that need the VM, run as printed. Their text is in the suite's data directory, each below the heading it
%% has in its guide; what it leaves open (a module, a descriptor, a function) is supplied here. Ports are made free.
-module(py_guides_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([do_other_work/0]).
-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([all_examples_are_here/1,
         event_loop_nifs/1,
         udp_socket_nifs/1,
         the_router_of_the_first_guide/1,
         the_worker_of_the_second_guide/1,
         erlang_call_blocks/1,
         subprocess_operations/1,
         signal_handling/1,
         run_waits/1,
         create_task_does_not_wait/1,
         await_in_three_ways/1,
         spawn_task_forgets/1,
         concurrent_http_requests/1,
         background_processing/1,
         the_pool/1,
         parallel_processing/1,
         configuration_of_the_pool/1,
         configuration_of_the_architecture/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 2}]),
    Config.

end_per_suite(_Config) ->
    {ok, _} = py:eval("[__import__('sys').modules.pop(name, None) and None for name in names]",
                      #{names => [<<"my_module">>, <<"aiohttp">>, <<"logger">>, <<"metrics">>, <<"analytics">>, <<"processor">>]}),
    py_test:stop().

init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) ->
    {messages, []} = process_info(self(), messages),
    ok.

%% The block below a heading, or one of several paragraphs of it.
block(Config, Guide, Heading) ->
    #{Heading := Block} = maps:from_list(blocks(Config, Guide)),
    Block.

blocks(Config, Guide) ->
    {ok, Text} = file:read_file(filename:join(proplists:get_value(data_dir, Config), Guide ++ ".md")),
    {match, Found} = re:run(Text, "^## (.+)\\n\\n```[a-z]+\\n((?:.*\\n)*?)```", [global, multiline, {capture, [1, 2], list}]),
    [{Heading, Block} || [Heading, Block] <- Found].

paragraphs(Block) ->
    string:split(Block, "\n\n", all).

%% Runs expressions as the shell does: with what is bound before, and with the functions of this module. What is bound after them.
shell(Text, Bindings) ->
    Local = {value, fun(Name, Args) -> apply(?MODULE, Name, Args) end},
    lists:foldl(fun(Tokens, Bound) ->
                        {ok, Expressions} = erl_parse:parse_exprs(Tokens),
                        {value, _, Next} = erl_eval:exprs(Expressions, Bound, Local),
                        Next
                end, Bindings, dots(Text)).

bound(Name, Bindings) ->
    {value, Value} = erl_eval:binding(Name, Bindings),
    Value.

%% The tokens up to each full stop.
dots(Text) ->
    {ok, Tokens, _} = erl_scan:string(lists:flatten(Text)),
    dots(Tokens, []).

dots([], []) -> [];
dots([], Last) -> [lists:reverse(Last, [{dot, 0}])];
dots([{dot, _} = Dot | Rest], Seen) -> [lists:reverse(Seen, [Dot]) | dots(Rest, [])];
dots([Token | Rest], Seen) -> dots(Rest, [Token | Seen]).

%% A module made of a guide's function and of what it needs.
module(Name, Text) ->
    Forms = [begin {ok, Form} = erl_parse:parse_form(Tokens), Form end
             || Tokens <- dots(["-module(", atom_to_list(Name), "). -compile(export_all). ", Text])],
    {ok, Name, Code} = compile:forms(Forms, [nowarn_export_all]),
    {module, Name} = code:load_binary(Name, "guide", Code),
    ok.

all_examples_are_here(Config) ->
    [{"first", 3}, {"second", 15}, {"architecture", 1}] =
        [{Guide, length(blocks(Config, Guide))} || Guide <- ["first", "second", "architecture"]].

%% A descriptor that is readable, and an id.
event_loop_nifs(Config) ->
    [begin
         {ok, {Read, Write}} = py_nif:create_test_pipe(),
         {ok, 1} = py_nif:write_test_fd(Write, <<"x">>),
         Bound = shell(block(Config, Guide, "Event Loop NIFs"), #{'Fd' => Read, 'CallbackId' => 7, 'TimeoutMs' => 0}),
         %% The reader is removed before it is polled for.
         {ok, 0} = bound('NumEvents', Bound),
         [] = bound('Pending', Bound),
         {error, invalid_loop} = py_nif:poll_events(bound('LoopRef', Bound), 0),
         %% And with everything but that removal.
         Kept = [P || P <- paragraphs(block(Config, Guide, "Event Loop NIFs")), not lists:prefix("%% Remove a reader", P)],
         Seen = shell(lists:append(lists:join("\n\n", Kept)), #{'Fd' => Read, 'CallbackId' => 7, 'TimeoutMs' => 60000}),
         {ok, 1} = bound('NumEvents', Seen),
         [{7, read}] = bound('Pending', Seen),
         [ok = py_nif:close_test_fd(Fd) || Fd <- [Read, Write]]
     end || Guide <- ["first", "second"]].

%% What is sent is received from the port it is sent to: so that is the socket's own.
udp_socket_nifs(Config) ->
    [begin
         Text = lists:append(string:replace(block(Config, Guide, "UDP Socket NIFs (for testing)"), "9999", "Port")),
         Bound = shell(Text, #{'MaxBytes' => 100}),
         <<"hello">> = bound('Data', Bound),
         <<"127.0.0.1">> = bound('Host', Bound)
     end || Guide <- ["first", "second"]].

the_router_of_the_first_guide(Config) ->
    Bound = shell(block(Config, "first", "Integration with Erlang"), #{}),
    ok = collects(bound('LoopRef', Bound)),
    ok = py_event_router:stop(bound('RouterPid', Bound)).

the_worker_of_the_second_guide(Config) ->
    Bound = shell(block(Config, "second", "Integration with Erlang"), #{}),
    ok = collects(bound('LoopRef', Bound)),
    ok = py_event_worker:stop(bound('WorkerPid', Bound)).

%% Nobody polls, and yet what is due becomes pending.
collects(Loop) ->
    {ok, _} = py_nif:call_later(Loop, 1, 5),
    py_test:wait_until(fun() -> py_nif:get_pending(Loop) =:= [{5, timer}] end),
    py_nif:event_loop_destroy(Loop).

erlang_call_blocks(Config) ->
    ok = py_callback:register(<<"my_callback">>, fun([A, B]) -> A + B end),
    Code = ["arg1, arg2 = 3, 4\ndef process(result): return result * 10\n",
            block(Config, "second", "erlang.call() - Blocking Callbacks")],
    [ok = Done || Done <- py_pool:broadcast(Code)],
    {ok, 70} = py:call('__main__', handler, []),
    ok = py_callback:unregister(<<"my_callback">>).

subprocess_operations(Config) ->
    [Loop1, Loop2, Await1, Await2] = refused(block(Config, "second", "Subprocess Operations Not Supported")),
    [{match, _} = re:run(Text, "open_port/2") || Text <- [Loop1, Loop2, Await1, Await2]].

signal_handling(Config) ->
    [Add, Remove] = refused(block(Config, "second", "Signal Handling Not Supported")),
    [{match, _} = re:run(Text, "os:set_signal/2") || Text <- [Add, Remove]].

%% Each line by itself, in a coroutine: what its NotImplementedError says.
refused(Block) ->
    Lines = [Line || Line <- string:lexemes(Block, "\n"), hd(Line) =/= $#],
    [begin
         Code = ["import asyncio, erlang, signal\n"
                 "handler = print\n"
                 "async def example():\n"
                 "    loop = asyncio.get_running_loop()\n"
                 "    try:\n"
                 "        ", Line, "\n"
                 "    except NotImplementedError as error:\n"
                 "        return str(error)\n"],
         [ok = Done || Done <- py_pool:broadcast(Code)],
         {ok, Text} = py:eval("erlang.run(example())"),
         Text
     end || Line <- Lines].

%% What the examples call: it says what it was given.
my_module() ->
    ok = py_test:module("my_module", "import asyncio\n"
                                     "async def my_async_func(*args):\n"
                                     "    await asyncio.sleep(0.001)\n"
                                     "    return list(args)\n").

run_waits(Config) ->
    ok = my_module(),
    {Url, Server} = http(),
    [Basic, Options] = paragraphs(block(Config, "second", "py_event_loop:run/3,4")),
    [<<"arg1">>, <<"arg2">>] = bound('Result', shell(Basic, #{})),
    <<"GET /one">> = bound('Result', shell(Options, #{'Url' => <<Url/binary, "/one">>})),
    ok = gen_tcp:close(Server).

create_task_does_not_wait(Config) ->
    ok = my_module(),
    [<<"arg1">>] = bound('Result', shell(block(Config, "second", "py_event_loop:create_task/3,4"), #{})),
    receive worked -> ok end.

do_other_work() ->
    self() ! worked.

await_in_three_ways(Config) ->
    ok = my_module(),
    Ways = paragraphs(block(Config, "second", "py_event_loop:await/1,2")),
    3 = length(Ways),
    [[N] = bound('Result', shell(Way, #{'Ref' => py_event_loop:create_task(my_module, my_async_func, [N])}))
     || {N, Way} <- lists:zip([1, 2, 3], Ways)].

%% Modules whose functions tell this process what they are called with.
telling(Modules) ->
    [ok = py_test:module(Module, ["import erlang\nasync def ", Function, "(*args, **more):\n",
                                  "    erlang.send(erlang.whereis('guides_listener'), (", $", Module, $", ", list(args), more))\n"])
     || {Module, Function} <- Modules],
    true = register(guides_listener, self()),
    ok.

told(Wanted) ->
    receive Wanted -> ok after 60000 -> error({not_told, Wanted}) end.

spawn_task_forgets(Config) ->
    ok = telling([{"logger", "log_event"}, {"metrics", "record"}]),
    Given = #{'EventData' => #{<<"a">> => 1}, 'Name' => <<"n">>, 'Value' => 2, 'Tags' => [<<"t">>]},
    _ = shell(block(Config, "second", "py_event_loop:spawn_task/3,4"), Given),
    ok = told({<<"logger">>, [#{<<"a">> => 1}], #{}}),
    ok = told({<<"metrics">>, [<<"n">>, 2], #{<<"tags">> => [<<"t">>]}}),
    true = unregister(guides_listener).

%% A server that answers with the method and path it was asked for; and the module by which the examples ask it, whatever the host.
http() ->
    {ok, Listener} = gen_tcp:listen(0, [binary, {active, false}, {packet, http_bin}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listener),
    _ = spawn(fun() -> accept(Listener) end),
    ok = py_test:module("aiohttp", ["import asyncio\n"
                                    "async def get(url, headers=None):\n"
                                    "    path = '/' + url.split('/', 3)[3]\n"
                                    "    reader, writer = await asyncio.open_connection('127.0.0.1', ", integer_to_list(Port), ")\n"
                                    "    writer.write(f'GET {path} HTTP/1.1\\r\\n\\r\\n'.encode())\n"
                                    "    answer = await reader.read()\n"
                                    "    writer.close()\n"
                                    "    await writer.wait_closed()\n"
                                    "    return answer.split(b'\\r\\n\\r\\n')[1]\n"]),
    {<<"http://localhost">>, Listener}.

accept(Listener) ->
    case gen_tcp:accept(Listener) of
        {ok, Socket} ->
            {ok, {http_request, 'GET', {abs_path, Path}, _}} = gen_tcp:recv(Socket, 0),
            {ok, http_eoh} = gen_tcp:recv(Socket, 0),
            ok = gen_tcp:send(Socket, ["HTTP/1.1 200 OK\r\n\r\nGET ", Path]),
            ok = gen_tcp:close(Socket),
            accept(Listener);
        {error, closed} ->
            ok
    end.

concurrent_http_requests(Config) ->
    {_, Server} = http(),
    Bound = shell(block(Config, "second", "Example: Concurrent HTTP Requests"), #{}),
    [{ok, <<"GET /users">>}, {ok, <<"GET /posts">>}, {ok, <<"GET /comments">>}] = bound('Results', Bound),
    ok = gen_tcp:close(Server).

background_processing(Config) ->
    ok = telling([{"analytics", "track_event"}]),
    ok = module(guide_background, ["-record(request, {path, user_id}). process(_) -> response. "
                                   "request() -> #request{path = <<\"/a\">>, user_id = 7}. ",
                                   block(Config, "second", "Example: Background Processing")]),
    response = guide_background:handle_request(guide_background:request()),
    ok = told({<<"analytics">>, [<<"page_view">>, #{<<"path">> => <<"/a">>, <<"user_id">> => 7}], #{}}),
    true = unregister(guides_listener).

the_pool(Config) ->
    ok = telling([{"logger", "info"}]),
    Bound = shell(block(Config, "second", "API"), #{}),
    {ok, Loop} = py_event_loop_pool:get_loop(),
    Loop = bound('LoopRef', Bound),
    ?assertEqual(erlang:system_info(schedulers), bound('N', Bound)),
    ok = told({<<"logger">>, [<<"message">>], #{}}),
    true = unregister(guides_listener).

parallel_processing(Config) ->
    ok = py_test:module("processor", "import asyncio\n"
                                     "async def handle(item):\n"
                                     "    await asyncio.sleep(0)\n"
                                     "    return item * item\n"),
    ok = module(guide_parallel, ["partition([], _) -> []; "
                                 "partition(Items, N) when length(Items) =< N -> [Items]; "
                                 "partition(Items, N) -> {Chunk, Rest} = lists:split(N, Items), [Chunk | partition(Rest, N)]. ",
                                 block(Config, "second", "Example: Parallel Processing")]),
    Items = lists:seq(1, 1050),
    Results = guide_parallel:process_batch(Items),
    11 = length(Results),
    ?assertEqual([{ok, N * N} || N <- Items], lists:append(Results)).

configuration_of_the_pool(Config) ->
    [{erlang_python, Environment}] = term(block(Config, "second", "Configuration")),
    ok = restarted(Environment),
    #{num_loops := 8} = py_event_loop_pool:get_stats(),
    ok = restarted([{num_workers, 2}]).

configuration_of_the_architecture(Config) ->
    {erlang_python, Environment} = term(block(Config, "architecture", "Configuration")),
    ok = restarted(Environment),
    4 = py:num_workers(),
    ok = restarted([{num_workers, 2}]).

term(Text) ->
    [Tokens] = dots(Text),
    {ok, Term} = erl_parse:parse_term(Tokens),
    Term.

restarted(Environment) ->
    ok = py_test:stop(),
    py_test:start(Environment).
