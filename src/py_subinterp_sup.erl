%% @private
%% @doc The contexts with an interpreter each, restarted alone. There are none until {@link py_subinterp_pool} is used.
-module(py_subinterp_sup).
-behaviour(supervisor).

-export([start_link/0, start/1, init/1]).

-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

%% @doc Starts one, unless it is there.
-spec start(py_context:index()) -> ok | {error, term()}.
start(Number) ->
    Spec = #{id => Number, start => {py_subinterp, start_link, [Number]}, restart => transient},
    case supervisor:start_child(?MODULE, Spec) of
        {ok, _} -> ok;
        {error, {already_started, _}} -> ok;
        {error, already_present} -> restarted(supervisor:restart_child(?MODULE, Number));
        {error, _} = Error -> Error
    end.

restarted({ok, _}) -> ok;
restarted({error, running}) -> ok;
restarted({error, restarting}) -> ok;
restarted({error, _} = Error) -> Error.

-spec init([]) -> {ok, {supervisor:sup_flags(), []}}.
init([]) ->
    {ok, {#{strategy => one_for_one, intensity => 100, period => 10}, []}}.
