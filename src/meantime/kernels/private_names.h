/* Which names of fields are private, as `meantime.readers.private_fields` defines it. */
#ifndef MEANTIME_PRIVATE_NAMES_H
#define MEANTIME_PRIVATE_NAMES_H

#include <string.h>

/* No private name has more. */
enum { PRIVATE_NAME_BYTES = 40 };

/* Whether a name, or what it has before a dot, is among `names`: each in small letters, without `-`
 * and `_`, and between line feeds. */
static int is_private_name(const char *names, const char *at, const char *end)
{
    char name[PRIVATE_NAME_BYTES + 3] = "\n";
    int size = 1;
    for (;; at++) {
        if (at == end || *at == '.') {
            memcpy(name + size, "\n", 2);
            if (size > 1 && strstr(names, name))
                return 1;
            if (at == end)
                return 0;
        } else if (*at == '_' || *at == '-')
            continue;
        if (size > PRIVATE_NAME_BYTES || *at == '\n' || !*at)
            return 0;
        name[size++] = *at >= 'A' && *at <= 'Z' ? (char)(*at + 32) : *at;
    }
}

#endif
