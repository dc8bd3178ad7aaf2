/* What event loops do: they run steps, look for events, and wait for them.

   A step is one step of a task or one callback. Where a step ends and the next begins, it is checked
   whether it was long; only then is it read for how long the thread waited for a processor, and for
   how long it had one. */

#ifndef MEANTIME_LOOPS_H
#define MEANTIME_LOOPS_H

#include "ring.h"

enum {
    LONG_STEP_NS = 1000000,
    NOTED_WAIT_NS = 1000,
    NOTED_SLEEP_NS = 100000,
    /* The times are read again where a step begins if they were not for this long: so less of what
       the thread has waited before a step counts as waited in it, and reading takes less than 1 %
       of the time. */
    CPU_READ_NS = 500000,
    /* The same for a thread that runs no loop, which opens the file each time: a descriptor for
       each of a thousand threads would be missing elsewhere. */
    OTHER_READ_NS = 5000000,
};

static uint64_t blocked_limit_ns = 0; /* a longer time without a poll dumps the rings; 0: never */
/* when this thread's loop last looked for events, or began; of CLOCK_MONOTONIC, while all others
   count from base_ns */
THREAD_LOCAL uint64_t polled_ns = 0;

/* The sampler's thread, which watches for long steps; set by sampler.h */
static pthread_mutex_t watch_mutex = PTHREAD_MUTEX_INITIALIZER;
static int watch_pending = 0; /* whether it is to be started by the next loop that polls */
static void (*start_watching)(void) = NULL;
static void (*stop_watching)(void) = NULL; /* before a fork, with watch_mutex held; then it is pending again */

/* How long threads wait for a processor although they could run, and how long they sleep */

THREAD_LOCAL own_file schedstat_file = {.fd = -1};
THREAD_LOCAL uint32_t schedstat_epoch = 0; /* the epoch in which the file was last opened */
THREAD_LOCAL uint32_t cpu_epoch = 0;  /* the epoch in which the times of the thread were last read */
THREAD_LOCAL uint32_t wait_epoch = 0; /* the same, if how long it waited was among them */
/* The epoch in which the program has started threads whose waits are not recorded. */
static uint32_t unwatched_epoch = 0;

static int open_schedstat(own_file *f) {
    return keep_file(f, open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
}

static int reach_schedstat(void) {
    if (likely(is_ours(&schedstat_file))) return 0;
    /* once for each recording and fork: the program may refuse us the descriptor again and again */
    if (schedstat_epoch == epoch) return -1;
    schedstat_epoch = epoch;
    schedstat_file = NO_FILE;
    return open_schedstat(&schedstat_file);
}

/* Reads for how long a thread has waited for a processor so far; returns -1 if that is unknown. It
   is the second number in the file. The first, for how long it has had one, is brought up to date
   at a tick of the kernel only, which may be 10 ms ago. */
static int read_schedstat(int fd, uint64_t *waited_ns) {
    char text[64];
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    if (size <= 0) return -1;
    text[size] = 0;
    /* takes half of what strchr and strtoull do, and this runs for most requests of a server */
    const char *at = text;
    uint64_t number = 0;
    while (*at >= '0' && *at <= '9') at++;
    if (*at != ' ') return -1;
    while (*++at >= '0' && *at <= '9') number = number * 10 + (uint64_t)(*at - '0');
    *waited_ns = number;
    return 0;
}

/* Reads the times of the calling thread; returns whether that for which it has waited is known. */
static int read_cpu_times(uint64_t time_ns, int keeps_file) {
    own_file once = NO_FILE;
    uint64_t waited_ns = 0;
    mine.cpu.read_ns = time_ns;
    mine.cpu.away_ns = 0;
    __atomic_store_n(&mine.cpu.ran_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID), __ATOMIC_RELAXED);
    cpu_epoch = epoch;
    if ((keeps_file ? reach_schedstat() : open_schedstat(&once)) < 0) return 0;
    int known = read_schedstat(keeps_file ? schedstat_file.fd : once.fd, &waited_ns) == 0;
    if (!keeps_file) close_file(&once);
    if (!known) return 0;
    __atomic_store_n(&mine.cpu.waited_ns, waited_ns, __ATOMIC_RELAXED);
    wait_epoch = epoch;
    return 1;
}

