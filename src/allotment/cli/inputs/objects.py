"""Reads the objects of ``-f``, ``--cluster`` and ``--fleet``, and validates them.

Objects of ``-f`` are validated as the API server does on creation: unknown fields, defaults and
validation, with the position in the file. A snapshot comes from an API server, perhaps a newer one: it is only decoded,
and unknown fields are ignored.
"""

from __future__ import annotations

import io
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from allotment.api.inputs import Inputs, queued
from allotment.api.releases import features_among
from allotment.api.validation import cut_off, no_object, validate
from allotment.cel.validation_context import validation_context
from allotment.errors import InvalidManifests
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.features import Features
from allotment.model.loading import load_paths
from allotment.model.meta import Object
from allotment.model.problems import InputProblem
from allotment.model.validation.context import ValidationContext

_Kind = TypeVar("_Kind", bound=Object)


def is_live(arguments: Namespace) -> bool:
    """Return whether to use a live cluster: one is named, or no other input is given."""
    if arguments.context or arguments.kubeconfig:
        return True
    return not (arguments.files or arguments.cluster or arguments.fleet)


def read_inputs(arguments: Namespace) -> Inputs:
    """Read all inputs of the options. Raises ``InvalidManifests`` with all problems."""
    stdin = _Stdin()
    snapshot = _flat(arguments.cluster)
    cluster, cluster_problems = _read(snapshot, stdin, None, arguments.namespace, ())
    known = features_among(arguments.kube_version, arguments.feature_gates, cluster)
    fleet = cluster_of(parse_fleet(_flat(arguments.fleet)), known.kube) if arguments.fleet else None
    given = (*cluster, *((*fleet.nodes, *fleet.slices, *fleet.classes) if fleet else ()))
    files = _flat(arguments.files)
    queried, problems = (
        _read(files, stdin, validation_context(known), arguments.namespace, given) if files else ((), [])
    )
    if cluster_problems or problems:
        raise InvalidManifests([*cluster_problems, *problems], stdin.source)
    return Inputs(known, queued(given), queried)


def queried_objects(arguments: Namespace, known: Features, given: Sequence[Object]) -> tuple[Object, ...]:
    """Return the objects of ``-f``; ``given`` are those of the cluster. Raises ``InvalidManifests``."""
    stdin = _Stdin()
    files = _flat(arguments.files)
    queried, problems = _read(files, stdin, validation_context(known), arguments.namespace, given)
    if problems:
        raise InvalidManifests(problems, stdin.source)
    return queried


class _Stdin:
    """Standard input, read once; files are read again if a line of them must be shown."""

    def __init__(self) -> None:
        self._bytes: bytes | None = None

    def open(self) -> io.BytesIO:
        if self._bytes is None:
            self._bytes = sys.stdin.buffer.read()
        return io.BytesIO(self._bytes)

    def source(self, file: str) -> str | None:
        """Return the text of a file, if it is still readable."""
        if file == "<stdin>":
            return (self._bytes or b"").decode("utf-8", "replace")
        try:
            return Path(file).read_text("utf-8", "replace") if Path(file).is_file() else None
        except (OSError, ValueError):
            return None


def _flat(options: Sequence[Sequence[str]]) -> list[str]:
    return [item for group in options for item in group]


def _read(
    paths: Sequence[str],
    stdin: _Stdin,
    context: ValidationContext | None,
    namespace: str | None,
    given: Iterable[Object],
) -> tuple[tuple[Object, ...], list[InputProblem]]:
    """Return the objects of files. With a ``context`` they are new, and validated as new objects."""
    if not paths:
        return (), []
    loaded = load_paths(paths, stdin.open() if "-" in paths else None)
    values, problems = validate(loaded, context, namespace, given)
    if not problems:
        problems = list(cut_off(loaded.documents))
    if not problems and not loaded.documents:
        problems = [no_object(path) for path in paths]
    return values, problems
