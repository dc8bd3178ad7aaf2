/* The sampler: a thread that reads every Python thread's frames without the GIL.

   It reads the interpreter's memory as another process would, through a system call, so memory that
   was freed or changed meanwhile causes an error or a wrong value, but never a fault. Everything it
   reads is checked before it is used. The offsets of fields come from the headers of the minor
   version that this was built for, and are checked on the calling thread before the sampler
   starts.

   The same thread watches the loops: when a step takes longer than a limit, it reads that thread's
   stack, with the lines that are executed, and again whenever the step has taken twice as long. */

#ifndef MEANTIME_SAMPLER_H
#define MEANTIME_SAMPLER_H

#include <sched.h>
#include <stddef.h>
#include <sys/uio.h>

#include "gil.h"
#include "internals.h"
#include "loops.h"
#include "names.h"

enum {
    MAX_DEPTH = 512,
    MAX_STACKS = 1 << 18, /* interned rows in memory, which bounds the sampler's size */
    MAX_NAME = 1000,
    PAGE = 4096, /* the unit of the cache below, whatever the size of the system's pages */
    PAGES = 32,
    /* how often the stack of a step below the limit is recorded, and how long that has taken; it
       counts in a recording from 0.9 ms on */
    GLIMPSE_NS = 100000000,
    GLIMPSED_STEP_NS = 1000000,
    ATTEMPTS = 3,
    BATCH = 256, /* twice as many strings are read at once, and the kernel accepts 1024 ranges */
    STAT_PROCESSOR = 39, /* the field of /proc/PID/stat */
    LINE_TABLE = 1 << 16, /* how much of a code object's line table is read */
    BLOCKED_STACKS = 1 << 10, /* stacks of long steps that are recognised when they occur again */
    STACK_BYTES = 1 << 20, /* of the thread's own stack */
    LEAST_LIMIT_NS = 1000000, /* of a step until its stack is read */
};

#define NO_STACK 0u
#define TORN_STACK 0xFFFFFFFFu /* could not be read consistently */
#define SHIM 0xFFFFFFFFu /* a frame that is left out of stacks */

typedef struct {
    const PyCodeObject *address;
    const void *filename, *qualname;
    Py_ssize_t filename_length, qualname_length;
    Py_hash_t filename_hash, qualname_hash;
    int line;
    uint32_t id, checked; /* the tick at which the names were last compared */
} known_frame;

typedef struct {
    uint32_t parent, frame, id;
} known_stack;

typedef struct {
    uint32_t tid, stack, task, seen;
    uint64_t cpu_ns;
    stream *of; /* the thread's stream, if it has one, which refers to its current task */
    int sampled;
    uint32_t named; /* the stream's generation in which its name was recorded */
    uint32_t names_searched; /* the number of noted names when its own was last not found */
    thread_name name;
} sampled_thread;

static struct {
    int running, stop;
    pthread_t thread;
    pid_t tid; /* of the thread itself */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    uint64_t period_ns; /* between samples; 0 if none are taken */
    uint64_t limit_ns;  /* of a step until its stack is first read; 0 if none is watched */
    PyInterpreterState *interpreter;
    pid_t pid;
    own_file memory; /* /proc/self/mem, where process_vm_readv is refused */
    uint32_t stale_tid; /* the forked thread's id in the parent, which its state may still have */
    known_frame *frames;
    size_t frame_capacity, frame_count;
    known_stack *stacks;
    size_t stack_capacity, stack_count;
    uint32_t next_frame, next_stack, deeper_frame;
    sampled_thread *threads;
    size_t thread_capacity, thread_count;
    uint32_t tick; /* tick 1 only reads the CPU clocks, to which the first samples relate */
    struct {
        uintptr_t address;
        char bytes[PAGE];
    } page[PAGES];
    int pages;
    const PyCodeObject *code[MAX_DEPTH];
    uintptr_t instruction[MAX_DEPTH]; /* the address of the one that each frame executes */
    uint64_t blocked_hash[BLOCKED_STACKS];
    uint32_t blocked_number[BLOCKED_STACKS];
    uint32_t next_blocked;
    PyCodeObject code_head[BATCH];
    PyASCIIObject text_head[2 * BATCH];
    uint32_t frame_of[MAX_DEPTH];
} sampler = {.memory = {.fd = -1}};

/* how much of a code object is read: up to its names */
#define CODE_BYTES (offsetof(PyCodeObject, co_qualname) + sizeof(PyObject *))

/* Reading memory that may be unmapped */

static int read_by_file(struct iovec *to, const struct iovec *from, int count) {
    for (int i = 0; i < count; i++)
        if (pread(sampler.memory.fd, to[i].iov_base, to[i].iov_len, (off_t)from[i].iov_base) !=
            (ssize_t)to[i].iov_len)
            return -1;
    return 0;
}

static int read_many(struct iovec *to, struct iovec *from, int count) {
    size_t size = 0;
    if (sampler.memory.fd >= 0) return read_by_file(to, from, count);
    for (int i = 0; i < count; i++) size += to[i].iov_len;
    /* the kernel stops at the first unmapped range and returns a smaller size */
    return process_vm_readv(sampler.pid, to, (size_t)count, from, (size_t)count, 0) ==
                   (ssize_t)size
               ? 0
               : -1;
}

static int read_memory(void *to, const void *from, size_t size) {
    struct iovec local = {to, size}, remote = {(void *)from, size};
    return read_many(&local, &remote, 1);
}

static int open_memory_file(void) {
    char probe = 1, copy = 0;
    sampler.memory = NO_FILE;
    if (keep_file(&sampler.memory, open("/proc/self/mem", O_RDONLY | O_CLOEXEC)) < 0) return -1;
    return read_memory(&copy, &probe, 1);
}

/* A container's seccomp filter may refuse process_vm_readv, even for the own process. */
static int open_memory(void) {
    char probe = 1, copy = 0;
    sampler.pid = getpid();
    close_file(&sampler.memory);
    return read_memory(&copy, &probe, 1) == 0 ? 0 : open_memory_file();
}

