%% Contexts that belong to one process: bind, unbind, ctx_call and kin.
-module(py_bind_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([a_bound_process_keeps_its_state/1,
         binding_twice_is_binding_once/1,
         unbinding_twice_is_fine/1,
         a_bound_process_has_a_context_and_a_thread_to_itself/1,
         every_kind_of_request_goes_to_the_bound_context/1,
         contexts_of_one_process_are_apart/1,
         others_are_served_while_one_is_bound/1,
         the_context_of_a_dead_owner_is_free_again/1,
         the_context_of_an_owner_killed_in_a_call_serves_again/1,
         a_context_given_back_is_refused/1,
         a_context_given_back_is_refused_also_when_it_is_lent_again/1,
         no_context_left_is_said/1,
         many_binders_share_what_there_is/1,
         with_context_gives_back_what_it_took/1,
         with_context_leaves_a_bound_process_bound/1,
         a_bound_process_whose_context_died_is_bound_anew/1,
         a_context_is_checked_out_for_another_process/1,
         a_forgotten_context_stays_lent/1,
         bad_arguments_are_refused/1,
         d2_a_callback_may_use_the_context_that_waits_for_it/1,
         d2_contexts_that_wait_for_each_other_do_not_deadlock/1,
         d2_a_callback_does_not_bind_the_context_that_waits_for_it/1,
         m2_a_context_given_back_while_its_callback_runs_ends_well/1]).

all() ->
    py_test:cases(?MODULE).

init_per_suite(Config) ->
    ok = py_test:start([{num_workers, 4}]),
    Config.

end_per_suite(_Config) ->
    py_test:stop().

init_per_testcase(_Case, Config) ->
    Config.

%% Whatever a test does, nothing stays lent.
end_per_testcase(_Case, _Config) ->
    ok = py:unbind(),
    all_free(),
    {messages, []} = process_info(self(), messages),
    ok.

all_free() ->
    py_test:wait_until(fun() -> py_pool:get_stats() =:= #{num_workers => 4, available_workers => 4, checked_out => 0,
                                                            pending_requests => 0} end).

a_bound_process_keeps_its_state(_Config) ->
    ok = py:bind(),
    ok = py:exec("kept = 40"),
    [ok = py:exec("kept += 1") || _ <- lists:seq(1, 50)],
    {ok, 90} = py:eval("kept"),
    ok = py:exec("def more(n): return kept + n"),
    {ok, 100} = py:call('__main__', more, [10]).

binding_twice_is_binding_once(_Config) ->
    false = py:is_bound(),
    ok = py:bind(),
    ok = py:exec("once = 1"),
    ok = py:bind(),
    true = py:is_bound(),
    {ok, 1} = py:eval("once"),
    #{checked_out := 1, available_workers := 3} = py_pool:get_stats(),
    ok = py:unbind(),
    #{checked_out := 0} = py_pool:get_stats().

unbinding_twice_is_fine(_Config) ->
    ok = py:unbind(),
    ok = py:bind(),
    ok = py:unbind(),
    ok = py:unbind(),
    false = py:is_bound(),
    {ok, Context} = py:bind(new),
    ok = py:unbind(Context),
    ok = py:unbind(Context).

a_bound_process_has_a_context_and_a_thread_to_itself(_Config) ->
    ok = py:bind(),
    ok = py:exec("mine = True"),
    {ok, Thread} = py:call(threading, get_ident, []),
    Self = self(),
    Strangers = [spawn_monitor(fun() ->
        [begin
             {ok, Other} = py:call(threading, get_ident, []),
             true = Other =/= Thread,
             {ok, false} = py:eval("'mine' in globals()")
         end || _ <- lists:seq(1, 50)],
        Self ! apart
    end) || _ <- lists:seq(1, 8)],
    [{ok, Thread} = py:call(threading, get_ident, []) || _ <- lists:seq(1, 100)],
    [receive {'DOWN', Monitor, process, _, Reason} -> normal = Reason end || {_, Monitor} <- Strangers],
    [receive apart -> ok end || _ <- Strangers].

