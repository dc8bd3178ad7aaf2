/* The recording's own files, and the descriptors that stay open for them.

   The program may close any descriptor, as daemons do, and the system then reuses its number for a
   file or socket of the program. So before a descriptor is used, device and inode are compared with
   the file it was opened for, and the file is opened again by name if they differ. */

#ifndef MEANTIME_OWN_FILES_H
#define MEANTIME_OWN_FILES_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_FILE_NAME = 64, HIGH_DESCRIPTOR = 2048 };

typedef struct {
    int fd; /* -1: not open now */
    dev_t device;
    ino_t inode; /* 0: there is no file */
} own_file;

#define NO_FILE ((own_file){.fd = -1})

static char recording_directory[PATH_MAX - 128]; /* absolute: the program may change its own */
static own_file directory_file = {.fd = -1};

/* Moves a descriptor out of the range of the program's own. The system assigns the lowest free
   number, which a program may rely on, and select() accepts none from 1024 on. */
static int move_up(int fd) {
    struct rlimit limit = {0, 0};
    if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0) return fd;
    rlim_t least = HIGH_DESCRIPTOR;
    /* under a low limit, such as the usual 1024: the highest quarter */
    if (limit.rlim_cur < 2 * HIGH_DESCRIPTOR) least = limit.rlim_cur - limit.rlim_cur / 4;
    if ((rlim_t)fd >= least) return fd;
    int error = errno, high = fcntl(fd, F_DUPFD_CLOEXEC, (int)least);
    errno = error;
    if (high < 0) return fd; /* no number is free in that range */
    close(fd);
    return high;
}

static int is_ours(const own_file *f) {
    struct stat now;
    return f->fd >= 0 && fstat(f->fd, &now) == 0 && now.st_dev == f->device &&
           now.st_ino == f->inode;
}

/* Stores a descriptor that was opened for `f`. If `f` had a file before, it must be the same one:
   its name may refer to another by now. */
static int keep_file(own_file *f, int fd) {
    struct stat now;
    if (fd < 0) return -1;
    fd = move_up(fd);
    if (fstat(fd, &now) < 0 || (f->inode && (now.st_dev != f->device || now.st_ino != f->inode))) {
        close(fd);
        errno = ESTALE;
        return -1;
    }
    *f = (own_file){fd, now.st_dev, now.st_ino};
    return 0;
}

/* Closes a descriptor unless the program has reused its number. */
static void close_file(own_file *f) {
    if (is_ours(f)) close(f->fd);
    *f = NO_FILE;
}

/* Names in the recording's directory: a descriptor reaches it even after chroot, and after the
   program has lost the privileges to traverse its path */

static void open_directory(void) {
    close_file(&directory_file);
    if (keep_file(&directory_file, open(recording_directory, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        directory_file = NO_FILE;
}

/* Not opened again if the program closes it: `directory_file` has no lock, and several threads may
   use it at the same time. */
static int in_directory(void) { return is_ours(&directory_file) ? directory_file.fd : -1; }

static void path_of(char *path, size_t size, const char *name) {
    snprintf(path, size, "%s/%s", recording_directory, name);
}

static int open_named(const char *name, int flags) {
    char path[PATH_MAX];
    int at = in_directory();
    if (at >= 0) return openat(at, name, flags | O_CLOEXEC, 0600);
    path_of(path, sizeof path, name);
    return open(path, flags | O_CLOEXEC, 0600);
}

static void unlink_named(const char *name) {
    char path[PATH_MAX];
    int at = in_directory();
    path_of(path, sizeof path, name);
    if (at >= 0) unlinkat(at, name, 0);
    else unlink(path);
}

/* Makes sure that the descriptor of a file still refers to it; opens the file again if not. */
static int reach_file(own_file *f, const char *name, int flags) {
    if (likely(is_ours(f))) return 0;
    f->fd = -1; /* it belongs to the program now, so it must not be closed */
    return keep_file(f, open_named(name, flags));
}

/* Descriptors of a thread of the recorder */

#ifndef SYS_close_range
#define SYS_close_range 436 /* the same on all processors; new in Linux 5.9 */
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u
#endif

/* Gives the calling thread a table of descriptors that has only the recording's directory. In a
   process whose threads share one, the kernel counts the users of a file in each system call that
   has a descriptor: 20 to 70 ns a call. Returns -1 if the table is still shared. */
static int leave_descriptors(void) {
    int kept = in_directory();
    unsigned end = ~0u;
    if (syscall(SYS_close_range, kept > 0 ? 0u : (unsigned)(kept + 1),
                kept > 0 ? (unsigned)kept - 1 : end, CLOSE_RANGE_UNSHARE) < 0)
        return -1;
    if (kept > 0) syscall(SYS_close_range, (unsigned)kept + 1, end, 0u);
    return 0;
}

/* Writing */

static int write_all(int fd, const void *data, size_t size, size_t *written) {
    const char *next = data;
    *written = 0;
    while (*written < size) {
        ssize_t n = write(fd, next + *written, size - *written);
        if (n < 0) {
            if (errno == EINTR) continue;
            return -1;
        }
        *written += (size_t)n;
    }
    return 0;
}

/* Appends to a file of `size` bytes, or leaves it unchanged: readers find records by the lengths of
   those before, so a torn one would make all that follow unreadable. */
static int append_to(own_file *f, off_t size, const void *data, size_t bytes) {
    size_t written;
    if (write_all(f->fd, data, bytes, &written) == 0) return 0;
    int error = errno;
    if (written && is_ours(f) && ftruncate(f->fd, size) == 0) lseek(f->fd, size, SEEK_SET);
    errno = error;
    return -1;
}

#endif
