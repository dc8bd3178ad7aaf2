"""Subsecond-offset heat maps: what each cell of a fold holds, drawn."""
