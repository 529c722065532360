"""How the doctor shows headroom."""

from __future__ import annotations

from muniment_app.cli.headroom import headroom_text
from muniment_app.cli.table import cells
from muniment_resources.i18n import Translator
from muniment_runtime.contracts import Headroom, Limit, Pressure, Signal
from muniment_runtime.headroom.chain import build
from muniment_runtime.planner.serialize import headroom_json

MIB = 1 << 20
ROOM = build(
    [Limit("memory_available", 40960 * MIB), Limit("cgroup:/", 5888 * MIB), Limit("cgroup:/app", 1600 * MIB)],
    3072 * MIB,
    [Signal("stall_some_percent", 12.0), Signal("swap_used_bytes", 512.0 * MIB)],
    [Limit("device:GPU0", 7168 * MIB)],
)


def test_limits_stand_in_columns_and_the_binding_one_is_marked() -> None:
    assert headroom_text(ROOM, Translator("en")) == [
        "Memory that may still be taken now: 1.6 GiB (* marks the limit that binds)",
        "    Memory available on this computer           40.0 GiB  42,949,672,960",
        "    Left under the limit of control group /      5.8 GiB   6,174,015,488",
        "  * Left under the limit of control group /app   1.6 GiB   1,677,721,600",
        "  The limit of control group /app sets the bound: 1.6 GiB.",
        "",
        "Memory is getting tight. The signs:",
        "    Time in which some programs waited for memory (last 10 s)   12.0 %",
        "    Moved out to disk (swap)                                   512 MiB",
        "",
        "Free on graphics devices:",
        "    Free on graphics device GPU0  7.0 GiB  7,516,192,768",
    ]


def test_chinese_columns_are_aligned_too() -> None:
    lines = headroom_text(ROOM, Translator("zh_CN"))
    assert len({cells(line) for line in lines[1:4]}) == 1
    assert [line.startswith("  * ") for line in lines[1:4]] == [False, False, True]


def test_without_limits_or_signals_only_what_is_known_is_said() -> None:
    nothing = Headroom(0, (), 0, Pressure.CRITICAL, "unknown")
    assert headroom_text(nothing, Translator("en"))[1:] == [
        "  Free memory could not be measured, so nothing is started.",
        "",
        "Memory is nearly exhausted.",
    ]


def test_json_holds_everything() -> None:
    assert headroom_json(ROOM) == {
        "available_bytes": 1600 * MIB,
        "limits": [
            {"name": "memory_available", "bytes": 40960 * MIB},
            {"name": "cgroup:/", "bytes": 5888 * MIB},
            {"name": "cgroup:/app", "bytes": 1600 * MIB},
        ],
        "binding": "cgroup:/app",
        "pressure": "tight",
        "signals": [
            {"name": "stall_some_percent", "value": 12.0},
            {"name": "swap_used_bytes", "value": 512.0 * MIB},
        ],
        "devices": [{"name": "device:GPU0", "bytes": 7168 * MIB}],
    }
