%% @private
%% @doc The functions implemented by the NIF. Nothing else names them.
%%
%% The library is loaded by `load/1' when the application starts, not with this module: which one it is depends on the Python that
%% is chosen then.
-module(py_nif).

-export([load/1, start/3]).
-export([submit/8, look/2, task_start/7, cancel/1, wait/2, wait_over/1]).
-export([task_cancel/1, task_forget/1, task_interrupt/1]).
-export([context_new/0, context_close/1, context_bind/3, context_unbind/1, context_is_bound/1]).
-export([subinterp_start/1, subinterp_waits/1, subinterp_stats/0, subinterp_ready/0, subinterp_memory/1]).
-export([loop_start/2, loop_arm/2, loop_ready/1, loop_stop/1, submit_task/7, submit_result/7, submit_call/6, submit_coroutine/6]).
-export([event_loop_new/0, event_loop_destroy/1, event_loop_set_worker/2, event_loop_set_router/2, event_loop_wakeup/1]).
-export([event_loop_arm/2, add_reader/3, add_writer/3, remove_reader/2, remove_writer/2, call_later/3, cancel_timer/2]).
-export([poll_events/2, get_pending/1, process_ready_tasks/1]).
-export([create_test_udp_socket/1, sendto_test_udp/4, recvfrom_test_udp/2, set_udp_broadcast/2, close_test_fd/1]).
-export([create_test_pipe/0, read_test_fd/2, write_test_fd/2, create_test_tcp_listener/1, connect_test_tcp/2, accept_test_tcp/1]).
-export([stream_start/8, stream_ack/2, stream_cancel/1]).
-export([callback_dispatcher/0, callback_begin/1, callback_answer/2, callback_names/1, parcel_open/1]).
-export([schedule_begin/1, schedule_answer/2, schedule_continue/1]).
-export([caught_up/2]).
-export([graph_host/0, graph_compile/4, graph_start/8, graph_cancel/2, graph_state/1, graph_dot/1, graph_picture/2, graph_begin/1, graph_answer/2]).
-export([reply_register/3, reply_end/3, reply_counters/0, reply_limit/1]).
-export([atom_limit/1, term_limit/1, traceback/2, stats/0]).

-export_type([context/0, binding/0, ticket/0, parcel/0, continuation/0, event_loop/0, target/0, op/0, id/0, task/0, stream/0, waiter/0]).
-export_type([graph_plan/0, graph_run/0, errand/0]).
-export_type([bare_loop/0, fd_ref/0, timer_ref/0, event/0]).

-type context() :: reference().
-type binding() :: reference().
-type ticket() :: reference().
-type graph_plan() :: reference().
-type graph_run() :: reference().
-type errand() :: reference().
-type parcel() :: reference().
-type continuation() :: reference().
-type task() :: reference().
-type stream() :: reference().
-type event_loop() :: reference().
-type waiter() :: reference().
-type bare_loop() :: reference().
-type fd_ref() :: reference().
-type timer_ref() :: reference().
-type event() :: {CallbackId :: non_neg_integer(), read | write | timer}.
-type target() :: pool | subinterp | context() | binding() | ticket() | event_loop() | {nested, event_loop()}.
-type op() :: call | call_ref | eval | exec | collect | collect_eval | task | drain.
-type id() :: non_neg_integer().

%% @doc Loads the library. It stays loaded: that it is there already is fine.
-spec load(file:filename()) -> ok | {error, term()}.
load(Path) ->
    case erlang:load_nif(Path, 0) of
        ok -> ok;
        {error, {reload, _}} -> ok;
        {error, _} = Error -> Error
    end.

-spec start(binary(), binary(), binary()) -> {ok, ok} | {error, binary()}.
start(_Home, _Program, _Packages) -> erlang:nif_error(not_loaded).

-spec context_new() -> {ok, context()} | {error, term()}.
context_new() -> erlang:nif_error(not_loaded).

%% @doc A new context with an interpreter of its own. The caller is sent `{py_context, Tag, ready}' when that is there, or
%% `{py_context, Tag, {error, Text}}'.
-spec subinterp_start(reference()) -> {ok, context()} | {error, term()}.
subinterp_start(_Tag) -> erlang:nif_error(not_loaded).

%% @doc Whether the thread that waits for a callback has an interpreter of its own.
-spec subinterp_waits(ticket()) -> boolean().
subinterp_waits(_Ticket) -> erlang:nif_error(not_loaded).

%% @doc How many bytes each interpreter may have that is made from now on, besides what it begins with.
-spec subinterp_memory(non_neg_integer() | infinity) -> ok.
subinterp_memory(_Limit) -> erlang:nif_error(not_loaded).

-spec subinterp_ready() -> boolean().
subinterp_ready() -> erlang:nif_error(not_loaded).

-spec subinterp_stats() -> #{atom() => non_neg_integer()}.
subinterp_stats() -> erlang:nif_error(not_loaded).

-spec context_close(context()) -> ok.
context_close(_Context) -> erlang:nif_error(not_loaded).

%% @doc Lends a context to a process, until that dies; one that is busy only if asked to. False if it is not free.
-spec context_bind(context(), pid(), boolean()) -> binding() | false | noproc.
context_bind(_Context, _Owner, _Busy) -> erlang:nif_error(not_loaded).

%% @doc Gives it back. False if it was.
-spec context_unbind(binding()) -> boolean().
context_unbind(_Binding) -> erlang:nif_error(not_loaded).

%% @doc Whether it is still lent, and its context lives.
-spec context_is_bound(binding()) -> boolean().
context_is_bound(_Binding) -> erlang:nif_error(not_loaded).

%% @doc Hands a request over. The caller is sent `{Ref, Result}', or `{Tag, Ref, Result}' with a tag; nothing with `undefined' as the
%% reference. Given the negative of its id, the caller is to `look/2' for the answer first.
-spec submit(target(), reference() | undefined, atom(), op(), term(), term(), term(), term()) ->
          id() | neg_integer() | {error, overloaded | closed | not_bound}.
