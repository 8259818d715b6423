"""Many names in few words: what is true of a thousand nodes is told once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from allotment.phrases import counted, first_few

_MINOR: Final = re.compile(r"v?1\.([0-9]+)")


def minor_of(version: str) -> int | None:
    """The minor release of a version of Kubernetes; None of something else.

    >>> minor_of("v1.36.2-gke.100"), minor_of("")
    (36, None)
    """
    found = _MINOR.match(version)
    return int(found[1]) if found else None


def subject(noun: str, names: Sequence[str]) -> str:
    """One object by its name; of several how many there are.

    >>> subject("node", ["a"]), subject("claim", ["ml/a"]), subject("claim", ["ml/a", "ml/b"])
    ('node/a', 'claim ml/a', '2 claims')
    """
    if len(names) > 1:
        return counted(len(names), noun)
    return f"{noun} {names[0]}" if "/" in names[0] else f"{noun}/{names[0]}"


def named(noun: str, names: Sequence[str]) -> str:
    """The same where a sentence goes on: with some of the names.

    >>> named("node", ["a"]), named("node", ["a", "b"])
    ('node a', '2 nodes (a, b)')
    """
    return f"{noun} {names[0]}" if len(names) == 1 else f"{counted(len(names), noun)} ({first_few(names)})"


def kubectl_args(namespaced: str) -> str:
    """Arguments of kubectl for one object by its namespace and name.

    >>> kubectl_args("ml/train"), kubectl_args("gpu-1")
    ('-n ml train', 'gpu-1')
    """
    namespace, slash, name = namespaced.partition("/")
    return f"-n {namespace} {name}" if slash else namespaced


def commands(*lines: str) -> str:
    """Commands as a remedy has them, a line each."""
    return "\n".join(f"$ {line}" for line in lines)


def remedy(sentence: str, *lines: str) -> str:
    """What to do in words, then the commands for it."""
    return "\n".join(filter(None, (sentence, commands(*lines))))


def duration_text(span: timedelta) -> str:
    """A duration, as roughly as it matters.

    >>> duration_text(timedelta(seconds=50)), duration_text(timedelta(minutes=40)), duration_text(timedelta(hours=5)), duration_text(timedelta(days=3))
    ('50s', '40m', '5h', '3d')
    """
    seconds = int(span.total_seconds())
    for least, size, letter in ((172_800, 86_400, "d"), (10_800, 3_600, "h"), (120, 60, "m")):
        if seconds >= least:
            return f"{seconds // size}{letter}"
    return f"{seconds}s"


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """Names in their order, each once."""
    return tuple(dict.fromkeys(names))
