"""What a child process gives up before it touches anything untrusted.

Every layer is best effort and none is fatal: what is really active is reported in ``Capabilities`` and shown to the
user. The audit hook is a tripwire for Python code; only the kernel layers bind native code.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from muniment_runtime.worker import kernel

__all__ = [
    "DOCUMENT_POLICY",
    "INFERENCE_POLICY",
    "QUANTIZE_POLICY",
    "BlockedError",
    "Capabilities",
    "GuardPolicy",
    "apply_guard",
]


class BlockedError(PermissionError):
    """The child tried something that no worker has any business doing."""


@dataclass(frozen=True)
class GuardPolicy:
    """What a role gives up. ``None`` leaves a limit alone.

    Attributes:
        address_space_bytes: Virtual memory; for workers with small, bounded needs only (a mapped model is large).
        cpu_s: Processor seconds in all, for workers that are recycled.
        open_files: Highest number of descriptors.
        file_size_bytes: Largest file that may be written; 0 forbids any.
        nice: Added to the scheduling priority number (lower priority).
        oom_score_adj: Linux: the kernel prefers to end this process rather than the window.
        deny_network: No sockets and no way around them.
        deny_exec: No new programs.
        deny_writes: No change to any file.
        writable_devices: Device files or folders that stay writable (drivers are called through them).
        writable_files: Files that exist already and may be overwritten, for a role whose work is one file. Nothing
            can be created, renamed or removed, not even beside them.
    """

    address_space_bytes: int | None = None
    cpu_s: int | None = None
    open_files: int | None = None
    file_size_bytes: int | None = 0
    nice: int = 10
    oom_score_adj: int = 500
    deny_network: bool = True
    deny_exec: bool = True
    deny_writes: bool = True
    writable_devices: tuple[str, ...] = (os.devnull,)
    writable_files: tuple[str, ...] = ()


INFERENCE_POLICY = GuardPolicy(
    open_files=256,
    writable_devices=(
        os.devnull,
        "/dev/dri",
        "/dev/kfd",
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
    ),
)
"""For the model process: large mapped files, graphics devices, nothing else."""

DOCUMENT_POLICY = GuardPolicy(address_space_bytes=1536 * 1024 * 1024, open_files=64, oom_score_adj=700)
"""For processes that parse one hostile file at a time."""

QUANTIZE_POLICY = GuardPolicy(open_files=64, oom_score_adj=700)
"""For the process that quantizes a model: large mapped files and one output file, which its caller adds together with
the size that the file may reach. It may end before the model process does: its work can be done again."""


@dataclass(frozen=True)
class Capabilities:
    """The layers that are active in this process, as measured after asking for them.

    Attributes:
        limits: Names of the resource limits that hold.
        low_priority: Scheduling priority was lowered.
        oom_preferred: The kernel prefers this process when memory runs out.
        parent_death_signal: The kernel ends this process with its parent.
        audit_hook: Python-level tripwire against network, new programs and writes.
        seccomp: Kernel filter against sockets, io_uring, tracing and new programs, native code included.
        landlock_abi: Version of the kernel's file and network fence that is active, 0 for none.
        kernel_network: Native code cannot reach the network.
        kernel_writes: Native code cannot change files.
    """

    limits: tuple[str, ...] = ()
    low_priority: bool = False
    oom_preferred: bool = False
    parent_death_signal: bool = False
    audit_hook: bool = False
    seccomp: bool = False
    landlock_abi: int = 0
    kernel_network: bool = False
    kernel_writes: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the plain object that the greeting carries."""
        return {**asdict(self), "limits": list(self.limits)}


