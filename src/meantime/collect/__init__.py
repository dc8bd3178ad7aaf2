"""Records a running program: what its tasks, event loops, pools and threads were doing.

What runs inside the program imports nothing but the standard library and `_recorder`, the compiled
part. `docs/reference/recording-format.md` says what is written.
"""
