"""Claims that were set aside: they keep their devices from being seen as free, and are nobody's.

Our scheduler sets a claim aside when another scheduler gave its devices to a second claim at the same time. Whose the
devices are is then told by that other claim; this one goes when nobody has had them for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from allotment.model.resource import ResourceClaim

#: The label that says so. Its value means nothing.
LABEL: Final = "allotment.dev/contested"
#: What such a claim is, in a sentence about it.
DESCRIPTION: Final = "set aside, nobody's"


def is_contested(claim: ResourceClaim | None) -> bool:
    """Whether a claim was; one that is not known was not."""
    return claim is not None and LABEL in claim.metadata.labels


def is_contested_tree(tree: dict[str, Any]) -> bool:
    """The same of one as it comes from an API server.

    >>> tree_is_set_aside({"metadata": {"labels": {"allotment.dev/contested": "true"}}})
    True
    >>> tree_is_set_aside({"metadata": {"name": "train"}})
    False
    """
    return LABEL in (tree["metadata"].get("labels") or ())
