/* Posts per second from P producers, measured from the first producer's start to the last closure's
 * execution. Closure and rounds are those of bench/evloop: a round that warms up, then rounds until the time
 * is over, and the median of them. */

#include "peer.h"

#include <stdio.h>
#include <stdlib.h>

/* Only the loop's thread writes; main reads after `ended`. */
struct sink {
    uint64_t expected, count, sum, last;
    uv_sem_t ended;
};

struct producer {
    struct poster *poster;
    struct sink *sink;
    uv_barrier_t *barrier;
    uint64_t from, until, started;
    uv_thread_t thread;
};

static void take(void *on, uint64_t value) {
    struct sink *sink = on;
    sink->sum += value;
    if (++sink->count == sink->expected) {
        sink->last = now_ns();
        uv_sem_post(&sink->ended);
    }
}

static void produce(void *argument) {
    struct producer *producer = argument;
    uv_barrier_wait(producer->barrier);
    producer->started = now_ns();
    for (uint64_t value = producer->from; value < producer->until; value++)
        poster_post(producer->poster, take, producer->sink, value);
}

static uint64_t round_of(struct poster *poster, uint64_t producers, uint64_t posts) {
    struct sink sink = {.expected = posts};
    struct producer *all = grown(NULL, producers * sizeof *all);
    uv_barrier_t barrier;
    MUST(uv_sem_init(&sink.ended, 0));
    MUST(uv_barrier_init(&barrier, (unsigned)producers));
    for (uint64_t i = 0; i < producers; i++) {
        all[i] = (struct producer){.poster = poster, .sink = &sink, .barrier = &barrier};
        all[i].from = i * (posts / producers);
        all[i].until = (i + 1) * (posts / producers);
        MUST(uv_thread_create(&all[i].thread, produce, &all[i]));
    }
    uint64_t started = UINT64_MAX;
    for (uint64_t i = 0; i < producers; i++) {
        MUST(uv_thread_join(&all[i].thread));
        if (all[i].started < started)
            started = all[i].started;
    }
    uv_sem_wait(&sink.ended);
    uv_sem_destroy(&sink.ended);
    uv_barrier_destroy(&barrier);
    free(all);
    if (sink.count != posts || sink.sum != posts * (posts - 1) / 2)
        die("%llu of %llu closures ran", (unsigned long long)sink.count, (unsigned long long)posts);
    return sink.last - started;
}

enum { WARM_UP = 10, ROUNDS = 10000 };

void topic_posts(void) {
    uint64_t producers = param_number("producers", 1), posts = param_number("posts", 2000000);
    uint64_t enough = param_number("millis", 500) * 1000000;
    params_finish();
    if (producers == 0 || posts == 0 || posts % (WARM_UP * producers) != 0)
        die("%llu posts cannot be shared out to %llu producers", (unsigned long long)posts,
            (unsigned long long)producers);

    static struct poster poster;
    static uint64_t times[ROUNDS];
    size_t rounds = 0;
    poster_start(&poster);
    round_of(&poster, producers, posts / WARM_UP);
    uint64_t cpu = cpu_ns(), started = now_ns();
    do
        times[rounds++] = round_of(&poster, producers, posts);
    while (now_ns() - started < enough && rounds < ROUNDS);
    cpu = (cpu_ns() - cpu) / rounds;
    poster_stop(&poster);

    char row[64];
    snprintf(row, sizeof row, "%llu producers", (unsigned long long)producers);
    double median = (double)percentile(times, rounds, 50) / 1e9;
    report("posts", row, (double)posts / median, "posts/s", cpu, NULL, 0);
}
