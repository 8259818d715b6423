"""Recognizes patches of kustomizations, which look like objects but contain only differences.

Duplicates and missing fields are intended there; only the output of the kustomization can be checked.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any, Final

from allotment.model.loading import Document

#: File names of kustomizations.
_NAMES: Final = frozenset({"kustomization.yaml", "kustomization.yml"})
#: Fields of a kustomization that list patches: each entry is a file, an inline text, or a mapping with ``path``.
_FIELDS: Final = ("patches", "patchesStrategicMerge", "patchesJson6902")


def is_kustomization(file: str) -> bool:
    """Return whether a file is a kustomization, by its name."""
    return PurePath(file).name in _NAMES


def patches_of(documents: Iterable[Document]) -> Iterator[str]:
    """Return the paths of files that kustomizations list as patches."""
    for document in documents:
        folder = PurePath(document.file).parent.as_posix()
        for field in _FIELDS:
            entries = document.tree.get(field)
            for entry in entries if isinstance(entries, list) else ():
                path: Any = entry.get("path") if isinstance(entry, dict) else entry
                if isinstance(path, str) and "\n" not in path:
                    yield posixpath.normpath(posixpath.join(folder, path))
