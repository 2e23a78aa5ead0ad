#!/bin/sh
# The VM of tools/fuzz.sh, which says where it lies (FUZZ_HOME); arguments are those of libFuzzer, or: replay DIRECTORY.
# libFuzzer starts it again by this name when it merges, and wants to know how that ended: hence SIGCHLD.
exec erl -noshell -noinput -pa "$FUZZ_HOME/erlang_python/ebin" -erlang_python num_workers 1 -eval '
    ok = os:set_signal(sigchld, default),
    {ok, _} = application:ensure_all_started(erlang_python),
    Words = [unicode:characters_to_binary(Word) || Word <- init:get_plain_arguments()],
    case py:call(fuzz_drive, main, [Words], #{}, infinity) of
        {ok, Status} -> halt(Status);
        {error, Reason} -> io:format("fuzz: ~ts~n", [py:format_error(Reason)]), halt(1)
    end' -extra "$0" "$@"
