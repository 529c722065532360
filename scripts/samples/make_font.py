"""Makes the font subsets again: ``python make_font.py FOLDER`` with the LXGWWenKai-*.ttf files. Needs fonttools."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

__all__ = ["main"]

HERE = Path(__file__).resolve().parent


def main(folder: Path) -> None:
    """Write both faces with the characters of the contract, under their own name."""
    # A tool for authors, not a dependency of the product or its tests.
    fonts, subset = import_module("fontTools.ttLib"), import_module("fontTools.subset")
    text = "".join((HERE / name).read_text("utf-8") for name in ("contract.py", "contract_text.py"))
    codes = set(range(32, 127)) | {ord(character) for character in text if ord(character) > 127}
    for face in ("Regular", "Bold"):
        font = fonts.TTFont(folder / f"LXGWWenKai-{face}.ttf")
        options = subset.Options(layout_features=[], hinting=False, name_IDs=[0, 13, 14], notdef_outline=True)
        options.drop_tables += ["GSUB", "GPOS", "GDEF", "vhea", "vmtx", "meta"]
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=sorted(codes))
        subsetter.subset(font)
        names = {1: "Sample Kai", 2: face, 4: f"Sample Kai {face}", 6: f"SampleKai-{face}"}
        for number, value in names.items():
            font["name"].setName(value, number, 3, 1, 0x409)
        font["head"].modified = font["head"].created
        font.save(HERE / "fonts" / f"SampleKai-{face}.ttf")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
