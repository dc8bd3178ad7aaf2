"""Queries over a history, built from its primitives."""

# How many parts of a range are compared between hosts, unless asked otherwise: how exact a stretch
# is. Here, since the help of `meantime hosts` prints it without importing NumPy.
HOST_BINS = 240
