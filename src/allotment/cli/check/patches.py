"""Patches of a kustomization: they look like objects and are none, for they hold only what differs from one.

What is defined twice, or lacks a field, is so on purpose there; only what the kustomization makes can be judged.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any, Final

from allotment.model.loading import Document

#: The names that kustomize reads.
_NAMES: Final = frozenset({"kustomization.yaml", "kustomization.yml"})
#: Fields of a kustomization that list patches: each entry a file or an inline text, or a mapping with ``path``.
_FIELDS: Final = ("patches", "patchesStrategicMerge", "patchesJson6902")


def is_kustomization(file: str) -> bool:
    """Whether a file is one that kustomize reads, by its name."""
    return PurePath(file).name in _NAMES


def patches_of(documents: Iterable[Document]) -> Iterator[str]:
    """The files that kustomizations name as patches, from the folder where they themselves are named from."""
    for document in documents:
        folder = PurePath(document.file).parent.as_posix()
        for field in _FIELDS:
            entries = document.tree.get(field)
            for entry in entries if isinstance(entries, list) else ():
                path: Any = entry.get("path") if isinstance(entry, dict) else entry
                if isinstance(path, str) and "\n" not in path:
                    yield posixpath.normpath(posixpath.join(folder, path))
