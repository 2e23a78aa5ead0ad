/* Cross-thread wake-up latency: `sparse` posts to a loop whose thread is asleep in the kernel, `dense` lets
 * two loops post to each other without a pause; as in bench/evloop. */

#define _GNU_SOURCE /* gettid */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_NS = 1500000 };

static void pause_briefly(void) {
    struct timespec time = {0, PAUSE_NS};
    nanosleep(&time, NULL);
}

struct sparse {
    uint64_t latency; /* written by the loop, taken by main, both atomically */
    pid_t thread;
};

static void tell_thread(void *on, uint64_t number) {
    (void)number;
    __atomic_store_n(&((struct sparse *)on)->thread, gettid(), __ATOMIC_RELEASE);
}

static void note_latency(void *on, uint64_t posted) {
    uint64_t latency = now_ns() - posted;
    __atomic_store_n(&((struct sparse *)on)->latency, latency == 0 ? 1 : latency, __ATOMIC_RELEASE);
}

/* proc(5): the state is the letter after the name in parentheses, and the name may contain anything. */
static void until_asleep(const char *path) {
    for (int tries = 0; tries < 1000; tries++) {
        char line[512];
        pause_briefly();
        FILE *file = fopen(path, "r");
        if (file == NULL || fgets(line, sizeof line, file) == NULL)
            die("cannot read %s", path);
        fclose(file);
        char *name_end = strrchr(line, ')');
        if (name_end != NULL && strncmp(name_end, ") S", 3) == 0)
            return;
    }
    die("the loop's thread never sleeps");
}

static uint64_t answer(struct sparse *sparse) {
    for (int tries = 0; tries < 10000; tries++) {
        pause_briefly();
        uint64_t latency = __atomic_exchange_n(&sparse->latency, 0, __ATOMIC_ACQUIRE);
        if (latency != 0)
            return latency;
    }
    die("a posted closure never ran");
}

static uint64_t sparse_samples(uint64_t *taken, size_t samples) {
    static struct poster poster;
    static struct sparse sparse;
    char path[64];
    poster_start(&poster);
    poster_post(&poster, tell_thread, &sparse, 0);
    while (__atomic_load_n(&sparse.thread, __ATOMIC_ACQUIRE) == 0)
        pause_briefly();
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", sparse.thread);
    uint64_t cpu = cpu_ns();
    for (size_t i = 0; i < samples; i++) {
        until_asleep(path);
        poster_post(&poster, note_latency, &sparse, now_ns());
        taken[i] = answer(&sparse);
    }
    cpu = cpu_ns() - cpu;
    poster_stop(&poster);
    return cpu;
}

/* Only the first loop's thread writes the samples. */
struct rally {
    struct poster here, there;
    uint64_t *taken;
    size_t count, rounds;
    uv_sem_t over;
};

static void serve(void *on, uint64_t number);

static void back(void *on, uint64_t sent) {
    struct rally *rally = on;
    rally->taken[rally->count++] = now_ns() - sent;
    if (rally->count < rally->rounds)
        serve(rally, 0);
    else
        uv_sem_post(&rally->over);
}

static void reply(void *on, uint64_t sent) {
    struct rally *rally = on;
    poster_post(&rally->here, back, rally, sent);
}

static void serve(void *on, uint64_t number) {
    (void)number;
    struct rally *rally = on;
    poster_post(&rally->there, reply, rally, now_ns());
}

static uint64_t dense_samples(uint64_t *taken, size_t rounds) {
    static struct rally rally;
    rally.taken = taken;
    rally.rounds = rounds;
    MUST(uv_sem_init(&rally.over, 0));
    poster_start(&rally.here);
    poster_start(&rally.there);
    uint64_t cpu = cpu_ns();
    poster_post(&rally.here, serve, &rally, 0);
    uv_sem_wait(&rally.over);
    cpu = cpu_ns() - cpu;
    poster_stop(&rally.here);
    poster_stop(&rally.there);
    return cpu;
}

void topic_wakeup(void) {
    const char *row = param_text("row", "sparse");
    size_t samples = param_number("samples", 1000);
    params_finish();
    uint64_t *taken = grown(NULL, samples * sizeof *taken), cpu;
    if (samples == 0)
        die("no samples");
    else if (strcmp(row, "sparse") == 0)
        cpu = sparse_samples(taken, samples);
    else if (strcmp(row, "dense") == 0)
        cpu = dense_samples(taken, samples);
    else
        die("no such row: %s", row);
    double p50 = (double)percentile(taken, samples, 50) / 1e3,
           p99 = (double)percentile(taken, samples, 99) / 1e3;
    free(taken);
    report("wakeup", row, p50, "us", cpu, "p99", p99);
}
