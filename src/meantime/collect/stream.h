/* The recording's writer: one stream of 16-byte records per running thread.

   docs/reference/recording-format.md specifies the files. A stream is a small MAP_SHARED tail of
   chunks, whose pages survive even SIGKILL, and segment files into which full chunks are written.
   Nothing here touches Python, so hooks may call it without the GIL.

   While a recording runs, only the thread that owns a stream writes to it, without a lock. The
   order of locks is dump_mutex (ring.h), rec_mutex, then facts_mutex or ring_mutex. */

#ifndef MEANTIME_STREAM_H
#define MEANTIME_STREAM_H

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#include "own_files.h"
#include "record_kinds.h"

#ifdef __GLIBC__
/* otherwise an extension module calls __tls_get_addr per access, which costs as much as an event */
#define THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))
#else
#define THREAD_LOCAL static __thread
#endif

enum {
    CHUNK_SLOTS = CHUNK_BYTES / SLOT_BYTES,
    MAX_TEXT = 4096,
    MAX_THREAD_NAME = 64,
};

/* w0 is the time since base_ns << 8 | the kind, so times have 56 bits. A w0 of 0 marks the end of
   what has been written to a chunk: every writer clears the next w0 before it stores its own. */
typedef struct {
    uint64_t w0, w1;
} slot;

/* The part of a tail that other processes read; field offsets are part of the file format. */
typedef struct {
    char magic[8];
    uint32_t version, pid, incarnation, stream;
    int64_t base_ns;
    uint32_t chunk_bytes, chunks;
    uint64_t seq;      /* the chunk now being filled; its index is seq % chunks */
    uint64_t flushed;  /* chunks below this one are in the segment files */
    uint64_t lost;     /* events that were not recorded */
    uint64_t overwritten; /* events of a ring that newer ones replaced */
    uint64_t dumped_seq, dumped_slots; /* of a ring: the end of what was dumped */
    uint64_t policy;
    uint64_t reported; /* of `overwritten`, those in LOST records of the segment files */
    uint64_t dumped_ns; /* of a ring: the last time in the segment files */
    uint64_t reserved[2];
    uint64_t written[MAX_CHUNKS]; /* by flushed % chunks: slots in the segment files by then */
} tail_header;

typedef struct {
    char magic[8];
    uint32_t version, pid, incarnation, stream;
    int64_t base_ns;
    uint32_t segment, parent_pid, parent_incarnation, reserved;
    uint64_t slots_before; /* of this stream, in earlier segments */
    int64_t realtime_ns;   /* CLOCK_REALTIME at base_ns */
} file_header;

_Static_assert(sizeof(slot) == SLOT_BYTES, "a record is a slot");
_Static_assert(sizeof(tail_header) <= TAIL_HEADER_BYTES, "the tail's header is one page");
_Static_assert(sizeof(file_header) == HEADER_BYTES, "a segment's header is four slots");

/* For how long a thread has had a processor, and has waited for one, since it began; when that was
   read; and for how long it has been in recorded waits since then. */
typedef struct {
    uint64_t ran_ns, waited_ns, read_ns, away_ns;
} cpu_times;

typedef struct stream {
    slot *cursor, *limit;
    uint64_t turned_ns; /* when it last turned: what was about to be recorded then is not earlier */
    uint32_t overhead; /* slots of the chunk that are not events: payloads and our own records */
    uint32_t generation;
    slot *chunk[MAX_CHUNKS];
    uint32_t chunk_events[MAX_CHUNKS];
    uint32_t chunk_slots[MAX_CHUNKS];
    uint64_t chunk_reports[MAX_CHUNKS]; /* the events that a LOST record in the chunk counts */
    tail_header *tail;
    own_file file;
    uint32_t number, segment;
    uint32_t tid, name_length;
    int thread_unreported;
    const uint32_t *task; /* the owner's thread-local current_task, which the sampler reads */
    const uint64_t *step_since; /* the same of step_since_ns */
    const cpu_times *cpu;       /* and of cpu */
    uint64_t watched_ns; /* of the sampler: the begin of the step that it watches */
    uint64_t needed_ns;  /* how long that takes until its stack is recorded next */
    uint64_t again_ns;   /* when it may have taken so long */
    uint64_t glimpse_ns; /* when the stack of a shorter step may be recorded */
    char thread_name[MAX_THREAD_NAME];
    uint64_t segment_bytes, in_file;
    uint64_t opened_ns; /* the time of the first record in its segment */
    uint64_t unreported, unreported_from, unreported_to;
    uint64_t flush_ns;
    uint64_t dumped_events; /* of the ring's chunk dumped_seq, those in segment files */
    struct stream *next, *next_free;
} stream;

