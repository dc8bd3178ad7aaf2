/* Arrays as pointers, for kernels with many of them: a typed memoryview is some 15 lines of C for each
 * place where it is used, which most of the time to compile a kernel goes to. */
#ifndef MEANTIME_ARRAYS_H
#define MEANTIME_ARRAYS_H

#include <Python.h>
#include <string.h>

/* Returns where the items of an array with one dimension are, and how many there are; NULL and an
 * exception if it is not contiguous, or of another type: `letters` has those that the format of its
 * items may be. The caller keeps the array. */
static inline void *array_items(PyObject *array, const char *letters, size_t size, Py_ssize_t *count)
{
    static char nothing[8];
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0)
        return NULL;
    void *items = view.len ? view.buf : nothing;
    int fits = view.ndim == 1 && (size_t)view.itemsize == size && view.format
        && view.format[0] && !view.format[1] && strchr(letters, view.format[0]);
    if (count)
        *count = view.len / (Py_ssize_t)size;
    PyBuffer_Release(&view);
    if (!fits) {
        PyErr_Format(PyExc_ValueError, "an array of %zu bytes an item was expected", size);
        return NULL;
    }
    return items;
}

#define INT64_ITEMS(array, count) array_items(array, "lq", 8, count)
#define INT32_ITEMS(array, count) array_items(array, "il", 4, count)
#define UINT32_ITEMS(array, count) array_items(array, "IL", 4, count)
#define UINT8_ITEMS(array, count) array_items(array, "B", 1, count)

#endif
