"""Compiled loops over columns: no I/O, no policy, no objects. They release the GIL.

Beside each stands, in the tests, a plain definition of what it computes.
"""
