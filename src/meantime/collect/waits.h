/* Exact waits of threads: the C library's wait functions, replaced in the interpreter's own tables.

   Each object calls a shared function through an entry of its global offset table. This replaces
   the interpreter's entries for the functions in which a thread waits for the GIL or for a lock,
   and the entries of the `select` module and of uvloop for those in which a loop waits for events.
   No other object is changed, and `remove_waits` restores all entries.

   A replacement may run without the GIL, so it must not use Python's API. */

#ifndef MEANTIME_WAITS_H
#define MEANTIME_WAITS_H

#include "loops.h"

#if defined(__linux__) && defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
#define MEANTIME_HAS_WAITS 1
#include <dlfcn.h>
#include <link.h>
#include <semaphore.h>
#include <sys/epoll.h>

#include "gil.h"

#ifdef __x86_64__
#define RELOCATION_GLOBAL R_X86_64_GLOB_DAT
#else
#define RELOCATION_GLOBAL R_AARCH64_GLOB_DAT
#endif

enum {
    MAX_SLOTS = 256,
    CONTINUED_NS = 50000, /* between two turns of one wait for the GIL */
};

typedef struct {
    const char *name;
    void *replacement;
    void **original;
} waited;

static struct {
    void **slot;
    void *original;
    int read_only; /* in RELRO: protect the page again after a change */
} replaced[MAX_SLOTS];
static int replaced_count = 0;

