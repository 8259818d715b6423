"""Texts of findings: subjects, lists of names, durations and commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from allotment.phrases import counted, first_few

_MINOR: Final = re.compile(r"v?1\.([0-9]+)")


def minor_of(version: str) -> int | None:
    """The minor release of a Kubernetes version; None for other strings.

    >>> minor_of("v1.36.2-gke.100"), minor_of("")
    (36, None)
    """
    found = _MINOR.match(version)
    return int(found[1]) if found else None


def subject(noun: str, names: Sequence[str]) -> str:
    """The subject of a finding: the name of a single object, or the number of objects.

    >>> subject("node", ["a"]), subject("claim", ["ml/a"]), subject("claim", ["ml/a", "ml/b"])
    ('node/a', 'claim ml/a', '2 claims')
    """
    if len(names) > 1:
        return counted(len(names), noun)
    return f"{noun} {names[0]}" if "/" in names[0] else f"{noun}/{names[0]}"


def named(noun: str, names: Sequence[str]) -> str:
    """Objects in a sentence: the name of a single object, or their number with some of the names.

    >>> named("node", ["a"]), named("node", ["a", "b"])
    ('node a', '2 nodes (a, b)')
    """
    return f"{noun} {names[0]}" if len(names) == 1 else f"{counted(len(names), noun)} ({first_few(names)})"


def is_or_are(names: Sequence[str]) -> str:
    """The verb for these objects."""
    return "is" if len(names) == 1 else "are"


def kubectl_args(namespaced: str) -> str:
    """The kubectl arguments for an object with this name.

    >>> kubectl_args("ml/train"), kubectl_args("gpu-1")
    ('-n ml train', 'gpu-1')
    """
    namespace, slash, name = namespaced.partition("/")
    return f"-n {namespace} {name}" if slash else namespaced


def commands(*lines: str) -> str:
    """Commands in the format of a remedy, one per line."""
    return "\n".join(f"$ {line}" for line in lines)


def remedy(sentence: str, *lines: str) -> str:
    """A remedy: a sentence, followed by commands."""
    return "\n".join(filter(None, (sentence, commands(*lines))))


def duration_text(span: timedelta) -> str:
    """A duration in its largest suitable unit.

    >>> (
    ...     duration_text(timedelta(seconds=50)),
    ...     duration_text(timedelta(minutes=40)),
    ...     duration_text(timedelta(hours=5)),
    ...     duration_text(timedelta(days=3)),
    ... )
    ('50s', '40m', '5h', '3d')
    """
    seconds = int(span.total_seconds())
    for least, size, letter in ((172_800, 86_400, "d"), (10_800, 3_600, "h"), (120, 60, "m")):
        if seconds >= least:
            return f"{seconds // size}{letter}"
    return f"{seconds}s"


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """Names in their order, without duplicates."""
    return tuple(dict.fromkeys(names))
