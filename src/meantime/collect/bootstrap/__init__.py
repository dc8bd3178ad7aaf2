"""Stands on PYTHONPATH of a recorded command, so that each Python in it finds `sitecustomize`."""
