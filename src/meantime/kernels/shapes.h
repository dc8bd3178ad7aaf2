/* The few formats that a program prints its records with, learned from records that were parsed.
 *
 * A format is a sequence of steps: a literal, and how what follows it is to be read. Formats form a
 * trie, since they begin alike. Walking it reads a record without looking at its structure again,
 * and is as strict as parsing: the literals are bytes that were checked.
 */
#ifndef MEANTIME_SHAPES_H
#define MEANTIME_SHAPES_H

#include "json_text.h"

#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Limits, so that input without a common format costs little: a full trie learns nothing more, and
 * records that do not fit into it are parsed. */
#define SHAPE_LITERAL_BYTES 32
#define SHAPE_CHILDREN 8
#define SHAPE_NODES 512
#define SHAPE_STEPS 24

typedef struct {
    const char *at;
    int size;
    int reads;
} shape_step;

typedef struct shape_node {
    char literal[SHAPE_LITERAL_BYTES];
    char beyond[SHAPE_LITERAL_BYTES]; /* all ones behind the literal */
    int size;
    int reads; /* how to read what follows the literal, in the scanner's own words */
    int meaning; /* the kind of record, as the scanner numbers it; all of a format's nodes have it */
    const struct shape_node *child[SHAPE_CHILDREN + 1]; /* a NULL ends them */
} shape_node;

typedef struct {
    shape_node nodes[SHAPE_NODES]; /* the first is the root, without a literal */
    int count;
    shape_step steps[SHAPE_STEPS]; /* of the record being parsed */
    int step_count; /* negative: it is not to be learned */
} shape_trie;

/* Whether 16 bytes are those of a literal, except where `beyond` is all ones. */
static inline int shape_is_like(const char *at, const char *literal, const char *beyond)
{
#ifdef __SSE2__
    __m128i equal = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)at),
                                   _mm_loadu_si128((const __m128i *)literal));
    equal = _mm_or_si128(equal, _mm_loadu_si128((const __m128i *)beyond));
    return _mm_movemask_epi8(equal) == 0xFFFF;
#else
    uint64_t differs = (json_load8(at) ^ json_load8(literal)) & ~json_load8(beyond);
    return !(differs | ((json_load8(at + 8) ^ json_load8(literal + 8)) & ~json_load8(beyond + 8)));
#endif
}

static inline int shape_fits(const shape_node *node, const char *at)
{
    return shape_is_like(at, node->literal, node->beyond)
           && (node->size <= 16 || shape_is_like(at + 16, node->literal + 16, node->beyond + 16));
}

/* The node below `node` whose literal is at `at`, or NULL; reads ahead. */
static inline const shape_node *shape_next(const shape_node *node, const char *at)
{
    const shape_node *const *child = node->child;
    while (*child && !shape_fits(*child, at))
        child++;
    return *child;
}

/* Notes the literal [at, end) and how what follows is read; `onward` is for a literal that only
 * another literal follows, as one too long for a step. */
static inline void shape_add_step(
    shape_trie *trie, const char *at, const char *end, int reads, int onward)
{
    for (;;) {
        if (trie->step_count < 0 || trie->step_count == SHAPE_STEPS || at == end) {
            trie->step_count = -1;
            return;
        }
        shape_step *step = &trie->steps[trie->step_count++];
        int whole = end - at <= SHAPE_LITERAL_BYTES;
        step->at = at;
        step->size = whole ? (int)(end - at) : SHAPE_LITERAL_BYTES;
        step->reads = whole ? reads : onward;
        if (whole)
            return;
        at += SHAPE_LITERAL_BYTES;
    }
}

/* Adds a node; longer literals come first, since one may begin like another. */
static inline shape_node *shape_add_node(
    shape_trie *trie, shape_node *above, const shape_step *step, const char *literal, int meaning)
{
    int children = 0;
    while (above->child[children])
        children++;
    if (children == SHAPE_CHILDREN || trie->count == SHAPE_NODES)
        return NULL;
    shape_node *node = &trie->nodes[trie->count++];
    memset(node, 0, sizeof *node);
    memcpy(node->literal, literal, SHAPE_LITERAL_BYTES);
    memset(node->beyond + step->size, 0xFF, (size_t)(SHAPE_LITERAL_BYTES - step->size));
    node->size = step->size;
    node->reads = step->reads;
    node->meaning = meaning;
    for (; children && above->child[children - 1]->size < step->size; children--)
        above->child[children] = above->child[children - 1];
    above->child[children] = node;
    return node;
}

/* Learns the steps that were noted; a trie that is full stays as it is. */
static inline void shape_learn(shape_trie *trie, int meaning)
{
    shape_node *node = trie->nodes;
    for (int i = 0; node && i < trie->step_count; i++) {
        const shape_step *step = &trie->steps[i];
        char literal[SHAPE_LITERAL_BYTES] = {0};
        shape_node *found = NULL;
        memcpy(literal, step->at, (size_t)step->size);
        for (int j = 0; node->child[j] && !found; j++) {
            const shape_node *child = node->child[j];
            if (child->size == step->size && child->reads == step->reads
                && child->meaning == meaning && shape_fits(child, literal))
                found = trie->nodes + (child - trie->nodes);
        }
        node = found ? found : shape_add_node(trie, node, step, literal, meaning);
    }
}

/* A part of a record as it was last time. Records of one program come in few formats, and the next one
 * mostly differs in some digits only: so one comparison finds where everything is. */
#define SHAPE_GUESS_BYTES 48

typedef struct {
    char literal[SHAPE_GUESS_BYTES];
    char beyond[SHAPE_GUESS_BYTES]; /* all ones for the digits, and behind the part */
    int size; /* 0: nothing fits */
    int digits; /* where the digits begin */
} shape_guess;

/* Whether the part at `at` is the same, but for the digits, which are not checked; reads ahead. */
static inline int shape_guess_fits(const shape_guess *guess, const char *at)
{
    int byte = 0;
    for (; byte < guess->size; byte += 16)
        if (!shape_is_like(at + byte, guess->literal + byte, guess->beyond + byte))
            return 0;
    return byte > 0;
}

/* Learns the part [at, end), in which `count` digits may differ; one that is too long fits nothing. */
static inline void shape_guess_learn(
    shape_guess *guess, const char *at, const char *digits, int count, const char *end)
{
    size_t size = (size_t)(end - at);
    guess->size = 0;
    if (size > SHAPE_GUESS_BYTES)
        return;
    memcpy(guess->literal, at, size);
    memset(guess->beyond, 0, size);
    memset(guess->beyond + size, 0xFF, SHAPE_GUESS_BYTES - size);
    memset(guess->beyond + (digits - at), 0xFF, (size_t)count);
    guess->digits = (int)(digits - at);
    guess->size = (int)size;
}

#endif
