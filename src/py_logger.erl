%% @private
%% @doc Events that Python logs become events of `logger', with the file, the line and the function they come from.
%%
%% Python does not wait for this process, so it may be logged from any thread, also while a handler is busy.
-module(py_logger).
-behaviour(gen_server).

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec init([]) -> {ok, undefined}.
init([]) ->
    {ok, undefined}.

-spec handle_call(term(), gen_server:from(), State) -> {reply, {error, unknown}, State}.
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

-spec handle_cast(term(), State) -> {noreply, State}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), State) -> {noreply, State}.
handle_info({py_log, Number, Text, Said}, State) ->
    ok = py_nif:caught_up(log, 1),
    Level = level(Number),
    case logger:allow(Level, ?MODULE) of
        true -> logger:log(Level, "~ts", [Text], metadata(Said));
        false -> ok
    end,
    {noreply, State};
handle_info(Message, State) ->
    logger:warning("py_logger: unexpected ~tp", [Message]),
    {noreply, State}.

%% Python's levels are numbers, and programs have some of their own between those with a name.
level(Number) when Number >= 50 -> critical;
level(Number) when Number >= 40 -> error;
level(Number) when Number >= 30 -> warning;
level(Number) when Number >= 25 -> notice;
level(Number) when Number >= 20 -> info;
level(_) -> debug.

%% `file', `line' and `time' are logger's own names; the rest is Python's.
metadata(Said) ->
    Known = #{<<"file">> => fun unicode:characters_to_list/1,
              <<"line">> => fun(Line) -> Line end,
              <<"time">> => fun(Time) -> Time end,
              <<"function">> => fun(Function) -> Function end},
    maps:fold(fun(Key, Read, Metadata) ->
                  case Said of
                      #{Key := Value} -> Metadata#{binary_to_existing_atom(Key, utf8) => Read(Value)};
                      #{} -> Metadata
                  end
              end, #{py => maps:without(maps:keys(Known), Said)}, Known).
