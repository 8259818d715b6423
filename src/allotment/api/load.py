"""Loads manifests: files, folders, streams, texts and dicts become objects with positions."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO, TypeAlias, TypeGuard, cast, overload

from allotment.api.choices import not_a_cluster
from allotment.api.objects.releases import features
from allotment.api.objects.validation import cut_off, no_object, validate
from allotment.cel.validation_context import validation_context
from allotment.errors import InputError, InvalidManifests
from allotment.model import DEFAULT_RELEASE
from allotment.model.features import Features
from allotment.model.loading import Document, LoadResult, is_manifest_text, load_paths, load_text, load_tree
from allotment.model.meta import Object
from allotment.model.problems import InputProblem

if TYPE_CHECKING:
    from allotment.api.cluster import Cluster
    from allotment.tools.claims.manifests import ClaimManifests

#: Manifests: the path of a file or folder, a text, an open file, a dict, a claim that was written, loaded manifests, or
#: a sequence of these.
Source: TypeAlias = "str | os.PathLike[str] | TextIO | BinaryIO | Mapping[str, Any] | ClaimManifests | Document | Manifests | Sequence[Source]"  # noqa: E501 - pyright cannot read parts of a text
#: The names of manifests that are no files.
STDIN: Final = "<stdin>"
_TEXT: Final = "<text>"
_DICT: Final = "<dict>"


@dataclass(frozen=True, slots=True, eq=False)
class Manifests(Sequence[Document]):
    """Loaded manifests, in order. Each document has its ``tree`` and the ``position`` of every value.

    ``names``: the sources as they were given, for commands: paths, and ``-`` for standard input. ``problems``: errors
    of YAML and JSON, empty for the result of ``load``. ``sources``: the texts that are no files, by name.
    ``is_repeatable``: False if a command could not read them again: a stream was read, or not all of them are files.
    """

    documents: tuple[Document, ...] = ()
    names: tuple[str, ...] = ()
    problems: tuple[InputProblem, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True

    @overload
    def __getitem__(self, index: int) -> Document: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Document]: ...

    def __getitem__(self, index: int | slice) -> Document | Sequence[Document]:
        return self.documents[index]

    def __len__(self) -> int:
        return len(self.documents)

    def values(self, cluster: Cluster | None = None, *, namespace: str | None = None) -> tuple[Object, ...]:
        """Return the objects as typed values, validated as the API server of the cluster's release does on creation.

        ``namespace``: that of objects which state none. Raises InvalidManifests with all problems.
        """
        if cluster is None:
            return self.validated(features(DEFAULT_RELEASE, ()), namespace)
        if not hasattr(cluster, "source"):  # its class depends on this module
            raise not_a_cluster(cluster)
        inputs = cluster.read()
        return self.validated(inputs.features, namespace, inputs.cluster)

    def validated(
        self, features: Features, namespace: str | None = None, given: Iterable[Object] = ()
    ) -> tuple[Object, ...]:
        """Return the objects as ``values`` does; ``given`` are those that the cluster has."""
        return self._checked(*validate(self._loaded, validation_context(features), namespace, given))

    def decoded(self) -> tuple[Object, ...]:
        """Return the objects of a snapshot as values, without validation. Raises InvalidManifests."""
        return self._checked(*validate(self._loaded, None))

    @property
    def _loaded(self) -> LoadResult:
        return LoadResult(list(self.documents), list(self.problems))

    def _checked(self, values: tuple[Object, ...], problems: Sequence[InputProblem]) -> tuple[Object, ...]:
        problems = problems or list(cut_off(self.documents))
        if not problems and not self.documents:
            problems = [no_object(STDIN if name == "-" else name) for name in self.names or self.sources]
        if problems:
            raise InvalidManifests(problems, self.text_of)
        return values

    def text_of(self, file: str) -> str | None:
        """Return the text of a file, if it was read or is still readable."""
        if file in self.sources:
            return self.sources[file]
        try:
            return Path(file).read_text("utf-8", "replace") if Path(file).is_file() else None
        except (OSError, ValueError):
            return None


def load(*sources: Source) -> Manifests:
    """Load manifests from files, folders, streams, texts and dicts.

    A string is a path unless it contains a line break or starts with ``{``; ``-`` is standard input. Raises
    InvalidManifests with all problems.
    """
    loaded = read_sources(*sources)
    if loaded.problems:
        raise InvalidManifests(loaded.problems, loaded.text_of)
    return loaded


def read_sources(*sources: Source) -> Manifests:
    """Load manifests as ``load`` does, but return the problems instead of raising."""
    taken: set[str] = set()
    parts = [part for source in sources for part in _parts(source, taken)]
    return Manifests(
        documents=tuple(document for part in parts for document in part.documents),
        names=tuple(name for part in parts for name in part.names),
        problems=tuple(problem for part in parts for problem in part.problems),
        sources={file: text for part in parts for file, text in part.sources.items()},
        is_repeatable=all(part.is_repeatable for part in parts),
    )


def _parts(source: Source, taken: set[str]) -> Iterator[Manifests]:
    """Yield the manifests of a source; texts get names that are not ``taken``."""
    if isinstance(source, Manifests):
        yield source
        taken.update(source.sources)
    elif isinstance(source, str) and is_text(source):
        yield _of_text(source, _unique(_TEXT, taken))
    elif source == "-":
        yield _of_stream(sys.stdin.buffer, taken)
    elif isinstance(source, str | os.PathLike):
        loaded = load_paths([source])
        yield Manifests(tuple(loaded.documents), (os.fspath(source),), tuple(loaded.problems))
    elif isinstance(source, Document):
        yield Manifests((source,), is_repeatable=False)
    elif isinstance(source, Mapping):
        loaded = load_tree(source, _DICT)
        yield Manifests(tuple(loaded.documents), (), tuple(loaded.problems), is_repeatable=False)
    elif _is_sequence(source):
        for item in source:
            yield from _parts(item, taken)
    else:
        yield _of_claim_or_stream(source, taken)


def text_manifests(text: str, name: str = _TEXT) -> Manifests:
    """Load the manifests of a text as ``read_sources`` does, but never take it for a path. ``name``: in positions."""
    return _of_text(text, name)


def is_text(source: str) -> bool:
    """Return whether a string is a text rather than a path. Raises InputError if it is empty."""
    if not source.strip():
        raise InputError("expected manifests or the path of a file, found an empty text")
    return is_manifest_text(source)


def _is_sequence(source: object) -> TypeGuard[Sequence[Source]]:
    return isinstance(source, Sequence) and not isinstance(source, bytes)


def _of_claim_or_stream(source: object, taken: set[str]) -> Manifests:
    from allotment.tools.claims.manifests import ClaimManifests

    if isinstance(source, ClaimManifests):
        return _of_text(source.text, _unique(_TEXT, taken))
    if hasattr(source, "readable"):
        return _of_stream(cast("TextIO | BinaryIO", source), taken)
    found = type(source).__name__
    hint = "use cluster=…" if found == "Cluster" else "use a path, a text, an open file or a dict"
    raise InputError(f"expected manifests, found {found}", hint)


def _of_stream(stream: TextIO | BinaryIO, taken: set[str]) -> Manifests:
    is_stdin = stream is sys.stdin or stream is getattr(sys.stdin, "buffer", None)
    name = _unique(STDIN if is_stdin else str(getattr(stream, "name", "<stream>")), taken)
    data = stream.read()
    if isinstance(data, str):
        return _of_text(data, name, ("-",) if is_stdin else ())
    loaded = load_paths(["-"], io.BytesIO(data)) if is_stdin else load_text(data, name)
    text = data.decode("utf-8", "replace")
    names = ("-",) if is_stdin else ()
    return Manifests(tuple(loaded.documents), names, tuple(loaded.problems), {name: text}, is_repeatable=False)


def _unique(name: str, taken: set[str]) -> str:
    """Return the name, numbered if it is taken, and take it."""
    unique = next(each for number in count(1) if (each := name if number == 1 else f"{name} {number}") not in taken)
    taken.add(unique)
    return unique


def _of_text(text: str, name: str, names: tuple[str, ...] = ()) -> Manifests:
    loaded = load_text(text, name)
    return Manifests(tuple(loaded.documents), names, tuple(loaded.problems), {name: text}, is_repeatable=False)