static __attribute__((noinline, cold)) void begin_cpu_times(uint64_t time_ns, int keeps_file) {
    int error = errno;
    if (schedstat_file.inode && schedstat_epoch != epoch) close_file(&schedstat_file);
    read_cpu_times(time_ns, keeps_file);
    errno = error;
}

/* Records for how long the thread slept since its times were last read: it neither had a processor
   nor waited for one, nor was it in a wait that is recorded. What it waited for a processor is
   recorded for the time since `since_ns`, in which it ran. */
static __attribute__((noinline, cold)) void note_cpu_times(uint64_t time_ns, uint64_t since_ns,
                                                           int keeps_file) {
    int error = errno;
    cpu_times before = mine.cpu;
    stream *s = stream_of_thread();
    int has_times = s && cpu_epoch == epoch, had_wait = wait_epoch == epoch;
    int knows_wait = read_cpu_times(time_ns, keeps_file) && had_wait;
    if (has_times) {
        uint64_t waited_ns = knows_wait ? mine.cpu.waited_ns - before.waited_ns : 0;
        int64_t slept_ns = (int64_t)(time_ns - before.read_ns - before.away_ns - waited_ns -
                                     (mine.cpu.ran_ns - before.ran_ns));
        /* a loop whose polls are not seen may have been parked before */
        int is_parked = mine.loop_epoch == epoch && mine.polls_epoch != epoch &&
                        since_ns - before.read_ns > CPU_READ_NS;
        /* what is not known to be sleep may be a wait for a processor, for a lock or the GIL */
        uint8_t kind = knows_wait ? KIND_ASLEEP : KIND_ASLEEP_OR_LATE;
        if (unwatched_epoch == epoch) kind = KIND_OFF_CPU;
        if (slept_ns >= NOTED_SLEEP_NS && !is_parked)
            put_number_at(s, time_ns, kind, (uint64_t)slept_ns);
        if (waited_ns > time_ns - since_ns) waited_ns = time_ns - since_ns;
        if (waited_ns >= NOTED_WAIT_NS) put_number_at(s, time_ns, KIND_CPU_WAIT, waited_ns);
    }
    errno = error;
}

/* Returns when the thread last began a step, or went on after it had waited for something else. */
static inline uint64_t running_since(uint64_t step_since_ns) {
    return mine.resumed_ns > step_since_ns ? mine.resumed_ns : step_since_ns;
}

/* These two enclose a wait of the thread for something else. What it waited for a processor before
   is recorded where it ran, and what it waits for one within does not count. */

static __attribute__((noinline, cold)) void note_running(uint64_t time_ns, int keeps_file) {
    uint64_t since = running_since(mine.step_since_ns);
    if (since > time_ns || time_ns - since < (keeps_file ? LONG_STEP_NS : OTHER_READ_NS)) return;
    note_cpu_times(time_ns, since, keeps_file);
}

static inline void end_running(uint64_t time_ns) {
    int keeps_file = schedstat_file.inode != 0;
    mine.paused_ns = time_ns;
    if (unlikely(time_ns - mine.cpu.read_ns >= (keeps_file ? CPU_READ_NS : OTHER_READ_NS)))
        note_running(time_ns, keeps_file);
}

static inline void begin_running(uint64_t time_ns) {
    int keeps_file = schedstat_file.inode != 0;
    mine.cpu.away_ns += time_ns - mine.paused_ns;
    mine.paused_ns = mine.resumed_ns = time_ns;
    if (unlikely(time_ns - mine.cpu.read_ns >= (keeps_file ? CPU_READ_NS : OTHER_READ_NS)))
        begin_cpu_times(time_ns, keeps_file);
}

/* Records that the thread runs, from where its waits are recorded on. */
static void begin_thread_states(void) {
    stream *s = stream_of_thread();
    if (!s) return;
    uint64_t time_ns = now_ns();
    end_running(time_ns);
    put_at(s, time_ns, KIND_RESUMED, 0, 0);
    begin_running(time_ns);
}

/* Records for how long a thread that begins has waited for a processor since it was created. */
static void note_thread_start(void) {
    if (!stream_of_thread()) return;
    uint64_t time_ns = now_ns();
    mine.cpu = (cpu_times){.ran_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), .read_ns = time_ns};
    cpu_epoch = wait_epoch = epoch;
    mine.resumed_ns = time_ns;
    note_cpu_times(time_ns, 0, 0);
}

