"""Records what a Linux system does: its CPUs, threads, block devices, or a PostgreSQL server.

`recording.record_system` is `meantime.record_system`. It runs what is installed: `bpftrace` with
one of the scripts in `bpftrace/`, otherwise `perf`, otherwise the kernel's own tracefs.
"""
