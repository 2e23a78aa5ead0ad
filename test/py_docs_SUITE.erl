%% What the sources say of themselves: a spec for every export, and words for every public one.
-module(py_docs_SUITE).

-include_lib("xmerl/include/xmerl.hrl").

-export([all/0]).
-export([every_export_has_a_spec/1,
         every_public_function_is_described/1]).

all() ->
    py_test:cases(?MODULE).

modules() ->
    Ebin = filename:dirname(code:which(py)),
    [{list_to_atom(filename:basename(File, ".beam")), File} || File <- filelib:wildcard(filename:join(Ebin, "*.beam"))].

every_export_has_a_spec(_Config) ->
    Known = modules(),
    true = length(Known) > 10,
    [] = [{Module, Export} || {Module, File} <- Known, Export <- exports(Module), not lists:member(Export, specs(File))].

exports(Module) ->
    [Export || {Name, _} = Export <- Module:module_info(exports), Name =/= module_info].

specs(File) ->
    {ok, {_, [{abstract_code, {_, Forms}}]}} = beam_lib:chunks(File, [abstract_code]),
    [Function || {attribute, _, spec, {Function, _}} <- Forms].

%% As edoc has it: what is private is not shown, so all that is shown is to be described, or to be the same as something else.
every_public_function_is_described(_Config) ->
    Shown = [{Module, Function} || {Module, _} <- modules(), Function <- functions(Module)],
    true = length(Shown) > 60,
    [] = [{Module, Name} || {Module, {Name, false}} <- Shown].

functions(Module) ->
    Source = proplists:get_value(source, Module:module_info(compile)),
    {_, #xmlElement{} = Doc} = edoc:get_doc(Source, [{preprocess, true}]),
    case attribute(private, Doc) of
        "yes" ->
            [];
        _ ->
            {Module, true} = {Module, xmerl_xpath:string("/module/description", Doc) =/= []},
            [{attribute(name, Function) ++ "/" ++ attribute(arity, Function),
              xmerl_xpath:string("description", Function) =/= [] orelse xmerl_xpath:string("equiv", Function) =/= []}
             || Function <- xmerl_xpath:string("/module/functions/function[@exported='yes']", Doc)]
    end.

attribute(Name, #xmlElement{attributes = Attributes}) ->
    case lists:keyfind(Name, #xmlAttribute.name, Attributes) of
        #xmlAttribute{value = Value} -> Value;
        false -> none
    end.
