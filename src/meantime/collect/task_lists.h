/* The tasks that have not ended. Since 3.14 the interpreter keeps them in lists: one for each thread,
   and one for the tasks of threads that have ended.

   A list's nodes are inside the tasks, whose structure is private to _asyncio. Where the node is in
   it is found with a task that was just created, which is the last of its thread's list. Everything
   here requires the GIL. */

#ifndef MEANTIME_TASK_LISTS_H
#define MEANTIME_TASK_LISTS_H

#include "internals.h"

#if PY_VERSION_HEX >= 0x030E0000

enum { MOST_LISTED = 1 << 28 }; /* a list that is damaged may be a circle */

static Py_ssize_t node_offset = 0;

static struct llist_node *tasks_of_thread(PyThreadState *thread) {
    return &((_PyThreadStateImpl *)thread)->asyncio_tasks_head;
}

/* Notes where the node is in a task that the calling thread has just created; -1 if it cannot be
   found. */
static int find_node(PyObject *task) {
    char *last = (char *)tasks_of_thread(PyThreadState_Get())->prev;
    Py_ssize_t offset = last - (char *)task;
    Py_ssize_t most = Py_TYPE(task)->tp_basicsize - (Py_ssize_t)sizeof(struct llist_node);
    if (offset < (Py_ssize_t)sizeof(PyObject) || offset > most) return -1;
    node_offset = offset;
    return 0;
}

static int append_tasks(PyObject *found, struct llist_node *head) {
    struct llist_node *node = head->next;
    for (int i = 0; node != head && i < MOST_LISTED; node = node->next, i++) {
        PyObject *task = (PyObject *)((char *)node - node_offset);
        /* one that is being freed is in the list until its finalizer has run */
        if (Py_REFCNT(task) > 0 && PyList_Append(found, task) < 0) return -1;
    }
    return 0;
}

/* Returns a new list of the tasks of all threads. */
static PyObject *listed_tasks(void) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    PyObject *found = PyList_New(0);
    int failed = !found;
    for (PyThreadState *thread = PyInterpreterState_ThreadHead(interpreter); thread && !failed;
         thread = PyThreadState_Next(thread))
        failed = append_tasks(found, tasks_of_thread(thread)) < 0;
    if (!failed) failed = append_tasks(found, &interpreter->asyncio_tasks_head) < 0;
    if (failed) Py_CLEAR(found);
    return found;
}

#else
static Py_ssize_t node_offset = 0;
static int find_node(PyObject *task) {
    (void)task;
    return -1;
}
static PyObject *listed_tasks(void) { return PyList_New(0); }
#endif

#endif
