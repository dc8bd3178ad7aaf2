"""Families of traces: what their activities, resources and waits are, and what is worth saying."""
