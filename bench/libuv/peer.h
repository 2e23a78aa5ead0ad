/* What the topics of the libuv peer share: the JSON line, parameters, clocks, and a loop on its own thread
 * that takes closures. One topic, one process: `libuv_peer <topic> [key=value ...]`, the same topics,
 * parameters and lines as bench/evloop. An error ends the process at once, so nothing is freed on the way
 * out. */

#ifndef PEER_H
#define PEER_H

#include <stdint.h>
#include <uv.h>

/* Says why on stderr and ends the process with failure: no number is printed for a result that is wrong. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Calls that can only fail for want of resources. */
#define MUST(call) ((call) == 0 ? (void)0 : die("%s failed", #call))

/* The value of key=value among the arguments, or the default. params_finish dies if a key was given that
 * nobody took. */
void params_parse(int count, char **args);
uint64_t param_number(const char *key, uint64_t fallback);
const char *param_text(const char *key, const char *fallback);
void params_finish(void);

uint64_t now_ns(void);
uint64_t cpu_ns(void);

/* Nearest rank, percent in 1..100; sorts the samples. */
uint64_t percentile(uint64_t *samples, size_t count, unsigned percent);

/* The line of a measurement, with one more number under `also` unless that is NULL. */
void report(const char *topic, const char *row, double value, const char *unit, uint64_t cpu,
            const char *also, double number);

void *grown(void *array, size_t bytes);

/* A closure: a function, what it works on, and a number. */
struct closure {
    void (*run)(void *on, uint64_t number);
    void *on;
    uint64_t number;
};

/* Closures waiting for the loop; the array grows and is swapped out whole. */
struct batch {
    struct closure *items;
    size_t count, room;
};

/* A libuv loop on its own thread. Producers push to `waiting` under the mutex and wake the loop through
 * `wake`; the loop's thread alone touches `running`. */
struct poster {
    uv_loop_t loop;
    uv_async_t wake;
    uv_mutex_t lock;
    struct batch waiting, running;
    uv_thread_t thread;
};

void poster_start(struct poster *poster);
void poster_post(struct poster *poster, void (*run)(void *, uint64_t), void *on, uint64_t number);
/* Ends the loop after all closures posted before it, and joins its thread. */
void poster_stop(struct poster *poster);

void topic_posts(void);
void topic_timers(void);
void topic_wakeup(void);

#endif
