%% What Python may not do inside the VM.
-module(py_sandbox_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([s4_fork_and_exec_are_refused/1,
         s4_what_auditing_does_not_see_is_refused/1,
         s4_nothing_is_forked_by_other_ways_of_the_library/1,
         the_hook_cannot_be_taken_off/1,
         signals_are_the_vms/1,
         a_loop_refuses_subprocesses_and_signals/1,
         the_end_of_the_process_is_refused/1,
         libraries_that_only_try_go_on/1,
         an_erlang_port_is_the_way/1,
         what_is_allowed_stays_allowed/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start(),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) ->
    {ok, 4.0} = py:call(math, sqrt, [16.0]),
    [] = os_children(),
    ok.

%% Processes that are children of this VM, apart from its own helper.
os_children() ->
    Files = filelib:wildcard("/proc/self/task/*/children"),
    Pids = lists:append([string:lexemes(read(File), " ") || File <- Files]),
    [Pid || Pid <- Pids, string:find(read("/proc/" ++ Pid ++ "/comm"), "erl_child_setup") =:= nomatch].

read(File) ->
    case file:read_file(File) of
        {ok, Data} -> binary_to_list(Data);
        {error, _} -> ""
    end.

refused(Class, Word, Code) ->
    case py:eval(Code) of
        {error, {Class, Text}} ->
            {match, _} = re:run(Text, Word);
        Other ->
            error({not_refused, Code, Other})
    end.

s4_fork_and_exec_are_refused(_Config) ->
    Calls = ["os.fork()", "os.forkpty()", "os.execv('/bin/true', ['true'])", "os.execve('/bin/true', ['true'], {})",
             "os.execvp('true', ['true'])", "os.system('true')", "os.popen('true')",
             "os.posix_spawn('/bin/true', ['true'], {})", "os.posix_spawnp('true', ['true'], {})",
             "os.spawnv(os.P_WAIT, '/bin/true', ['true'])",
             "subprocess.Popen(['true'])", "subprocess.run(['true'])", "subprocess.check_output('true', shell=True)",
             "subprocess.getoutput('true')", "pty.fork()", "pty.spawn('true')"],
    [ok = Result || Result <- py_pool:broadcast("import os, pty, subprocess")],
    [refused('PermissionError', "open_port/2", Call) || Call <- Calls].

s4_what_auditing_does_not_see_is_refused(_Config) ->
    refused('PermissionError', "open_port/2",
            "__import__('_posixsubprocess').fork_exec([b'true'], [b'/bin/true'], True, (), None, None, -1, -1, -1, -1, "
            "-1, -1, -1, -1, False, False, -1, None, None, None, -1, None)").

s4_nothing_is_forked_by_other_ways_of_the_library(_Config) ->
    Code = "import multiprocessing, concurrent.futures\n"
           "def fork():\n"
           "    multiprocessing.get_context('fork').Process(target=print).start()\n"
           "def spawn():\n"
           "    multiprocessing.get_context('spawn').Process(target=print).start()\n",
    [ok = Result || Result <- py_pool:broadcast(Code)],
    [{error, {'PermissionError', _}} = py:call('__main__', How, []) || How <- [fork, spawn]].

%% Python has no function for it, and what it hides from auditing is hidden from itself.
the_hook_cannot_be_taken_off(_Config) ->
    ok = py:exec("import os, importlib, subprocess, signal\nimportlib.reload(os)\nimportlib.reload(subprocess)\n"),
    refused('PermissionError', "open_port/2", "__import__('os').fork()"),
    refused('PermissionError', "open_port/2", "__import__('subprocess').run(['true'])").

signals_are_the_vms(_Config) ->
    [refused('NoSignalsError', "os:set_signal/2", ["__import__('signal').", Call])
     || Call <- ["alarm(1)", "setitimer(0, 1)", "signal(2, print)", "set_wakeup_fd(-1)", "siginterrupt(2, True)"]],
    %% As it is raised in every thread but the main one, and so expected by libraries.
    ok = py:exec("import signal\ntry: signal.signal(15, print)\nexcept ValueError: pass\n"
                 "try: signal.signal(15, print)\nexcept NotImplementedError: pass\n"),
    {ok, _} = py:eval("repr(__import__('signal').getsignal(2))").

a_loop_refuses_subprocesses_and_signals(_Config) ->
    Code = "import asyncio, erlang, signal\n"
           "async def shell(): await asyncio.create_subprocess_shell('true')\n"
           "async def run(): await asyncio.create_subprocess_exec('true')\n"
           "async def direct(): await asyncio.get_running_loop().subprocess_exec(asyncio.Protocol, 'true')\n"
           "async def add(): asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)\n"
           "async def remove(): asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)\n"
           "def go(name): erlang.run(globals()[name]())\n",
    [ok = Result || Result <- py_pool:broadcast(Code)],
    [begin
         {error, {'NotImplementedError', Text}} = py:call('__main__', go, [Name]),
         {match, _} = re:run(Text, Word)
     end || {Name, Word} <- [{shell, "open_port/2"}, {run, "open_port/2"}, {direct, "open_port/2"},
                             {add, "os:set_signal/2"}, {remove, "os:set_signal/2"}]].

the_end_of_the_process_is_refused(_Config) ->
    refused('PermissionError', "init:stop/0", "__import__('os')._exit(0)"),
    refused('PermissionError', "init:stop/0", "__import__('os').abort()"),
    {error, {'SystemExit', _}} = py:eval("__import__('sys').exit(3)").

%% They ask a program for something, and take an OSError for its absence.
libraries_that_only_try_go_on(_Config) ->
    {ok, _} = py:eval("__import__('platform').uname().processor"),
    {ok, _} = py:eval("__import__('ctypes.util', fromlist=['x']).find_library('c')"),
    {ok, _} = py:eval("str(__import__('uuid').uuid1())").

an_erlang_port_is_the_way(_Config) ->
    ok = py:register_function(run_program, fun([Program]) ->
        Port = open_port({spawn_executable, os:find_executable(binary_to_list(Program))}, [exit_status]),
        receive {Port, {exit_status, Status}} -> Status end
    end),
    {ok, 1} = py:eval("__import__('erlang').call('run_program', 'false')"),
    ok = py:unregister_function(run_program).

what_is_allowed_stays_allowed(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "file"),
    {ok, _} = py:eval("open(f, 'w').write('x')", #{f => unicode:characters_to_binary(File)}),
    {ok, true} = py:eval("__import__('os').getpid() > 0"),
    {ok, none} = py:eval("__import__('os').kill(__import__('os').getpid(), 0)"),
    {ok, 42} = py:eval("(lambda t, r: (t.start(), t.join(), r[0])[2])(*(lambda r: "
                       "(__import__('threading').Thread(target=lambda: r.append(42)), r))([]))").
