"""Every rule that a user can meet, name, switch off and read about: those of the table, and two that are no function of
a bundle: what cannot be read at all, and comments that silence nothing.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allotment.tools.check.bundle import Bundle
    from allotment.tools.check.rule import Found

#: Families as people call them, by the letter of their codes.
FAMILIES: Final = {
    "S": ("shape", "Shape and version", "Is it an object that a cluster of this release takes?"),
    "C": ("cel", "CEL", "Is the expression one, and can it be true?"),
    "V": ("vocabulary", "Vocabulary", "Does anybody publish, install or understand that name?"),
    "M": ("meaning", "Meaning", "Will it do what is meant?"),
    "P": ("proof", "Proof", "Tried with the devices that were given: does it get them?"),
}


def _elsewhere(bundle: Bundle) -> Iterable[Found]:
    """Found by the reader or by what silences findings, not by looking at a bundle."""
    return ()


UNREADABLE: Final = Rule(
    code="S100",
    name="unreadable",
    family="shape",
    level="error",
    summary="a file or document that is neither YAML nor JSON, or no object",
    why="What cannot be read cannot be applied: kubectl refuses the document. Templates of a chart are no YAML before"
    " they are rendered: check what `helm template` prints. A key that is given twice is refused, too, because nobody"
    " can tell which value is meant.",
    bad="""\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: gpu
  name: gpu-2
spec: {}
""",
    good="""\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: gpu
spec: {}
""",
    find=_elsewhere,
)

UNUSED_IGNORE: Final = Rule(
    code="S116",
    name="unused-ignore",
    family="shape",
    level="note",
    summary="a comment that silences findings, where there are none",
    why="A comment that was right once hides the next mistake on its line. It can go, or names a rule that does not"
    " exist. Rules that were not asked for, and those that need a cluster when none is given, are not counted.",
    bad="""\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: gpu  # allot: ignore[S102]
spec: {}
""",
    good="""\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: gpu
spec: {}
""",
    find=_elsewhere,
)


def table() -> tuple[Rule, ...]:
    """The rules that are functions of a bundle."""
    return RULES


@cache
def catalogue() -> tuple[Rule, ...]:
    """All rules: families in their order, codes in theirs."""
    letters = list(FAMILIES)
    return tuple(
        sorted((UNREADABLE, UNUSED_IGNORE, *table()), key=lambda rule: (letters.index(rule.code[0]), rule.code))
    )


@cache
def by_code() -> Mapping[str, Rule]:
    """All rules by their codes."""
    return {rule.code: rule for rule in catalogue()}
