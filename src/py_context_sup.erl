%% @private
%% @doc The contexts of the pool, each restarted alone.
-module(py_context_sup).
-behaviour(supervisor).

-export([start_link/0, init/1]).

-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    Number = application:get_env(erlang_python, num_workers, 4),
    Contexts = [#{id => N, start => {py_context, start_link, [N]}} || N <- lists:seq(1, Number)],
    {ok, {#{strategy => one_for_one, intensity => 100, period => 10}, Contexts}}.
