/* CLOCK_MONOTONIC at less cost: the processor's counter, related to the clock once a millisecond.

   A reading of the counter takes a third of the time of the system's clock, and there are several
   for each step of a task. Between two readings of the clock, the counter's rate is taken as
   constant, so times deviate from it by less than a microsecond, and never go back on a thread. */

#ifndef MEANTIME_CLOCK_H
#define MEANTIME_CLOCK_H

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#ifdef __x86_64__
/* Ticks for which a reading of the clock is used, about a millisecond; the clocks are read together
   if that takes no more ticks than CLOSE_TICKS. The rate is measured over at least MEASURED_NS. */
enum { CLOCK_SPAN_TICKS = 1 << 21, CLOSE_TICKS = 1 << 11, MEASURED_NS = 20000000 };

typedef struct {
    uint64_t ticks, ns;
} clock_pair;

static int counter_is_clock = 0; /* whether the system's clock is made of this counter, too */
static clock_pair counter_base;
/* nanoseconds a tick, times 2^32; 0: not measured yet. Shared by all threads. */
static uint64_t counter_rate = 0;
static uint64_t measured_over_ns = 0;

/* of a thread */
typedef struct {
    clock_pair anchor;
    uint64_t rate;
    uint64_t span; /* ticks from the anchor on; 0: there is none */
} thread_clock;

static int read_clocks(clock_pair *p) {
    uint64_t before = __builtin_ia32_rdtsc();
    p->ns = clock_ns(CLOCK_MONOTONIC);
    p->ticks = __builtin_ia32_rdtsc();
    return p->ticks - before < CLOSE_TICKS;
}

/* Measures the rate over a longer time whenever that has doubled. */
static void measure_rate(const clock_pair *now) {
    uint64_t over_ns = now->ns - counter_base.ns, ticks = now->ticks - counter_base.ticks;
    uint64_t known = __atomic_load_n(&measured_over_ns, __ATOMIC_RELAXED);
    if (over_ns < MEASURED_NS || over_ns < 2 * known || over_ns > 1000000000000u || !ticks) return;
    __atomic_store_n(&measured_over_ns, over_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&counter_rate, (uint64_t)(((unsigned __int128)over_ns << 32) / ticks),
                     __ATOMIC_RELAXED);
}

static __attribute__((noinline, cold)) uint64_t anchor_clock(thread_clock *c) {
    /* the last time that was returned is not later than this */
    uint64_t reached = c->anchor.ns + (c->span * c->rate >> 32);
    clock_pair now = {0, 0};
    c->span = 0;
    if (!counter_is_clock) return clock_ns(CLOCK_MONOTONIC);
    if (read_clocks(&now)) {
        measure_rate(&now);
        c->rate = __atomic_load_n(&counter_rate, __ATOMIC_RELAXED);
        c->span = c->rate ? CLOCK_SPAN_TICKS : 0;
    }
    if (now.ns < reached && reached - now.ns < 1000000) now.ns = reached;
    c->anchor = now;
    return now.ns;
}

static inline uint64_t monotonic_ns(thread_clock *c) {
    uint64_t ticks = __builtin_ia32_rdtsc() - c->anchor.ticks;
    /* also false if the counter went back, as after a suspension */
    if (likely(ticks < c->span)) return c->anchor.ns + (ticks * c->rate >> 32);
    return anchor_clock(c);
}

/* The kernel uses the counter only if it runs at a constant rate, alike on all processors. */
static void prepare_clock(void) {
    char name[8] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t size = read(fd, name, sizeof name - 1);
    close(fd);
    if (size < 4 || memcmp(name, "tsc\n", 4)) return;
    /* the first reading of a clock in a process takes long */
    for (int i = 0; i < 10 && !counter_is_clock; i++) counter_is_clock = read_clocks(&counter_base);
}

#else
typedef struct {
    char unused;
} thread_clock;

static inline uint64_t monotonic_ns(thread_clock *c) {
    (void)c;
    return clock_ns(CLOCK_MONOTONIC);
}
static void prepare_clock(void) {}
#endif

#endif
