"""The names of Linux's own threads, where a trace does not say which threads are the kernel's."""

from __future__ import annotations

import re

__all__ = ["is_kernel_thread"]

_KERNEL_THREAD = re.compile(
    r"(?:kworker|ksoftirqd|migration|cpuhp|idle_inject|irq|rcuop|rcuos|rcuob|rcuog|rcuc|rcub|jbd2"
    r"|ext4|xfs\w*|btrfs|kcompactd|scsi_eh|dm|md|loop|nvme|kvm|vhost|watchdog|mmcqd|posixcputmr"
    r"|ktimers|nv_queue|card\d+-crtc)[/\-_:\d].*"
    r"|kthreadd|rcu_\w+|kswapd\d*|khugepaged|ksmd|kauditd|khungtaskd|oom_reaper|kdevtmpfs|kintegrityd"
    r"|kblockd|writeback|netns|mm_percpu_wq|kcompactd\d+|watchdogd|pool_workqueue_|hwrng|ata_sff"
    r"|devfreq_wq|kstrp|edac-poller|tpm_dev_wq|inet_frag_wq|blkcg_punt_bio|md|crypto|bioset|kswapd"
)


def is_kernel_thread(name: str) -> bool:
    """Return whether threads of the kernel are called so.

    >>> is_kernel_thread("kworker/0:1"), is_kernel_thread("postgres")
    (True, False)
    """
    return _KERNEL_THREAD.fullmatch(name) is not None
