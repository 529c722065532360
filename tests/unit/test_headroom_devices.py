"""Memory of graphics devices: only what a backend reports."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import Limit
from muniment_runtime.headroom.chain import what_if
from muniment_runtime.headroom.device import DeviceMemory, DeviceProbe, device_limits
from muniment_runtime.headroom.probe import FixedProbe


def test_each_device_is_one_limit() -> None:
    devices = [DeviceMemory("CUDA0", 7 << 30, 8 << 30), DeviceMemory("CUDA1", 0, 8 << 30)]
    assert device_limits(devices) == (Limit("device:CUDA0", 7 << 30), Limit("device:CUDA1", 0))


def test_a_device_that_cannot_tell_is_left_out_and_nonsense_is_cut() -> None:
    assert device_limits([("X", 5, 0)]) == ()
    assert device_limits([("X", 9, 5)]) == (Limit("device:X", 5),)


def test_devices_stand_beside_the_chain_and_never_bind() -> None:
    probe = DeviceProbe(FixedProbe(what_if(100)), lambda: [("GPU0", 1, 50)])
    headroom = probe.measure()
    assert headroom.device_limits == (Limit("device:GPU0", 1),)
    assert (headroom.available_bytes, headroom.limits) == (100, (Limit("what_if", 100),))


def test_nothing_is_invented_without_a_report() -> None:
    assert DeviceProbe(FixedProbe(what_if(100)), lambda: []).measure() == what_if(100)


@pytest.mark.parametrize("error", [OSError(), KnownError("E-WORKER-DIED", role="inference", cause="killed")])
def test_a_reader_that_fails_leaves_the_devices_out(error: Exception) -> None:
    def broken() -> Sequence[tuple[str, int, int]]:
        raise error

    assert DeviceProbe(FixedProbe(what_if(100)), broken).measure() == what_if(100)