/* The program may have closed the descriptor and reused its number. */
static int reach_memory(void) {
    if (!sampler.memory.inode || is_ours(&sampler.memory)) return 0;
    return open_memory_file();
}

/* Most frames are adjacent in the interpreter's data stack: one system call reads a page of them.
   The cache is emptied for each stack, since the thread runs meanwhile. */
static const char *page_of(uintptr_t address) {
    uintptr_t first = address & ~(uintptr_t)(PAGE - 1);
    for (int i = sampler.pages - 1; i >= 0; i--)
        if (sampler.page[i].address == first) return sampler.page[i].bytes;
    if (sampler.pages == PAGES) sampler.pages = 0;
    if (read_memory(sampler.page[sampler.pages].bytes, (void *)first, PAGE) < 0) return NULL;
    sampler.page[sampler.pages].address = first;
    return sampler.page[sampler.pages++].bytes;
}

static int peek(void *to, const void *from, size_t size) {
    uintptr_t address = (uintptr_t)from;
    while (size) {
        size_t offset = address & (PAGE - 1);
        size_t part = size < PAGE - offset ? size : PAGE - offset;
        const char *page = page_of(address);
        if (!page) return -1;
        memcpy(to, page + offset, part);
        to = (char *)to + part;
        address += part;
        size -= part;
    }
    return 0;
}

/* The names of frames */

static size_t put_utf8(char *to, uint32_t c) {
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xC0 | c >> 6);
        to[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c >= 0xD800 && c < 0xE000) { /* a lone surrogate, as in undecodable file names */
        to[0] = '?';
        return 1;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xE0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 63));
        to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xF0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* Writes the string at `text`, whose head has been read, as UTF-8; -1 if it cannot be read. The
   layout is that of a compact string, which names in code objects always are. */
static ssize_t read_text(char *to, const char *text, const PyASCIIObject *head) {
    static union {
        uint8_t one[MAX_NAME];
        uint16_t two[MAX_NAME];
        uint32_t four[MAX_NAME];
    } characters;
    /* the head was read while the program ran: an impossible length comes from a torn read */
    if (head->length < 0) return -1;
    size_t length = head->length < MAX_NAME ? (size_t)head->length : MAX_NAME, at = 0;
    size_t kind = head->state.kind;
    if (!head->state.compact || !(kind == 1 || kind == 2 || kind == 4)) return -1;
    text += head->state.ascii ? sizeof(PyASCIIObject) : sizeof(PyCompactUnicodeObject);
    if (length && read_memory(&characters, text, length * kind) < 0) return -1;
    for (size_t i = 0; i < length; i++) {
        uint32_t c = kind == 1   ? characters.one[i]
                     : kind == 2 ? characters.two[i]
                                 : characters.four[i];
        if (c > 0x10FFFF || !c) return -1;
        at += put_utf8(to + at, c);
        if (at > MAX_NAME - 4) break;
    }
    return (ssize_t)at;
}

static uint32_t define_frame(int line, const char *name, size_t name_length, const char *file,
                             size_t file_length) {
    char text[16 + 2 * MAX_NAME + 2];
    size_t at = (size_t)snprintf(text, 16, "%d", line) + 1;
    memcpy(text + at, name, name_length);
    at += name_length;
    text[at++] = 0;
    memcpy(text + at, file, file_length);
    at += file_length;
    write_fact(KIND_FRAME, sampler.next_frame, text, (uint32_t)at);
    return sampler.next_frame++;
}

static int same_code(const known_frame *known, const PyCodeObject *head,
                     const PyASCIIObject *file, const PyASCIIObject *name) {
    return known->filename == head->co_filename && known->qualname == head->co_qualname &&
           known->line == head->co_firstlineno && known->filename_length == file->length &&
           known->qualname_length == name->length && known->filename_hash == file->hash &&
           known->qualname_hash == name->hash;
}

static known_frame *find_frame(const PyCodeObject *code) {
    /* objects are aligned to 16 bytes, so the lowest bits carry no information */
    size_t mask = sampler.frame_capacity - 1, i = ((uintptr_t)code >> 4) * 0x9E3779B97F4A7C15u >> 20;
    while (sampler.frames[i & mask].address && sampler.frames[i & mask].address != code) i++;
    return &sampler.frames[i & mask];
}

static int grow_frames(void) {
    known_frame *old = sampler.frames;
    size_t capacity = sampler.frame_capacity;
    known_frame *fresh = calloc(capacity ? capacity * 2 : 1024, sizeof *fresh);
    if (!fresh) return -1;
    sampler.frames = fresh;
    sampler.frame_capacity = capacity ? capacity * 2 : 1024;
    for (size_t i = 0; i < capacity; i++)
        if (old[i].address) *find_frame(old[i].address) = old[i];
    free(old);
    return 0;
}

/* Returns the number of this code object; 0 if it cannot be read. The address of a freed code
   object can be reused, so an entry is valid only while names and line are the same: to own a
   reference, the sampler would need the GIL. */
static uint32_t frame_id(const PyCodeObject *code, const PyCodeObject *head,
                         const PyASCIIObject *file, const PyASCIIObject *name) {
    char file_text[MAX_NAME + 4], name_text[MAX_NAME + 4];
    known_frame *known = find_frame(code);
    if (likely(known->address && same_code(known, head, file, name))) {
        known->checked = sampler.tick;
        return known->id;
    }
    ssize_t name_length = read_text(name_text, (const char *)head->co_qualname, name);
    ssize_t file_length = read_text(file_text, (const char *)head->co_filename, file);
    if (name_length < 0 || file_length < 0) return 0;
    if (!known->address) sampler.frame_count++;
    *known = (known_frame){code,         head->co_filename,    head->co_qualname,
                           file->length, name->length,         file->hash,
                           name->hash,   head->co_firstlineno, 0,         sampler.tick};
    known->id = define_frame(head->co_firstlineno, name_text, (size_t)name_length, file_text,
                             (size_t)file_length);
    return known->id;
}

