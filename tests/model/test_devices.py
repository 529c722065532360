"""The device list of the real library."""

from __future__ import annotations

from muniment_runtime.engine.library import open_library
from muniment_runtime.headroom.device import ggml_devices


def test_devices_are_those_that_the_library_can_use() -> None:
    api = open_library().api
    devices = ggml_devices(api)
    assert bool(devices) is bool(api.llama_supports_gpu_offload())
    assert [device for device in devices if not device.name or device.free_bytes > device.total_bytes] == []


def test_the_processor_itself_is_in_the_list_but_is_no_graphics_device() -> None:
    """The library reports the whole memory as free for the processor, which must never be taken for headroom."""
    api = open_library().api
    devices = ggml_devices(api)
    assert api._lib.ggml_backend_dev_count() > len(devices)
    assert [device.name for device in devices if device.name == "CPU"] == []
