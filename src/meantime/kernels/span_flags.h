/* The flags of spans, as in `trace.SpanFlag`; and one that only readers use, of spans whose end has not
 * been read. */
#ifndef MEANTIME_SPAN_FLAGS_H
#define MEANTIME_SPAN_FLAGS_H

enum { SPAN_UNFINISHED = 1, SPAN_STRUCTURED = 2, SPAN_OPEN = 4 };

#endif