static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_cond_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_sem_wait)(sem_t *);
static int (*real_sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
static int (*real_epoll_wait)(int, struct epoll_event *, int, int);
static int (*real_epoll_pwait)(int, struct epoll_event *, int, int, const sigset_t *);

/* The stream's cursor after a wait for the GIL that timed out. The interpreter waits in turns of
   its switch interval (5 ms), so if nothing was written since, the next wait continues this one:
   its RESUMED record is removed, and no new wait is recorded. */
THREAD_LOCAL slot *resumed_at = NULL;

static stream *stream_of_wait(void) {
    without_gil = 1;
    stream *s = stream_of_thread();
    without_gil = 0;
    return s;
}

/* `gil` is what the thread waits for, or NULL if it is something else. */
static void begin_wait(uint8_t kind, const gil_state *gil) {
    stream *s = stream_of_wait();
    if (s && kind == KIND_GIL_WAIT && resumed_at && resumed_at == s->cursor &&
        now_ns() - (resumed_at[-1].w0 >> 8) < CONTINUED_NS) {
        s->cursor = resumed_at - 1;
        s->cursor->w0 = 0;
        return;
    }
    if (!s) return;
    uint64_t time_ns = now_ns();
    end_running(time_ns);
    put_at(s, time_ns, kind, kind == KIND_GIL_WAIT ? holder_of_gil(gil) : 0, 0);
}

static void end_wait(int go_on) {
    stream *s = stream_of_wait();
    if (s) {
        uint64_t time_ns = now_ns();
        put_at(s, time_ns, KIND_RESUMED, 0, 0);
        begin_running(time_ns);
    }
    resumed_at = NULL;
    /* only if the RESUMED record is in the current chunk, from which it can still be removed */
    if (go_on && s && s == mine.stream && s->cursor > s->chunk[s->tail->seq % rec.chunks] + 1)
        resumed_at = s->cursor;
}

/* take_gil waits on a condition with a timeout, and drop_gil without one, for another thread to
   receive the GIL. */
static int wait_for_gil(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until) {
    if (!recording_on || inside_stream) return real_cond_timedwait(c, m, until);
    gil_state *gil = gil_to_receive(c, m);
    begin_wait(gil ? KIND_GIL_WAIT : KIND_LOCK_WAIT, gil);
    int result = real_cond_timedwait(c, m, until);
    end_wait(gil && result == ETIMEDOUT);
    return result;
}

static int wait_for_handoff(pthread_cond_t *c, pthread_mutex_t *m) {
    if (!recording_on || inside_stream) return real_cond_wait(c, m);
    begin_wait(gil_given_away(c, m) ? KIND_GIL_HANDOFF : KIND_LOCK_WAIT, NULL);
    int result = real_cond_wait(c, m);
    end_wait(0);
    return result;
}

static int wait_for_lock(sem_t *s) {
    if (!recording_on || inside_stream) return real_sem_wait(s);
    begin_wait(KIND_LOCK_WAIT, NULL);
    int result = real_sem_wait(s), error = errno;
    end_wait(0);
    errno = error;
    return result;
}

static int wait_for_lock_until(sem_t *s, clockid_t clock, const struct timespec *until) {
    if (!recording_on || inside_stream) return real_sem_clockwait(s, clock, until);
    begin_wait(KIND_LOCK_WAIT, NULL);
    int result = real_sem_clockwait(s, clock, until), error = errno;
    end_wait(0);
    errno = error;
    return result;
}

/* Only threads that run a loop: others may use epoll for their own purposes. */
static inline int is_loop_polling(void) {
    return mine.loop_epoch == epoch && recording_on && !inside_stream;
}

static inline void poll_begins(int timeout_ms) {
    without_gil = 1;
    begin_poll(timeout_ms != 0);
}

/* What `end_poll` calls keeps errno. If a recording has begun since the poll did, its record is the
   thread's first. */
static inline int poll_ended(int timeout_ms, int ready) {
    end_poll(timeout_ms != 0, ready > 0 ? (uint32_t)ready : 0);
    without_gil = 0;
    return ready;
}

/* With a timeout of 0, epoll only polls and the loop does not park. */
static int wait_for_events(int fd, struct epoll_event *events, int most, int timeout_ms) {
    if (!is_loop_polling()) return real_epoll_wait(fd, events, most, timeout_ms);
    poll_begins(timeout_ms);
    return poll_ended(timeout_ms, real_epoll_wait(fd, events, most, timeout_ms));
}

static int wait_for_events_masked(int fd, struct epoll_event *events, int most, int timeout_ms,
                                  const sigset_t *mask) {
    if (!is_loop_polling()) return real_epoll_pwait(fd, events, most, timeout_ms, mask);
    poll_begins(timeout_ms);
    return poll_ended(timeout_ms, real_epoll_pwait(fd, events, most, timeout_ms, mask));
}

static const waited thread_waits[] = {
    {"pthread_cond_timedwait", wait_for_gil, (void **)&real_cond_timedwait},
    {"pthread_cond_wait", wait_for_handoff, (void **)&real_cond_wait},
    {"sem_wait", wait_for_lock, (void **)&real_sem_wait},
    {"sem_clockwait", wait_for_lock_until, (void **)&real_sem_clockwait},
    {NULL},
};

static const waited event_waits[] = {
    {"epoll_wait", wait_for_events, (void **)&real_epoll_wait},
    {"epoll_pwait", wait_for_events_masked, (void **)&real_epoll_pwait},
    {NULL},
};

/* The functions to replace in the object that contains an address, and its range that the loader
   made read-only after relocation (RELRO). */
typedef struct {
    const waited *functions;
    void *within;
    uintptr_t read_only_begin, read_only_end;
} replacing;

/* Other threads may call through the slot meanwhile, so it changes in one atomic store. */
static int set_slot(void **slot, void *value, int read_only) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *first = (void *)((uintptr_t)slot & ~(page - 1));
    if (mprotect(first, page, PROT_READ | PROT_WRITE) < 0) return -1;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (read_only) mprotect(first, page, PROT_READ);
    return 0;
}

