"""What every worker role does before it serves: give up what it does not need, and greet."""

from __future__ import annotations

import os

from muniment_runtime.worker.guard import Capabilities, GuardPolicy, apply_guard
from muniment_runtime.worker.spawn import PARENT_PID_VARIABLE

__all__ = ["USAGE", "greeting", "guarded"]

USAGE = 2
"""Exit status of a role that was started with the wrong arguments."""


def guarded(policy: GuardPolicy) -> Capabilities:
    """Apply a policy in this process; it ends at once when the parent that the environment names is gone."""
    parent = os.environ.get(PARENT_PID_VARIABLE, "")
    return apply_guard(policy, int(parent) if parent.isdigit() else None)


def greeting(role: str, capabilities: Capabilities) -> dict[str, object]:
    """Return what the parent learns first: the role and the layers that are really active."""
    return {"role": role, "capabilities": capabilities.to_json()}