/* Whether a code object is the interpreter's own, which calls a class's __init__ (3.12 and later):
   tracebacks do not show its frames. Its one name is also that of its file. */
static int is_shim(const PyCodeObject *head) { return head->co_filename == head->co_qualname; }

/* Reads the names of `count` code objects that have not been compared in this tick. */
static int name_batch(const int *index, int count) {
    struct iovec to[2 * BATCH], from[2 * BATCH];
    for (int i = 0; i < count; i++) {
        to[i] = (struct iovec){&sampler.code_head[i], CODE_BYTES};
        from[i] = (struct iovec){(void *)sampler.code[index[i]], CODE_BYTES};
    }
    if (read_many(to, from, count) < 0) return -1;
    for (int i = 0; i < count; i++) {
        const PyCodeObject *head = &sampler.code_head[i];
        /* in 3.13, a frame's f_executable can be another object than code */
        if (Py_TYPE(head) != &PyCode_Type || !head->co_filename || !head->co_qualname) return -1;
        to[2 * i] = (struct iovec){&sampler.text_head[2 * i], sizeof(PyASCIIObject)};
        from[2 * i] = (struct iovec){head->co_filename, sizeof(PyASCIIObject)};
        to[2 * i + 1] = (struct iovec){&sampler.text_head[2 * i + 1], sizeof(PyASCIIObject)};
        from[2 * i + 1] = (struct iovec){head->co_qualname, sizeof(PyASCIIObject)};
    }
    if (read_many(to, from, 2 * count) < 0) return -1;
    for (int i = 0; i < count; i++) {
        const PyASCIIObject *file = &sampler.text_head[2 * i], *name = file + 1;
        if (Py_TYPE(file) != &PyUnicode_Type || Py_TYPE(name) != &PyUnicode_Type) return -1;
        const PyCodeObject *head = &sampler.code_head[i];
        uint32_t id = is_shim(head) ? SHIM : frame_id(sampler.code[index[i]], head, file, name);
        if (!id) return -1;
        sampler.frame_of[index[i]] = id;
    }
    return 0;
}

/* Finds the frames of the first `depth` code objects; -1 if one of them is not a code object. */
static int name_frames(int depth) {
    int index[BATCH], count = 0;
    /* room for all, so that the table is never more than half full and a search always ends */
    while ((sampler.frame_count + (size_t)depth) * 2 >= sampler.frame_capacity)
        if (grow_frames() < 0) return -1;
    for (int i = 0; i < depth; i++) {
        known_frame *known = find_frame(sampler.code[i]);
        if (known->address && known->checked == sampler.tick) {
            sampler.frame_of[i] = known->id;
            continue;
        }
        index[count++] = i;
        if (count == BATCH) {
            if (name_batch(index, count) < 0) return -1;
            count = 0;
        }
    }
    return count ? name_batch(index, count) : 0;
}

/* Stacks, interned */

static known_stack *find_stack(uint32_t parent, uint32_t frame) {
    size_t mask = sampler.stack_capacity - 1;
    uint64_t mixed = parent * 0x9E3779B97F4A7C15u ^ frame * 0xC2B2AE3D27D4EB4Fu;
    size_t i = (size_t)(mixed ^ mixed >> 29);
    while (sampler.stacks[i & mask].id && !(sampler.stacks[i & mask].parent == parent &&
                                            sampler.stacks[i & mask].frame == frame))
        i++;
    return &sampler.stacks[i & mask];
}

static int grow_stacks(void) {
    known_stack *old = sampler.stacks;
    size_t capacity = sampler.stack_capacity;
    if (sampler.stack_count >= MAX_STACKS) {
        /* Start with an empty table. The numbering continues, so recorded numbers stay valid. */
        memset(sampler.stacks, 0, capacity * sizeof *sampler.stacks);
        sampler.stack_count = 0;
        return 0;
    }
    known_stack *fresh = calloc(capacity ? capacity * 2 : 1024, sizeof *fresh);
    if (!fresh) return -1;
    sampler.stacks = fresh;
    sampler.stack_capacity = capacity ? capacity * 2 : 1024;
    for (size_t i = 0; i < capacity; i++)
        if (old[i].id) *find_stack(old[i].parent, old[i].frame) = old[i];
    free(old);
    return 0;
}

static uint32_t push(uint32_t parent, uint32_t frame) {
    known_stack *known = find_stack(parent, frame);
    if (unlikely(!known->id)) {
        uint32_t payload[2] = {parent, frame};
        *known = (known_stack){parent, frame, sampler.next_stack++};
        sampler.stack_count++;
        write_fact(KIND_STACK, known->id, payload, sizeof payload);
    }
    return known->id;
}

/* Returns the number of the stack of the first `depth` frames, of which the first is innermost. */
static uint32_t stack_id(int depth, int deeper) {
    uint32_t stack = NO_STACK;
    /* room for all of them, so that the table is not emptied between a row and its children */
    while ((sampler.stack_count + (size_t)depth + 1) * 2 >= sampler.stack_capacity)
        if (grow_stacks() < 0) return TORN_STACK;
    if (deeper) {
        if (!sampler.deeper_frame) sampler.deeper_frame = define_frame(0, "(deeper)", 8, "", 0);
        stack = push(stack, sampler.deeper_frame);
    }
    while (depth--)
        if (sampler.frame_of[depth] != SHIM) stack = push(stack, sampler.frame_of[depth]);
    return stack;
}

/* Threads */

