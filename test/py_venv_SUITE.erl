%% Virtual environments that are put to use in a running VM.
-module(py_venv_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([its_packages_are_found_while_it_is_active/1,
         pth_files_are_honoured/1,
         an_editable_install_with_a_finder_is_honoured/1,
         prefix_and_executable_are_its_own/1,
         packages_of_the_system_are_seen_only_if_it_says_so/1,
         another_one_takes_its_place/1,
         what_others_put_on_the_path_stays/1,
         wrong_paths_are_refused_and_change_nothing/1,
         leaving_twice_is_fine/1,
         s2_a_path_is_never_code/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start(),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(Case, Config) ->
    {ok, Before} = py:venv_info(),
    [{before, Before}, {root, filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case))} | Config].

%% However it was left, everything is as it was.
end_per_testcase(_Case, Config) ->
    ok = py:deactivate_venv(),
    {ok, After} = py:venv_info(),
    Before = proplists:get_value(before, Config),
    Same = [<<"active">>, <<"path">>, <<"executable">>, <<"prefix">>],
    true = maps:with(Same, Before) =:= maps:with(Same, After),
    true = lists:sort(maps:get(<<"sys_path">>, Before)) =:= lists:sort(maps:get(<<"sys_path">>, After)),
    ok.

%% A virtual environment, with files in its site-packages.
venv(Config, Name, Settings, Files) ->
    Venv = filename:join(proplists:get_value(root, Config), Name),
    %% Without a GIL it is called python3.14t.
    {ok, Library} = py:eval("__import__('os').path.basename(__import__('sysconfig').get_path('stdlib'))"),
    Packages = filename:join([Venv, "lib", Library, "site-packages"]),
    write(filename:join(Venv, "pyvenv.cfg"), ["home = /usr/bin\n", Settings]),
    write(filename:join([Venv, "bin", "python"]), ""),
    [write(filename:join(Packages, File), Text) || {File, Text} <- Files],
    ok = filelib:ensure_dir(filename:join(Packages, "x")),
    Venv.

write(File, Text) ->
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, Text).

