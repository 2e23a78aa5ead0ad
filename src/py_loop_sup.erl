%% @private
%% @doc The event loops, each restarted alone: those of `py_event_loop', `py_async_driver' and `py_event_loop_pool'.
-module(py_loop_sup).
-behaviour(supervisor).

-export([start_link/0, pool_size/0, init/1]).

-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

%% @doc How many loops the pool has.
-spec pool_size() -> pos_integer().
pool_size() ->
    application:get_env(erlang_python, event_loop_pool_size, erlang:system_info(schedulers)).

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    Loops = [#{id => Key, start => {py_loop, start_link, [Key]}, shutdown => 8000}
             || Key <- [default | lists:seq(1, pool_size())]],
    Driver = #{id => driver, start => {py_event_loop_proc, start_link, []}, shutdown => 8000},
    {ok, {#{strategy => one_for_one, intensity => 100, period => 10}, [Driver | Loops]}}.
