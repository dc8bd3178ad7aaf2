/* The recording as a whole: its beginning, its end, and its state in a forked process. */

#ifndef MEANTIME_RECORDING_H
#define MEANTIME_RECORDING_H

#include "loops.h"

/* Acquires the mutexes in their usual order, so that the child gets consistent data. dump_mutex is
   left out: fork would have to wait until another thread's dump is on disk. */
static void before_fork(void) {
    /* first, since the thread that it ends acquires the others; held, so that none begins */
    pthread_mutex_lock(&watch_mutex);
    if (stop_watching) stop_watching();
    pthread_mutex_lock(&rec_mutex);
    pthread_mutex_lock(&facts_mutex);
    pthread_mutex_lock(&ring_mutex);
    forked_tid = (uint32_t)syscall(SYS_gettid);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&ring_mutex);
    pthread_mutex_unlock(&facts_mutex);
    pthread_mutex_unlock(&rec_mutex);
    pthread_mutex_unlock(&watch_mutex);
}

static void after_fork_in_child(void) {
    /* the thread that held dump_mutex may not exist here, so it cannot be unlocked, only remade */
    pthread_mutex_init(&watch_mutex, NULL);
    pthread_mutex_init(&rec_mutex, NULL);
    pthread_mutex_init(&facts_mutex, NULL);
    pthread_mutex_init(&ring_mutex, NULL);
    pthread_mutex_init(&dump_mutex, NULL);
    last_dump_ns = 0;
    if (!recording_on && !rec.facts.inode) return;
    epoch++; /* by exactly 1, from which `announce` in proxy.h recognises a fork */
    mine.stream = NULL;
    mine.current_task = 0;
    mine.step_since_ns = 0;
    pthread_cond_init(&helper_wake, NULL);
    size_t size = TAIL_HEADER_BYTES + (size_t)rec.chunks * CHUNK_BYTES;
    /* the mappings are shared with the parent, which continues to write to them */
    for (stream *s = rec.streams, *next; s; s = next) {
        next = s->next;
        munmap(s->tail, size);
        close_file(&s->file);
        s->next = spare_streams;
        spare_streams = s;
    }
    rec.streams = rec.free_streams = NULL;
    rec.stream_count = 0;
    rec.oldest = rec.newest = NULL;
    rec.helper_running = 0;
    rec.lost_without_stream = rec.slots = 0;
    /* acquire_stream creates the child's own files at its first event: most children only exec */
    close_file(&rec.facts);
    rec.parent_pid = rec.pid;
    rec.parent_incarnation = rec.incarnation;
}

/* Stops the helper. Called without rec_mutex, which the helper needs to end. */
static void stop_helper(void) {
    if (!rec.helper_running) return;
    pthread_mutex_lock(&rec_mutex);
    rec.helper_stop = 1;
    pthread_cond_signal(&helper_wake);
    pthread_mutex_unlock(&rec_mutex);
    pthread_join(rec.helper, NULL);
    rec.helper_running = 0;
}

static void forget_ended_streams(void) {
    for (stream *s = ended_streams, *next; s; s = next) {
        next = s->next;
        munmap(s->tail, TAIL_HEADER_BYTES + (size_t)s->tail->chunks * CHUNK_BYTES);
        s->next = spare_streams;
        spare_streams = s;
    }
    ended_streams = NULL;
}

