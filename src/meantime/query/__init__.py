"""Queries over a history, built from its primitives."""
