"""The mark of claims that were set aside: they keep their devices from being seen as free, and are nobody's.

Our scheduler sets a claim aside when another scheduler gave its devices to a second claim at the same time. To whom a
device belongs is then told by the other claim; this one goes when nobody has had its devices for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The label. Its value means nothing.
LABEL: Final = "allotment.dev/contested"


def is_set_aside(labels: Mapping[str, str] | None) -> bool:
    """Whether the labels of a claim say so.

    >>> is_set_aside({"allotment.dev/contested": "true"}), is_set_aside(None)
    (True, False)
    """
    return LABEL in (labels or {})
