%% @doc The process that waits for one loop of callback ids, by one `enif_select' on the loop's own epoll descriptor: while nothing
%% happens it costs no thread and no scheduler.
%%
%% ```
%% {ok, Loop} = py_nif:event_loop_new(),
%% {ok, Worker} = py_event_worker:start_link(<<"worker">>, Loop),
%% ok = py_nif:event_loop_set_worker(Loop, Worker).
%% '''
%%
%% What becomes ready is pending until `py_nif:get_pending/1' takes it, and a descriptor that is pending is not listened to until then.
%% With the option `notify' a process is sent `{py_event, Loop}' when something is. Tasks that were submitted to the loop by
%% `py_nif:submit_task/7' are handed on to an event loop that runs Python.
-module(py_event_worker).

-export([start_link/2, start_link/3, stop/1]).

-type options() :: #{notify => pid()}.
-export_type([options/0]).

%% @equiv start_link(Id, Loop, #{})
-spec start_link(term(), py_nif:bare_loop()) -> gen_server:start_ret().
start_link(Id, Loop) ->
    start_link(Id, Loop, #{}).

%% @doc Starts the worker of a loop. The id is a name for people.
-spec start_link(term(), py_nif:bare_loop(), options()) -> gen_server:start_ret().
start_link(Id, Loop, Options) ->
    py_event_router:start_link(Loop, Options#{id => Id}).

%% @doc Ends the worker. The loop stays, and another process may wait for it.
-spec stop(pid()) -> ok.
stop(Worker) ->
    py_event_router:stop(Worker).