static int walk(const PyThreadState *state, int *deeper) {
    frame_data frame, *at;
    int depth = 0;
    *deeper = 0;
    sampler.pages = 0;
    /* up to 3.12 the current frame is reached through a structure on the thread's C stack */
#if PY_VERSION_HEX >= 0x030D0000
    at = state->current_frame;
#else
    _PyCFrame base;
    if (!state->cframe || read_memory(&base, state->cframe, sizeof base) < 0) return -1;
    at = base.current_frame;
#endif
    /* Shim frames (3.12 and later, one per call from C) do not count for the depth. The bound on
       steps also ends a cycle in torn data. */
    for (int steps = 0; at; steps++) {
        if (depth == MAX_DEPTH || steps == 2 * MAX_DEPTH) {
            *deeper = 1;
            break;
        }
        if (((uintptr_t)at & 7) ||
            peek(&frame, at, offsetof(frame_data, localsplus)) < 0)
            return -1;
        if (frame.previous == at) return -1;
        if (!is_entry_frame(&frame)) {
            sampler.instruction[depth] = instruction_of_frame(&frame);
            sampler.code[depth++] = (PyCodeObject *)code_of_frame(&frame);
        }
        at = frame.previous;
    }
    return depth;
}

/* Returns the stack of a thread. Its thread state is read again for each attempt, since the thread
   may run and change it meanwhile. */
static uint32_t read_stack(const PyThreadState *address, PyThreadState *state) {
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        int deeper, depth;
        if (attempt && read_memory(state, address, sizeof *state) < 0) return TORN_STACK;
        depth = walk(state, &deeper);
        if (depth == 0) return NO_STACK;
        if (depth > 0 && name_frames(depth) == 0) return stack_id(depth, deeper);
    }
    return TORN_STACK;
}

static sampled_thread *find_thread(uint32_t tid) {
    size_t mask = sampler.thread_capacity - 1, i = tid * 0x9E3779B1u;
    while (sampler.threads[i & mask].tid && sampler.threads[i & mask].tid != tid) i++;
    return &sampler.threads[i & mask];
}

/* Makes room, and removes the threads that were not seen at the last tick. */
static int tidy_threads(void) {
    sampled_thread *old = sampler.threads;
    size_t capacity = sampler.thread_capacity, alive = 0;
    for (size_t i = 0; i < capacity; i++) alive += old[i].tid && old[i].seen + 1 >= sampler.tick;
    size_t wanted = 64;
    while (wanted < alive * 4) wanted *= 2;
    sampled_thread *fresh = calloc(wanted, sizeof *fresh);
    if (!fresh) return -1;
    sampler.threads = fresh;
    sampler.thread_capacity = wanted;
    sampler.thread_count = alive;
    for (size_t i = 0; i < capacity; i++)
        if (old[i].tid && old[i].seen + 1 >= sampler.tick) *find_thread(old[i].tid) = old[i];
    free(old);
    return 0;
}

static sampled_thread *thread_of(uint32_t tid) {
    if (sampler.thread_count * 2 >= sampler.thread_capacity && tidy_threads() < 0) return NULL;
    sampled_thread *t = find_thread(tid);
    if (!t->tid) {
        *t = (sampled_thread){.tid = tid, .seen = sampler.tick};
        sampler.thread_count++;
    }
    return t;
}

static void find_streams(void) {
    pthread_mutex_lock(&rec_mutex);
    for (stream *s = rec.streams; s; s = s->next) {
        sampled_thread *t = s->task && s->tid ? thread_of(s->tid) : NULL;
        if (t) t->of = s;
    }
    pthread_mutex_unlock(&rec_mutex);
}

static uint32_t task_of_thread(sampled_thread *t) {
    uint32_t task = 0;
    if (!t->of) return 0;
    pthread_mutex_lock(&rec_mutex);
    /* a stream is reused once its thread ended, and clears `task` under this mutex before that */
    if (t->of->tid == t->tid && t->of->task) task = *(volatile uint32_t *)t->of->task;
    else t->of = NULL;
    pthread_mutex_unlock(&rec_mutex);
    return task;
}

static int cpu_clock(uint32_t tid, uint64_t *cpu_ns) {
    struct timespec t;
    /* The kernel's encoding of a thread's CPU clock: ~tid << 3 | CPUCLOCK_PERTHREAD_MASK (4) |
       CPUCLOCK_SCHED (2). pthread_getcpuclockid needs a pthread_t, which is not known here. */
    clockid_t clock = (clockid_t)(~tid << 3 | 6);
    if (clock_gettime(clock, &t) < 0) return -1;
    *cpu_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return 0;
}

static uint32_t at_most_32_bits(uint64_t value) {
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* Records a thread's name, again for each generation of the sampler's own stream, since earlier
   records may have been deleted. */
static void put_thread_name(sampled_thread *t) {
    stream *s = stream_of_thread();
    if (!s || t->named == s->generation) return;
    if (!t->name.length) {
        /* a thread can be sampled before it has noted its name: search again after new names */
        uint32_t noted = count_noted_names();
        if (t->names_searched == noted) return;
        t->names_searched = noted;
        t->name = noted_name(t->tid);
    }
    if (!t->name.length || now_ns() >= (uint64_t)rec.deadline_ns) return;
    t->named = s->generation;
    put_payload(s, now_ns(), KIND_CALLED, t->tid, t->name.text, t->name.length, 1);
    if (s->cursor == s->limit) turn(s);
}

/* Returns the state of a thread, as a letter: R includes threads that wait for a CPU. The CPU on
   which it last ran is stored, too. 0 if there is no such thread. */
static char state_of_task(uint32_t tid, int *cpu) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%u/stat", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got < 0 ? 0 : got] = 0;
    const char *at = strrchr(text, ')'); /* the name before it may contain any character */
    if (!at || at[1] != ' ') return 0;
    char state = at[2];
    for (int field = 2; at && field < STAT_PROCESSOR; field++) at = strchr(at + 1, ' ');
    *cpu = at ? atoi(at + 1) : -1;
    return state;
}

/* Returns whether a thread would run on the CPU that the sampler occupies. */
static int is_displaced(uint32_t tid) {
    int cpu;
    return state_of_task(tid, &cpu) == 'R' && cpu == sched_getcpu();
}

