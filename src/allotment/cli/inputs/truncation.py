"""Detects truncated snapshots of ``allot snapshot``: a part of a YAML file can be valid YAML.

The facts about the server are last, so a file without them is truncated. A part of a JSON file is invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from allotment.model.loading import Document
from allotment.model.problems import InputProblem, Position
from allotment.tools.doctor.server_facts import KIND

#: How its first line begins.
BEGINNING: Final = "# A snapshot of Kubernetes "


def cut_off(documents: Sequence[Document]) -> Iterator[InputProblem]:
    """Yield problems for truncated files."""
    begun = dict.fromkeys(one.origin.file for one in documents if one.origin.source.startswith(BEGINNING))
    ended = {one.origin.file for one in documents if one.tree.get("kind") == KIND}
    for file in begun:
        if file not in ended:
            words = "the snapshot is truncated"
            yield InputProblem(
                code="cut-off", message=words, position=Position(file, 1, 1), hint="take or copy it again"
            )