every_kind_of_request_goes_to_the_bound_context(_Config) ->
    ok = py:bind(),
    {ok, Thread} = py:eval("__import__('threading').get_ident()"),
    {ok, Thread} = py:await(py:call_async(threading, get_ident, [])),
    ok = py:exec("import threading; where = threading.get_ident()"),
    {ok, Thread} = py:eval("where"),
    ok = py:exec("said = []\ndef say(): said.append(threading.get_ident())"),
    ok = py:cast('__main__', say, []),
    {ok, [Thread]} = py:eval("said").

contexts_of_one_process_are_apart(_Config) ->
    {ok, One} = py:bind(new),
    {ok, Two} = py:bind(new),
    ok = py:ctx_exec(One, "x = 1"),
    ok = py:ctx_exec(Two, "x = 2"),
    {ok, 1} = py:ctx_eval(One, "x"),
    {ok, 2} = py:ctx_eval(Two, "x"),
    {ok, 5} = py:ctx_eval(Two, "x + y", #{y => 3}),
    {ok, 5} = py:ctx_eval(Two, "x + y", #{y => 3}, 1000),
    {ok, 4.0} = py:ctx_call(One, math, sqrt, [16.0]),
    {ok, 255} = py:ctx_call(One, builtins, int, [<<"ff">>], #{base => 16}),
    {ok, 255} = py:ctx_call(One, builtins, int, [<<"ff">>], #{base => 16}, 1000),
    {ok, Ref} = py:ctx_call(One, builtins, object, [], #{}, #{return => ref}),
    true = is_reference(Ref),
    {error, timeout} = py:ctx_eval(One, "[0 for _ in iter(int, 1)]", #{}, 20),
    {ok, 1} = py:ctx_eval(One, "x"),
    %% This process itself is not bound.
    false = py:is_bound(),
    ok = py:unbind(One),
    ok = py:unbind(Two).

others_are_served_while_one_is_bound(_Config) ->
    {ok, Context} = py:bind(new),
    Slow = spawn_monitor(fun() -> {error, timeout} = py:ctx_eval(Context, "[0 for _ in iter(int, 1)]", #{}, 200) end),
    [{ok, 4.0} = py:call(math, sqrt, [16.0]) || _ <- lists:seq(1, 100)],
    {_, Monitor} = Slow,
    receive {'DOWN', Monitor, process, _, Reason} -> normal = Reason end,
    ok = py:unbind(Context).

the_context_of_a_dead_owner_is_free_again(_Config) ->
    [begin
         {Pid, Monitor} = spawn_monitor(fun() -> ok = py:bind(), {ok, _} = py:bind(new), exit(How) end),
         receive {'DOWN', Monitor, process, Pid, How} -> ok end,
         all_free()
     end || How <- [normal, kill, bad]].

the_context_of_an_owner_killed_in_a_call_serves_again(_Config) ->
    Owners = [spawn(fun() -> ok = py:bind(), py:eval("[0 for _ in iter(int, 1)]", #{}, infinity) end) || _ <- lists:seq(1, 4)],
    py_test:wait_until(fun() -> maps:get(checked_out, py_pool:get_stats()) =:= 4 end),
    Waits = py:call_async(math, sqrt, [16.0]),
    [exit(Owner, kill) || Owner <- Owners],
    {ok, 4.0} = py:await(Waits),
    all_free(),
    py_test:wait_until(fun() -> maps:get(idle, py:stats()) =:= 4 end).

a_context_given_back_is_refused(_Config) ->
    {ok, Context} = py:bind(new),
    ok = py:unbind(Context),
    ?assertError(context_not_bound, py:ctx_call(Context, math, sqrt, [16.0])),
    ?assertError(context_not_bound, py:ctx_eval(Context, "1")),
    ?assertError(context_not_bound, py:ctx_exec(Context, "pass")).

a_context_given_back_is_refused_also_when_it_is_lent_again(_Config) ->
    {ok, Old} = py:bind(new),
    ok = py:unbind(Old),
    All = [element(2, py:bind(new)) || _ <- lists:seq(1, 4)],
    ?assertError(context_not_bound, py:ctx_eval(Old, "1")),
    %% Nor does giving the old one back once more take it from its new owner.
    ok = py:unbind(Old),
    [{ok, 1} = py:ctx_eval(Context, "1") || Context <- All],
    [ok = py:unbind(Context) || Context <- All].

no_context_left_is_said(_Config) ->
    All = [element(2, py:bind(new)) || _ <- lists:seq(1, 4)],
    {error, no_workers_available} = py:bind(),
    {error, no_workers_available} = py:bind(new),
    {error, no_workers_available} = py_pool:checkout(self()),
    {error, no_workers_available} = py:with_context(fun() -> ran end),
    {error, no_workers_available} = py:with_context(fun(_) -> ran end),
    false = py:is_bound(),
    %% A call waits until one is given back.
    Waits = py:call_async(math, sqrt, [16.0]),
    receive {py_response, Waits, _} -> error(nobody_could_serve_it) after 50 -> ok end,
    [ok = py:unbind(Context) || Context <- All],
    {ok, 4.0} = py:await(Waits).

many_binders_share_what_there_is(_Config) ->
    Binder = fun Bind(0) -> ok;
                 Bind(N) ->
                     case py:bind() of
                         ok ->
                             ok = py:exec("n = " ++ integer_to_list(N)),
                             {ok, N} = py:eval("n"),
                             ok = py:unbind(),
                             Bind(N - 1);
                         {error, no_workers_available} ->
                             erlang:yield(),
                             Bind(N)
                     end
             end,
    Binders = [spawn_monitor(fun() -> Binder(50) end) || _ <- lists:seq(1, 20)],
    [receive {'DOWN', Monitor, process, _, Reason} -> normal = Reason after 60000 -> error(stuck) end || {_, Monitor} <- Binders].

with_context_gives_back_what_it_took(_Config) ->
    {ok, 7} = py:with_context(fun() -> ok = py:exec("x = 7"), py:eval("x") end),
    {ok, 8} = py:with_context(fun(Context) -> ok = py:ctx_exec(Context, "x = 8"), py:ctx_eval(Context, "x") end),
    ?assertError(oops, py:with_context(fun() -> error(oops) end)),
    ?assertThrow(oops, py:with_context(fun(_) -> throw(oops) end)),
    false = py:is_bound().

with_context_leaves_a_bound_process_bound(_Config) ->
    ok = py:bind(),
    ok = py:exec("x = 9"),
    {ok, 9} = py:with_context(fun() -> py:eval("x") end),
    true = py:is_bound(),
    {ok, 9} = py:eval("x").

a_bound_process_whose_context_died_is_bound_anew(_Config) ->
    ok = py:bind(),
    ok = py:exec("x = 10"),
    [exit(Pid, kill) || {_, Pid, _} <- py_context:all()],
    py_test:wait_until(fun() -> py:eval("x") =:= {error, closed} end),
    false = py:is_bound(),
    py_test:wait_until(fun() -> length(py_context:all()) =:= 4 andalso py:num_workers() =:= 4 end),
    ok = py:bind(),
    {ok, false} = py:eval("'x' in globals()").

a_context_is_checked_out_for_another_process(_Config) ->
    Owner = spawn(fun() -> receive stop -> ok end end),
    {ok, Context} = py_pool:checkout(Owner),
    {ok, 1} = py:ctx_eval(Context, "1"),
    #{checked_out := 1, available_workers := 3} = py_pool:get_stats(),
    Owner ! stop,
    all_free(),
    ?assertError(context_not_bound, py:ctx_eval(Context, "1")),
    {error, noproc} = py_pool:checkout(Owner),
    {ok, Again} = py_pool:checkout(self()),
    ok = py_pool:checkin(Again),
    ok = py_pool:checkin(Again).

a_forgotten_context_stays_lent(_Config) ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        {ok, _} = py_pool:checkout(self()),
        erlang:garbage_collect(),
        #{checked_out := 1} = py_pool:get_stats()
    end),
    receive {'DOWN', Monitor, process, Pid, Reason} -> normal = Reason end.

bad_arguments_are_refused(_Config) ->
    ?assertError(badarg, py:bind(old)),
    ?assertError(badarg, py:unbind(make_ref())),
    ?assertError(badarg, py:unbind(context)),
    ?assertError(badarg, py:with_context(not_a_fun)),
    ?assertError(badarg, py:ctx_eval(make_ref(), "1")),
    ?assertError(function_clause, py:ctx_eval(pool, "1")),
    ?assertError(function_clause, py_pool:checkout(nobody)).

%% The context runs a function that waits for Erlang, which asks that very context.
d2_a_callback_may_use_the_context_that_waits_for_it(_Config) ->
    {ok, Context} = py:bind(new),
    ok = py:register_function(down, fun([N]) ->
        {ok, V} = py:ctx_call(Context, '__main__', count, [N]),
        V
    end),
    ok = py:ctx_exec(Context, "import erlang\ndef count(n): return 0 if n == 0 else 1 + erlang.down(n - 1)"),
    {ok, 20} = py:ctx_call(Context, '__main__', count, [20], #{}, 10000),
    %% Likewise for a process that is bound, whose callbacks are other processes.
    ok = py:unbind(Context),
    ok = py:bind(),
    ok = py:register_function(down, fun([N]) -> {ok, V} = py:call('__main__', count, [N]), V end),
    ok = py:exec("import erlang\ndef count(n): return 0 if n == 0 else 1 + erlang.down(n - 1)"),
    {ok, 20} = py:call('__main__', count, [20], #{}, 10000),
    ok = py:unregister_function(down).

d2_contexts_that_wait_for_each_other_do_not_deadlock(_Config) ->
    {ok, One} = py:bind(new),
    {ok, Two} = py:bind(new),
    Other = fun(1) -> {Two, 2}; (2) -> {One, 1} end,
    ok = py:register_function(hop, fun([Where, N]) ->
        {Context, There} = Other(Where),
        {ok, V} = py:ctx_call(Context, '__main__', count, [There, N]),
        V
    end),
    Code = "import erlang\ndef count(where, n): return 0 if n == 0 else 1 + erlang.hop(where, n - 1)",
    ok = py:ctx_exec(One, Code),
    ok = py:ctx_exec(Two, Code),
    {ok, 20} = py:ctx_call(One, '__main__', count, [1, 20], #{}, 10000),
    ok = py:unregister_function(hop),
    ok = py:unbind(One),
    ok = py:unbind(Two).

d2_a_callback_does_not_bind_the_context_that_waits_for_it(_Config) ->
    Taken = [element(2, py:bind(new)) || _ <- lists:seq(1, 3)],
    ok = py:register_function(try_bind, fun([]) -> {py:bind(), py:eval("6 * 7")} end),
    ok = py:exec("import erlang"),
    {ok, {{<<"error">>, <<"no_workers_available">>}, {<<"ok">>, 42}}} = py:eval("erlang.try_bind()", #{}, 5000),
    ok = py:unregister_function(try_bind),
    [ok = py:unbind(Context) || Context <- Taken].

m2_a_context_given_back_while_its_callback_runs_ends_well(_Config) ->
    {ok, Context} = py:bind(new),
    ok = py:register_function(give_back, fun([]) ->
        ok = py:unbind(Context),
        %% It goes nowhere else meanwhile.
        ?assertError(context_not_bound, py:ctx_eval(Context, "1")),
        given_back
    end),
    ok = py:ctx_exec(Context, "import erlang"),
    {ok, <<"given_back">>} = py:ctx_eval(Context, "erlang.give_back()", #{}, 5000),
    ok = py:unregister_function(give_back),
    all_free(),
    [{ok, 4.0} = py:call(math, sqrt, [16.0]) || _ <- lists:seq(1, 20)].
