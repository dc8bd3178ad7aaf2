"""Readers: one module per trace format, each returning a `Trace`."""
