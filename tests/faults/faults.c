/* Fails one call of a program for a file below a folder: the library that `try_calls.py` preloads.

   The calls are counted in memory that the runner and all processes of a trial share, so the n-th
   is the same each time. The runner's own calls are not counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* In the order of FAULTS in `trials.py`. */
enum fault { NONE, IO_ERROR, NO_SPACE, INTERRUPTED, SHORT, NO_MEMORY };

/* Its layout is known to `trials.py`. */
struct state {
    int32_t runner, fault, first, lasting;
    int32_t calls, failed;
    char folder[512];
    char call[512];
};

static struct state *state;

__attribute__((constructor)) static void map_state(void) {
    const char *path = getenv("MEANTIME_FAULTS");
    int fd = path == NULL ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *found = (void *)syscall(SYS_mmap, NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED,
                                  fd, 0);
    if (found != MAP_FAILED) state = found;
    syscall(SYS_close, fd);
}

static int is_counting(void) {
    return state != NULL && state->fault != NONE && getpid() != state->runner;
}

static int is_below(const char *path) {
    size_t size = strlen(state->folder);
    return strncmp(path, state->folder, size) == 0 && (path[size] == '/' || path[size] == 0);
}

/* Return where a file is, or the path by which it is opened; NULL if it is not below the folder. */
static const char *where(int fd, const char *path, char *room, size_t size) {
    char link[64];
    ssize_t count = 0;
    room[0] = 0;
    if (path == NULL || path[0] != '/') {
        if (path != NULL && fd == AT_FDCWD)
            snprintf(link, sizeof link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        count = syscall(SYS_readlinkat, AT_FDCWD, link, room, size - 1);
        if (count < 0) return NULL;
        room[count] = 0;
    }
    if (path != NULL) snprintf(room + count, size - count, "%s%s", count ? "/" : "", path);
    return is_below(room) ? room : NULL;
}

static int is_its_turn(const char *name, const char *file) {
    int number = __atomic_add_fetch(&state->calls, 1, __ATOMIC_SEQ_CST);
    if (state->first == 0 || number < state->first || (number > state->first && !state->lasting))
        return 0;
    if (__atomic_add_fetch(&state->failed, 1, __ATOMIC_SEQ_CST) == 1)
        snprintf(state->call, sizeof state->call, "%s %s", name, file);
    return 1;
}

/* Return whether this call fails, of those that this fault can make fail. */
static int fails(const char *name, int fd, const char *path) {
    char room[1024];
    int saved = errno;
    const char *file = where(fd, path, room, sizeof room);
    errno = saved;
    return file != NULL && is_its_turn(name, file + strlen(state->folder));
}

static int errno_of(void) {
    switch (state->fault) {
    case IO_ERROR: return EIO;
    case NO_SPACE: return ENOSPC;
    default: return EINTR;
    }
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Reads never lack space. */
#define READ(name, ...) \
    if (is_counting() && state->fault < NO_MEMORY && state->fault != NO_SPACE && size > (state->fault == SHORT) && \
        fails(#name, fd, NULL)) { \
        if (state->fault != SHORT) return errno = errno_of(), -1; \
        size = (size + 1) / 2; \
    } \
    return real(__VA_ARGS__)

#define WRITE(name, ...) \
    if (is_counting() && state->fault < NO_MEMORY && size > (state->fault == SHORT) && fails(#name, fd, NULL)) { \
        if (state->fault != SHORT) return errno = errno_of(), -1; \
        size = (size + 1) / 2; \
    } \
    return real(__VA_ARGS__)

/* What is neither short nor, on files, interrupted. */
#define WHOLE(name, descriptor, path, result) \
    if (is_counting() && (state->fault == IO_ERROR || state->fault == NO_SPACE) && \
        fails(#name, descriptor, path)) \
        return errno = errno_of(), (result)

ssize_t read(int fd, void *data, size_t size) {
    REAL(read);
    READ(read, fd, data, size);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset) {
    REAL(pread);
    READ(pread, fd, data, size, offset);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t offset) {
    REAL(pread64);
    READ(pread64, fd, data, size, offset);
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    WRITE(write, fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    REAL(pwrite);
    WRITE(pwrite, fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    REAL(pwrite64);
    WRITE(pwrite64, fd, data, size, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    if (is_counting() && state->fault < NO_MEMORY && count > 0 && fails("writev", fd, NULL)) {
        if (state->fault != SHORT) return errno = errno_of(), -1;
        struct iovec half = {parts[0].iov_base, (parts[0].iov_len + 1) / 2};
        return real(fd, &half, 1);
    }
    return real(fd, parts, count);
}

/* The file is closed all the same, as Linux does. What is only read has nothing that could fail. */
int close(int fd) {
    REAL(close);
    int is_failing = is_counting() && state->fault < SHORT &&
                     (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY && fails("close", fd, NULL);
    int result = real(fd);
    return is_failing ? (errno = errno_of(), -1) : result;
}

#define OPEN(name, directory, ...) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    } \
    if (is_counting() && state->fault < SHORT && \
        (state->fault != NO_SPACE || flags & (O_CREAT | __O_TMPFILE)) && \
        fails(#name, directory, path)) \
        return errno = errno_of(), -1; \
    return real(__VA_ARGS__)

int open(const char *path, int flags, ...) {
    REAL(open);
    OPEN(open, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    OPEN(open64, AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...) {
    REAL(openat);
    OPEN(openat, directory, directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...) {
    REAL(openat64);
    OPEN(openat64, directory, directory, path, flags, mode);
}

int fsync(int fd) {
    REAL(fsync);
    WHOLE(fsync, fd, NULL, -1);
    return real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    WHOLE(fdatasync, fd, NULL, -1);
    return real(fd);
}

/* A name that there was before takes no space. */
#define RENAME(name, directory) \
    if (is_counting() && (state->fault == IO_ERROR || \
                          (state->fault == NO_SPACE && state->failed == 0)) && \
        fails(#name, directory, to)) \
        return errno = errno_of(), -1

int rename(const char *from, const char *to) {
    REAL(rename);
    RENAME(rename, AT_FDCWD);
    return real(from, to);
}

int renameat(int old, const char *from, int new, const char *to) {
    REAL(renameat);
    RENAME(renameat, new);
    return real(old, from, new, to);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    WHOLE(mkdir, AT_FDCWD, path, -1);
    return real(path, mode);
}

/* To cut a file takes no space. */
static int takes_space(int fd, off64_t size) {
    struct stat64 state;
    return fstat64(fd, &state) != 0 || size > state.st_size;
}

#define TRUNCATE(name) \
    REAL(name); \
    if (is_counting() && (state->fault == IO_ERROR || \
                          (state->fault == NO_SPACE && takes_space(fd, size))) && \
        fails(#name, fd, NULL)) \
        return errno = errno_of(), -1; \
    return real(fd, size)

int ftruncate(int fd, off_t size) {
    TRUNCATE(ftruncate);
}

int ftruncate64(int fd, off64_t size) {
    TRUNCATE(ftruncate64);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
    REAL(fallocate);
    WHOLE(fallocate, fd, NULL, -1);
    return real(fd, mode, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size) {
    REAL(posix_fallocate);
    if (is_counting() && (state->fault == IO_ERROR || state->fault == NO_SPACE) &&
        fails("posix_fallocate", fd, NULL))
        return errno_of();
    return real(fd, offset, size);
}

/* Memory, where the compiled core asks for it: Python and its packages do so in other ways. */
static int lacks_memory(const char *name, void *caller) {
    Dl_info found;
    if (!is_counting() || state->fault != NO_MEMORY || !dladdr(caller, &found)) return 0;
    const char *package = strstr(found.dli_fname, "/meantime/");
    return package != NULL && is_its_turn(name, package + strlen("/meantime/"));
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

#define MEMORY(name, ...) \
    return lacks_memory(#name, __builtin_return_address(0)) ? (errno = ENOMEM, NULL) \
                                                            : __libc_##name(__VA_ARGS__)

void *malloc(size_t size) { MEMORY(malloc, size); }

void *calloc(size_t count, size_t size) { MEMORY(calloc, count, size); }

void *realloc(void *data, size_t size) { MEMORY(realloc, data, size); }

/* Of a file. */
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    REAL(mmap);
    if (is_counting() && fd >= 0 && state->fault == IO_ERROR && fails("mmap", fd, NULL))
        return errno = ENOMEM, MAP_FAILED;
    return real(at, size, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset) {
    REAL(mmap64);
    if (is_counting() && fd >= 0 && state->fault == IO_ERROR && fails("mmap64", fd, NULL))
        return errno = ENOMEM, MAP_FAILED;
    return real(at, size, protection, flags, fd, offset);
}
