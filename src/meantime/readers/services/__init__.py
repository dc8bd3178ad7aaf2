"""Spans that services record: one model and one layout for OpenTelemetry, Jaeger and Zipkin.

`otlp`, `jaeger` and `zipkin` read documents of JSON, or messages of protobuf, into `ServiceSpan`,
and `collect` alone decides how spans of services are shown: which is nested in which, the lanes
(`lanes`), flows, points and open requests; on request with the times that `clock_repair` shifts.
Its columns wait for the end of the input, as a parent may be on the last line.

Spans of OpenTelemetry in the usual form never become objects: `scanned` lets the kernel
`service_rows` write them into the same columns, from JSON and from protobuf. The kernel stops at a
resource or a scope that is new and at a span that is not usual, which Python reads, and it refuses
a document of another form, whose rows are taken back. Lines and delimited messages are read one at
a time, so memory depends on the spans and not on the size of the file.
"""
