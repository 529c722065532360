"""The order among candidates, on integers only: the same numbers stand in the audit record, so a replay is exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muniment_runtime.contracts import KvType, Profile

__all__ = ["TTFT_BUDGET_US", "Entry", "choose", "order_key", "over_time_budget", "ranking"]

TTFT_BUDGET_US: dict[Profile, int | None] = {
    # Half a minute to the first word is the longest that people wait in front of a document.
    Profile.REALTIME: 30_000_000,
    Profile.BATCH: None,
    Profile.EXTRACTION: None,
}


@dataclass(frozen=True)
class Entry:
    """What the order looks at.

    Attributes:
        allowed: No rule other than memory rejects it.
        need_bytes: Total need.
        parameters, weights_bytes: Stand for quality: more parameters first, then more bits for each.
        ttft_us: Predicted time to the first token in microseconds, ``None`` when unknown.
    """

    allowed: bool
    need_bytes: int
    parameters: int
    weights_bytes: int
    ttft_us: int | None
    model_id: str
    context: int
    kv_type: str
    sequences: int
    ubatch: int


def over_time_budget(profile: Profile, entry: Entry) -> bool:
    """Return whether the predicted first token comes later than the profile allows; unknown counts as in time."""
    budget = TTFT_BUDGET_US[profile]
    return budget is not None and entry.ttft_us is not None and entry.ttft_us > budget


def order_key(profile: Profile, entry: Entry) -> tuple[int | str, ...]:
    """Return the sort key, best first. It does not depend on headroom: more memory can only add better choices.

    Within the time budget the better model wins; when none is in time, the fastest. Then come the steps that each
    profile gives up last to first: the cache type, the context that the task asked for (no more than needed), for
    batch the number of sequences, and the prefill chunk. Ids make the order total.
    """
    late = over_time_budget(profile, entry)
    return (
        1 if late else 0,
        (entry.ttft_us or 0) if late else 0,
        -entry.parameters,
        -entry.weights_bytes,
        entry.model_id,
        0 if entry.kv_type == KvType.F16 else 1,
        entry.context,
        -entry.sequences if profile is Profile.BATCH else entry.sequences,
        -entry.ubatch,
    )


def ranking(profile: Profile, entries: Sequence[Entry], available_bytes: int, margin_bytes: int) -> list[int]:
    """Return the indices of the entries that may run and fit, best first."""
    fitting = [
        index
        for index, entry in enumerate(entries)
        if entry.allowed and available_bytes - entry.need_bytes >= margin_bytes
    ]
    return sorted(fitting, key=lambda index: (*order_key(profile, entries[index]), index))


def choose(profile: Profile, entries: Sequence[Entry], available_bytes: int, margin_bytes: int) -> int | None:
    """Return the index of the best entry that may run and fits, ``None`` when there is none."""
    order = ranking(profile, entries, available_bytes, margin_bytes)
    return order[0] if order else None