/* Returns whether a thread is on a CPU: its clock advances between two reads. A thread that ran
   most of the time would also be, if the sampler had not displaced it; others have more likely just
   been woken, perhaps by the same timer interrupt. */
static int is_running(const sampled_thread *t, uint64_t ran_ns, uint64_t since_ns) {
    uint64_t later_ns;
    if (!ran_ns || cpu_clock(t->tid, &later_ns) < 0) return 0;
    return later_ns > t->cpu_ns || (ran_ns > since_ns / 2 && is_displaced(t->tid));
}

static void put_sample(uint32_t tid, uint32_t stack, uint32_t task, uint64_t cpu_ns,
                       int running) {
    put(KIND_SAMPLE, tid, stack);
    /* a record has 32 bits for the time, about 4.3 s: a longer one needs several */
    do {
        uint32_t part = at_most_32_bits(cpu_ns);
        put(running ? KIND_ON_CPU : KIND_NOT_ON_CPU, task, part);
        cpu_ns -= part;
    } while (cpu_ns);
}

static void sample_thread(const PyThreadState *address, PyThreadState *state, uint64_t since_ns) {
    uint32_t tid = (uint32_t)state->native_thread_id;
    uint64_t cpu_ns, ran_ns;
    if (tid && tid == sampler.stale_tid) tid = (uint32_t)sampler.pid;
    /* a thread that is starting has no id yet, and one that has ended no clock */
    if (!tid || cpu_clock(tid, &cpu_ns) < 0) return;
    sampled_thread *t = thread_of(tid);
    if (!t || (t->sampled && t->seen == sampler.tick)) return; /* sampled in an earlier attempt */
    /* the id of a thread that ended may be reused */
    if (t->seen + 1 != sampler.tick || cpu_ns < t->cpu_ns) {
        t->sampled = 0;
        t->named = 0;
        t->name.length = 0;
        t->names_searched = 0;
    }
    if (t->sampled) ran_ns = cpu_ns - t->cpu_ns;
    else ran_ns = cpu_ns < since_ns ? cpu_ns : since_ns;
    /* a thread that has not run since the last tick still has the same stack */
    int moved = !t->sampled || ran_ns || t->stack == TORN_STACK;
    t->cpu_ns = cpu_ns;
    t->sampled = 1;
    t->seen = sampler.tick;
    if (sampler.tick == 1) {
        t->stack = TORN_STACK;
        return;
    }
    if (moved) {
        t->stack = read_stack(address, state);
        t->task = task_of_thread(t);
    }
    put_thread_name(t);
    put_sample(tid, t->stack, t->task, ran_ns, is_running(t, ran_ns, since_ns));
}

/* Samples each thread once; `since_ns` is how long ago the last tick was. */
static void sample_threads(uint64_t since_ns) {
    PyThreadState state;
    int reached = reach_memory() == 0;
    find_streams();
    for (int attempt = 0; reached && attempt < ATTEMPTS; attempt++) {
        const PyThreadState *at, *before = NULL;
        int whole = read_memory(&at, &sampler.interpreter->threads.head, sizeof at) == 0;
        while (whole && at) {
            /* links in both directions agree unless the list changed between two reads */
            whole = read_memory(&state, at, sizeof state) == 0 && state.prev == before &&
                    state.interp == sampler.interpreter;
            if (!whole) break;
            before = at;
            at = state.next;
            sample_thread(before, &state, since_ns);
        }
        if (whole) return;
    }
    /* the list changed during each attempt, or memory could not be read */
    if (sampler.tick > 1) put_sample(0, TORN_STACK, 0, 0, 0);
}

/* Long steps */

/* Reads a number of 6-bit groups, the lowest first, of which the last has bit 6 clear. */
static uint32_t line_number(const uint8_t **at, const uint8_t *end) {
    uint32_t value = 0, shift = 0;
    while (*at < end && shift < 30) {
        uint8_t byte = *(*at)++;
        value |= (uint32_t)(byte & 63) << shift;
        shift += 6;
        if (!(byte & 64)) break;
    }
    return value;
}

/* Returns the line of an instruction, by the format of Objects/locations.md in CPython; the
   function's first line if the table cannot be read. */
static int line_at(const PyCodeObject *code, const PyCodeObject *head, uintptr_t instruction) {
    static uint8_t table[LINE_TABLE];
    PyBytesObject bytes;
    const uint8_t *at = table, *end;
    int line = head->co_firstlineno;
    uintptr_t first = (uintptr_t)code + offsetof(PyCodeObject, co_code_adaptive);
    if (instruction < first ||
        read_memory(&bytes, head->co_linetable, offsetof(PyBytesObject, ob_sval)) < 0 ||
        Py_TYPE(&bytes) != &PyBytes_Type || Py_SIZE(&bytes) <= 0)
        return head->co_firstlineno;
    size_t size = (size_t)Py_SIZE(&bytes) < LINE_TABLE ? (size_t)Py_SIZE(&bytes) : LINE_TABLE;
    if (read_memory(table, (const char *)head->co_linetable + offsetof(PyBytesObject, ob_sval),
                    size) < 0)
        return head->co_firstlineno;
    uintptr_t unit = (instruction - first) / sizeof(_Py_CODEUNIT), reached = 0;
    for (end = table + size; at < end;) {
        uint8_t entry = *at++;
        uint32_t kind = entry >> 3 & 15, number;
        if (kind == 13 || kind == 14) {
            number = line_number(&at, end);
            line += number & 1 ? -(int)(number >> 1) : (int)(number >> 1);
        } else if (kind >= 10 && kind <= 12) {
            line += (int)kind - 10;
        }
        reached += (entry & 7u) + 1;
        if (reached > unit) return kind == 15 ? head->co_firstlineno : line;
        while (at < end && !(*at & 128)) at++; /* the rest of the entry */
    }
    return head->co_firstlineno;
}

