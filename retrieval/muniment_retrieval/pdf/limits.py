"""Upper bounds for untrusted files, applied in the document worker and again by its parent.

Small files can ask for gigabytes (one kilobyte can claim a million pages), so every count that comes out of a file
has a bound. The figures follow what document sandboxes in the field use (10,000 pages, 10,000 pixels a side) and
leave room above real reports: the longest page seen in a large collection of filings has about 12,000 characters.
"""

from __future__ import annotations

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_LABEL_CHARS",
    "MAX_NAME_CHARS",
    "MAX_PAGES",
    "MAX_PAGE_CHARS",
    "MAX_PAGE_LINES",
    "MAX_PAGE_POINTS",
    "MAX_PIXELS",
    "MAX_SCALE",
    "MAX_SIDE_PIXELS",
    "MAX_TITLE_CHARS",
    "MIN_SCALE",
]

MAX_FILE_BYTES = 1 << 30
MAX_PAGES = 10_000
MAX_PAGE_CHARS = 500_000
MAX_PAGE_LINES = 20_000
MAX_PAGE_POINTS = 1_000_000.0
MAX_LABEL_CHARS = 40
MAX_TITLE_CHARS = 200
MAX_NAME_CHARS = 255
MAX_PIXELS = 40_000_000
MAX_SIDE_PIXELS = 16_384
MIN_SCALE = 0.01
MAX_SCALE = 20.0
