"""The list of all rules that users can see, select and look up.

These are the rules of the table, and two that do not match on a bundle: unreadable input and unused ignore comments.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allotment.tools.check.bundle import Bundle
    from allotment.tools.check.rule import RuleMatch

#: Families by the first letter of their codes: name, title, and the question that their rules answer.
FAMILIES: Final = {
    "S": ("shape", "Shape and version", "Does a cluster of this release accept the object?"),
    "C": ("cel", "CEL", "Does the expression compile, and can it be true?"),
    "V": ("vocabulary", "Vocabulary", "Does a driver publish, install or understand the name?"),
    "M": ("meaning", "Meaning", "Does the object do what its author intends?"),
    "P": ("proof", "Proof", "Does the object get its devices in a simulation of the cluster?"),
}


def _find_nothing(bundle: Bundle) -> Iterable[RuleMatch]:
    """Findings of these rules come from the YAML loader and from ``suppressions``."""
    return ()


UNREADABLE: Final = Rule(
    code="S100",
    name="unreadable",
    family="shape",
    level="error",
    summary="the file or document is neither valid YAML nor valid JSON, or is not an object",
    why=(
        "kubectl rejects a document that it cannot parse. Helm templates are not valid YAML until they are rendered: "
        "check the output of `helm template` instead. A duplicate key is also an error, because it is unclear which "
        "value is intended."
    ),
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
    find=_find_nothing,
)

UNUSED_IGNORE: Final = Rule(
    code="S116",
    name="unused-ignore",
    family="shape",
    level="note",
    summary="an ignore comment suppresses no finding",
    why=(
        "An ignore comment that is no longer needed could hide a future mistake on its line. Remove it, or correct "
        "the code in its brackets. Codes of rules that are not selected, or that need a cluster when none is given, "
        "are not reported."
    ),
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
    find=_find_nothing,
)


def bundle_rules() -> tuple[Rule, ...]:
    """The rules that match on a bundle."""
    return RULES


@cache
def all_rules() -> tuple[Rule, ...]:
    """All rules, sorted by family and code."""
    letters = list(FAMILIES)
    return tuple(
        sorted((UNREADABLE, UNUSED_IGNORE, *bundle_rules()), key=lambda rule: (letters.index(rule.code[0]), rule.code))
    )


@cache
def rules_by_code() -> Mapping[str, Rule]:
    return {rule.code: rule for rule in all_rules()}