/* Writes line, function and file of the frame; returns the size, which is 0 for a shim, or -1 if it
   cannot be read. */
static ssize_t describe_frame(int index, char *text, size_t room) {
    char part[MAX_NAME + 4];
    PyCodeObject head;
    PyASCIIObject name, file;
    const size_t code_bytes = offsetof(PyCodeObject, co_linetable) + sizeof(PyObject *);
    if (read_memory(&head, sampler.code[index], code_bytes) < 0 ||
        Py_TYPE(&head) != &PyCode_Type ||
        read_memory(&name, head.co_qualname, sizeof name) < 0 ||
        read_memory(&file, head.co_filename, sizeof file) < 0 ||
        Py_TYPE(&name) != &PyUnicode_Type || Py_TYPE(&file) != &PyUnicode_Type)
        return -1;
    if (is_shim(&head)) return 0;
    int line = line_at(sampler.code[index], &head, sampler.instruction[index]);
    size_t at = (size_t)snprintf(text, room, "%d", line) + 1;
    for (int i = 0; i < 2; i++) {
        ssize_t size = i ? read_text(part, (const char *)head.co_filename, &file)
                         : read_text(part, (const char *)head.co_qualname, &name);
        if (size < 0 || at + (size_t)size + 1 > room) return -1;
        memcpy(text + at, part, (size_t)size);
        at += (size_t)size;
        text[at++] = 0;
    }
    return (ssize_t)at;
}

/* Whether a frame, as text, is of an installed package or of the standard library, except for the
   libraries whose frames show where the event loop begins. */
static int is_of_library(const char *text) {
    const char *file = text + strlen(text) + 1;
    file += strlen(file) + 1;
    if (strstr(file, "/asyncio/") || strstr(file, "/trio/")) return 0;
    return strstr(file, "/site-packages/") || strstr(file, "/dist-packages/") ||
           strstr(file, "/lib/python3") || !strncmp(file, "<frozen", 7);
}

/* Writes `depth` frames; returns the size, or 0 if they cannot be read. From half of the room on,
   one frame without a line stands for those of libraries that follow each other: the program's own
   code may have called many functions of them. */
static size_t describe_frames(int depth, char *text, size_t room) {
    static const char left_out[] = "0\0...\0<frozen>"; /* with the last NUL */
    size_t size = 0;
    int leaves_out = 0;
    for (int i = 0; i < depth; i++) {
        char *frame = text + size;
        ssize_t described = describe_frame(i, frame, room - size);
        if (described < 0 && !size) return 0;
        if (described < 0) break; /* the outer frames, which matter less, have no room */
        size_t more = (size_t)described;
        if (!more) continue;
        if (2 * size > room && is_of_library(frame)) {
            more = leaves_out ? 0 : sizeof left_out;
            if (room - size < more) break;
            memcpy(frame, left_out, more);
            leaves_out = 1;
        } else {
            leaves_out = 0;
        }
        size += more;
    }
    return size;
}

static const PyThreadState *state_of_thread(uint32_t tid, PyThreadState *state);

/* Returns the number of the stack of `depth` frames, and of that of the thread that has the GIL, if
   that is given; it is defined at its first use. 0 if the first cannot be read. */
static uint32_t blocked_stack(int depth, uint32_t holder) {
    static char text[MAX_TEXT - 16];
    static const char separator[] = "0\0\0"; /* a frame without a name, with the last NUL */
    size_t size = describe_frames(depth, text, holder ? sizeof text / 2 : sizeof text);
    PyThreadState state;
    if (!size) return 0;
    if (holder && state_of_thread(holder, &state)) {
        int deeper;
        size_t at = size + sizeof separator;
        depth = walk(&state, &deeper);
        size_t more = depth > 0 ? describe_frames(depth, text + at, sizeof text - at) : 0;
        if (more) {
            memcpy(text + size, separator, sizeof separator);
            size = at + more;
        }
    }
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ (uint8_t)text[i]) * 0x100000001B3u;
    size_t at = hash % BLOCKED_STACKS;
    if (sampler.blocked_hash[at] != hash || !sampler.blocked_number[at]) {
        sampler.blocked_hash[at] = hash;
        sampler.blocked_number[at] = ++sampler.next_blocked;
        write_fact(KIND_BLOCKED_STACK, sampler.next_blocked, text, (uint32_t)size);
    }
    return sampler.blocked_number[at];
}

/* Finds the state of a thread in the interpreter's list, which may change meanwhile. */
static const PyThreadState *state_of_thread(uint32_t tid, PyThreadState *state) {
    const PyThreadState *at;
    if (read_memory(&at, &sampler.interpreter->threads.head, sizeof at) < 0) return NULL;
    /* bounded, since a change may lead in a circle */
    for (int i = 0; at && i < 1 << 16; i++) {
        if (read_memory(state, at, sizeof *state) < 0) return NULL;
        if (state->native_thread_id == tid ||
            (sampler.stale_tid && state->native_thread_id == sampler.stale_tid &&
             tid == (uint32_t)sampler.pid))
            return at;
        at = state->next;
    }
    return NULL;
}

static void record_blocked(uint32_t tid, int waits_for_gil) {
    PyThreadState state;
    if (reach_memory() < 0) return;
    uint32_t holder = waits_for_gil ? holder_of_gil(gil_of_interpreter(sampler.interpreter)) : 0;
    if (holder == tid) holder = 0;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        int deeper;
        if (!state_of_thread(tid, &state)) continue;
        int depth = walk(&state, &deeper);
        uint32_t number = depth > 0 ? blocked_stack(depth, holder) : 0;
        if (!number) continue;
        put(KIND_BLOCKED, tid, number);
        return;
    }
}

/* Returns how long a step has taken without what its thread waited for a processor since that was
   last read, in this step or just before it. The kernel counts a wait where it ends, so if the
   thread may be waiting, that is all of the time in which it did not run. */
