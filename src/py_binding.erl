%% @private
%% @doc The context that the calling process is bound to.
-module(py_binding).

-export([bind/0, unbind/0, is_bound/0, with_context/1]).

%% @doc Binds the process, unless it is. One whose context has died is bound anew.
-spec bind() -> ok | {error, no_workers_available}.
bind() ->
    case is_bound() of
        true ->
            ok;
        false ->
            ok = unbind(),
            case py_pool:checkout(self()) of
                {ok, Binding} ->
                    undefined = py_request:bound(Binding),
                    ok;
                {error, no_workers_available} = Error ->
                    Error
            end
    end.

-spec unbind() -> ok.
unbind() ->
    case py_request:bound(undefined) of
        undefined -> ok;
        Binding -> py_pool:checkin(Binding)
    end.

-spec is_bound() -> boolean().
is_bound() ->
    case py_request:bound() of
        undefined -> false;
        Binding -> py_nif:context_is_bound(Binding)
    end.

%% @doc A process that is bound stays so afterwards.
-spec with_context(fun(() -> T) | fun((py_nif:binding()) -> T)) -> T | {error, no_workers_available}.
with_context(Fun) when is_function(Fun, 0) ->
    Was = is_bound(),
    case bind() of
        ok when Was -> Fun();
        ok -> try Fun() after unbind() end;
        {error, _} = Error -> Error
    end;
with_context(Fun) when is_function(Fun, 1) ->
    case py_pool:checkout(self()) of
        {ok, Binding} -> try Fun(Binding) after py_pool:checkin(Binding) end;
        {error, _} = Error -> Error
    end.
