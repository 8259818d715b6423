"""Whether a snapshot that ``allot snapshot`` wrote is there whole: half of a YAML file is YAML, too.

What it says of its server comes last, so one without that was cut off. Half of a JSON file is no JSON.
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
    """The files that end before their snapshot does."""
    begun = dict.fromkeys(one.origin.file for one in documents if one.origin.source.startswith(BEGINNING))
    ended = {one.origin.file for one in documents if one.tree.get("kind") == KIND}
    for file in begun:
        if file not in ended:
            words = "the snapshot is truncated"
            yield InputProblem(
                code="cut-off", message=words, position=Position(file, 1, 1), hint="take or copy it again"
            )