static uint64_t own_time(const stream *s, uint64_t since, uint64_t time_ns) {
    uint64_t step_ns = time_ns - since, waited_ns, ran_ns, in_all_ns;
    int cpu;
    uint64_t read_ns = __atomic_load_n(&s->cpu->read_ns, __ATOMIC_RELAXED);
    uint64_t ran_before_ns = __atomic_load_n(&s->cpu->ran_ns, __ATOMIC_RELAXED);
    uint64_t waited_before_ns = __atomic_load_n(&s->cpu->waited_ns, __ATOMIC_RELAXED);
    if (state_of_task(s->tid, &cpu) == 'R' && cpu_clock(s->tid, &ran_ns) == 0) {
        waited_ns = time_ns - read_ns - (ran_ns - ran_before_ns);
    } else {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/task/%u/schedstat", s->tid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) return step_ns;
        int known = read_schedstat(fd, &in_all_ns) == 0;
        close(fd);
        if (!known) return step_ns;
        waited_ns = in_all_ns - waited_before_ns;
    }
    if (waited_ns < step_ns) return step_ns - waited_ns;
    /* It has waited for all of the step, and just before it. Otherwise, also where it wraps around,
       nothing was read before. */
    int is_of_step = read_ns && waited_ns - step_ns <= CPU_READ_NS;
    return is_of_step ? 0 : step_ns;
}

/* Records the stacks of the loops whose step has reached the limit, and again whenever it has taken
   twice as long: the last one is of the second half of the step, however long it takes, and what
   ran first may be a small part of it. Now and then, the stack of a shorter step is recorded, too:
   a loop may be full of steps none of which reaches the limit. What the thread waited for a
   processor does not count, as it may have waited before it began what takes long. Returns when to
   look again: a step that begins right now reaches the limit at that time, or a present one is due
   earlier. */
static uint64_t watch_loops(uint64_t time_ns) {
    uint64_t next_ns = time_ns + sampler.limit_ns;
    uint32_t reached[16];
    int waits_for_gil[16], count = 0;
    pthread_mutex_lock(&rec_mutex);
    for (stream *s = rec.streams; s; s = s->next) {
        uint64_t since = s->step_since ? __atomic_load_n(s->step_since, __ATOMIC_RELAXED) : 0;
        if (!since || !s->tid) continue;
        if (since != s->watched_ns) {
            s->watched_ns = since;
            s->needed_ns = sampler.limit_ns;
            s->again_ns = since + sampler.limit_ns;
        }
        if (s->again_ns <= time_ns && count < 16) {
            uint64_t own_ns = own_time(s, since, time_ns);
            int is_reached = own_ns >= s->needed_ns;
            if (is_reached) s->needed_ns = 2 * own_ns;
            s->again_ns = time_ns + (s->needed_ns - own_ns);
            if (is_reached) {
                /* its last record; 0 where waits of threads are not recorded */
                waits_for_gil[count] = (uint8_t)s->cursor[-1].w0 == KIND_GIL_WAIT;
                reached[count++] = s->tid;
            }
        } else if (time_ns >= s->glimpse_ns && time_ns - since >= GLIMPSED_STEP_NS &&
                   s->needed_ns == sampler.limit_ns && count < 16) {
            s->glimpse_ns = time_ns + GLIMPSE_NS;
            waits_for_gil[count] = 0;
            if ((uint8_t)s->cursor[-1].w0 != KIND_GIL_WAIT) reached[count++] = s->tid;
        }
        if (s->again_ns < next_ns) next_ns = s->again_ns;
    }
    pthread_mutex_unlock(&rec_mutex);
    /* without the mutex, which the first record of this thread acquires */
    while (count--) record_blocked(reached[count], waits_for_gil[count]);
    return next_ns;
}

/* The thread itself */

