"""The files of the command line: what they hold, their texts, and what of folders is passed over.

A file that is named is judged whatever it holds. In folders lie files of many programs: of those, what is no
Kubernetes object is passed over, and a chart's templates are counted, for they are none before they are rendered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from allotment.cli.mistakes import BadInput
from allotment.model.loading import Document, Loaded, Problem, files_below, load_paths, load_text
from allotment.tools.check.belonging import is_object, is_ours, is_template

STDIN: Final = "<stdin>"
#: What stops before the text is looked at: bad input, not a bad manifest.
_UNREADABLE: Final = frozenset({"unreadable", "no-files", "too-big"})


@dataclass(slots=True)
class Files:
    """What was read. ``sources`` are the texts of all files that were judged, by their names, in order.

    ``templates`` are files that were passed over because they must be rendered first; ``stdin`` is the name of what
    came by standard input; ``found`` are files of folders, which nobody named.
    """

    documents: list[Document] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    templates: list[str] = field(default_factory=list)
    stdin: str = ""
    found: set[str] = field(default_factory=set)

    def add(self, loaded: Loaded, source: str, file: str) -> None:
        """A file that is to be judged."""
        self.documents += loaded.documents
        self.problems += loaded.problems
        self.sources[file] = source

    def with_texts(self, texts: Mapping[str, str]) -> Files:
        """The same files with other texts for some."""
        after = replace(self, documents=[], problems=[], sources={})
        for file, source in self.sources.items():
            if file in texts:
                after.add(_judged(load_text(texts[file], file), file in self.found), texts[file], file)
            else:
                documents = [document for document in self.documents if document.file == file]
                after.add(Loaded(documents, [p for p in self.problems if p.position.file == file]), source, file)
        return after


def _judged(loaded: Loaded, found: bool) -> Loaded:
    """Of a file that was found in a folder, what is for us."""
    return Loaded([document for document in loaded.documents if not found or is_ours(document)], loaded.problems)


def read_files(
    paths: Sequence[str], is_excluded: Callable[[str], bool], force_exclude: bool = False, stdin_name: str = ""
) -> Files:
    """Read files, folders and, for ``-``, standard input. Raises BadInput for what is not there or cannot be read.

    ``is_excluded`` holds for what is found in folders, and with ``force_exclude`` for what is named, too.
    """
    files = Files()
    unusable: list[Problem] = []
    seen: set[str] = set()
    for path in paths:
        if path == "-":
            if STDIN not in seen:
                seen.add(STDIN)
                _read_stdin(files, stdin_name or STDIN)
            continue
        for file, named in _files(path, is_excluded, unusable):
            # Two ways to one file are one file; a pipe has no name of its own.
            identity = os.path.realpath(file) if Path(file).is_file() else file
            if identity in seen or (named and force_exclude and is_excluded(file)):
                continue
            seen.add(identity)
            _read(files, unusable, file, named and not force_exclude)
    if unusable:
        raise BadInput(unusable, lambda file: None)
    return files


def _files(path: str, is_excluded: Callable[[str], bool], unusable: list[Problem]) -> Iterator[tuple[str, bool]]:
    """The files that a path means, and whether it names them."""
    if not Path(path).is_dir():
        yield path, True
        return
    problems: list[Problem] = []
    found = list(files_below(path, problems))
    unusable += problems
    if not found and not problems:
        unusable += load_paths([path]).problems
    prefix = f".{os.sep}"
    yield from ((file.removeprefix(prefix), False) for file in found if not is_excluded(file))


def _read_stdin(files: Files, name: str) -> None:
    data = sys.stdin.buffer.read()
    files.stdin = name
    files.add(load_text(data, name), data.decode("utf-8", "replace"), name)


def _read(files: Files, unusable: list[Problem], file: str, named: bool) -> None:
    loaded = load_paths([file])
    stops = [problem for problem in loaded.problems if problem.code in _UNREADABLE]
    if stops:
        unusable += stops
        return
    source = _source(loaded.documents, file)
    if named:
        files.add(loaded, source, file)
    elif not loaded.problems or (is_object(source) and not is_template(source)):
        loaded = _judged(loaded, found=True)
        if loaded.documents or loaded.problems:
            files.add(loaded, source, file)
            files.found.add(file)
    elif is_object(source):
        files.templates.append(file)


def _source(documents: Iterable[Document], file: str) -> str:
    """The text of a file. It is read once more only where nothing came of it, and no pipe is."""
    for document in documents:
        return document.origin.source
    try:
        return Path(file).read_bytes().decode("utf-8", "replace") if Path(file).is_file() else ""
    except (OSError, ValueError):
        return ""
