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
    uint64_t literal[SHAPE_LITERAL_BYTES / 8], mask[SHAPE_LITERAL_BYTES / 8];
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

static inline int shape_fits(const shape_node *node, const char *at)
{
    uint64_t differs = ((json_load8(at) ^ node->literal[0]) & node->mask[0])
                       | ((json_load8(at + 8) ^ node->literal[1]) & node->mask[1]);
    if (node->size > 16)
        differs |= ((json_load8(at + 16) ^ node->literal[2]) & node->mask[2])
                   | ((json_load8(at + 24) ^ node->literal[3]) & node->mask[3]);
    return differs == 0;
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
    char mask[SHAPE_LITERAL_BYTES] = {0};
    memset(mask, 0xFF, (size_t)step->size);
    memset(node, 0, sizeof *node);
    for (int word = 0; word < SHAPE_LITERAL_BYTES / 8; word++) {
        node->literal[word] = json_load8(literal + 8 * word);
        node->mask[word] = json_load8(mask + 8 * word);
    }
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

#endif