static void replace_slot(const replacing *r, void **slot, const char *name) {
    for (const waited *w = r->functions; w->name; w++) {
        if (strcmp(w->name, name) || !*w->original || *slot == w->replacement) continue;
        if (replaced_count == MAX_SLOTS) return;
        void *before = *slot;
        int read_only = (uintptr_t)slot >= r->read_only_begin && (uintptr_t)slot < r->read_only_end;
        if (set_slot(slot, w->replacement, read_only) == 0) {
            replaced[replaced_count].slot = slot;
            replaced[replaced_count].original = before;
            replaced[replaced_count++].read_only = read_only;
        }
    }
}

/* glibc makes the dynamic section's pointers absolute, except where the section is read-only. */
static void *address(const struct dl_phdr_info *object, ElfW(Addr) value) {
    return (void *)(value < object->dlpi_addr ? value + object->dlpi_addr : value);
}

static void replace_in(const replacing *r, const struct dl_phdr_info *object,
                       const ElfW(Dyn) * dynamic) {
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const ElfW(Rela) *tables[2] = {NULL, NULL};
    size_t sizes[2] = {0, 0};
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB) symbols = address(object, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_STRTAB) names = address(object, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_JMPREL) tables[0] = address(object, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_PLTRELSZ) sizes[0] = dynamic->d_un.d_val;
        else if (dynamic->d_tag == DT_RELA) tables[1] = address(object, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_RELASZ) sizes[1] = dynamic->d_un.d_val;
    }
    if (!symbols || !names) return;
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; tables[t] && i < sizes[t] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Rela) *entry = &tables[t][i];
            /* this table also relocates data, whose slots are not entries for functions */
            if (t == 1 && ELF64_R_TYPE(entry->r_info) != RELOCATION_GLOBAL) continue;
            replace_slot(r, (void **)(object->dlpi_addr + entry->r_offset),
                         names + symbols[ELF64_R_SYM(entry->r_info)].st_name);
        }
}

static int visit_object(struct dl_phdr_info *object, size_t size, void *data) {
    replacing *r = data;
    const ElfW(Dyn) *dynamic = NULL;
    int holds = 0;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        ElfW(Addr) begin = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_DYNAMIC) dynamic = (const void *)begin;
        if (part->p_type == PT_GNU_RELRO) {
            r->read_only_begin = begin;
            r->read_only_end = begin + part->p_memsz;
        }
        if (part->p_type == PT_LOAD && (ElfW(Addr))r->within >= begin &&
            (ElfW(Addr))r->within < begin + part->p_memsz)
            holds = 1;
    }
    if (!holds || !dynamic) {
        r->read_only_begin = r->read_only_end = 0;
        return 0;
    }
    replace_in(r, object, dynamic);
    return 1;
}

/* On x86-64, glibc has two incompatible versions of each pthread_cond_ function, and dlsym may
   return the old one. Programs are linked with the version named here. */
static void *find_function(const char *name) {
    void *found = NULL;
    if (!strncmp(name, "pthread_cond_", 13)) found = dlvsym(RTLD_DEFAULT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_DEFAULT, name);
}

static void remove_waits(void) {
    while (replaced_count) {
        replaced_count--;
        set_slot(replaced[replaced_count].slot, replaced[replaced_count].original,
                 replaced[replaced_count].read_only);
    }
}

static int install(const waited *functions, void *within) {
    int before = replaced_count;
    replacing r = {functions, within, 0, 0};
    for (const waited *w = functions; w->name; w++) *w->original = find_function(w->name);
    dl_iterate_phdr(visit_object, &r);
    return replaced_count - before;
}

/* Return how many entries were replaced in the object that holds the address. */
static int install_thread_waits(void *interpreter) { return install(thread_waits, interpreter); }

static int install_event_waits(void *within) { return install(event_waits, within); }

#else
#define MEANTIME_HAS_WAITS 0
static void remove_waits(void) {}
static int install_thread_waits(void *interpreter) {
    (void)interpreter;
    return 0;
}
static int install_event_waits(void *within) {
    (void)within;
    return 0;
}
#endif

#endif