typedef struct closed_segment {
    struct closed_segment *next;
    uint32_t stream, segment;
    uint64_t bytes, slots, from_ns, to_ns;
} closed_segment;

/* Shared by the processes of a recording: a page of its file `usage`, mapped. It contains the
   counters of lost events because a process that can no longer open files can still write them. */
typedef struct {
    uint64_t bytes;          /* of segment files, where their size is limited */
    uint64_t lost_events;    /* of threads for which no stream could be created */
    uint64_t lost_from_ns, lost_until_ns; /* CLOCK_MONOTONIC of the first and the last of them */
    uint64_t lost_facts;
    uint64_t failed_errno;   /* of the first file that could not be opened or written */
} shared_counts;

typedef struct {
    int policy;
    uint32_t chunks;
    uint64_t max_bytes, segment_bytes;
    int64_t deadline_ns;
    uint64_t ring_ns; /* how much of a ring is written out; 0 is all */
    uint32_t pid, incarnation, parent_pid, parent_incarnation;
    int64_t base_ns;
    own_file facts;
    shared_counts *shared;
    stream *streams, *free_streams;
    uint32_t stream_count;
    closed_segment *oldest, *newest;
    uint64_t lost_without_stream, lost_from_ns, lost_until_ns;
    uint64_t slots; /* in segment files, of all streams */
    int failed_errno;
    int helper_running, helper_stop;
    pthread_t helper;
} recording_state;

static recording_state rec = {.facts = {.fd = -1}};
static int recording_on = 0;
/* counts recordings and forks, so that a thread's stream of an earlier one is never written to */
static uint32_t epoch = 1;
static pthread_mutex_t rec_mutex = PTHREAD_MUTEX_INITIALIZER;
/* innermost: the facts are written from threads with and without the GIL */
static pthread_mutex_t facts_mutex = PTHREAD_MUTEX_INITIALIZER;
/* between the owner of a ring and a thread that dumps it; never held during a write to disk */
static pthread_mutex_t ring_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t forked_tid = 0; /* the id in the parent of the thread that forked */
static pthread_cond_t helper_wake = PTHREAD_COND_INITIALIZER;
static pthread_key_t thread_key;
static stream *spare_streams = NULL;
static stream *ended_streams = NULL; /* of earlier recordings, still mapped: see stop_recording */
static uint32_t generations = 0;

#include "clock.h"

/* What most hooks read and write of the calling thread. Together, since each thread-local variable
   of an extension module is found through a pointer of its own; what each record takes comes
   first. */
THREAD_LOCAL struct {
    stream *stream;
    thread_clock clock;
    /* when the thread's loop began its present step, or ended the last one; 0 while it has none */
    uint64_t step_since_ns;
    uint32_t epoch; /* in which the stream was acquired */
    uint32_t current_task;
    /* A task whose step ended with a bare yield, or a checkpoint of trio: it is scheduled again at
       once, so that wake-up is not recorded. */
    uint32_t yielded_task;
    uint32_t served_request; /* what the running task serves, or 0 */
    /* The handle of asyncio that runs, if its class is hooked, and whether it has run a task's
       step. Its begin is that of the step, too. */
    struct _object *running_handle;
    uint64_t handle_begin_ns;
    slot *handle_cursor; /* the stream's cursor when it began */
    int handle_stepped;
    int stepped_since_poll;
    /* A task that was running when the recording began. That step does not pass through the proxy,
       so the next hook on this thread checks whether it has ended. */
    struct proxy *unseen;
    /* The seconds that asyncio.sleep waits for, as the last wait_location of this thread found; -1
       if it is something else. */
    double slept_s;
    uint32_t waited_item; /* the item of a pool that the same found to be waited for, or 0 */
    /* On a loop whose handles are compiled, it is not seen when a timer was due, so the delay of
       asyncio.sleep is recorded when it begins. */
    int hides_timers;
    uint32_t loop_epoch;  /* the epoch in which a loop began to run on the thread */
    uint32_t polls_epoch; /* the epoch in which the thread's loop was seen to poll */
    cpu_times cpu;       /* read between two steps, and where it begins and ends to wait in one */
    uint64_t paused_ns;  /* when it last began to wait for something else */
    uint64_t resumed_ns; /* when it last went on after that */
    struct _PyInterpreterFrame *loop_frame; /* the frame that runs the loop */
} mine = {.slept_s = -1};

