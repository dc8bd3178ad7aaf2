/* Reads at a position, and mapped files, whatever the system calls them. */
#ifndef MEANTIME_FILE_ACCESS_H
#define MEANTIME_FILE_ACCESS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32

#include <io.h>
#include <windows.h>

/* NULL, and errno is set, if it cannot be mapped. */
static inline void *file_map(int descriptor, size_t size, int64_t offset) {
  HANDLE mapping =
      CreateFileMapping((HANDLE)_get_osfhandle(descriptor), NULL, PAGE_READONLY, 0, 0, NULL);
  void *data = mapping == NULL ? NULL : MapViewOfFile(
      mapping, FILE_MAP_READ, (DWORD)(offset >> 32), (DWORD)offset, size);
  if (mapping != NULL) CloseHandle(mapping); /* the view keeps it */
  if (data == NULL) errno = size == 0 ? EINVAL : ENOMEM;
  return data;
}

static inline void file_unmap(void *data, size_t size) {
  (void)size;
  UnmapViewOfFile(data);
}

/* It moves the position of the file, so it must be of a descriptor that nobody else reads. */
static inline int64_t file_read_at(int descriptor, void *to, size_t size, int64_t offset) {
  if (_lseeki64(descriptor, offset, SEEK_SET) < 0) return -1;
  return _read(descriptor, to, (unsigned)size);
}

#else

#include <sys/mman.h>
#include <unistd.h>

static inline void *file_map(int descriptor, size_t size, int64_t offset) {
  void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, offset);
  return data == MAP_FAILED ? NULL : data;
}

static inline void file_unmap(void *data, size_t size) { munmap(data, size); }

static inline int64_t file_read_at(int descriptor, void *to, size_t size, int64_t offset) {
  return pread(descriptor, to, size, offset);
}

#endif
#endif
