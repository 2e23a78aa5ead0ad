%% @private
%% @doc The supervisor of the application. Its children do not depend on each other's memory: a crash restarts that one only.
-module(erlang_python_sup).
-behaviour(supervisor).

-export([start_link/0, init/1]).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case supervisor:start_link({local, ?MODULE}, ?MODULE, []) of
        {ok, Pid} -> {ok, Pid};
        ignore -> {error, ignore};
        {error, _} = Error -> Error
    end.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    %% Owned here, so that they outlive those who write to them.
    Tables = [py_callbacks, py_contexts, py_subinterps, py_loops, py_asgi_streams, py_dag_runs],
    _ = [ets:new(Table, [named_table, public, {read_concurrency, true}]) || Table <- Tables],
    _ = py_state:table(),
    Flags = #{strategy => one_for_one, intensity => 20, period => 10},
    Workers = [worker(Module) || Module <- [py_callback, py_dag_host, py_output, py_logger, py_pool, py_subinterp_pool]],
    Supervisors = [supervisor(Module) || Module <- [py_context_sup, py_subinterp_sup, py_loop_sup, py_asgi_sup]],
    {ok, {Flags, Workers ++ Supervisors}}.

worker(Module) ->
    #{id => Module, start => {Module, start_link, []}}.

supervisor(Module) ->
    #{id => Module, start => {Module, start_link, []}, type => supervisor}.