submit(_Target, _Ref, _Tag, _Op, _A, _B, _C, _D) -> erlang:nif_error(not_loaded).

%% @doc The answer of a request of this process, if that is there. If not, the caller is to yield and to look again, or the answer is sent.
-spec look(id(), Turn :: pos_integer()) -> {ok, term()} | again | sent.
look(_Id, _Turn) -> erlang:nif_error(not_loaded).

%% @doc Like `submit/8', with a reference of its own making that can be cancelled by anybody.
-spec task_start(target(), atom(), op(), term(), term(), term(), term()) ->
          task() | {error, overloaded | closed | not_bound}.
task_start(_Target, _Tag, _Op, _A, _B, _C, _D) -> erlang:nif_error(not_loaded).

%% @doc A new event loop, which ends with the calling process: with a thread of its own, or without one, and then that process waits for
%% it. It is sent `{py_loop, Tag, ready}', and at the end `{py_loop, Tag, ended}' or `{py_loop, Tag, {ended, Traceback}}'; and, without a
%% thread, `{py_loop, Tag, park}', to call `loop_arm/2'.
-spec loop_start(reference(), thread | subinterp | beam) -> {ok, event_loop()} | {error, term()}.
loop_start(_Tag, _Driver) -> erlang:nif_error(not_loaded).

%% @doc The owner is sent `{select, _, Tag, ready_input}', once, when something is ready on the loop: then it calls `loop_ready/1'.
-spec loop_arm(event_loop(), reference()) -> ok | {error, not_owner | closed | badarg}.
loop_arm(_Loop, _Tag) -> erlang:nif_error(not_loaded).

-spec loop_ready(event_loop()) -> ok.
loop_ready(_Loop) -> erlang:nif_error(not_loaded).

%% @doc Ends a loop. Its tasks are cancelled.
-spec loop_stop(event_loop()) -> ok.
loop_stop(_Loop) -> erlang:nif_error(not_loaded).

%% @doc Hands a task over to a loop, from any process: `{async_result, Ref, Result}' is sent to the caller that is named.
-spec submit_task(event_loop(), pid(), term(), atom() | binary(), atom() | binary(), [term()], map()) -> ok | {error, term()}.
submit_task(_Loop, _Caller, _Ref, _Module, _Function, _Args, _Kwargs) -> erlang:nif_error(not_loaded).

%% @doc Likewise, with `{py_result, Ref, Value}' or `{py_error, Ref, Reason}'.
-spec submit_result(event_loop(), pid(), term(), atom() | binary(), atom() | binary(), [term()], map()) -> ok | {error, term()}.
submit_result(_Loop, _Caller, _Ref, _Module, _Function, _Args, _Kwargs) -> erlang:nif_error(not_loaded).