value(Module) ->
    py:eval("__import__(m).value", #{m => Module}).

its_packages_are_found_while_it_is_active(Config) ->
    Venv = venv(Config, "one", "", [{"venv_plain.py", "value = 1\n"}, {"venv_late.py", "value = 2\n"}]),
    {error, {'ModuleNotFoundError', _}} = value(venv_plain),
    ok = py:activate_venv(Venv),
    {ok, 1} = value(venv_plain),
    Path = unicode:characters_to_binary(filename:absname(Venv)),
    {ok, #{<<"active">> := true, <<"path">> := Path}} = py:venv_info(),
    {ok, Path} = py:eval("__import__('os').environ['VIRTUAL_ENV']"),
    ok = py:deactivate_venv(),
    {error, {'ModuleNotFoundError', _}} = value(venv_late).

pth_files_are_honoured(Config) ->
    Elsewhere = filename:join(proplists:get_value(root, Config), "elsewhere"),
    write(filename:join(Elsewhere, "venv_by_pth.py"), "value = 3\n"),
    ok = py:activate_venv(venv(Config, "one", "", [{"some.pth", [Elsewhere, "\n"]}])),
    {ok, 3} = value(venv_by_pth).

%% What setuptools writes for `pip install -e': a .pth file that imports a module, which installs a finder.
an_editable_install_with_a_finder_is_honoured(Config) ->
    Source = filename:join(proplists:get_value(root, Config), "source"),
    write(filename:join(Source, "venv_editable.py"), "value = 4\n"),
    Finder = ["import sys\nfrom importlib.util import spec_from_file_location\n"
              "class Finder:\n"
              "    @classmethod\n"
              "    def find_spec(cls, name, path=None, target=None):\n"
              "        if name in ('venv_editable', 'venv_editable_late'):\n"
              "            return spec_from_file_location(name, '", filename:join(Source, "venv_editable.py"), "')\n"
              "def install(): sys.meta_path.append(Finder)\n"],
    Files = [{"__editable___thing_finder.py", Finder},
             {"__editable__.thing.pth", "import __editable___thing_finder; __editable___thing_finder.install()\n"}],
    ok = py:activate_venv(venv(Config, "one", "", Files)),
    {ok, 4} = value(venv_editable),
    ok = py:deactivate_venv(),
    {error, {'ModuleNotFoundError', _}} = value(venv_editable_late).

prefix_and_executable_are_its_own(Config) ->
    Venv = venv(Config, "one", "", []),
    ok = py:activate_venv(Venv),
    Path = unicode:characters_to_binary(filename:absname(Venv)),
    Program = filename:join([Path, "bin", "python"]),
    {ok, [Path, Path, Program]} = py:eval("(lambda s: [s.prefix, s.exec_prefix, s.executable])(__import__('sys'))"),
    {ok, true} = py:eval("(lambda s: s.prefix != s.base_prefix)(__import__('sys'))").

packages_of_the_system_are_seen_only_if_it_says_so(Config) ->
    {ok, System} = py:eval("[p for p in __import__('site').getsitepackages() if p in __import__('sys').path]"),
    Seen = fun() ->
        {ok, #{<<"sys_path">> := Path}} = py:venv_info(),
        [Entry || Entry <- System, lists:member(Entry, Path)]
    end,
    true = System =/= [],
    ok = py:activate_venv(venv(Config, "closed", "include-system-site-packages = false\n", [])),
    [] = Seen(),
    ok = py:activate_venv(venv(Config, "open", "include-system-site-packages = true\n", [])),
    System = Seen().

another_one_takes_its_place(Config) ->
    One = venv(Config, "one", "", [{"venv_of_one.py", "value = 5\n"}]),
    Two = venv(Config, "two", "", [{"venv_of_two.py", "value = 6\n"}]),
    ok = py:activate_venv(One),
    ok = py:activate_venv(Two),
    {ok, 6} = value(venv_of_two),
    {error, {'ModuleNotFoundError', _}} = value(venv_of_one).

what_others_put_on_the_path_stays(Config) ->
    ok = py:activate_venv(venv(Config, "one", "", [])),
    ok = py:exec("import sys\nsys.path.insert(0, '/put/there/meanwhile')"),
    ok = py:deactivate_venv(),
    {ok, <<"/put/there/meanwhile">>} = py:eval("__import__('sys').path[0]"),
    ok = py:exec("import sys\nsys.path.remove('/put/there/meanwhile')").

wrong_paths_are_refused_and_change_nothing(Config) ->
    Root = proplists:get_value(root, Config),
    Active = venv(Config, "active", "", []),
    ok = py:activate_venv(Active),
    {ok, Before} = py:venv_info(),
    Bare = filename:join(Root, "bare"),
    write(filename:join(Bare, "x"), ""),
    Other = filename:join(Root, "other"),
    write(filename:join(Other, "pyvenv.cfg"), ""),
    write(filename:join(Other, "lib/python2.7/site-packages/x"), ""),
    [begin
         {error, {'FileNotFoundError', Text}} = py:activate_venv(Path),
         {match, _} = re:run(Text, Word)
     end || {Path, Word} <- [{filename:join(Root, "nowhere"), "no such directory"}, {Bare, "no pyvenv.cfg"},
                             {filename:join(Bare, "x"), "no such directory"}, {Other, "is not for Python 3"}, {"", "empty"}]],
    {ok, Before} = py:venv_info().

leaving_twice_is_fine(_Config) ->
    ok = py:deactivate_venv(),
    ok = py:deactivate_venv().

s2_a_path_is_never_code(_Config) ->
    Path = "'); __import__('erlang').state_set('injected', 1); ('",
    {error, {'FileNotFoundError', _}} = py:activate_venv(Path),
    {error, not_found} = py:state_fetch(injected).
