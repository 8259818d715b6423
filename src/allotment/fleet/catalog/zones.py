"""The zones of the regions that the packaged prices are for, as each cloud names them on a node.

Which type is offered in which zone changes by the week and is not known here: a plan may name a zone that has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ZONES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("aws", "us-east-1"): tuple(f"us-east-1{letter}" for letter in "abcdef"),
    ("gcp", "us-central1"): tuple(f"us-central1-{letter}" for letter in "abcf"),
    **{
        ("azure", region): tuple(f"{region}-{number}" for number in (1, 2, 3))
        for region in ("eastus", "eastus2", "southcentralus")
    },
}


def zones_of(provider: str, region: str) -> tuple[str, ...]:
    """The zones of a region; of one whose zones are not known, or that has none, the region itself.

    >>> zones_of("azure", "eastus")
    ('eastus-1', 'eastus-2', 'eastus-3')
    """
    return _ZONES.get((provider, region), (region,) if region else ())
