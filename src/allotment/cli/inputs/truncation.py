"""Detects truncated snapshots of ``allot snapshot``: a part of a YAML file can be valid YAML.

The facts about the server are last, so a file without them is truncated. A part of a JSON file is invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from allotment.model.loading import Document
from allotment.model.problems import InputProblem, Position
from allotment.tools.doctor.server_facts import KIND

#: The prefix of a snapshot's first line.
BEGINNING: Final = "# A snapshot of Kubernetes "


def cut_off(documents: Sequence[Document]) -> Iterator[InputProblem]:
    """Yield problems for truncated files."""
    snapshots = dict.fromkeys(
        document.origin.file for document in documents if document.origin.source.startswith(BEGINNING)
    )
    ended = {document.origin.file for document in documents if document.tree.get("kind") == KIND}
    for file in snapshots:
        if file not in ended:
            words = "the snapshot is truncated"
            yield InputProblem(
                code="cut-off", message=words, position=Position(file, 1, 1), hint="take or copy it again"
            )
