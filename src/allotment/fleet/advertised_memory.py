"""Advertised sizes of GPUs, and memory bounds that select by them.

The size in a product's name is not the amount that its driver publishes: cards of 80 GB publish 81559Mi to 81920Mi,
cards of 24 GB publish 23028Mi to 24576Mi, and a MIG device of 10 GB publishes 9728Mi. A bound that is meant as "a card
of 80 GB or more" must therefore be lower than 80Gi, but higher than the memory of every smaller card.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from allotment.fleet.profiles import MIB, Accelerator, accelerators

GIB = 1 << 30
#: The size in an id (``nvidia-h100-nvl-94gb``), a MIG profile (``1g.10gb+me``) or a product (``A100-SXM4-40GB``).
_LABEL = re.compile(r"(?<![a-z0-9])([0-9]+)gb(?![a-z0-9])", re.IGNORECASE)

#: The least published memory, in percent of the advertised one: H100 NVL publishes 10880Mi for 1g.12gb.
_LEAST_PERCENT = 80


class MemorySize(NamedTuple):
    """The memory of a kind of device: ``advertised`` in GB as in its name, ``published`` in bytes."""

    advertised: int
    published: int


class MemoryBound(NamedTuple):
    """A lower bound as a quantity. ``lowest`` and ``highest``: the published memory in bytes of the kinds of the
    smallest advertised size that the bound includes, ``size``; ``below``: the largest excluded size in GB, or 0."""

    quantity: str
    size: int
    lowest: int
    highest: int
    below: int


def advertised_gb(name: str, published: int) -> int:
    """Return the GB in the name of a model, profile or product; without one the published bytes, rounded up to GiB.

    A name with a far larger number names other memory: an MI250X has 128 GB on two GPUs of 64 GB.

    >>> advertised_gb("nvidia-t4-16gb", 15360 << 20), advertised_gb("1g.10gb+me", 9728 << 20)
    (16, 10)
    >>> advertised_gb("nvidia-rtx-pro-4500-blackwell-server", 32623 << 20), advertised_gb("mi250x-128gb", 65520 << 20)
    (32, 64)
    """
    found = _LABEL.search(name)
    named = int(found[1]) if found else 0
    return named if named * GIB * _LEAST_PERCENT <= published * 100 and named else -(-published // GIB)


def accelerator_gb(model: Accelerator) -> int:
    """Return the advertised memory of a model in GB."""
    return advertised_gb(model.id, model.memory_mib * MIB)


def product_gb(product: str, published: int) -> int:
    """Return the advertised memory of a product in GB; that of an unknown product is in its name.

    The product of a known model may name other memory: a GH200 480GB has a GPU of 96 GB.

    >>> product_gb("NVIDIA GH200 480GB", 97871 << 20), product_gb("NVIDIA A100-PCIE-40GB", 40960 << 20)
    (96, 40)
    """
    model = next((model for model in accelerators().values() if model.product == product), None)
    return accelerator_gb(model) if model is not None else advertised_gb(product, published)


def memory_bound(gb: int, sizes: Iterable[MemorySize]) -> MemoryBound | None:
    """Return the bound that all kinds of an advertised size of ``gb`` or more satisfy, and none of a smaller size.

    It is a whole number of Gi, at most ``gb``, if possible. None if no kind is that large, or if a smaller kind
    publishes as much memory as a larger one.

    >>> sizes = [MemorySize(40, 40 << 30), MemorySize(80, 81559 << 20), MemorySize(80, 80 << 30)]
    >>> memory_bound(80, sizes).quantity, memory_bound(40, sizes).quantity, memory_bound(96, sizes)
    ('79Gi', '40Gi', None)
    """
    listed = tuple(sizes)
    large = [size for size in listed if size.advertised >= gb]
    small = [size for size in listed if size.advertised < gb]
    if not large:
        return None
    lowest, above = min(size.published for size in large), max((size.published for size in small), default=0)
    if lowest <= above:
        return None
    gib = min(gb, lowest // GIB)
    quantity = f"{gib}Gi" if gib * GIB > above else f"{lowest // MIB}Mi"
    nearest = min(size.advertised for size in large)
    published = [size.published for size in large if size.advertised == nearest]
    below = max((size.advertised for size in small), default=0)
    return MemoryBound(quantity, nearest, min(published), max(published), below)