/* Reads the times of the thread, if the step was long or they were not read for some time. They
   were last read before the step. */
static inline void check_step(uint64_t time_ns) {
    uint64_t since = mine.step_since_ns;
    if (unlikely(since && time_ns - mine.cpu.read_ns >= CPU_READ_NS))
        note_cpu_times(time_ns, time_ns - since < LONG_STEP_NS ? time_ns : running_since(since), 1);
}

/* Notes that a step ends, and perhaps the next begins. Steps inside steps do not count. */
static inline void end_step(uint64_t time_ns) {
    check_step(time_ns);
    /* a loop whose polls are not seen may be parked after the step */
    __atomic_store_n(&mine.step_since_ns, mine.polls_epoch == epoch ? time_ns : 0,
                     __ATOMIC_RELAXED);
}

static inline void begin_outer_step(uint64_t time_ns) {
    check_step(time_ns);
    __atomic_store_n(&mine.step_since_ns, time_ns, __ATOMIC_RELAXED);
}

static void note_present_wait(void) {
    uint64_t time_ns = now_ns(), since = mine.step_since_ns;
    if (since) note_cpu_times(time_ns, running_since(since), 1);
}

/* A loop's states: also kept in variables, for report_thread to repeat them */

static void begin_loop_run(uint32_t location) {
    loop_location = location;
    loop_parked = 0;
    put(KIND_LOOP_BEGIN, location, 0);
}

static void end_loop_run(void) {
    loop_location = 0;
    end_step(now_ns());
    put(KIND_LOOP_END, 0, 0);
}

/* A loop that is blocked */

static void check_blocked(uint64_t begin_ns) {
    /* a dump that happened during this step has written it already */
    if (last_dump_ns < begin_ns && clock_ns(CLOCK_MONOTONIC) - begin_ns >= blocked_limit_ns)
        dump_rings(DUMP_BLOCKED);
}

/* These two enclose each poll of a loop, whether it waits or not. A `polled_ns` from before this
   recording does not measure a blocked loop. */
static inline void begin_poll(int may_wait) {
    if (unlikely(blocked_limit_ns) && polled_ns >= (uint64_t)rec.base_ns) check_blocked(polled_ns);
    mine.polls_epoch = epoch;
    if (!may_wait) return;
    stream *s = stream_of_thread();
    uint64_t time_ns = now_ns();
    end_step(time_ns);
    __atomic_store_n(&mine.step_since_ns, 0, __ATOMIC_RELAXED);
    loop_parked = 1;
    mine.paused_ns = time_ns;
    if (likely(s)) put_at(s, time_ns, KIND_PARK, 0, 0);
}

static inline void end_poll(int may_wait, uint32_t ready) {
    stream *s = stream_of_thread();
    uint64_t time_ns = now_ns();
    if (may_wait) {
        loop_parked = 0;
        if (likely(s)) put_at(s, time_ns, KIND_UNPARK, ready, 0);
        mine.cpu.away_ns += time_ns - mine.paused_ns;
        if (time_ns - mine.cpu.read_ns >= CPU_READ_NS) begin_cpu_times(time_ns, 1);
    } else {
        end_step(time_ns);
        if (likely(s)) put_at(s, time_ns, KIND_TURN, ready, 0);
    }
    __atomic_store_n(&mine.step_since_ns, time_ns, __ATOMIC_RELAXED);
    mine.stepped_since_poll = 0;
    if (unlikely(blocked_limit_ns)) polled_ns = clock_ns(CLOCK_MONOTONIC);
    if (unlikely(watch_pending)) start_watching();
}

/* These enclose the run of a loop. */
static void begin_polls(void) {
    /* what it does before its first step counts, too */
    uint64_t time_ns = now_ns();
    __atomic_store_n(&mine.step_since_ns, time_ns, __ATOMIC_RELAXED);
    if (blocked_limit_ns) polled_ns = clock_ns(CLOCK_MONOTONIC);
    schedstat_epoch = 0;
    begin_cpu_times(time_ns, 1);
    if (watch_pending) start_watching();
}

static void end_polls(void) {
    __atomic_store_n(&mine.step_since_ns, 0, __ATOMIC_RELAXED);
    polled_ns = 0;
    mine.polls_epoch = 0;
    close_file(&schedstat_file);
}

#endif
