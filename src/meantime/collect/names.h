/* The names of threads, passed from where they can be read to the sampler.

   Reading a name requires the GIL, which the sampler never acquires. So a thread notes its name
   when it begins, and the sampler looks it up at the first sample. The oldest names are
   overwritten. */

#ifndef MEANTIME_NAMES_H
#define MEANTIME_NAMES_H

#include "stream.h"

enum { NOTED_NAMES = 4096 };

typedef struct {
    uint32_t tid, length;
    char text[MAX_THREAD_NAME];
} thread_name;

static thread_name noted_names[NOTED_NAMES];
static uint32_t names_noted = 0;
static pthread_mutex_t names_mutex = PTHREAD_MUTEX_INITIALIZER;

static void note_name_of(uint32_t tid, const char *text, size_t length) {
    pthread_mutex_lock(&names_mutex);
    thread_name *n = &noted_names[names_noted++ % NOTED_NAMES];
    n->tid = tid;
    n->length = length < MAX_THREAD_NAME ? (uint32_t)length : MAX_THREAD_NAME;
    memcpy(n->text, text, n->length);
    pthread_mutex_unlock(&names_mutex);
}

/* Returns how many names have been noted so far, including those that are overwritten. */
static uint32_t count_noted_names(void) {
    pthread_mutex_lock(&names_mutex);
    uint32_t noted = names_noted;
    pthread_mutex_unlock(&names_mutex);
    return noted;
}

/* Looks up the name that was noted last for a thread; its length is 0 if there is none. */
static thread_name noted_name(uint32_t tid) {
    thread_name found = {tid, 0, ""};
    pthread_mutex_lock(&names_mutex);
    uint32_t kept = names_noted < NOTED_NAMES ? names_noted : NOTED_NAMES;
    for (uint32_t back = 1; back <= kept; back++) {
        const thread_name *n = &noted_names[(names_noted - back) % NOTED_NAMES];
        if (n->tid != tid) continue;
        found = *n;
        break;
    }
    pthread_mutex_unlock(&names_mutex);
    return found;
}

static void forget_names(void) {
    pthread_mutex_init(&names_mutex, NULL); /* at a fork, another thread may have held it */
    names_noted = 0;
}

#endif
