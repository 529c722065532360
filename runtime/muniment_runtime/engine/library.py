"""The native library: imported late, and silent.

llama.cpp writes to the error stream unless a callback takes its log; the callback must live as long as the library.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

__all__ = ["Library", "open_library"]

_LEVEL_ERROR = 4
_KEPT_LINES = 32
_MEMORY_WORDS = ("failed to allocate", "unable to allocate", "out of memory", "bad_alloc", "cannot allocate")


class Library:
    """The low-level binding and the error lines that the native code logged.

    Attributes:
        api: The module ``llama_cpp.llama_cpp``. Typed ``Any``: it is generated from C and calls are checked by the
            tests that run the real library.
    """

    def __init__(self, api: Any) -> None:
        self.api = api
        self._lock = threading.Lock()
        self._errors: deque[str] = deque(maxlen=_KEPT_LINES)
        self._callback = api.llama_log_callback(self._take)
        api.llama_log_set(self._callback, None)
        api.llama_backend_init()

    def _take(self, level: int, text: bytes | None, _data: object) -> None:
        if level == _LEVEL_ERROR and text:
            with self._lock:
                self._errors.append(text.decode("utf-8", "replace"))

    def forget_errors(self) -> None:
        """Start a new observation."""
        with self._lock:
            self._errors.clear()

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
