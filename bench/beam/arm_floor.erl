%%% The floor: a NIF that makes the same call of the C API on a dirty scheduler, and nothing else (`floor.c`).
-module(arm_floor).

-export([start/0, call/3, sqrt/1, same/1, many/2, later/2, watch/1, write/2]).

-on_load(load/0).

load() ->
    erlang:load_nif(filename:join(filename:dirname(code:which(?MODULE)), "floor"), []).

-spec start() -> ok.
start() -> ok.

-spec call(module(), atom(), [term()]) -> term().
call(math, sqrt, [Number]) -> sqrt(Number);
call(_, _, _) -> exit({lacks, "calls math.sqrt only"}).

-spec sqrt(float()) -> float().
sqrt(_Number) -> erlang:nif_error(not_loaded).

%% A coroutine of one number, to its end.
-spec same(float()) -> float().
same(_Number) -> erlang:nif_error(not_loaded).

%% So many of them, each answered by a message.
-spec many(pos_integer(), float()) -> ok.
many(_Count, _Number) -> erlang:nif_error(not_loaded).

%% One of them as a task, by a bare thread (`bare.h`), answered by `{async_result, Ref, {ok, Number}}`.
-spec later(reference(), float()) -> ok.
later(_Ref, _Number) -> erlang:nif_error(not_loaded).

%% A bare thread waits until a pipe can be read, so often; `{seen, Microseconds}` says how late it was each time. The end to write to.
-spec watch(pos_integer()) -> non_neg_integer().
watch(_Count) -> erlang:nif_error(not_loaded).

-spec write(non_neg_integer(), binary()) -> integer().
write(_Fd, _Data) -> erlang:nif_error(not_loaded).
