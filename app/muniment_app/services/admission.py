"""Reserves memory for loads before they take it."""

from __future__ import annotations

from muniment_app.services.model_host import Held

__all__ = ["Unshared"]


class Unshared:
    """Reserves nothing."""

    def reserve(self, need_bytes: int, margin_bytes: int, freed_bytes: int, replaces: Held | None) -> Held:
        return self

    def settle(self, resident_bytes: int) -> None:
        pass

    def release(self) -> None:
        pass