def _set_limits(policy: GuardPolicy) -> tuple[str, ...]:
    if sys.platform == "win32":
        return ()
    import resource  # noqa: PLC0415 - does not exist on Windows

    wanted = {
        "core": (resource.RLIMIT_CORE, 0),
        "address_space": (resource.RLIMIT_AS, policy.address_space_bytes),
        "cpu": (resource.RLIMIT_CPU, policy.cpu_s),
        "open_files": (resource.RLIMIT_NOFILE, policy.open_files),
        "file_size": (resource.RLIMIT_FSIZE, policy.file_size_bytes),
    }
    active: list[str] = []
    for name, (which, value) in wanted.items():
        if value is None:
            continue
        try:
            _, hard = resource.getrlimit(which)
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(which, (bound, bound))
        except (OSError, ValueError):
            continue
        active.append(name)
    return tuple(active)


def _lower_priority(step: int) -> bool:
    if sys.platform == "win32":
        return kernel.windows_below_normal()
    try:
        before = os.nice(0)
        return os.nice(step) > before
    except OSError:
        return False


def _prefer_for_oom(score: int) -> bool:
    path = Path("/proc/self/oom_score_adj")
    try:
        path.write_text(str(score), "ascii")
        return int(path.read_text("ascii")) == score
    except (OSError, ValueError):
        return False


_NETWORK_EVENTS = ("socket.",)
_EXEC_EVENTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork", "os.startfile")
_WRITE_EVENTS = (
    "os.chmod",
    "os.chown",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
    "os.utime",
    "shutil.",
    "tempfile.",
)
_NETWORK_ALLOWED = frozenset({"socket.gethostname"})
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _install_hook(policy: GuardPolicy) -> bool:
    """Refuse the forbidden things where Python can see them; cannot be removed again.

    It holds on every system, names the event in the traceback, and is no boundary: native code passes it.
    """
    prefixes: tuple[str, ...] = ()
    if policy.deny_network:
        prefixes += _NETWORK_EVENTS
    if policy.deny_exec:
        prefixes += _EXEC_EVENTS
    if policy.deny_writes:
        prefixes += _WRITE_EVENTS
    deny_writes = policy.deny_writes
    writable = (*policy.writable_devices, *policy.writable_files)

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event == "open":
            if deny_writes and isinstance(args[2], int) and args[2] & _WRITE_FLAGS:
                path = args[0]
                # An integer is a descriptor that is open already: nothing new is reached through it.
                if not isinstance(path, int) and not (isinstance(path, str) and path in writable):
                    raise BlockedError("write blocked")
        elif event.startswith(prefixes) and event not in _NETWORK_ALLOWED:
            raise BlockedError(f"{event} blocked")

    sys.addaudithook(hook)
    return True


def apply_guard(policy: GuardPolicy, parent_pid: int | None = None) -> Capabilities:
    """Give up rights for good and say what really holds.

    Call first in the child, with only one thread running: the kernel's fence binds the calling thread and what it
    starts later.

    Args:
        policy: What to give up.
        parent_pid: The process that must stay alive; ends this one when it is already gone.
    """
    # Compiled modules would be the first forbidden write.
    sys.dont_write_bytecode = True
    low_priority = _lower_priority(policy.nice)
    oom_preferred = _prefer_for_oom(policy.oom_score_adj)
    death_signal = kernel.die_with_parent()
    # On Windows a virtual environment's launcher stands between the two, so the numbers differ from the start.
    if parent_pid is not None and sys.platform != "win32" and os.getppid() != parent_pid:
        os._exit(0)
    limits = _set_limits(policy)
    abi = kernel.restrict_files_and_tcp(
        deny_writes=policy.deny_writes,
        deny_exec=policy.deny_exec,
        deny_network=policy.deny_network,
        writable=(*policy.writable_devices, *policy.writable_files),
    )
    seccomp = kernel.filter_system_calls(deny_network=policy.deny_network, deny_exec=policy.deny_exec)
    audit_hook = _install_hook(policy)
    return Capabilities(
        limits=limits,
        low_priority=low_priority,
        oom_preferred=oom_preferred,
        parent_death_signal=death_signal,
        audit_hook=audit_hook,
        seccomp=seccomp,
        landlock_abi=abi,
        # The file fence knows TCP only; all kinds of sockets need the filter.
        kernel_network=seccomp and policy.deny_network,
        kernel_writes=abi > 0 and policy.deny_writes,
    )
