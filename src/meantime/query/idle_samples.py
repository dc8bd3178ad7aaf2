"""Samples of the idle task: those in which a CPU had nothing to do.

Linux runs the idle task as thread 0 of every CPU, and interrupts and timers on top of it. Only a
sample whose innermost frame is one of the functions in which a CPU waits was idle; all others of
the thread were work. Without a frame that has a name nothing shows work.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from meantime.model.attribute_paths import is_idle_task, thread_path
from meantime.model.columns import distinct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.samples import SampleTable
    from meantime.model.stacks import StackTable

__all__ = ["are_idle", "idle_frames", "idle_stacks", "left_out", "without_idle"]

# What profilers of wall time count; one of a single thread may call it 0.
_WALL = "wall"
_ONLY_THREAD: Final = thread_path(0, 0)
# Where a CPU waits, on the architectures of Linux and under hypervisors, and what leads there: a
# sample between two of these is idle, too.
_IDLE = re.compile(
    r"intel_idle(?:_\w+)?|mwait_idle(?:_with_hints)?|__?mwait|acpi_idle_(?:do_entry|enter\w*)"
    r"|acpi_processor_ffh_cstate_enter|acpi_safe_halt|amd_e400_idle|poll_idle|pv_native_safe_halt"
    r"|(?:pv_)?native_(?:safe_)?halt|default_(?:enter_)?idle(?:_call)?|cpu_idle(?:_loop|_poll)?"
    r"|arch_cpu_idle|arch_safe_halt|safe_halt|do_idle|cpu_do_idle|cpuidle_(?:enter(?:_\w+)?|idle_call)"
    r"|cpu_(?:startup_entry|bringup_and_idle)|call_cpuidle|xen_(?:safe_)?halt|xen_idle"
    r"|xen_hypercall_(?:sched|vcpu)_op|HYPERVISOR_sched_op|kvm_\w*halt|haltpoll_enter_idle"
    r"|(?:__)?psci_(?:cpu_suspend|enter)\w*|__invoke_psci_fn_(?:smc|hvc)|arm_cpuidle_\w+"
    r"|cpu_v\d\w*_do_idle|snooze_loop|nap_loop|stop_loop|(?:pseries|pnv|power\d)_\w*idle\w*"
    r"|plpar_hcall\w*|psw_idle(?:_exit)?|enabled_wait|sbi_\w*suspend\w*|wait_for_interrupt"
)
_SUFFIX = re.compile(r"(?:\.(?:constprop|isra|part|cold|llvm)(?:\.\d+)?)+$")


def idle_frames(frames: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which functions are those in which a CPU waits.

    >>> idle_frames(["intel_idle_irq", "mwait_idle.constprop.0", "tasklet_action"]).tolist()
    [True, True, False]
    """
    bare = [_SUFFIX.sub("", name) for name in frames]
    return np.array([_IDLE.fullmatch(name) is not None for name in bare], np.bool_)


def idle_stacks(table: StackTable) -> npt.NDArray[np.bool_]:
    """Return which stacks show no work of the idle task; the last item is for no stack at all."""
    names = table.frames
    nameless = np.array([name.startswith("[") for name in names], np.bool_)
    waits = idle_frames(names)
    idle = np.ones(len(table) + 1, np.bool_)
    if len(table):
        own = waits[table.frame]
        unknown = nameless[table.frame]
        # callers come before what they call
        for stack, (parent, is_unknown) in enumerate(
            zip(table.parent.tolist(), unknown.tolist(), strict=True)
        ):
            idle[stack] = idle[parent] if is_unknown else own[stack]
    return idle


def are_idle(history: History, samples: SampleTable) -> npt.NDArray[np.bool_]:
    """Return which samples are of the idle task while its CPU waited.

    >>> from meantime.testing import history_from_samples
    >>> rows = [(0, "0", ["do_idle"], 1), (1, "0", ["do_idle", "irq"], 1), (2, "7", ["f"], 1)]
    >>> history = history_from_samples(rows)
    >>> are_idle(history, history.samples()).tolist()
    [True, False, False]
    """
    threads = distinct(samples.thread)
    tasks = [quark for quark in threads.tolist() if is_idle_task(history.attributes.path(quark))]
    found = np.isin(samples.thread, tasks)
    if tasks:
        event = samples.event
        walls = [code for code, name in enumerate(event.names) if name == _WALL]
        found &= ~np.isin(event.codes, walls)
        # a profile without threads has all samples on one, 0 of 0; what records CPUs names threads
        only = history.attributes.find(*_ONLY_THREAD)
        found &= (samples.thread != only) | (samples.name.codes >= 0)
        found &= idle_stacks(samples.stacks)[samples.stack]
    return found


def without_idle(
    history: History, samples: SampleTable, *, is_chosen: bool
) -> tuple[SampleTable, int]:
    """Return samples without those of idle CPUs, and how many these are.

    Args:
        history: Their history.
        samples: The samples.
        is_chosen: Whether threads were chosen: if all are the idle task, it is what is wanted.
    """
    idle = are_idle(history, samples)
    count = int(np.count_nonzero(idle))
    if is_chosen and count:
        threads = distinct(samples.thread).tolist()
        if all(is_idle_task(history.attributes.path(quark)) for quark in threads):
            return samples, 0
    return (samples.rows(np.flatnonzero(~idle)) if count else samples), count


def left_out(count: int) -> str:
    """Return how many samples of idle CPUs are left out, in words.

    >>> left_out(1200)
    '1,200 samples of idle CPUs are left out; --idle counts them'
    """
    from meantime.query.sentences import counted  # noqa: PLC0415 - few traces have idle CPUs

    is_one = count == 1
    verb, them = ("is", "it") if is_one else ("are", "them")
    return f"{counted(count, 'sample')} of idle CPUs {verb} left out; --idle counts {them}"
