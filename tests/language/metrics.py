"""Figures about the language: shared class names, words to avoid, long commit subjects."""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.language.files import Hit
from tests.language.word_list import CATEGORIES, ROOT

SUBJECT_WIDTH: Final = 72


def lines(hits: Iterable[Hit], since: str, root: Path = ROOT) -> Iterator[str]:
    """One line for each figure of a checkout.

    ``since``: the commit after which subjects count; empty for all. Raises CalledProcessError if git does not know it.
    """
    subjects = _subjects(since, root)
    sources = [path.read_text(encoding="utf-8") for path in sorted((root / "src" / "allotment").rglob("*.py"))]
    yield f"modules: {len(sources)}"
    names = list(_class_names(sources))
    yield f"class names shared: {shared_share(names):.1%} ({len(set(names))} names of {len(names)} classes)"
    counts = Counter(hit.category for hit in hits)
    for category in CATEGORIES:
        yield f"words to avoid, {category}: {counts[category]}"
    long = sum(len(subject) > SUBJECT_WIDTH for subject in subjects)
    share = long / len(subjects) if subjects else 0
    yield f"commit subjects over {SUBJECT_WIDTH} characters: {share:.1%} ({long} of {len(subjects)})"


def shared_share(names: list[str]) -> float:
    """The share of names that are used more than once, as one minus distinct names over all names.

    >>> shared_share(["Place", "Place", "Device", "Pool"])
    0.25
    """
    return 1 - len(set(names)) / len(names) if names else 0.0


def _class_names(sources: Iterable[str]) -> Iterator[str]:
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                yield node.name


def _subjects(since: str, root: Path) -> list[str]:
    command = ["git", "log", "--no-merges", "--format=%s", f"{since}..HEAD" if since else "HEAD", "--"]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()