%% @doc Calls a function on a context: `{call_result, Id, Value}' or `{call_error, Id, Reason}' is sent to the process that is named.
-spec submit_call(pid(), term(), binary(), binary(), [term()], map()) -> ok | {error, term()}.
submit_call(_To, _Id, _Module, _Function, _Args, _Kwargs) -> erlang:nif_error(not_loaded).

%% @doc Likewise for a coroutine, on the event loop that the process owns, or on another one if it owns none.
-spec submit_coroutine(pid(), term(), binary(), binary(), [term()], map()) -> ok | {error, term()}.
submit_coroutine(_To, _Id, _Module, _Function, _Args, _Kwargs) -> erlang:nif_error(not_loaded).

%% @doc A loop of callback ids: it listens to descriptors and has timers, and says by number what became ready. No Python is in it.
-spec event_loop_new() -> {ok, bare_loop()} | {error, term()}.
event_loop_new() -> erlang:nif_error(not_loaded).

-spec event_loop_destroy(bare_loop()) -> ok | {error, invalid_loop}.
event_loop_destroy(_Loop) -> erlang:nif_error(not_loaded).

%% @doc Says which process waits for the loop: a `py_event_worker' or a `py_event_router'.
-spec event_loop_set_worker(bare_loop(), pid()) -> ok | {error, invalid_loop | invalid_pid}.
event_loop_set_worker(_Loop, _Worker) -> erlang:nif_error(not_loaded).

-spec event_loop_set_router(bare_loop(), pid()) -> ok | {error, invalid_loop | invalid_pid}.
event_loop_set_router(_Loop, _Router) -> erlang:nif_error(not_loaded).

%% @doc Ends the wait of `poll_events/2'.
-spec event_loop_wakeup(bare_loop()) -> ok | {error, invalid_loop}.
event_loop_wakeup(_Loop) -> erlang:nif_error(not_loaded).

%% @doc The process that waits for the loop is sent `{select, _, Tag, ready_input}', once, when there is something to do. How much
%% is pending.
-spec event_loop_arm(bare_loop(), reference()) -> {ok, non_neg_integer()} | {error, term()}.
event_loop_arm(_Loop, _Tag) -> erlang:nif_error(not_loaded).

-spec add_reader(bare_loop(), integer(), non_neg_integer()) -> {ok, fd_ref()} | {error, term()}.
add_reader(_Loop, _Fd, _CallbackId) -> erlang:nif_error(not_loaded).

-spec add_writer(bare_loop(), integer(), non_neg_integer()) -> {ok, fd_ref()} | {error, term()}.
add_writer(_Loop, _Fd, _CallbackId) -> erlang:nif_error(not_loaded).

-spec remove_reader(bare_loop(), fd_ref()) -> ok | {error, term()}.
remove_reader(_Loop, _FdRef) -> erlang:nif_error(not_loaded).

-spec remove_writer(bare_loop(), fd_ref()) -> ok | {error, term()}.
remove_writer(_Loop, _FdRef) -> erlang:nif_error(not_loaded).

%% @doc A timer in milliseconds.
-spec call_later(bare_loop(), non_neg_integer(), non_neg_integer()) -> {ok, timer_ref()} | {error, term()}.
call_later(_Loop, _Ms, _CallbackId) -> erlang:nif_error(not_loaded).

-spec cancel_timer(bare_loop(), timer_ref()) -> ok | {error, term()}.
cancel_timer(_Loop, _TimerRef) -> erlang:nif_error(not_loaded).

%% @doc Waits until something is pending, but not longer than this: how much there is.
-spec poll_events(bare_loop(), non_neg_integer()) -> {ok, non_neg_integer()} | {error, invalid_loop}.
poll_events(_Loop, _Ms) -> erlang:nif_error(not_loaded).

%% @doc What is pending, which it is no longer.
-spec get_pending(bare_loop()) -> [event()] | {error, invalid_loop}.
get_pending(_Loop) -> erlang:nif_error(not_loaded).

