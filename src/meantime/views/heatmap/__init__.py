"""Subsecond-offset heat maps: drawings of the cells of a fold."""
