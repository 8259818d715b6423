"""The packaged manifests.

The first comment line of an example is its title; ``# Expect:`` is the expected code of ``allot explain``; the comment
lines between them give the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from allotment.errors import InputError
from allotment.fleet.errors import suggestion


@dataclass(frozen=True, slots=True)
class Example:
    """A packaged manifest."""

    name: str
    title: str
    story: tuple[str, ...]
    expect: str
    text: str
    path: str


def examples() -> list[dict[str, Any]]:
    """Return name, title, expected code of ``explain`` and path of each packaged manifest.

    The keys of a manifest: ``name``, ``title``, ``expect``, ``path``.
    """
    return [
        {"name": each.name, "title": each.title, "expect": each.expect, "path": each.path}
        for each in packaged_examples()
    ]


@cache
def packaged_examples() -> tuple[Example, ...]:
    """Return all packaged examples, in order."""
    folder = resources.files("allotment").joinpath("examples")
    files = sorted((item for item in folder.iterdir() if item.name.endswith(".yaml")), key=lambda item: item.name)
    return tuple(_parse(file.name.removesuffix(".yaml"), file.read_text("utf-8"), str(file)) for file in files)


def _parse(name: str, text: str, path: str) -> Example:
    comments = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comments.append(line[1:].strip())
    expect = next(line.partition(":")[2].strip() for line in comments if line.startswith("Expect:"))
    story = tuple(line for line in comments[1:] if line and not line.startswith("Expect:"))
    return Example(name, comments[0], story, expect, text, path)


def find_example(word: str) -> Example:
    """Return the example of a number (``4``) or name (``04-seven-mig-slices`` or without number). Raises InputError."""
    for example in packaged_examples():
        number, _, rest = example.name.partition("-")
        if word in (example.name, f"{example.name}.yaml", rest) or (word.isdigit() and word.zfill(2) == number):
            return example
    names = [example.name.partition("-")[2] for example in packaged_examples()]
    raise InputError(f"unknown example {word!r}", suggestion(word, names) or "`allot examples list` lists them")
