"""The native library: imported late, and silent.

llama.cpp writes to the error stream unless a callback takes its log; the callback must live as long as the library.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

__all__ = ["Library", "open_library"]

_LEVEL_INFO = 2
_LEVEL_ERROR = 4
_KEPT_LINES = 32
_KEPT_SIZE_LINES = 256
_SIZE_MARK = b" MiB"
_MEMORY_WORDS = ("failed to allocate", "unable to allocate", "out of memory", "bad_alloc", "cannot allocate")


class Library:
    """The low-level binding, and two kinds of lines that the native code logged: errors and sizes.

    Attributes:
        api: The module ``llama_cpp.llama_cpp``. Typed ``Any``: it is generated from C and calls are checked by the
            tests that run the real library.
    """

    def __init__(self, api: Any) -> None:
        self.api = api
        self._lock = threading.Lock()
        self._errors: deque[str] = deque(maxlen=_KEPT_LINES)
        self._sizes: deque[str] = deque(maxlen=_KEPT_SIZE_LINES)
        self._callback = api.llama_log_callback(self._take)
        api.llama_log_set(self._callback, None)
        api.llama_backend_init()

    def _take(self, level: int, text: bytes | None, _data: object) -> None:
        if not text:
            return
        if level == _LEVEL_ERROR:
            with self._lock:
                self._errors.append(text.decode("utf-8", "replace"))
        elif level == _LEVEL_INFO and _SIZE_MARK in text:
            with self._lock:
                self._sizes.append(text.decode("utf-8", "replace"))

    def forget_errors(self) -> None:
        """Start a new observation."""
        with self._lock:
            self._errors.clear()

    def take_sizes(self) -> tuple[str, ...]:
        """Return the lines about sizes since the last call, oldest first; ``engine/buffers.py`` reads them."""
        with self._lock:
            lines = tuple(self._sizes)
            self._sizes.clear()
        return lines

    def lacked_memory(self) -> bool:
        """Whether the lines since ``forget_errors`` speak of memory that could not be had."""
        with self._lock:
            lines = " ".join(self._errors).lower()
        return any(words in lines for words in _MEMORY_WORDS)


def open_library() -> Library:
    """Import the binding (0.3 s) and silence it.

    Raises:
        ImportError: The optional dependency is not installed.
    """
    import llama_cpp.llama_cpp as api

    return Library(api)
