/* The flags of spans, as in `trace.SpanFlag`. */
#ifndef MEANTIME_SPAN_FLAGS_H
#define MEANTIME_SPAN_FLAGS_H

enum { SPAN_UNFINISHED = 1, SPAN_STRUCTURED = 2 };

#endif
