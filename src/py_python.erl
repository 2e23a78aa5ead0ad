%% @private
%% @doc Which Python it is: found once, when the application starts.
%%
%% In this order: the application's environment (`{python, Path}'), the variable `ERLANG_PYTHON', the virtual environment that is
%% active (`VIRTUAL_ENV'), `python3' on the path. The interpreter itself is asked where its library and its home are.
-module(py_python).

-export([start/0, find/0]).

-type facts() :: #{program := binary(), home := binary(), libpython := binary(), tag := binary()}.

%% @doc Starts Python in this VM. Later calls find it running.
-spec start() -> ok | {error, term()}.
start() ->
    Priv = priv_dir(),
    maybe_chain([
        fun(_) -> find() end,
        fun(#{tag := Tag} = Facts) ->
            Nif = filename:join([Priv, "py" ++ binary_to_list(Tag), "erlang_python_nif"]),
            case filelib:is_regular(Nif ++ ".so") of
                true -> {ok, Facts#{nif => Nif}};
                false -> {error, {not_built_for_python, Tag}}
            end
        end,
        fun(#{libpython := Libpython} = Facts) -> keep(py_loader:load(Priv, Libpython), Facts) end,
        fun(#{nif := Nif} = Facts) -> keep(py_nif:load(Nif), Facts) end,
        fun(#{home := Home, program := Program}) ->
            Packages = unicode:characters_to_binary(filename:absname(filename:join(Priv, "python"))),
            py_nif:start(Home, Program, Packages)
        end
    ]).

maybe_chain(Steps) ->
    Run = fun(Step, {ok, Value}) -> Step(Value);
             (_Step, {error, _} = Error) -> Error
          end,
    case lists:foldl(Run, {ok, none}, Steps) of
        {ok, _} -> ok;
        {error, _} = Error -> Error
    end.

keep(ok, Value) -> {ok, Value};
keep({error, _} = Error, _Value) -> Error.

priv_dir() ->
    case code:priv_dir(erlang_python) of
        {error, bad_name} -> filename:join(filename:dirname(filename:dirname(code:which(?MODULE))), "priv");
        Dir -> Dir
    end.

%% @doc What the chosen interpreter says of itself.
-spec find() -> {ok, facts()} | {error, term()}.
find() ->
    case program() of
        {ok, Program} -> ask(Program);
        {error, _} = Error -> Error
    end.

program() ->
    Venv = case os:getenv("VIRTUAL_ENV") of
               false -> false;
               Dir -> filename:join([Dir, "bin", "python"])
           end,
    Wanted = [application:get_env(erlang_python, python, false), os:getenv("ERLANG_PYTHON"), Venv, "python3"],
    [First | _] = [Name || Name <- Wanted, Name =/= false, Name =/= ""],
    Name = unicode:characters_to_list(First),
    case os:find_executable(Name) of
        false -> {error, {no_python, unicode:characters_to_binary(Name)}};
        Path -> {ok, Path}
    end.

%% Where the shared library is differs between systems: beside the configured directory, or below the prefix.
-define(QUESTION,
        "import sys, sysconfig, os\n"
        "get = sysconfig.get_config_var\n"
        "names = [get('INSTSONAME') or '', get('LDLIBRARY') or '']\n"
        "dirs = [get('LIBDIR') or '', os.path.join(sys.base_prefix, 'lib'), os.path.join(get('LIBDIR') or '', get('MULTIARCH') or '')]\n"
        "paths = [os.path.join(d, n) for n in names if '.so' in n for d in dirs]\n"
        "lib = next((p for p in paths if os.path.exists(p)), next((n for n in names if '.so' in n), ''))\n"
        "tag = '%d.%d%s' % (*sys.version_info[:2], sys.abiflags)\n"
        "print('\\n'.join([sys.executable, sys.base_prefix, lib, tag]))\n").

ask(Path) ->
    Options = [{args, ["-c", ?QUESTION]}, exit_status, binary, use_stdio, hide],
    try open_port({spawn_executable, Path}, Options) of
        Port -> facts(Path, collect(Port, <<>>))
    catch
        error:Reason -> {error, {no_python, unicode:characters_to_binary(Path), Reason}}
    end.

collect(Port, Said) ->
    receive
        {Port, {data, Data}} -> collect(Port, <<Said/binary, Data/binary>>);
        {Port, {exit_status, 0}} -> {ok, Said};
        {Port, {exit_status, Status}} -> {error, Status}
    after 30000 ->
        true = port_close(Port),
        {error, timeout}
    end.

facts(Path, {ok, Said}) ->
    case binary:split(Said, <<"\n">>, [global]) of
        [_, _, <<>>, Tag | _] ->
            {error, {python_without_shared_library, unicode:characters_to_binary(Path), Tag}};
        [Program, Home, Library, Tag | _] ->
            {ok, #{program => Program, home => Home, libpython => Library, tag => Tag}};
        _ ->
            {error, {no_python, unicode:characters_to_binary(Path), Said}}
    end;
facts(Path, {error, Reason}) ->
    {error, {no_python, unicode:characters_to_binary(Path), Reason}}.
