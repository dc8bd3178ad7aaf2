/* Dumps of rings: a thread's newest records are copied from its tail into its segment file.

   The owner of the ring continues to write records meanwhile, and any thread may dump it. */

#ifndef MEANTIME_RING_H
#define MEANTIME_RING_H

#include <semaphore.h>

#include "stream.h"

enum dump_reason { DUMP_ASKED = 0, DUMP_SIGNAL = 1, DUMP_ERROR = 2, DUMP_BLOCKED = 3 };

static pthread_mutex_t dump_mutex = PTHREAD_MUTEX_INITIALIZER; /* one dump at a time */
THREAD_LOCAL uint64_t last_dump_ns = 0; /* CLOCK_MONOTONIC; across recordings */

static struct {
    int running, signal;
    volatile sig_atomic_t stop;
    sem_t wanted;
    pthread_t thread;
    struct sigaction before;
} dumper;

typedef struct {
    uint32_t slots, events;
    uint64_t first_ns, last_ns;
} chunk_content;

/* Must exclude exactly the kinds that count as a stream's overhead: those of put_own, and those of
   put_payload with `own`. */
static int is_event(uint8_t kind) {
    return kind != KIND_THREAD_END && kind != KIND_FLUSH && kind != KIND_CLOCK &&
           kind != KIND_THREAD && kind != KIND_CALLED && kind != KIND_LOST &&
           kind != KIND_LOOP_KNOWN;
}

/* Copies the records of a chunk from slot `begin` on, and describes them. The owner may append
   meanwhile. What is behind its last record is older, but for an end that it writes before each
   record: so they are read one after the other, in which order memcpy reads is not known. */
static chunk_content copy_records(slot *copy, const slot *chunk, uint32_t begin) {
    chunk_content c = {begin, 0, 0, 0};
    while (c.slots < CHUNK_SLOTS) {
        const slot *from = chunk + c.slots;
        slot *to = copy + c.slots;
        uint64_t w0 = __atomic_load_n(&from->w0, __ATOMIC_ACQUIRE);
        if (!w0) break;
        uint64_t w1 = from->w1;
        uint32_t bytes = (w0 & 255) >= RECORD_FIRST_PAYLOAD ? (uint32_t)(w1 >> 32) : 0;
        /* a program can overwrite anything */
        if (bytes > (CHUNK_SLOTS - 1 - c.slots) * SLOT_BYTES) break;
        *to = (slot){w0, w1};
        memcpy(to + 1, from + 1, (size_t)(bytes + 15) / 16 * 16);
        if (c.slots == begin) c.first_ns = w0 >> 8;
        c.last_ns = w0 >> 8;
        c.events += is_event((uint8_t)w0);
        c.slots += 1 + (bytes + 15) / 16;
    }
    return c;
}

/* Copies chunk `q` and marks it as dumped. Returns the first slot that was not dumped before, or -1
   if the chunk has been overwritten meanwhile. The owner needs ring_mutex to reuse a chunk, so the
   copy has records of one chunk only; those that it appends meanwhile may be in it or not. */
static int64_t take_chunk(stream *s, uint64_t q, slot *copy, chunk_content *content) {
    tail_header *t = s->tail;
    int64_t begin = -1;
    pthread_mutex_lock(&ring_mutex);
    if (t->seq < q + rec.chunks) {
        begin = q == t->dumped_seq ? (int64_t)t->dumped_slots : 0;
        *content = copy_records(copy, s->chunk[q % rec.chunks], (uint32_t)begin);
        s->dumped_events = content->events + (begin ? s->dumped_events : 0);
        t->dumped_seq = q;
        t->dumped_slots = content->slots;
    }
    pthread_mutex_unlock(&ring_mutex);
    return begin;
}

/* Records in the segment file how many events the ring overwrote since the last dump. */
static void write_gap(stream *s, uint64_t until_ns) {
    tail_header *t = s->tail;
    uint64_t passed = __atomic_load_n(&t->overwritten, __ATOMIC_RELAXED);
    slot gap[3];
    if (passed == t->reported) return;
    gap[0].w0 = until_ns << 8 | KIND_LOST;
    gap[0].w1 = (uint64_t)s->number | (uint64_t)32 << 32;
    gap[1].w0 = passed - t->reported;
    gap[1].w1 = t->dumped_ns;
    gap[2].w0 = until_ns;
    gap[2].w1 = 0;
    if (write_slots(s, gap, 3) < 0) return;
    t->reported = passed;
    t->dumped_ns = until_ns;
}

