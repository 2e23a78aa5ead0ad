%% @doc The process that owns the event loop of {@link py_async_driver}, and the name it is registered by.
%%
%% It is not in the way of tasks: they are handed to the loop, and answered by it. `py_nif:submit_coroutine/6' runs on the loop of the
%% process it is given, so `whereis(py_event_loop_proc)' names this one; the answer, too, goes to the process that is given.
-module(py_event_loop_proc).

-export([start_link/0, get_loop/0]).

%% @doc Starts the process. The application does.
-spec start_link() -> gen_server:start_ret().
start_link() ->
    py_loop:start_link({local, ?MODULE}, driver).

%% @doc The loop it owns.
-spec get_loop() -> {ok, py_nif:event_loop()} | {error, not_started}.
get_loop() ->
    py_loop:find(driver).
