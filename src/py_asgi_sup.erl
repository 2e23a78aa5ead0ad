%% @private
%% @doc The web servers, each restarted alone.
-module(py_asgi_sup).
-behaviour(supervisor).

-export([start_link/0, init/1]).

-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    %% A server drains its connections before it ends, within a time of its own.
    Server = #{id => py_asgi_server, start => {py_asgi_server, start_link, []}, restart => transient, shutdown => infinity},
    {ok, {#{strategy => simple_one_for_one, intensity => 20, period => 10}, [Server]}}.
