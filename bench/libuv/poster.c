/* A libuv loop on its own thread, fed through a mutexed array of closures: how a program over libuv posts to
 * its loop, since uv_async_send carries no payload and merges calls. */

#include "peer.h"

#include <stdlib.h>

static void drain(uv_async_t *wake) {
    struct poster *poster = wake->data;
    uv_mutex_lock(&poster->lock);
    struct batch taken = poster->waiting;
    poster->waiting = poster->running;
    uv_mutex_unlock(&poster->lock);
    for (size_t i = 0; i < taken.count; i++)
        taken.items[i].run(taken.items[i].on, taken.items[i].number);
    taken.count = 0;
    poster->running = taken;
}

static void turn(void *argument) {
    struct poster *poster = argument;
    uv_run(&poster->loop, UV_RUN_DEFAULT);
}

void poster_start(struct poster *poster) {
    *poster = (struct poster){0};
    MUST(uv_loop_init(&poster->loop));
    MUST(uv_mutex_init(&poster->lock));
    MUST(uv_async_init(&poster->loop, &poster->wake, drain));
    poster->wake.data = poster;
    MUST(uv_thread_create(&poster->thread, turn, poster));
}

void poster_post(struct poster *poster, void (*run)(void *, uint64_t), void *on, uint64_t number) {
    uv_mutex_lock(&poster->lock);
    struct batch *batch = &poster->waiting;
    if (batch->count == batch->room) {
        batch->room = batch->room == 0 ? 256 : 2 * batch->room;
        batch->items = grown(batch->items, batch->room * sizeof *batch->items);
    }
    batch->items[batch->count++] = (struct closure){run, on, number};
    uv_mutex_unlock(&poster->lock);
    uv_async_send(&poster->wake);
}

static void close_wake(void *on, uint64_t number) {
    (void)number;
    struct poster *poster = on;
    uv_close((uv_handle_t *)&poster->wake, NULL);
}

void poster_stop(struct poster *poster) {
    poster_post(poster, close_wake, poster, 0);
    MUST(uv_thread_join(&poster->thread));
    MUST(uv_loop_close(&poster->loop));
    uv_mutex_destroy(&poster->lock);
    free(poster->waiting.items);
    free(poster->running.items);
}
