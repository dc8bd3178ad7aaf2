"""Flame graphs and flame charts: where the time went, by stack and by time."""
