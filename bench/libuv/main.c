/* The libuv peer's entry: chooses the topic. Also parameters, clocks, the JSON line. */

#include "peer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int param_count;
static char **param_args;

_Noreturn void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("libuv_peer: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(EXIT_FAILURE);
}

void params_parse(int count, char **args) {
    param_count = count;
    param_args = args;
}

const char *param_text(const char *key, const char *fallback) {
    size_t length = strlen(key);
    for (int i = 0; i < param_count; i++) {
        char *arg = param_args[i];
        if (arg != NULL && strncmp(arg, key, length) == 0 && arg[length] == '=') {
            param_args[i] = NULL;
            return arg + length + 1;
        }
    }
    return fallback;
}

uint64_t param_number(const char *key, uint64_t fallback) {
    const char *text = param_text(key, NULL);
    if (text == NULL)
        return fallback;
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0')
        die("%s cannot be %s", key, text);
    return number;
}

void params_finish(void) {
    for (int i = 0; i < param_count; i++)
        if (param_args[i] != NULL)
            die("no such parameter: %s", param_args[i]);
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec time;
    MUST(clock_gettime(clock, &time));
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

uint64_t cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

static int by_size(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

uint64_t percentile(uint64_t *samples, size_t count, unsigned percent) {
    if (count == 0)
        return 0;
    qsort(samples, count, sizeof *samples, by_size);
    size_t rank = (count * percent + 99) / 100;
    return samples[rank == 0 ? 0 : rank - 1];
}

void report(const char *topic, const char *row, double value, const char *unit, uint64_t cpu,
            const char *also, double number) {
    printf("{\"topic\":\"%s\",\"row\":\"%s\",\"impl\":\"libuv\",\"value\":%.3f,\"unit\":\"%s\",\"cpu_"
           "seconds\":%.6f",
           topic, row, value, unit, (double)cpu / 1e9);
    if (also != NULL)
        printf(",\"%s\":%.3f", also, number);
    puts("}");
}

void *grown(void *array, size_t bytes) {
    void *larger = realloc(array, bytes);
    if (larger == NULL)
        die("no memory for %zu bytes", bytes);
    return larger;
}

int main(int count, char **args) {
    const char *topic = count > 1 ? args[1] : "";
    params_parse(count - 2, args + 2);
    if (strcmp(topic, "posts") == 0)
        topic_posts();
    else if (strcmp(topic, "timers") == 0)
        topic_timers();
    else if (strcmp(topic, "wakeup") == 0)
        topic_wakeup();
    else if (strcmp(topic, "version") == 0)
        puts(uv_version_string());
    else
        die("usage: libuv_peer <posts|timers|wakeup|version> [key=value ...]");
    return EXIT_SUCCESS;
}
