"""What a GPU of a trace would cost: the cheapest known price of machines that have what its model stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from allotment.fleet.catalog.instance_type import InstanceType


def prices_of(catalog: Iterable[InstanceType], products: Mapping[str, tuple[str, ...]]) -> dict[str, Decimal]:
    """USD per hour and GPU on demand, by the trace's model; a model that nobody sells at a known price is left out.

    ``products``: the names of the driver for what stands for a model (`encoding.SOLD`). A GPU's share of its machine
    is the machine's price by its number of GPUs.
    """
    cheapest: dict[str, Decimal] = {}
    for instance in catalog:
        price = instance.price("on-demand")
        if price is None or instance.accelerator is None or not instance.gpus or instance.unusable:
            continue
        product = instance.accelerator.product
        each = price / instance.gpus
        cheapest[product] = min(cheapest.get(product, each), each)
    found = {model: [cheapest[p] for p in names if p in cheapest] for model, names in products.items()}
    return {model: min(known) for model, known in found.items() if known}
