"""``allot examples``: lists and prints the packaged manifests.

The first comment line of an example is its title; ``# Expect:`` is the expected code of ``allot explain``; the comment
lines between them give the reason.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from functools import cache
from importlib import resources

from allotment.cli.output.console import open_screen
from allotment.errors import InputError


@dataclass(frozen=True, slots=True)
class Example:
    """A packaged manifest."""

    name: str
    title: str
    story: tuple[str, ...]
    expect: str
    text: str
    path: str


@cache
def examples() -> tuple[Example, ...]:
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


def find(word: str) -> Example:
    """Return the example of a number (``4``) or name (``04-seven-mig-slices`` or without number). Raises InputError."""
    for example in examples():
        number, _, rest = example.name.partition("-")
        if word in (example.name, f"{example.name}.yaml", rest) or (word.isdigit() and word.zfill(2) == number):
            return example
    from allotment.fleet.errors import suggestion

    names = [example.name.partition("-")[2] for example in examples()]
    raise InputError(f"unknown example {word!r}", suggestion(word, names) or "`allot examples list` lists them")


def run_list(arguments: Namespace) -> int:
    """Print name, expected result and title of every example."""
    screen = open_screen()
    if arguments.output:
        data = [{"name": e.name, "title": e.title, "expect": e.expect, "path": e.path} for e in examples()]
        screen.data(data, arguments.output)
        return 0
    rows = [[e.name, "yes" if e.expect == "fits" else "no", e.title] for e in examples()]
    screen.table(["NAME", "FITS", "SHOWS"], rows, cut=["SHOWS"])
    screen.line()
    screen.line("allot examples print 4      prints one")
    screen.line("allot demo 4                explains it")
    screen.line('allot explain -f "$(allot examples where 4)" --fleet dgx-a100-40gb')
    return 0


def run_print(arguments: Namespace) -> int:
    """Print examples unchanged."""
    chosen = [find(word) for word in arguments.example]
    open_screen().out.write("---\n".join(example.text for example in chosen))
    return 0


def run_where(arguments: Namespace) -> int:
    """Print the path of an example, or of the directory of all."""
    from pathlib import PurePath

    path = find(arguments.example).path if arguments.example else str(PurePath(examples()[0].path).parent)
    open_screen().line(path)
    return 0
