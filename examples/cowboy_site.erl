%% The example site behind Cowboy. `make run-cowboy' starts it.
-module(cowboy_site).

-export([main/1]).

-spec main(inet:port_number()) -> ok.
main(Port) ->
    {ok, _} = application:ensure_all_started(erlang_python),
    {ok, _} = application:ensure_all_started(cowboy),
    {ok, _} = py:call(sys, 'path.append', [unicode:characters_to_binary(filename:absname("examples"))]),
    Routes = cowboy_router:compile([{'_', [{"/[...]", cowboy_asgi, {<<"example_site">>, <<"app">>}}]}]),
    {ok, _} = cowboy:start_clear(site, [{ip, {127, 0, 0, 1}}, {port, Port}], #{env => #{dispatch => Routes}}),
    io:format("serving at http://127.0.0.1:~b/ by Cowboy; Ctrl-C ends it~n", [ranch:get_port(site)]).
