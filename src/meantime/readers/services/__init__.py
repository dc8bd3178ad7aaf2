"""Spans that services record: one model and one layout for OpenTelemetry, Jaeger and Zipkin."""
