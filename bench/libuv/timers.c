/* Timers on libuv's heap: `fire`, `alive`, `spread` and `pair` as in bench/evloop.
 *
 * As there, the timers are made, cancelled and fired on the loop's own thread, and the first round is thrown
 * away.
 *
 * libuv's clock counts whole milliseconds, so a timer of 1 fires anywhere from 0 to 1 ms after it was
 * started. The arm that keeps bench/evloop's contract (never early) therefore asks for one more; `exact=1`
 * asks for what the row says and reports how many came early. */

#include "peer.h"

#include <stdlib.h>
#include <string.h>

enum { LONG_MS = 30000 };

struct timer {
    uv_timer_t handle;
    uint64_t armed;
};

/* All of it belongs to the one thread there is. */
static uv_loop_t loop;
static struct timer *timers;
static uint64_t *delays;
static uint64_t count, fired, early, last, delay_ns;

static void on_fire(uv_timer_t *handle) {
    struct timer *timer = (struct timer *)handle;
    uint64_t now = now_ns();
    if (now - timer->armed < delay_ns)
        early++;
    fired++;
    last = now;
}

static void on_never(uv_timer_t *handle) {
    (void)handle;
    die("a timer of half a minute fired");
}

/* A handle may be initialised again only after it was closed, and closing takes a turn of the loop; outside
 * the clock. */
static void close_handles(uint64_t made) {
    for (uint64_t i = 0; i < made; i++)
        uv_close((uv_handle_t *)&timers[i].handle, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static uint64_t round_fire(int exact) {
    fired = 0;
    uv_update_time(&loop);
    uint64_t started = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        timers[i].armed = now_ns();
        MUST(uv_timer_init(&loop, &timers[i].handle));
        /* The timeout counts from the loop's clock, which stands still while a callback runs. */
        if (!exact)
            uv_update_time(&loop);
        MUST(uv_timer_start(&timers[i].handle, on_fire, exact ? 1 : 2, 0));
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    if (fired != count)
        die("%llu of %llu fired", (unsigned long long)fired, (unsigned long long)count);
    if (early > 0 && !exact)
        die("%llu of %llu fired early", (unsigned long long)early, (unsigned long long)count);
    return last - started;
}

static uint64_t round_alive(void) {
    uint64_t started = now_ns(), active = 0;
    for (uint64_t i = 0; i < count; i++) {
        MUST(uv_timer_init(&loop, &timers[i].handle));
        MUST(uv_timer_start(&timers[i].handle, on_never, delays[i], 0));
    }
    for (uint64_t i = 0; i < count; i++) {
        active += uv_is_active((uv_handle_t *)&timers[i].handle) != 0;
        uv_timer_stop(&timers[i].handle);
    }
    uint64_t taken = now_ns() - started;
    if (active != count)
        die("%llu timers were alive", (unsigned long long)active);
    return taken;
}

/* A new handle per pair, because a timer that is made is initialised. With `rearm` one handle over and over,
 * which is how libuv's users avoid making timers. */
static uint64_t round_pair(int rearm) {
    uint64_t started = now_ns(), active = 0;
    for (uint64_t i = 0; i < count; i++) {
        uv_timer_t *handle = &timers[rearm ? 0 : i].handle;
        if (!rearm || i == 0)
            MUST(uv_timer_init(&loop, handle));
        MUST(uv_timer_start(handle, on_never, LONG_MS, 0));
        active += uv_is_active((uv_handle_t *)handle) != 0;
        uv_timer_stop(handle);
    }
    uint64_t taken = now_ns() - started;
    if (active != count)
        die("%llu timers were alive", (unsigned long long)active);
    return taken;
}

static void fill_delays(int spread) {
    uint32_t state = 1;
    delays = grown(NULL, count * sizeof *delays);
    for (uint64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        delays[i] = spread ? (state >> 8) % 60000 + 1 : LONG_MS;
    }
}

void topic_timers(void) {
    const char *row = param_text("row", "fire");
    int fire = strcmp(row, "fire") == 0, pair = strcmp(row, "pair") == 0, spread = strcmp(row, "spread") == 0;
    if (!fire && !pair && !spread && strcmp(row, "alive") != 0)
        die("no such row: %s", row);
    count = param_number("timers", fire ? 10000 : 1000000);
    uint64_t rounds = param_number("rounds", fire ? 40 : 3);
    int exact = param_number("exact", 0) != 0, rearm = param_number("rearm", 0) != 0;
    params_finish();
    if (count == 0 || rounds == 0)
        die("no timers");
    if (rearm && !pair)
        die("rearm belongs to pair");

    MUST(uv_loop_init(&loop));
    timers = grown(NULL, count * sizeof *timers);
    delay_ns = 1000000;
    fill_delays(spread);
    uint64_t *taken = grown(NULL, rounds * sizeof *taken), cpu = 0;
    /* Round 0 warms memory up; the closing between rounds is neither in the time nor in the CPU time. */
    for (uint64_t round = 0; round <= rounds; round++) {
        uint64_t cpu_before = cpu_ns();
        uint64_t time = fire ? round_fire(exact) : pair ? round_pair(rearm) : round_alive();
        if (round == 0) {
            early = 0;
        } else {
            cpu += cpu_ns() - cpu_before;
            taken[round - 1] = time;
        }
        close_handles(rearm ? 1 : count);
    }
    MUST(uv_loop_close(&loop));
    double median = (double)percentile(taken, rounds, 50);
    free(taken);
    free(delays);
    free(timers);
    if (fire)
        report("timers", row, median / 1e6, "ms", cpu, exact ? "early_percent" : NULL,
               (double)early * 100 / (double)(rounds * count));
    else
        report("timers", row, (double)count / (median / 1e9), "timers/s", cpu, NULL, 0);
}
