"""The order among candidates, on integers only: the same numbers stand in the audit record, so a replay is exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from muniment_runtime.contracts import KvType, Profile

__all__ = ["TTFT_BUDGET_US", "Choice", "Entry", "choose", "order_key", "over_time_budget", "ranking", "rungs"]

TTFT_BUDGET_US: dict[Profile, int | None] = {
    # Half a minute to the first word is the longest that people wait in front of a document.
    Profile.REALTIME: 30_000_000,
    Profile.BATCH: None,
    Profile.EXTRACTION: None,
}


class Entry(NamedTuple):
    """What the order looks at.

    Attributes:
        allowed: No rule other than memory rejects it.
        need_bytes: Total need.
        private_bytes: The part of it that cannot be dropped under pressure: all but mapped weights.
        parameters, weights_bytes: Stand for quality: more parameters first, then more bits for each.
        ttft_us: Predicted time to the first token in microseconds, ``None`` when unknown.
        shortfall: Tokens that the context lacks to hold all evidence.
        stays: It is what runs now.
    """

    allowed: bool
    need_bytes: int
    private_bytes: int
    parameters: int
    weights_bytes: int
    ttft_us: int | None
    model_id: str
    context: int
    kv_type: str
    sequences: int
    ubatch: int
    shortfall: int = 0
    stays: bool = False


class Choice(NamedTuple):
    """What the order gives.

    Attributes:
        chosen: Index of the best entry, ``None`` when none may run.
        overridden: It fits only because the user insisted: the reserve is used up.
        order: Indices of all entries that may run and fit, best first.
    """

    chosen: int | None
    overridden: bool
    order: tuple[int, ...]


def over_time_budget(profile: Profile, entry: Entry) -> bool:
    """Return whether the predicted first token comes later than the profile allows; unknown counts as in time."""
    budget = TTFT_BUDGET_US[profile]
    return budget is not None and entry.ttft_us is not None and entry.ttft_us > budget


def order_key(profile: Profile, entry: Entry) -> tuple[int | str, ...]:
    """Return the sort key, best first. It does not depend on headroom: more memory can only add better choices.

    Primary and secondary goal of each profile, then staying put, then the smallest setting that does:

    * realtime: in time for the reader; then the better model. When none is in time, the fastest. A compressed cache is
      the last thing to try, after a smaller model.
    * batch: the better model; then all evidence, then as many sequences at once as fit.
    * extraction: the better model, with a plain cache; then all evidence.

    What is given up first stands last: the prefill chunk before sequences, sequences before evidence. Staying with
    what runs ranks above the smaller context and chunk, because a change costs a load. Ids make the order total.
    """
    kv = 0 if entry.kv_type == KvType.F16 else 1
    stays = 0 if entry.stays else 1
    quality = (-entry.parameters, -entry.weights_bytes, entry.model_id)
    if profile is Profile.BATCH:
        return (
            *quality, entry.shortfall, -entry.sequences, kv, stays, entry.context, -entry.ubatch
        )  # fmt: skip
    if profile is Profile.EXTRACTION:
        return (*quality, kv, entry.shortfall, stays, entry.context, entry.sequences, -entry.ubatch)
    late = over_time_budget(profile, entry)
    return (
        1 if late else 0,
        (entry.ttft_us or 0) if late else 0,
        kv,
        *quality,
        entry.shortfall,
        stays,
        entry.context,
        entry.sequences,
        -entry.ubatch,
    )


def ranking(profile: Profile, entries: Sequence[Entry], available_bytes: int, margin_bytes: int) -> list[int]:
    """Return the indices of the entries that may run and fit, best first."""
    bound = available_bytes - margin_bytes
    keyed = [
        (order_key(profile, entry), index)
        for index, entry in enumerate(entries)
        if entry.allowed and entry.need_bytes <= bound
    ]
    keyed.sort()
    return [index for _, index in keyed]


def choose(
    profile: Profile, entries: Sequence[Entry], available_bytes: int, margin_bytes: int, override: bool = False
) -> Choice:
    """Return the best entry that may run and fits.

    With ``override`` and none that fits, the reserve is given up and mapped weights may be cold: the best entry whose
    private memory alone can be had is chosen. Never more than that: it would only make the system kill the process.
    """
    order = ranking(profile, entries, available_bytes, margin_bytes)
    if order:
        return Choice(order[0], False, tuple(order))
    if override:
        insisted = [entry._replace(need_bytes=entry.private_bytes) for entry in entries]
        forced = ranking(profile, insisted, available_bytes, 0)
        if forced:
            return Choice(forced[0], True, ())
    return Choice(None, False, ())


def rungs(needs_bytes: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return the rungs below the best of ``order``, next first: each the best entry that frees memory over the last.

    Args:
        needs_bytes: Need of every entry.
        order: Indices, best first, as in ``Choice``.
    """
    found: list[int] = []
    lowest = needs_bytes[order[0]] if order else 0
    for index in order[1:]:
        if needs_bytes[index] < lowest:
            found.append(index)
            lowest = needs_bytes[index]
    return tuple(found)