/* Returns the first chunk to dump; counts chunks that are older than ring_ns as overwritten. */
static uint64_t first_to_dump(stream *s) {
    tail_header *t = s->tail;
    uint64_t now = now_ns(), oldest_ns = rec.ring_ns && rec.ring_ns < now ? now - rec.ring_ns : 0;
    pthread_mutex_lock(&ring_mutex);
    uint64_t first = t->seq + 1 >= rec.chunks ? t->seq + 1 - rec.chunks : 0;
    if (first < t->dumped_seq) first = t->dumped_seq;
    /* a chunk is too old only if the next one also begins before the limit */
    while (first < t->seq && s->chunk[(first + 1) % rec.chunks]->w0 >> 8 <= oldest_ns) {
        uint64_t events = s->chunk_events[first % rec.chunks];
        if (first == t->dumped_seq) events -= s->dumped_events;
        t->overwritten += events;
        t->dumped_seq = ++first;
        t->dumped_slots = s->dumped_events = 0;
    }
    pthread_mutex_unlock(&ring_mutex);
    return first;
}

/* Dumps the records of a stream's ring that are not in its segment file yet. Returns -1 if some
   could not be written; these count as overwritten. */
static int dump_stream(stream *s) {
    static slot copy[CHUNK_SLOTS]; /* too large for a program's stack; dump_mutex protects it */
    chunk_content content;
    int result = 0;
    uint64_t first = first_to_dump(s), last = __atomic_load_n(&s->tail->seq, __ATOMIC_ACQUIRE);
    for (uint64_t q = first; q <= last; q++) {
        int64_t begin = take_chunk(s, q, copy, &content);
        if (begin < 0 || content.slots == (uint32_t)begin) continue;
        write_gap(s, content.first_ns);
        if (write_slots(s, copy + begin, content.slots - (uint32_t)begin) < 0) {
            note_failure(errno);
            pthread_mutex_lock(&ring_mutex);
            s->tail->overwritten += content.events;
            pthread_mutex_unlock(&ring_mutex);
            result = -1;
            continue;
        }
        s->tail->dumped_ns = content.last_ns;
    }
    return result;
}

static void dump_all(void) {
    inside_stream++;
    pthread_mutex_lock(&dump_mutex);
    /* Streams are only added, at the front, so the list can be followed without the mutex, which
       write_slots needs for rotation. */
    pthread_mutex_lock(&rec_mutex);
    stream *first = rec.streams;
    pthread_mutex_unlock(&rec_mutex);
    for (stream *s = first; s; s = s->next) dump_stream(s);
    pthread_mutex_unlock(&dump_mutex);
    inside_stream--;
}

/* Dumps all rings, from a thread of the program, and records for how long that stalled it. */
static void dump_rings(enum dump_reason reason) {
    if (rec.policy != POLICY_RING) return;
    put(KIND_DUMP, mine.current_task, reason);
    uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    dump_all();
    last_dump_ns = clock_ns(CLOCK_MONOTONIC);
    stream *s = stream_of_thread();
    if (!s) return;
    put_own(s, now_ns(), KIND_FLUSH, last_dump_ns - begin);
    if (s->cursor == s->limit) turn(s);
}

/* A signal that dumps rings even if the program is stuck in compiled code with the GIL */

/* Dumping acquires mutexes and allocates, which a signal handler must not do: it only wakes a
   thread by sem_post, which is async-signal-safe. */
static void on_dump_signal(int number) {
    int error = errno;
    (void)number;
    sem_post(&dumper.wanted);
    errno = error;
}

static void *dump_when_wanted(void *unused) {
    (void)unused;
    for (;;) {
        while (sem_wait(&dumper.wanted) < 0) {
        }
        if (dumper.stop) return NULL;
        dump_all();
    }
}

static int start_dumper_thread(void) {
    sigset_t all, before;
    dumper.stop = 0;
    sem_init(&dumper.wanted, 0, 0);
    sigfillset(&all);
    /* a thread inherits the mask: the program's handlers must never run on the dumper */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    dumper.running = pthread_create(&dumper.thread, NULL, dump_when_wanted, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return dumper.running ? 0 : -1;
}

/* Makes the signal dump the rings, unless the program handles or ignores it already. */
static int dump_on_signal(int number) {
    struct sigaction ours = {.sa_handler = on_dump_signal, .sa_flags = SA_RESTART};
    if (sigaction(number, NULL, &dumper.before) < 0) return -1;
    if (dumper.before.sa_handler != SIG_DFL) return 0;
    if (start_dumper_thread() < 0) return -1;
    dumper.signal = number;
    return sigaction(number, &ours, NULL);
}

static void stop_dumper(void) {
    struct sigaction now;
    if (!dumper.running) return;
    if (sigaction(dumper.signal, NULL, &now) == 0 && now.sa_handler == on_dump_signal)
        sigaction(dumper.signal, &dumper.before, NULL);
    dumper.stop = 1;
    sem_post(&dumper.wanted);
    pthread_join(dumper.thread, NULL);
    dumper.running = 0;
}

#endif
