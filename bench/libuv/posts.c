/* Posts per second from P producers, measured from the first producer's start to the last closure's
 * execution. The closure is that of bench/evloop: it adds its number to a sum and counts. */

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

static void warmed(void *on, uint64_t number) {
    (void)number;
    uv_sem_post(on);
}

static void produce(void *argument) {
    struct producer *producer = argument;
    uv_barrier_wait(producer->barrier);
    producer->started = now_ns();
    for (uint64_t value = producer->from; value < producer->until; value++)
        poster_post(producer->poster, take, producer->sink, value);
}

void topic_posts(void) {
    uint64_t producers = param_number("producers", 1), posts = param_number("posts", 2000000);
    params_finish();
    if (producers == 0 || posts == 0 || posts % producers != 0)
        die("%llu posts cannot be shared out to %llu producers", (unsigned long long)posts,
            (unsigned long long)producers);

    static struct poster poster;
    static struct sink sink;
    uv_barrier_t barrier;
    sink.expected = posts;
    MUST(uv_sem_init(&sink.ended, 0));
    MUST(uv_barrier_init(&barrier, (unsigned)producers + 1));
    poster_start(&poster);
    poster_post(&poster, warmed, &sink.ended, 0);
    uv_sem_wait(&sink.ended);

    struct producer *all = grown(NULL, producers * sizeof *all);
    for (uint64_t i = 0; i < producers; i++) {
        all[i] = (struct producer){
            &poster, &sink, &barrier, i * (posts / producers), (i + 1) * (posts / producers), 0, 0};
        MUST(uv_thread_create(&all[i].thread, produce, &all[i]));
    }
    uint64_t cpu = cpu_ns(), started = UINT64_MAX;
    uv_barrier_wait(&barrier);
    for (uint64_t i = 0; i < producers; i++) {
        MUST(uv_thread_join(&all[i].thread));
        if (all[i].started < started)
            started = all[i].started;
    }
    uv_sem_wait(&sink.ended);
    cpu = cpu_ns() - cpu;
    poster_stop(&poster);
    free(all);

    if (sink.count != posts || sink.sum != posts * (posts - 1) / 2)
        die("%llu of %llu closures ran", (unsigned long long)sink.count, (unsigned long long)posts);
    char row[64];
    snprintf(row, sizeof row, "%llu producers", (unsigned long long)producers);
    report("posts", row, (double)posts / ((double)(sink.last - started) / 1e9), "posts/s", cpu, NULL, 0);
}
