"""Free memory of graphics devices, as a backend reports it. Nothing is assumed where none reports."""

from __future__ import annotations

import ctypes
import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import Headroom, HeadroomProbe, Limit
from muniment_runtime.headroom.chain import DEVICE

__all__ = ["DeviceMemory", "DeviceProbe", "DeviceReader", "device_limits", "ggml_devices"]

# enum ggml_backend_dev_type of ggml-backend.h. Accelerators (BLAS, AMX) work in system memory and "meta" devices only
# bundle others, so neither has memory of its own.
_GPU = 1
_INTEGRATED_GPU = 2


class DeviceMemory(NamedTuple):
    """Memory of one device in bytes."""

    name: str
    free_bytes: int
    total_bytes: int


DeviceReader = Callable[[], Sequence[tuple[str, int, int]]]
"""Returns (name, free bytes, total bytes) of each device. May raise ``KnownError`` or ``OSError``."""


def device_limits(devices: Sequence[tuple[str, int, int]]) -> tuple[Limit, ...]:
    """Return one limit per device, named ``device:<name>``.

    A device that does not know its total is left out: backends answer 0 when they cannot tell. More free than total
    is cut to the total.
    """
    return tuple(
        Limit(f"{DEVICE}:{name}", max(0, min(free_bytes, total_bytes)))
        for name, free_bytes, total_bytes in devices
        if total_bytes > 0
    )


class DeviceProbe:
    """A probe that adds the memory of devices to what another probe measures.

    Args:
        inner: Measures the machine.
        devices: Reads the devices; one that fails leaves them out.
    """

    def __init__(self, inner: HeadroomProbe, devices: DeviceReader) -> None:
        self._inner = inner
        self._devices = devices

    def measure(self) -> Headroom:
        """Return the machine's headroom with the devices that report."""
        headroom = self._inner.measure()
        try:
            found = device_limits(self._devices())
        except (KnownError, OSError):
            return headroom
        return dataclasses.replace(headroom, device_limits=(*headroom.device_limits, *found))


def ggml_devices(api: Any) -> list[DeviceMemory]:
    """Return the graphics devices of llama.cpp's backends. Only for an inference worker: drivers are native code.

    Asking starts the driver of each backend that was built in; a build for the processor alone has none.

    Args:
        api: The module ``llama_cpp.llama_cpp``.

    Raises:
        OSError: Its libraries cannot be opened.
        AttributeError: They lack these functions (``ggml-backend.h``).
    """
    registry, base = _libraries(api)
    count, get = registry.ggml_backend_dev_count, registry.ggml_backend_dev_get
    count.argtypes, count.restype = [], ctypes.c_size_t
    get.argtypes, get.restype = [ctypes.c_size_t], ctypes.c_void_p
    kind, name, memory = base.ggml_backend_dev_type, base.ggml_backend_dev_name, base.ggml_backend_dev_memory
    kind.argtypes, kind.restype = [ctypes.c_void_p], ctypes.c_int
    name.argtypes, name.restype = [ctypes.c_void_p], ctypes.c_char_p
    memory.argtypes, memory.restype = [ctypes.c_void_p, *[ctypes.POINTER(ctypes.c_size_t)] * 2], None
    found = []
    for index in range(count()):
        device = get(index)
        if kind(device) not in (_GPU, _INTEGRATED_GPU):
            continue
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        memory(device, ctypes.byref(free), ctypes.byref(total))
        found.append(DeviceMemory((name(device) or b"").decode("utf-8", "replace"), free.value, total.value))
    return found


def _libraries(api: Any) -> tuple[Any, Any]:
    """Return the library with the device list and the one with the functions of a device."""
    if sys.platform == "win32":
        folder = Path(api.__file__).parent / "lib"
        return ctypes.CDLL(str(folder / "ggml.dll")), ctypes.CDLL(str(folder / "ggml-base.dll"))
    else:  # noqa: RET505 - the type checker follows platform checks by their branches only
        # A look-up in the binding's own handle also searches the libraries that it was linked with. Opening them by
        # path could map a second copy (wheels hold copies instead of links), with a device list of its own.
        handle = api._lib  # noqa: SLF001 - the binding has no public name for its handle
        return handle, handle
