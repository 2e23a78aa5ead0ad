#!/usr/bin/env bash
# Runs targets of the Makefile here in lanes: those of one lane one after the other, the lanes at the same time.
#   tools/lanes.sh 'test-rust test-python' 'test-erlang test-vm'
# What a target says is shown when it has ended, in one piece; the first one that fails ends the others. The times stand at the end.
set -euo pipefail
work=$(mktemp -d)
began=$SECONDS

# A lane is a session of its own, so that it can be ended with all it started.
stop() {
    local pid
    for pid in "${pids[@]}"; do pkill -TERM -s "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
pids=()
trap stop EXIT
trap 'exit 130' INT TERM

for lane in "$@"; do
    setsid bash -c '
        work=$1
        for target in $2; do
            since=$SECONDS
            echo "=== $target begins"
            status=0
            "${MAKE:-make}" --no-print-directory "$target" >"$work/$target.said" 2>&1 </dev/null || status=$?
            # One at a time may speak.
            (
                flock 9
                echo "=== $target"
                cat "$work/$target.said"
                printf "=== %s: %s after %d s\n" "$target" "$([ $status = 0 ] && echo passed || echo FAILED)" $((SECONDS - since)) \
                    | tee -a "$work/times"
            ) 9>"$work/voice"
            [ $status = 0 ] || exit 1
        done' lane "$work" "$lane" &
    pids+=($!)
done

status=0
for _ in "${pids[@]}"; do
    wait -n || { status=1; break; }
done
echo "=== all, in the order they ended"
cat "$work/times"
echo "=== $([ $status = 0 ] && echo passed || echo FAILED) after $((SECONDS - began)) s"
exit $status