%% @doc Hands tasks that were submitted to the loop on to an event loop that runs Python; `more' if there are more.
-spec process_ready_tasks(bare_loop()) -> ok | more | {error, term()}.
process_ready_tasks(_Loop) -> erlang:nif_error(not_loaded).

-spec create_test_udp_socket(inet:port_number()) -> {ok, {integer(), inet:port_number()}} | {error, term()}.
create_test_udp_socket(_Port) -> erlang:nif_error(not_loaded).

-spec sendto_test_udp(integer(), binary(), binary(), inet:port_number()) -> ok | {error, term()}.
sendto_test_udp(_Fd, _Data, _Host, _Port) -> erlang:nif_error(not_loaded).

-spec recvfrom_test_udp(integer(), non_neg_integer()) -> {ok, {binary(), {binary(), inet:port_number()}}} | {error, term()}.
recvfrom_test_udp(_Fd, _Most) -> erlang:nif_error(not_loaded).

-spec set_udp_broadcast(integer(), boolean()) -> ok | {error, term()}.
set_udp_broadcast(_Fd, _On) -> erlang:nif_error(not_loaded).

-spec close_test_fd(integer()) -> ok | {error, term()}.
close_test_fd(_Fd) -> erlang:nif_error(not_loaded).

-spec create_test_pipe() -> {ok, {integer(), integer()}} | {error, term()}.
create_test_pipe() -> erlang:nif_error(not_loaded).

-spec read_test_fd(integer(), non_neg_integer()) -> {ok, binary()} | {error, term()}.
read_test_fd(_Fd, _Most) -> erlang:nif_error(not_loaded).

-spec write_test_fd(integer(), binary()) -> {ok, non_neg_integer()} | {error, term()}.
write_test_fd(_Fd, _Data) -> erlang:nif_error(not_loaded).

-spec create_test_tcp_listener(inet:port_number()) -> {ok, {integer(), inet:port_number()}} | {error, term()}.
create_test_tcp_listener(_Port) -> erlang:nif_error(not_loaded).

-spec connect_test_tcp(binary(), inet:port_number()) -> {ok, integer()} | {error, term()}.
connect_test_tcp(_Host, _Port) -> erlang:nif_error(not_loaded).

-spec accept_test_tcp(integer()) -> {ok, integer()} | {error, term()}.
accept_test_tcp(_Fd) -> erlang:nif_error(not_loaded).

%% @doc Takes a request back. True if no answer will ever come, false if it has been sent.
-spec cancel(id()) -> boolean().
cancel(_Id) -> erlang:nif_error(not_loaded).

%% @doc The caller of a request waits on: it is sent `{Ref, {error, closed}}' if the context that runs the request ends. `closed' if
%% that has ended: then no answer will ever come.
-spec wait(id(), reference()) -> waiter() | closed.
wait(_Id, _Ref) -> erlang:nif_error(not_loaded).

%% @doc It waits no longer.
-spec wait_over(waiter()) -> ok.
wait_over(_Waiter) -> erlang:nif_error(not_loaded).

%% @doc Interrupts the code of a task that is running; it is answered with `{error, interrupted}'. False if it was over.
-spec task_interrupt(task()) -> boolean().
task_interrupt(_Task) -> erlang:nif_error(not_loaded).

%% @doc Cancels a task and answers it with `{error, cancelled}'. False if it was over.
-spec task_cancel(task()) -> boolean().
task_cancel(_Task) -> erlang:nif_error(not_loaded).

%% @doc Cancels a task without an answer. False if it was over.
-spec task_forget(task()) -> boolean().
task_forget(_Task) -> erlang:nif_error(not_loaded).

%% @doc Hands a stream over: `{py_stream, Stream, _}' is sent to the owner, with no more values than it has asked for.
-spec stream_start(target(), pid(), non_neg_integer() | infinity, op(), term(), term(), term(), term()) ->
          {ok, stream()} | {error, overloaded | closed | not_bound | noproc}.
stream_start(_Target, _Owner, _Credit, _Op, _A, _B, _C, _D) -> erlang:nif_error(not_loaded).

-spec stream_ack(stream(), non_neg_integer()) -> ok.
stream_ack(_Stream, _More) -> erlang:nif_error(not_loaded).

%% @doc Ends a stream, whose owner is told. False if it was over.
-spec stream_cancel(stream()) -> boolean().
stream_cancel(_Stream) -> erlang:nif_error(not_loaded).

-spec callback_dispatcher() -> ok.
callback_dispatcher() -> erlang:nif_error(not_loaded).

-spec callback_begin(ticket()) -> boolean().
callback_begin(_Ticket) -> erlang:nif_error(not_loaded).

-spec callback_answer(ticket(), {ok, term()} | {error, {atom(), term()}}) -> boolean().
callback_answer(_Ticket, _Answer) -> erlang:nif_error(not_loaded).

%% @doc Has what is in a parcel sent to the calling process: `{Parcel, Term}'. False if somebody had it sent before.
-spec parcel_open(parcel()) -> boolean().
parcel_open(_Parcel) -> erlang:nif_error(not_loaded).

