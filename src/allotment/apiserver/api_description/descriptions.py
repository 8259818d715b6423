"""What fields mean, in a sentence each: for ``kubectl explain``, and for whoever reads the documents.

In our own words, for the kinds that people look up when they ask for devices; other kinds go without.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

import msgspec

from allotment.model.fields import Shape


@functools.cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    packed = resources.files("allotment.apiserver.api_description").joinpath("data/descriptions.json").read_bytes()
    return msgspec.json.decode(packed, type=dict[str, dict[str, str]])


def description(struct: Shape, field: str = "") -> str:
    """The text for a struct or one of its fields; empty where there is none. Versions of a struct share theirs.

    >>> from allotment.model.fields import shape_of
    >>> description(shape_of("v1", "Pod"))
    'Containers that run together on one node.'
    """
    texts = _texts()
    group = struct.package.rpartition("/")[0].rpartition("/")[2]
    known = texts.get(f"{group}.{struct.bare_name}") or texts.get(struct.bare_name, {})
    return known.get(field) or (texts["*"].get(field, "") if field else "")