/* Waits until an absolute time, so that ticks do not drift by the duration of the work. */
static void wait_until(uint64_t time_ns) {
    time_ns += (uint64_t)rec.base_ns;
    struct timespec until = {(time_t)(time_ns / 1000000000u), (long)(time_ns % 1000000000u)};
    pthread_mutex_lock(&sampler.mutex);
    while (!sampler.stop &&
           pthread_cond_timedwait(&sampler.wake, &sampler.mutex, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&sampler.mutex);
}

/* One sample of all threads; a tick that is late by more than a period skips the ticks between. */
static uint64_t tick_at(uint64_t due_ns, uint64_t time_ns, uint64_t before_ns) {
    uint64_t skipped = 0;
    if (time_ns >= due_ns + sampler.period_ns) {
        skipped = (time_ns - due_ns) / sampler.period_ns;
        due_ns += skipped * sampler.period_ns;
    }
    sampler.tick++;
    put(KIND_TICK, at_most_32_bits(time_ns - due_ns), at_most_32_bits(skipped));
    sample_threads(time_ns - before_ns);
    return due_ns + sampler.period_ns;
}

static void *sample_always(void *unused) {
    uint64_t before_ns = now_ns(), watch_ns = UINT64_MAX, due_ns = UINT64_MAX;
    (void)unused;
    sampler.tid = (pid_t)syscall(SYS_gettid);
    own_thread = sampler.period_ns ? "meantime sampler" : "meantime watcher";
    /* the file of the memory is in the program's table, if it is needed */
    own_descriptors = !sampler.memory.inode && leave_descriptors() == 0;
    if (sampler.limit_ns) watch_ns = before_ns;
    if (sampler.period_ns) {
        sampler.tick = 1;
        sample_threads(0);
        due_ns = before_ns + sampler.period_ns;
    }
    for (;;) {
        wait_until(watch_ns < due_ns ? watch_ns : due_ns);
        uint64_t time_ns = now_ns();
        if (sampler.stop || time_ns >= (uint64_t)rec.deadline_ns) break;
        if (time_ns >= watch_ns) watch_ns = watch_loops(time_ns);
        if (time_ns < due_ns) continue;
        time_ns = now_ns();
        due_ns = tick_at(due_ns, time_ns, before_ns);
        before_ns = time_ns;
    }
    return NULL;
}

static void forget_samples(void) {
    free(sampler.frames);
    free(sampler.stacks);
    free(sampler.threads);
    sampler.frames = NULL;
    sampler.stacks = NULL;
    sampler.threads = NULL;
    sampler.frame_capacity = sampler.frame_count = 0;
    sampler.stack_capacity = sampler.stack_count = 0;
    sampler.thread_capacity = sampler.thread_count = 0;
    sampler.next_frame = sampler.next_stack = 1;
    sampler.deeper_frame = 0;
    sampler.tick = 0;
}

/* Checks on the calling thread, which has the GIL, that a sample would find its frame: a patched or
   differently configured interpreter may have another layout than the headers. */
static int prove_layout(void) {
    PyThreadState *own = PyThreadState_Get(), state;
    PyFrameObject *frame = PyEval_GetFrame();
    int deeper, found = 0;
    const PyThreadState *at;
    if (open_memory() < 0 || !frame) return -1;
    if (read_memory(&at, &sampler.interpreter->threads.head, sizeof at) < 0) return -1;
    /* bounded, since an unexpected layout may make this a cycle */
    for (int i = 0; at && !found && i < 1 << 16; i++) {
        if (read_memory(&state, at, sizeof state) < 0) return -1;
        found = at == own;
        at = state.next;
    }
    if (!found || walk(&state, &deeper) < 1) return -1;
    PyCodeObject *code = PyFrame_GetCode(frame);
    int same = sampler.code[0] == code;
    Py_DECREF(code);
    return same ? 0 : -1;
}

static int create_sampler(void) {
    pthread_condattr_t clock;
    pthread_attr_t attributes;
    sigset_t all, before;
    sampler.stop = 0;
    pthread_mutex_init(&sampler.mutex, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&sampler.wake, &clock);
    pthread_condattr_destroy(&clock);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    /* a thread inherits the mask: the program's handlers must never run on the sampler */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    sampler.running = pthread_create(&sampler.thread, &attributes, sample_always, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return sampler.running ? 0 : -1;
}

/* Starts the thread, in a process that takes samples; -1 if this interpreter's frames cannot be
   read. The caller has the GIL. */
static int start_sampler(uint64_t period_ns) {
    sampler.interpreter = PyInterpreterState_Get();
    sampler.period_ns = period_ns;
    if (prove_layout() < 0) return -1;
    forget_samples();
    uint64_t payload[1] = {period_ns};
    write_fact(KIND_SAMPLER, 0, payload, sizeof payload);
    watch_pending = 0;
    return create_sampler();
}

/* Waits until the kernel no longer counts a thread that was joined, which may be a little later. */
static void await_end(pid_t tid) {
    int error = errno;
    struct timespec moment = {0, 50000};
    for (int i = 0; i < 1000 && syscall(SYS_tgkill, getpid(), tid, 0) == 0; i++)
        nanosleep(&moment, NULL);
    errno = error;
}

/* Ends the thread. It never waits for the GIL, so the caller may join it while holding the GIL. */
static void join_sampler(void) {
    pthread_mutex_lock(&sampler.mutex);
    sampler.stop = 1;
    pthread_cond_signal(&sampler.wake);
    pthread_mutex_unlock(&sampler.mutex);
    pthread_join(sampler.thread, NULL);
    await_end(sampler.tid);
    sampler.running = 0;
}

/* Starts the thread that watches loops, if it is pending: called where a loop begins or polls, with
   or without the GIL. A program without loops has no such thread. */
static void start_watcher(void) {
    int error = errno;
    pthread_mutex_lock(&watch_mutex);
    if (watch_pending && recording_on) {
        watch_pending = 0;
        if (sampler.pid != getpid()) sampler.stale_tid = forked_tid;
        if (!sampler.running && open_memory() == 0) create_sampler();
    }
    pthread_mutex_unlock(&watch_mutex);
    errno = error;
}

/* From 3.12 on, the interpreter warns of a fork in a process with several threads, so a thread that
   the program did not ask for ends before a fork. The caller holds watch_mutex. */
static void end_watcher(void) {
    if (!sampler.running || sampler.period_ns) return;
    join_sampler();
    watch_pending = 1;
}

/* Watches steps from now on; -1 if this interpreter's frames cannot be read. On a busy machine the
   thread that watches may be late, so it first reads a stack after half of the limit: otherwise a
   step that takes a little longer than the limit could be over by then. */
static int watch_steps(uint64_t limit_ns) {
    sampler.interpreter = PyInterpreterState_Get();
    sampler.period_ns = 0;
    if (prove_layout() < 0) return -1;
    sampler.limit_ns = limit_ns / 2 < LEAST_LIMIT_NS ? LEAST_LIMIT_NS : limit_ns / 2;
    memset(sampler.blocked_number, 0, sizeof sampler.blocked_number);
    sampler.next_blocked = 0;
    start_watching = start_watcher;
    stop_watching = end_watcher;
    watch_pending = 1;
    return 0;
}

static void stop_sampler(void) {
    pthread_mutex_lock(&watch_mutex);
    watch_pending = 0;
    int was_running = sampler.running;
    if (was_running) join_sampler();
    sampler.limit_ns = 0;
    pthread_mutex_unlock(&watch_mutex);
    if (was_running) forget_samples();
    close_file(&sampler.memory);
}

/* A forked process has no sampler thread. The fork may have interrupted a change of its tables, so
   these are abandoned rather than freed. */
static int restart_sampler(void) {
    sampler.stale_tid = forked_tid;
    if (!sampler.running || !recording_on) return 0;
    sampler.running = 0;
    sampler.frames = NULL;
    sampler.stacks = NULL;
    sampler.threads = NULL;
    return start_sampler(sampler.period_ns);
}

#endif
