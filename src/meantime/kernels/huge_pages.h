/* Huge pages for large memory. */
#ifndef MEANTIME_HUGE_PAGES_H
#define MEANTIME_HUGE_PAGES_H

#include <stddef.h>
#include <stdint.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

enum { HUGE_BYTES = 2 << 20 };

/* Asks for huge pages, if the memory is large. In columns, which are filled sequentially, half of the
 * time was spent on faults of 4 KB pages; in hash tables, as much is spent on finding the page. */
static inline void use_huge_pages(void *data, size_t size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (size >= 2 * HUGE_BYTES) {
    uintptr_t begin = ((uintptr_t)data + 4095) & ~(uintptr_t)4095;
    madvise((void *)begin, ((uintptr_t)data + size - begin) & ~(size_t)4095, MADV_HUGEPAGE);
  }
#else
  (void)data;
  (void)size;
#endif
}

#endif