-spec schedule_begin(continuation()) -> boolean().
schedule_begin(_Continuation) -> erlang:nif_error(not_loaded).

%% @doc Answers a chain. False for a cast, whose answer nobody will ever see.
-spec schedule_answer(continuation(), {ok, term()} | {error, term()}) -> boolean().
schedule_answer(_Continuation, _Answer) -> erlang:nif_error(not_loaded).

-spec schedule_continue(continuation()) -> ok.
schedule_continue(_Continuation) -> erlang:nif_error(not_loaded).

%% @doc So many bytes of output, or so many events, were dealt with.
-spec caught_up(output | log, non_neg_integer()) -> ok.
caught_up(_What, _Amount) -> erlang:nif_error(not_loaded).

-spec callback_names([binary()]) -> ok.
callback_names(_Names) -> erlang:nif_error(not_loaded).

-spec atom_limit(non_neg_integer()) -> ok.
atom_limit(_Limit) -> erlang:nif_error(not_loaded).

-spec term_limit(non_neg_integer()) -> ok.
term_limit(_Limit) -> erlang:nif_error(not_loaded).

%% @doc Graphs of work, see `py_dag'.
-spec graph_host() -> ok.
graph_host() -> erlang:nif_error(not_loaded).

-spec graph_compile([tuple()], [pos_integer()], [pos_integer()], [tuple()]) -> {ok, graph_plan()} | {error, term()}.
graph_compile(_Nodes, _Regions, _Limits, _Servers) -> erlang:nif_error(not_loaded).

-spec graph_start(graph_plan(), [{binary(), term()}], pid(), timeout(), atom(), all | [binary()], boolean(), boolean()) ->
    {ok, graph_run()} | {error, term()}.
graph_start(_Plan, _Given, _Owner, _Deadline, _Mode, _Outputs, _Tells, _Records) -> erlang:nif_error(not_loaded).

-spec graph_cancel(graph_run(), term()) -> boolean().
graph_cancel(_Run, _Reason) -> erlang:nif_error(not_loaded).

-spec graph_state(graph_run()) -> running | done | not_owner.
graph_state(_Run) -> erlang:nif_error(not_loaded).

-spec graph_dot(graph_plan()) -> binary().
graph_dot(_Plan) -> erlang:nif_error(not_loaded).

-spec graph_picture(graph_run(), trace | svg) -> binary() | undefined.
graph_picture(_Run, _Kind) -> erlang:nif_error(not_loaded).

-spec graph_begin(errand()) -> boolean().
graph_begin(_Errand) -> erlang:nif_error(not_loaded).

-spec graph_answer(errand(), {ok, term()} | {error, term()}) -> boolean().
graph_answer(_Errand, _Result) -> erlang:nif_error(not_loaded).

%% @doc Correlated replies, see `py_reply'.
-spec reply_register(term(), pid(), timeout()) -> {ok, reference()} | {error, atom()}.
reply_register(_Name, _Pid, _Timeout) -> erlang:nif_error(not_loaded).

-spec reply_end(term(), success | error | cancelled, term()) -> boolean().
reply_end(_Who, _State, _Value) -> erlang:nif_error(not_loaded).

-spec reply_counters() -> #{atom() => non_neg_integer()}.
reply_counters() -> erlang:nif_error(not_loaded).

-spec reply_limit(non_neg_integer()) -> ok.
reply_limit(_Limit) -> erlang:nif_error(not_loaded).

-spec traceback(binary(), binary()) -> binary() | undefined.
traceback(_Class, _Text) -> erlang:nif_error(not_loaded).

-spec stats() -> #{atom() => non_neg_integer()}.
stats() -> erlang:nif_error(not_loaded).