THREAD_LOCAL uint32_t my_tid = 0;
THREAD_LOCAL uint32_t loop_location = 0; /* names its type, if loops are recorded */
THREAD_LOCAL uint32_t loop_parked = 0;
THREAD_LOCAL const char *own_thread = NULL; /* the name of a thread of the recorder */
THREAD_LOCAL int inside_stream = 0; /* a hook under our own waits must not write to the stream */
THREAD_LOCAL int own_descriptors = 0; /* whether the thread has a table of its own */
THREAD_LOCAL own_file own_facts = {.fd = -1}; /* then, the facts in that table */
THREAD_LOCAL int without_gil = 0; /* a hook of a wait: PyGILState_Check cannot be used, since it
                                     always returns 1 once a second interpreter was created */

/* Returns the name of the calling thread if it is known; set by the module. */
static size_t (*name_of_thread)(char *buffer, size_t size) = NULL;

static inline uint64_t now_ns(void) { return monotonic_ns(&mine.clock) - (uint64_t)rec.base_ns; }

/* Records why a file could not be opened or written; the shared counter keeps the first reason. */
static void note_failure(int error) {
    uint64_t none = 0;
    rec.failed_errno = error;
    __atomic_compare_exchange_n(&rec.shared->failed_errno, &none, (uint64_t)error, 0,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static __attribute__((noinline, cold)) void turn(stream *s);

/* The facts: definitions and other rare records, written immediately and never rotated */

static void facts_name(char *name) {
    snprintf(name, MAX_FILE_NAME, "%u.%u.facts", rec.pid, rec.incarnation);
}

static int open_process(void);

/* A forked process has no facts file until its first event, and the first task that it spawns has a
   location to define before that. */
static void open_child(void) {
    int error = errno;
    if (inside_stream || now_ns() >= (uint64_t)rec.deadline_ns) return;
    inside_stream++;
    pthread_mutex_lock(&rec_mutex);
    if (recording_on && !rec.facts.inode) open_process();
    pthread_mutex_unlock(&rec_mutex);
    inside_stream--;
    errno = error;
}

/* Returns the file of the facts with the calling thread's descriptor. Called with facts_mutex. */
static own_file *facts_of_thread(void) {
    if (!own_descriptors) return &rec.facts;
    if (own_facts.inode != rec.facts.inode || own_facts.device != rec.facts.device) {
        own_facts = rec.facts;
        own_facts.fd = -1;
    }
    return &own_facts;
}

static void write_fact(uint8_t kind, uint32_t id, const void *payload, uint32_t bytes) {
    slot buffer[1 + MAX_TEXT / 16];
    char name[MAX_FILE_NAME];
    size_t size = 16 + ((size_t)bytes + 15) / 16 * 16;
    if (!rec.facts.inode && recording_on) open_child();
    if (!rec.facts.inode) return;
    memset(buffer, 0, size);
    buffer[0].w0 = now_ns() << 8 | kind;
    buffer[0].w1 = (uint64_t)id | (uint64_t)bytes << 32;
    memcpy(buffer + 1, payload, bytes);
    pthread_mutex_lock(&facts_mutex);
    facts_name(name);
    own_file *facts = facts_of_thread();
    /* the size is required although the file is in append mode: append_to truncates back to it */
    if (reach_file(facts, name, O_WRONLY | O_APPEND) < 0 ||
        append_to(facts, lseek(facts->fd, 0, SEEK_END), buffer, size) < 0) {
        note_failure(errno);
        __atomic_fetch_add(&rec.shared->lost_facts, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&facts_mutex);
}

static void fill_header(file_header *h, const char *magic, uint32_t number, uint32_t segment) {
    memset(h, 0, sizeof *h);
    memcpy(h->magic, magic, 8);
    h->version = FORMAT_VERSION;
    h->pid = rec.pid;
    h->incarnation = rec.incarnation;
    h->stream = number;
    h->segment = segment;
    h->base_ns = rec.base_ns;
    h->parent_pid = rec.parent_pid;
    h->parent_incarnation = rec.parent_incarnation;
    /* read one directly after the other, since their difference relates the clocks */
    uint64_t before = clock_ns(CLOCK_MONOTONIC);
    uint64_t real = clock_ns(CLOCK_REALTIME);
    h->realtime_ns = (int64_t)(real - (before - (uint64_t)rec.base_ns));
}

/* Creates the facts file under the first incarnation that is free for this pid: the same pid
   occurs again after exec, or when the system reuses it. */
static int open_process(void) {
    char name[MAX_FILE_NAME];
    file_header h;
    rec.pid = (uint32_t)getpid();
    rec.facts = NO_FILE;
    for (rec.incarnation = 0;; rec.incarnation++) {
        facts_name(name);
        if (keep_file(&rec.facts, open_named(name, O_CREAT | O_EXCL | O_WRONLY | O_APPEND)) == 0)
            break;
        if (errno != EEXIST) {
            note_failure(errno);
            return -1;
        }
    }
    fill_header(&h, "mtrfacts", 0, 0);
    if (append_to(&rec.facts, 0, &h, sizeof h) < 0) {
        note_failure(errno);
        close_file(&rec.facts);
        unlink_named(name);
        return -1;
    }
    return 0;
}

/* Segments */

static void segment_name(char *name, uint32_t number, uint32_t segment) {
    snprintf(name, MAX_FILE_NAME, "%u.%u.%u.%u.ev", rec.pid, rec.incarnation, number, segment);
}

static int open_segment(stream *s) {
    char name[MAX_FILE_NAME];
    file_header h;
    segment_name(name, s->number, s->segment);
    if (keep_file(&s->file, open_named(name, O_CREAT | O_TRUNC | O_WRONLY)) < 0) return -1;
    fill_header(&h, "mtrevent", s->number, s->segment);
    h.slots_before = s->in_file;
    if (append_to(&s->file, 0, &h, sizeof h) < 0) {
        int error = errno;
        close_file(&s->file);
        unlink_named(name);
        errno = error;
        return -1;
    }
    s->segment_bytes = sizeof h;
    __atomic_fetch_add(&rec.shared->bytes, sizeof h, __ATOMIC_RELAXED);
    return 0;
}

/* Makes sure that the descriptor refers to the stream's segment, positioned at its end. */
static int reach_segment(stream *s) {
    char name[MAX_FILE_NAME];
    if (likely(is_ours(&s->file))) return 0;
    segment_name(name, s->number, s->segment);
    if (reach_file(&s->file, name, O_WRONLY) < 0) return -1;
    return lseek(s->file.fd, (off_t)s->segment_bytes, SEEK_SET) < 0 ? -1 : 0;
}

/* Deletes the oldest closed segments until the recording fits. The fact is written before the
   file is deleted, so that a reader which misses the file always finds the reason. */
static void shrink(void) {
    while (rec.oldest && __atomic_load_n(&rec.shared->bytes, __ATOMIC_RELAXED) > rec.max_bytes) {
        closed_segment *c = rec.oldest;
        char name[MAX_FILE_NAME];
        uint64_t payload[5] = {c->stream, c->segment, c->slots, c->from_ns, c->to_ns};
        segment_name(name, c->stream, c->segment);
        write_fact(KIND_ROTATED, c->stream, payload, sizeof payload);
        unlink_named(name);
        __atomic_fetch_sub(&rec.shared->bytes, c->bytes, __ATOMIC_RELAXED);
        rec.oldest = c->next;
        if (!rec.oldest) rec.newest = NULL;
        free(c);
    }
}

/* Makes every task repeat its name and spawn location, because the records that contain them may
   be deleted or overwritten from now on. */
static void new_generation(stream *s) {
    s->thread_unreported = 1;
    s->generation = __atomic_add_fetch(&generations, 1, __ATOMIC_RELAXED);
}

static void close_segment(stream *s) {
    if (!s->file.inode) return;
    close_file(&s->file);
    closed_segment *c = calloc(1, sizeof *c);
    if (c) {
        c->stream = s->number;
        c->segment = s->segment;
        c->bytes = s->segment_bytes;
        c->slots = (s->segment_bytes - HEADER_BYTES) / 16;
        c->from_ns = s->opened_ns;
        c->to_ns = now_ns();
        if (rec.newest) rec.newest->next = c;
        else rec.oldest = c;
        rec.newest = c;
    }
    s->segment++;
}

/* Appends slots to the stream's segment; after -1 the file is unchanged. Call it without rec_mutex,
   which rotation acquires. */
static int write_slots(stream *s, const slot *from, uint32_t slots) {
    size_t size = (size_t)slots * 16;
    if (!s->file.inode) {
        if (open_segment(s) < 0) return -1;
        s->opened_ns = from->w0 >> 8;
    }
    if (reach_segment(s) < 0) return -1;
    if (append_to(&s->file, (off_t)s->segment_bytes, from, size) < 0) return -1;
    s->segment_bytes += size;
    s->in_file += slots;
    __atomic_fetch_add(&rec.slots, slots, __ATOMIC_RELAXED);
    if (rec.max_bytes) {
        __atomic_fetch_add(&rec.shared->bytes, size, __ATOMIC_RELAXED);
        if (s->segment_bytes >= rec.segment_bytes ||
            __atomic_load_n(&rec.shared->bytes, __ATOMIC_RELAXED) > rec.max_bytes) {
            pthread_mutex_lock(&rec_mutex);
            /* only closed segments can be deleted: without one, this one must become deletable */
            if (s->segment_bytes >= rec.segment_bytes || !rec.oldest) {
                close_segment(s);
                new_generation(s);
            }
            shrink();
            pthread_mutex_unlock(&rec_mutex);
        }
    }
    return 0;
}

/* Chunks */

static void begin_chunk(stream *s) {
    uint64_t seq = s->tail->seq;
    uint32_t at = (uint32_t)(seq % rec.chunks);
    s->cursor = s->chunk[at];
    /* the last slot is reserved for the w0 of 0 behind the last record */
    s->limit = s->chunk[at] + CHUNK_SLOTS - 1;
    s->overhead = 0;
    s->chunk_reports[at] = 0;
    s->cursor->w0 = 0;
}

static uint32_t chunk_used(stream *s) {
    return (uint32_t)(s->cursor - s->chunk[s->tail->seq % rec.chunks]);
}

/* Counts the events of a chunk as lost, and also those that a LOST record in it had reported, since
   that report is lost with the chunk. */
static void count_lost(stream *s, uint32_t at) {
    if (!s->unreported && !s->chunk_reports[at]) s->unreported_from = s->chunk[at]->w0 >> 8;
    s->unreported_to = now_ns();
    s->unreported += s->chunk_events[at] + s->chunk_reports[at];
    s->tail->lost += s->chunk_events[at];
}

static void put_payload(stream *s, uint64_t time_ns, uint8_t kind, uint32_t id,
                        const void *payload, uint32_t bytes, int own) {
    uint32_t slots = (bytes + 15) / 16;
    if (s->cursor + slots + 1 > s->limit) {
        turn(s);
        time_ns = now_ns();
    }
    if (unlikely(time_ns < s->turned_ns)) time_ns = s->turned_ns;
    slot *r = s->cursor;
    if (slots) memset(r + slots, 0, 16); /* the padding of the last slot */
    memcpy(r + 1, payload, bytes);
    r->w1 = (uint64_t)id | (uint64_t)bytes << 32;
    r[slots + 1].w0 = 0;
    s->overhead += slots + (own ? 1 : 0);
    __atomic_store_n(&r->w0, time_ns << 8 | kind, __ATOMIC_RELEASE);
    __atomic_store_n(&s->cursor, r + slots + 1, __ATOMIC_RELEASE);
}

/* Writes a record of the recorder itself. There is always room for one: whoever fills a chunk turns
   to the next immediately, so callers outside `turn` must compare cursor and limit afterwards. */
static void put_own(stream *s, uint64_t time_ns, uint8_t kind, uint64_t w1) {
    slot *r = s->cursor;
    r->w1 = w1;
    r[1].w0 = 0;
    s->overhead++;
    __atomic_store_n(&r->w0, time_ns << 8 | kind, __ATOMIC_RELEASE);
    __atomic_store_n(&s->cursor, r + 1, __ATOMIC_RELEASE);
}

/* Reports in the stream the events that were lost before this record. */
static void report_lost(stream *s) {
    if (!s->unreported) return;
    uint64_t payload[4] = {s->unreported, s->unreported_from, s->unreported_to, 0};
    put_payload(s, now_ns(), KIND_LOST, s->number, payload, sizeof payload, 1);
    s->chunk_reports[s->tail->seq % rec.chunks] = s->unreported;
    s->unreported = 0;
    s->thread_unreported = 1; /* the last change of the loop's state may be among the lost events */
}

/* Records the thread that owns the stream, and the state of its event loop, if it has one. */
static void report_thread(stream *s) {
    if (!s->thread_unreported || !s->tid) return;
    s->thread_unreported = 0;
    put_payload(s, now_ns(), KIND_THREAD, s->tid, s->thread_name, s->name_length, 1);
    if (loop_location && mine.loop_epoch == epoch)
        put_own(s, now_ns(), KIND_LOOP_KNOWN, loop_location | (uint64_t)loop_parked << 32);
}

/* Writes the chunk `seq`; the events of a chunk that cannot be written are counted as lost. */
static void flush_chunk(stream *s, uint64_t seq) {
    uint32_t at = (uint32_t)(seq % rec.chunks);
    if (write_slots(s, s->chunk[at], s->chunk_slots[at]) < 0) {
        note_failure(errno);
        count_lost(s, at);
    }
    /* stored before `flushed`: whoever reads the new `flushed` also finds the slot count with it */
    s->tail->written[(seq + 1) % rec.chunks] = s->in_file;
    __atomic_store_n(&s->tail->flushed, seq + 1, __ATOMIC_RELEASE);
}

static void advance(stream *s) {
    uint64_t seq = s->tail->seq + 1;
    /* emptied before it is published: a reader must not take its old records for new ones */
    s->chunk[seq % rec.chunks]->w0 = 0;
    __atomic_store_n(&s->tail->seq, seq, __ATOMIC_RELEASE);
    begin_chunk(s);
}

static void *flush_in_background(void *unused) {
    (void)unused;
    pthread_mutex_lock(&rec_mutex);
    while (!rec.helper_stop) {
        int found = 0;
        for (stream *s = rec.streams; s && !found; s = s->next) {
            uint64_t seq = s->tail->flushed;
            if (seq == __atomic_load_n(&s->tail->seq, __ATOMIC_ACQUIRE)) continue;
            found = 1;
            /* Released, so that new threads need not wait for the disk. Streams are only freed
               once this thread ended, so `s` stays valid; then the search begins again. */
            pthread_mutex_unlock(&rec_mutex);
            flush_chunk(s, seq);
            pthread_mutex_lock(&rec_mutex);
        }
        if (!found) pthread_cond_wait(&helper_wake, &rec_mutex);
    }
    pthread_mutex_unlock(&rec_mutex);
    return NULL;
}

static void start_helper(void) {
    sigset_t all, before;
    sigfillset(&all);
    /* a thread inherits the mask: the program's handlers must never run on the helper */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rec.helper_stop = 0;
    rec.helper_running = pthread_create(&rec.helper, NULL, flush_in_background, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void turn_blocking(stream *s, uint64_t seq) {
    uint64_t begin = now_ns();
    flush_chunk(s, seq);
    advance(s);
    uint64_t end = now_ns();
    s->flush_ns += end - begin;
    /* records are in order of begin: a loss began before this stall */
    report_lost(s);
    put_own(s, now_ns(), KIND_FLUSH, end - begin);
}

static void turn_dropping(stream *s, uint64_t seq) {
    uint32_t at = (uint32_t)(seq % rec.chunks);
    if (seq + 1 - __atomic_load_n(&s->tail->flushed, __ATOMIC_ACQUIRE) >= rec.chunks) {
        /* The newest chunk is dropped and refilled: the helper may be writing the oldest one. */
        count_lost(s, at);
        begin_chunk(s);
    } else {
        advance(s);
        pthread_mutex_lock(&rec_mutex);
        if (!rec.helper_running) start_helper();
        pthread_cond_signal(&helper_wake);
        pthread_mutex_unlock(&rec_mutex);
    }
}

static void turn_ring(stream *s, uint64_t seq) {
    pthread_mutex_lock(&ring_mutex);
    /* `passed` is the chunk that `advance` reuses; only what no dump has written counts as lost */
    if (seq + 1 >= rec.chunks) {
        uint64_t passed = seq + 1 - rec.chunks, events = s->chunk_events[passed % rec.chunks];
        if (passed == s->tail->dumped_seq) events -= s->dumped_events;
        if (passed >= s->tail->dumped_seq) s->tail->overwritten += events;
    }
    /* at least twice per ring, so that a ring contains the name of each task that runs in it */
    if (seq % ((rec.chunks + 3) / 4) == 0) new_generation(s);
    advance(s);
    pthread_mutex_unlock(&ring_mutex);
}

static __attribute__((noinline)) void turn(stream *s) {
    uint64_t seq = s->tail->seq;
    uint32_t at = (uint32_t)(seq % rec.chunks);
    int error = errno;
    inside_stream++;
    s->chunk_slots[at] = chunk_used(s);
    s->chunk_events[at] = s->chunk_slots[at] - s->overhead;
    if (rec.policy == POLICY_BLOCK) turn_blocking(s, seq);
    else if (rec.policy == POLICY_DROP) turn_dropping(s, seq);
    else turn_ring(s, seq);
    put_own(s, now_ns(), KIND_CLOCK, clock_ns(CLOCK_REALTIME));
    report_lost(s);
    report_thread(s);
    s->turned_ns = now_ns();
    inside_stream--;
    errno = error;
}

/* Streams */

static void tail_name(char *name, uint32_t number) {
    snprintf(name, MAX_FILE_NAME, "%u.%u.%u.tail", rec.pid, rec.incarnation, number);
}

static int map_tail(stream *s) {
    char name[MAX_FILE_NAME];
    size_t size = TAIL_HEADER_BYTES + (size_t)rec.chunks * CHUNK_BYTES;
    tail_name(name, s->number);
    int fd = open_named(name, O_CREAT | O_TRUNC | O_RDWR);
    if (fd < 0) return -1;
    /* in a sparse file, a full disk would raise SIGBUS at a write to the mapping */
    int error = posix_fallocate(fd, 0, (off_t)size);
    void *map = MAP_FAILED;
    if (!error) {
        map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        if (map == MAP_FAILED) error = errno;
    }
    close(fd); /* the mapping needs none, and one per thread could exhaust the program's limit */
    if (map == MAP_FAILED) {
        unlink_named(name);
        errno = error;
        return -1;
    }
    s->tail = map;
    for (uint32_t i = 0; i < rec.chunks; i++)
        s->chunk[i] = (slot *)((char *)map + TAIL_HEADER_BYTES + (size_t)i * CHUNK_BYTES);
    return 0;
}

static void write_tail_header(stream *s) {
    tail_header *t = s->tail;
    t->version = FORMAT_VERSION;
    t->pid = rec.pid;
    t->incarnation = rec.incarnation;
    t->stream = s->number;
    t->base_ns = rec.base_ns;
    t->chunk_bytes = CHUNK_BYTES;
    t->chunks = rec.chunks;
    t->policy = (uint64_t)rec.policy;
    memcpy(t->magic, "mtrtail1", 8); /* last: without it, the header is not complete */
}

/* Called with rec_mutex held. */
static stream *new_stream(void) {
    stream *s = spare_streams;
    if (s) spare_streams = s->next;
    else s = malloc(sizeof *s);
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    s->file = NO_FILE;
    s->number = rec.stream_count;
    if (map_tail(s) < 0) {
        note_failure(errno);
        s->next = spare_streams;
        spare_streams = s;
        return NULL;
    }
    rec.stream_count++;
    write_tail_header(s);
    begin_chunk(s);
    new_generation(s);
    s->next = rec.streams;
    rec.streams = s;
    return s;
}

/* Counts an event of a thread that has no stream; called with rec_mutex held. */
static void count_without_stream(void) {
    uint64_t time_ns = clock_ns(CLOCK_MONOTONIC), none = 0;
    if (!rec.lost_without_stream++) rec.lost_from_ns = time_ns;
    rec.lost_until_ns = time_ns;
    __atomic_compare_exchange_n(&rec.shared->lost_from_ns, &none, time_ns, 0, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    __atomic_store_n(&rec.shared->lost_until_ns, time_ns, __ATOMIC_RELAXED);
    __atomic_fetch_add(&rec.shared->lost_events, 1, __ATOMIC_RELAXED);
}

/* Assigns a stream to the calling thread: that of an ended thread, or a new one. Reuse bounds the
   number of files in a program that starts many short threads. */
static __attribute__((noinline, cold)) stream *acquire_stream(void) {
    int error = errno;
    stream *s = NULL;
    /* No stream for a thread that begins after the deadline, nor for a hook that is called by what
       `turn` or this function does. */
    if (inside_stream || now_ns() >= (uint64_t)rec.deadline_ns) return NULL;
    inside_stream++;
    pthread_mutex_lock(&rec_mutex);
    if (recording_on) {
        if (rec.facts.inode || open_process() == 0) {
            /* the segment of one that was used before is open in the program's table */
            s = own_descriptors ? NULL : rec.free_streams;
            if (s) rec.free_streams = s->next_free;
            else s = new_stream();
        }
        if (!s) count_without_stream();
    }
    pthread_mutex_unlock(&rec_mutex);
    if (s) {
        my_tid = (uint32_t)syscall(SYS_gettid);
        pthread_mutex_lock(&rec_mutex);
        s->tid = my_tid;
        s->task = &mine.current_task;
        s->step_since = &mine.step_since_ns;
        s->cpu = &mine.cpu;
        pthread_mutex_unlock(&rec_mutex);
        s->name_length = 0;
        if (own_thread) {
            s->name_length = (uint32_t)strlen(own_thread);
            memcpy(s->thread_name, own_thread, s->name_length);
        } else if (name_of_thread && !without_gil) {
            s->name_length = (uint32_t)name_of_thread(s->thread_name, MAX_THREAD_NAME);
        }
        mine.stream = s;
        mine.epoch = epoch;
        pthread_setspecific(thread_key, s); /* calls release_stream when the thread ends */
        s->thread_unreported = 1;
        report_thread(s);
        if (s->cursor == s->limit) turn(s);
    }
    inside_stream--;
    errno = error;
    return s;
}

/* Destructor of thread_key: the stream keeps its records, and the next new thread continues it. */
static void release_stream(void *value) {
    stream *s = value;
    if (mine.epoch != epoch || mine.stream != s || !recording_on) return;
    put_own(s, now_ns(), KIND_THREAD_END, my_tid);
    /* under the mutex, because the sampler dereferences both pointers, which end with the thread */
    pthread_mutex_lock(&rec_mutex);
    s->tid = 0;
    s->task = NULL;
    s->step_since = NULL;
    s->cpu = NULL;
    pthread_mutex_unlock(&rec_mutex);
    if (s->cursor == s->limit) turn(s);
    if (own_descriptors) s->file.fd = -1;
    pthread_mutex_lock(&rec_mutex);
    s->next_free = rec.free_streams;
    rec.free_streams = s;
    pthread_mutex_unlock(&rec_mutex);
    mine.stream = NULL;
}

static inline stream *stream_of_thread(void) {
    if (likely(mine.epoch == epoch && mine.stream)) return mine.stream;
    return acquire_stream();
}

/* Writes an event without a payload: the path that every hook takes. The release store of w0 comes
   last, so a reader of the mapped tail, or of what a killed process left of it, finds either a
   whole record or the end. */
static inline void put_at(stream *s, uint64_t time_ns, uint8_t kind, uint32_t id, uint32_t aux) {
    if (unlikely(time_ns >= (uint64_t)rec.deadline_ns)) return;
    if (unlikely(time_ns < s->turned_ns)) time_ns = s->turned_ns;
    slot *r = s->cursor;
    r->w1 = (uint64_t)id | (uint64_t)aux << 32;
    r[1].w0 = 0;
    __atomic_store_n(&r->w0, time_ns << 8 | kind, __ATOMIC_RELEASE);
    s->cursor = r + 1;
    if (unlikely(s->cursor == s->limit)) turn(s);
}

/* The time is read after the stream was found: a thread's first call writes a THREAD record, which
   must not be later than this one. */
static inline void put(uint8_t kind, uint32_t id, uint32_t aux) {
    stream *s = stream_of_thread();
    if (likely(s)) put_at(s, now_ns(), kind, id, aux);
}

/* Writes an event that consists of one 64-bit number. */
static inline void put_number_at(stream *s, uint64_t time_ns, uint8_t kind, uint64_t number) {
    put_at(s, time_ns, kind, (uint32_t)number, (uint32_t)(number >> 32));
}

/* The time must not be before that of the thread's last record. */
static void put_text_at(uint64_t time_ns, uint8_t kind, uint32_t id, const char *text,
                        size_t length) {
    stream *s = stream_of_thread();
    if (!s || time_ns >= (uint64_t)rec.deadline_ns) return;
    if (length > MAX_TEXT - 16) length = MAX_TEXT - 16;
    put_payload(s, time_ns, kind, id, text, (uint32_t)length, 0);
    if (s->cursor == s->limit) turn(s);
}

static void put_text(uint8_t kind, uint32_t id, const char *text, size_t length) {
    if (stream_of_thread()) put_text_at(now_ns(), kind, id, text, length);
}

#endif