static int prepare_process(void) {
    prepare_clock();
    if (pthread_key_create(&thread_key, release_stream)) return -1;
    return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static int start_recording(const char *directory, int policy, uint32_t chunks, uint64_t max_bytes,
                           uint64_t duration_ns, uint64_t ring_ns) {
    if (strlen(directory) >= sizeof recording_directory) {
        errno = ENAMETOOLONG;
        return -1;
    }
    /* Not at the end of the previous recording: a hook that was still running could count in it. */
    if (rec.shared) munmap(rec.shared, 4096);
    forget_ended_streams();
    memset(&rec, 0, sizeof rec);
    rec.facts = NO_FILE;
    strcpy(recording_directory, directory);
    open_directory();
    rec.policy = policy;
    rec.chunks = chunks;
    rec.max_bytes = max_bytes;
    rec.ring_ns = ring_ns;
    rec.segment_bytes = max_bytes / 8; /* rotation deletes a whole segment at a time */
    if (rec.segment_bytes > 64u << 20) rec.segment_bytes = 64u << 20;
    int fd = open_named("usage", O_CREAT | O_RDWR);
    if (fd < 0) return -1;
    int error = posix_fallocate(fd, 0, 4096);
    rec.shared = error ? MAP_FAILED
                       : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (rec.shared == MAP_FAILED) {
        if (!error) error = errno;
        rec.shared = NULL;
        close(fd);
        errno = error;
        return -1;
    }
    close(fd);
    rec.base_ns = (int64_t)clock_ns(CLOCK_MONOTONIC);
    /* times are shifted left by 8 bits in a record */
    rec.deadline_ns = duration_ns ? (int64_t)duration_ns : INT64_MAX >> 8;
    epoch++;
    if (open_process() < 0) return -1;
    recording_on = 1;
    return 0;
}

/* Ends the recording: writes the tails' records into segment files, and deletes each tail whose
   records could be written. */
static void stop_recording(void) {
    char name[MAX_FILE_NAME];
    size_t size = TAIL_HEADER_BYTES + (size_t)rec.chunks * CHUNK_BYTES;
    uint64_t lost = 0, overwritten = 0, flush_ns = 0;
    recording_on = 0;
    stop_helper();
    stop_dumper();
    epoch++;
    pthread_mutex_lock(&dump_mutex); /* a loop without the GIL may be dumping its ring */
    pthread_mutex_lock(&rec_mutex);
    for (stream *s = rec.streams, *next; s; s = next) {
        int written = 1;
        next = s->next;
        if (rec.policy != POLICY_RING) {
            uint64_t seq;
            report_lost(s);
            seq = s->tail->seq;
            s->chunk_slots[seq % rec.chunks] = chunk_used(s);
            pthread_mutex_unlock(&rec_mutex); /* write_slots acquires it */
            for (uint64_t q = s->tail->flushed; q <= seq && written; q++)
                if (s->chunk_slots[q % rec.chunks])
                    written = write_slots(s, s->chunk[q % rec.chunks],
                                          s->chunk_slots[q % rec.chunks]) == 0;
            pthread_mutex_lock(&rec_mutex);
            if (!written) note_failure(errno);
        } else {
            pthread_mutex_unlock(&rec_mutex);
            written = dump_stream(s) == 0;
            pthread_mutex_lock(&rec_mutex);
        }
        lost += s->tail->lost;
        overwritten += s->tail->overwritten;
        flush_ns += s->flush_ns;
        close_file(&s->file);
        if (written) {
            tail_name(name, s->number);
            unlink_named(name);
        }
        /* A hook of another thread may still be inside put_at: private memory at the same address
           receives its write. It is unmapped when the next recording starts. */
        mmap(s->tail, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0);
        s->tail->chunks = rec.chunks;
        s->next = ended_streams;
        ended_streams = s;
    }
    rec.streams = rec.free_streams = NULL;
    while (rec.oldest) {
        closed_segment *c = rec.oldest;
        rec.oldest = c->next;
        free(c);
    }
    rec.newest = NULL;
    uint64_t payload[9] = {lost + rec.lost_without_stream,
                           overwritten,
                           flush_ns,
                           rec.lost_without_stream,
                           clock_ns(CLOCK_REALTIME),
                           rec.lost_from_ns,
                           rec.lost_until_ns,
                           rec.slots,
                           (uint64_t)rec.failed_errno};
    write_fact(KIND_CLOSED, 0, payload, sizeof payload);
    close_file(&rec.facts);
    close_file(&directory_file);
    pthread_mutex_unlock(&rec_mutex);
    pthread_mutex_unlock(&dump_mutex);
}

#endif
