"""The formats of records, learned, for the scanners: see `shapes.h`."""


cdef extern from "shapes.h" nogil:
    ctypedef struct shape_node:
        int size
        int reads
        int meaning
    ctypedef struct shape_trie:
        shape_node *nodes
        int count
        int step_count
    const shape_node *shape_next(const shape_node *node, const char *at)
    void shape_add_step(
        shape_trie *trie, const char *at, const char *end, int reads, int onward
    )
    void shape_learn(shape_trie *trie, int meaning)
    ctypedef struct shape_guess:
        int size
        int digits
    bint shape_guess_fits(const shape_guess *guess, const char *at)
    void shape_guess_learn(
        shape_guess *guess, const char *at, const char *digits, int count, const char *end
    )
