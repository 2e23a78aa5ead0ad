%% What Python prints and what it logs.
-module(py_logging_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([log/2]).
-export([what_is_printed_goes_to_the_callers_group_leader/1,
         stderr_goes_there_too/1,
         it_is_there_before_the_answer/1,
         a_line_that_is_only_begun_is_not_lost/1,
         two_callers_do_not_mix/1,
         lines_of_threads_stay_whole/1,
         bytes_and_surrogates_are_printed/1,
         a_dead_leader_holds_nobody_up/1,
         a_leader_that_never_answers_holds_nobody_up_for_long/1,
         what_a_leader_left_unprinted_is_printed_elsewhere/1,
         a_chain_prints_where_its_caller_does/1,
         an_event_has_file_line_and_function/1,
         levels_are_mapped/1,
         an_exception_is_logged_with_its_traceback/1,
         extra_fields_are_metadata/1,
         warnings_are_logged_without_a_set_up/1,
         basic_config_goes_where_it_is_told/1,
         a_named_logger_is_set_up_once/1,
         many_threads_log_at_once/1,
         a_busy_handler_holds_no_python_up/1,
         text_that_is_no_utf8_is_logged/1,
         a_cast_that_fails_is_logged/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start(),
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => self(), level => all}),
    Config.

end_per_suite(_Config) ->
    ok = logger:remove_handler(?MODULE),
    py_test:stop().

init_per_testcase(_Case, Config) ->
    ok = logger:update_handler_config(?MODULE, config, self()),
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, all),
    [{level, Level} | Config].

end_per_testcase(_Case, Config) ->
    ok = logger:set_primary_config(level, proplists:get_value(level, Config)),
    ok = exec("logging.getLogger().handlers.clear()\n"
                 "logging.getLogger().setLevel(logging.WARNING)\n"),
    ok.

%% The handler: events of Python go to the test.
log(#{level := Level, msg := Message, meta := #{py := _} = Meta}, #{config := Test}) ->
    {Format, Args} = Message,
    Test ! {event, Level, unicode:characters_to_binary(io_lib:format(Format, Args)), Meta};
log(_Event, _Config) ->
    ok.

%% Each may run in another context.
exec(Code) ->
    exec(Code, 30000).

exec(Code, Timeout) ->
    py:exec(["import erlang, logging, sys\n", Code], Timeout).

event() ->
    receive {event, Level, Text, Meta} -> {Level, Text, Meta} after 5000 -> error(nothing_logged) end.

%% A group leader that keeps what is printed, runs `Fun' under it, and says what that was.
printed_by(Fun) ->
    Leader = spawn_link(fun() -> leader([]) end),
    Own = group_leader(),
    true = group_leader(Leader, self()),
    try
        Result = Fun(),
        {Result, so_far(Leader)}
    after
        true = group_leader(Own, self()),
        unlink(Leader),
        exit(Leader, kill)
    end.

so_far(Leader) ->
    Leader ! {so_far, self()},
    receive {so_far, Leader, Text} -> Text end.

leader(Said) ->
    receive
        {io_request, From, ReplyAs, {put_chars, unicode, Text}} ->
            From ! {io_reply, ReplyAs, ok},
            leader([Said, Text]);
        {so_far, Pid} ->
            Pid ! {so_far, self(), unicode:characters_to_binary(Said)},
            leader(Said)
    end.

what_is_printed_goes_to_the_callers_group_leader(_Config) ->
    {ok, <<"hello\nagain\n"/utf8>>} = printed_by(fun() -> exec("print('hello')\nprint('again')") end),
    {{ok, none}, <<"a b\n">>} = printed_by(fun() -> py:call(builtins, print, [a, b]) end),
    {ok, <<"äöü €\n"/utf8>>} = printed_by(fun() -> exec(<<"print('äöü €')"/utf8>>) end).

stderr_goes_there_too(_Config) ->
    {ok, <<"wrong\n">>} = printed_by(fun() -> exec("print('wrong', file=sys.stderr)") end).

it_is_there_before_the_answer(_Config) ->
    [{ok, <<"x\n">>} = printed_by(fun() -> exec("print('x')") end) || _ <- lists:seq(1, 200)].

a_line_that_is_only_begun_is_not_lost(_Config) ->
    {ok, <<"begun">>} = printed_by(fun() -> exec("print('begun', end='')") end),
    {{error, {'ZeroDivisionError', _}}, <<"before">>} =
        printed_by(fun() -> exec("print('before', end='')\n1 / 0") end).

two_callers_do_not_mix(_Config) ->
    Self = self(),
    Print = fun(N) -> fun() -> py:call(builtins, print, [N]) end end,
    [spawn_link(fun() -> Self ! {N, printed_by(Print(N))} end) || N <- lists:seq(1, 50)],
    [receive {N, {{ok, none}, Text}} -> ?assertEqual(<<(integer_to_binary(N))/binary, "\n">>, Text) end
     || N <- lists:seq(1, 50)].

%% Threads have no caller: what they print goes to the application's leader, each line in one piece.
lines_of_threads_stay_whole(_Config) ->
    Code = "import threading\n"
           "def speak(n):\n"
           "    for _ in range(20):\n"
           "        for part in (str(n), str(n), '\\n'):\n"
           "            print(part, end='')\n"
           "def crowd():\n"
           "    threads = [threading.Thread(target=speak, args=(n,)) for n in range(1, 6)]\n"
           "    for thread in threads: thread.start()\n"
           "    for thread in threads: thread.join()\n",
    [ok = Result || Result <- py_pool:broadcast(Code)],
    Lines = printed_by_nobody(fun(Leader) ->
        {ok, none} = py:call('__main__', crowd, []),
        sys:get_state(py_output),
        binary:split(so_far(Leader), <<"\n">>, [global, trim])
    end),
    100 = length(Lines),
    [<<"11">>, <<"22">>, <<"33">>, <<"44">>, <<"55">>] = lists:usort(Lines).

%% Likewise for what has no caller, or whose caller's leader is gone: `Fun' is given the leader of the application.
printed_by_nobody(Fun) ->
    Heir = spawn_link(fun() -> leader([]) end),
    Output = whereis(py_output),
    {group_leader, Own} = process_info(Output, group_leader),
    true = group_leader(Heir, Output),
    try Fun(Heir) after true = group_leader(Own, Output) end.

bytes_and_surrogates_are_printed(_Config) ->
    {{ok, 3}, <<"raw">>} = printed_by(fun() -> py:eval("__import__('sys').stdout.buffer.write(b'raw')") end),
    {ok, <<"\\udc80\n">>} = printed_by(fun() -> exec("print('\\udc80')") end),
    {error, {'TypeError', _}} = py:eval("__import__('sys').stdout.write(b'raw')"),
    {ok, false} = py:eval("__import__('sys').stdout.isatty()").

with_leader(Leader, Fun) ->
    Own = group_leader(),
    true = group_leader(Leader, self()),
    try Fun() after true = group_leader(Own, self()) end.

a_dead_leader_holds_nobody_up(_Config) ->
    {Dead, Monitor} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Monitor, process, Dead, _} -> ok end,
    Lines = printed_by_nobody(fun(Heir) ->
        ok = with_leader(Dead, fun() -> exec("for i in range(50): print('to the dead', i)", 5000) end),
        nothing_is_pending(),
        binary:split(so_far(Heir), <<"\n">>, [global, trim])
    end),
    50 = length(Lines).

nothing_is_pending() ->
    py_test:wait_until(fun() -> element(2, sys:get_state(py_output)) =:= #{} end).

%% Far more than may be on its way: Python waits for a while, and then goes on.
a_leader_that_never_answers_holds_nobody_up_for_long(_Config) ->
    Deaf = spawn(fun() -> receive never -> ok end end),
    3000003 = printed_by_nobody(fun(Heir) ->
        ok = with_leader(Deaf, fun() -> exec("for i in range(3): print('x' * 1_000_000)", 20000) end),
        exit(Deaf, kill),
        nothing_is_pending(),
        byte_size(so_far(Heir))
    end).

what_a_leader_left_unprinted_is_printed_elsewhere(_Config) ->
    Deaf = spawn(fun() -> receive never -> ok end end),
    <<"kept\n">> = printed_by_nobody(fun(Heir) ->
        ok = with_leader(Deaf, fun() -> exec("print('kept')") end),
        exit(Deaf, kill),
        nothing_is_pending(),
        so_far(Heir)
    end).

a_chain_prints_where_its_caller_does(_Config) ->
    Code = "import erlang\n"
           "def steps(how, left):\n"
           "    print(left, end=' ')\n"
           "    return getattr(erlang, how)('__main__', 'steps', [how, left - 1]) if left else None\n",
    [ok = Result || Result <- py_pool:broadcast(Code)],
    [{{ok, none}, <<"3 2 1 0 ">>} = printed_by(fun() -> py:call('__main__', steps, [How, 3]) end)
     || How <- [schedule_inline, schedule_py]].

an_event_has_file_line_and_function(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    Code = "import logging\n\ndef speak():\n    logging.getLogger('some.where').info('%s and %s', 'this', 'that')\n",
    ok = file:write_file(filename:join(Dir, "speaker.py"), Code),
    ok = exec(["sys.path.insert(0, '", Dir, "')\nerlang.setup_logging('INFO')\n"]),
    Before = erlang:system_time(microsecond),
    {ok, none} = py:call(speaker, speak, []),
    {info, <<"this and that">>, Meta} = event(),
    File = filename:join(Dir, "speaker.py"),
    #{line := 4, function := <<"speak">>, time := Time,
      py := #{<<"logger">> := <<"some.where">>, <<"module">> := <<"speaker">>, <<"level">> := <<"INFO">>}} = Meta,
    ?assertEqual(filename:nativename(File), filename:nativename(maps:get(file, Meta))),
    true = Time >= Before - 1000.

levels_are_mapped(_Config) ->
    ok = exec("erlang.setup_logging(1)\n"),
    Levels = [{10, debug}, {20, info}, {30, warning}, {40, error}, {50, critical}, {25, notice}, {35, warning}, {5, debug}],
    [begin
         ok = exec(io_lib:format("logging.log(~b, 'x')", [Number])),
         {Level, <<"x">>, _} = event()
     end || {Number, Level} <- Levels],
    %% What logger does not let through is not made an event.
    ok = logger:set_primary_config(level, error),
    ok = exec("logging.warning('not this')\nlogging.error('but this')"),
    {error, <<"but this">>, _} = event().

an_exception_is_logged_with_its_traceback(_Config) ->
    ok = exec("try:\n    1 / 0\nexcept ZeroDivisionError:\n    logging.exception('it failed')\n"),
    {error, Text, #{py := #{<<"exception">> := Exception}}} = event(),
    #{<<"class">> := <<"ZeroDivisionError">>, <<"text">> := <<"division by zero">>, <<"traceback">> := Traceback} = Exception,
    [<<"it failed">>, Rest] = binary:split(Text, <<"\n">>),
    ?assertEqual(Traceback, Rest),
    {match, _} = re:run(Traceback, "^Traceback .*ZeroDivisionError: division by zero$", [dotall]).

extra_fields_are_metadata(_Config) ->
    ok = exec("logging.warning('x', extra={'user': 'me', 'count': 3, 'what': [1]})"),
    {warning, <<"x">>, #{py := #{<<"extra">> := Extra}}} = event(),
    #{<<"user">> := <<"me">>, <<"count">> := 3, <<"what">> := <<"[1]">>} = Extra.

warnings_are_logged_without_a_set_up(_Config) ->
    ok = exec("logging.getLogger('plain').info('no')\nlogging.getLogger('plain').warning('yes')"),
    {warning, <<"yes">>, _} = event().

basic_config_goes_where_it_is_told(_Config) ->
    ok = exec("logging.basicConfig(level='INFO')\nlogging.info('mine')"),
    {info, <<"mine">>, _} = event(),
    ok = exec("logging.basicConfig(level='INFO', format='<%(message)s>', force=True)\nlogging.info('mine')"),
    {info, <<"<mine>">>, _} = event(),
    {ok, <<"INFO:root:printed\n">>} =
        printed_by(fun() -> exec("logging.basicConfig(stream=sys.stderr, force=True)\nlogging.info('printed')") end),
    receive {event, _, _, _} -> error(logged_too) after 0 -> ok end.

a_named_logger_is_set_up_once(_Config) ->
    ok = exec("for _ in range(3):\n"
                 "    erlang.setup_logging(logging.DEBUG, format='[%(name)s] %(message)s', logger='named')\n"
                 "logging.getLogger('named').debug('once')\n"),
    {debug, <<"[named] once">>, _} = event(),
    ok = exec("logging.getLogger('other').debug('not at all')\nlogging.getLogger('other').warning('plain')"),
    {warning, <<"plain">>, _} = event(),
    ok = exec("logging.getLogger('named').handlers.clear()").

many_threads_log_at_once(_Config) ->
    Code = "import logging, threading\n"
           "def crowd():\n"
           "    def speak(n):\n"
           "        for i in range(50): logging.warning('%d %d', n, i)\n"
           "    threads = [threading.Thread(target=speak, args=(n,)) for n in range(10)]\n"
           "    for thread in threads: thread.start()\n"
           "    for thread in threads: thread.join()\n",
    [ok = Result || Result <- py_pool:broadcast(Code)],
    {ok, none} = py:call('__main__', crowd, []),
    Texts = [element(2, event()) || _ <- lists:seq(1, 500)],
    500 = length(lists:usort(Texts)).

%% The logger's process is stopped dead: Python goes on, and what is too much is counted.
a_busy_handler_holds_no_python_up(_Config) ->
    Logger = whereis(py_logger),
    ok = sys:suspend(Logger),
    Dropped = maps:get(dropped_events, py:stats()),
    ok = exec("for i in range(10100): logging.warning('%d', i)", 30000),
    ?assertEqual(100, maps:get(dropped_events, py:stats()) - Dropped),
    ok = sys:resume(Logger),
    Texts = [element(2, event()) || _ <- lists:seq(1, 10000)],
    <<"9999">> = lists:last(Texts).

text_that_is_no_utf8_is_logged(_Config) ->
    ok = exec("logging.getLogger('odd\\udc80').warning('odd \\udc80', extra={'k\\udc80': '\\udc80'})"),
    {warning, <<"odd ", _/binary>>, #{py := #{<<"logger">> := <<"odd\\udc80">>}}} = event().

a_cast_that_fails_is_logged(_Config) ->
    ok = py:cast(builtins, int, [<<"many">>]),
    {error, Text, _} = event(),
    {match, _} = re:run(Text, "an exception in a cast.*ValueError: invalid literal for int\\(\\) with base 10: 'many'", [dotall]).
