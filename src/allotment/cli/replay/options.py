"""Parses the arguments of a replay: trace, policies, seeds, and demand."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final, TypeVar

from allotment.cli.catalog.selection import opened, products_named
from allotment.errors import InputError, InvalidManifests
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.errors import suggestion
from allotment.tools.replay.experiment import Experiment, find_policy
from allotment.tools.replay.manifests import PRODUCTS
from allotment.tools.replay.policies import POLICIES, PlacementPolicy
from allotment.tools.replay.sample import sample_trace
from allotment.tools.replay.trace import TraceError, TraceNode, TracePod, read_nodes, read_pods
from allotment.tools.replay.workload import capacity_of


def prices_of(catalog: Iterable[InstanceType], products: Mapping[str, tuple[str, ...]]) -> dict[str, Decimal]:
    """Return the on-demand price in USD per GPU hour by the trace's model; models without a known price are omitted.

    ``products``: the driver's product names that represent a model (`encoding.SOLD`). The price of a GPU is that of the
    machine divided by its number of GPUs.
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


#: The name of the packaged trace.
SAMPLE: Final = "sample"
#: Maximum number of seeds.
_MOST_SEEDS: Final = 1000
_MOST_SHARE: Final = 10

_SEEDS: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_SHARE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)%?")
_Read = TypeVar("_Read")


def question_of(arguments: Namespace) -> Experiment:
    """Return the experiment of the arguments. Raises InputError."""
    pods, nodes = _trace(arguments.trace, arguments.nodes)
    if not capacity_of(nodes):
        raise InputError(f"{arguments.nodes}: none of the nodes has a GPU", "a replay requires nodes with GPUs")
    if arguments.use_times and not any(pod.created is not None for pod in pods):
        raise InputError(f"{arguments.trace}: no pod has an arrival time, which --use-times requires")
    found = opened(arguments.catalog)
    if found.problems:
        raise InvalidManifests(found.problems, dict(found.texts).get)
    others = {node.model: products_named(node.model) for node in nodes if node.model not in PRODUCTS}
    prices = prices_of(found.types, {**others, **PRODUCTS})
    return Experiment(pods, nodes, share_of(arguments.load), arguments.use_times, prices)


def _trace(trace: str, nodes: str | None) -> tuple[tuple[TracePod, ...], tuple[TraceNode, ...]]:
    if trace == SAMPLE:
        own = sample_trace()
        return own[0], own[1] if nodes is None else _file(nodes, read_nodes)
    if not Path(trace).exists():
        hint = suggestion(trace, [SAMPLE]) or f"the name of the packaged trace is {SAMPLE}"
        raise InputError(f"{trace}: no such file or directory", hint)
    if nodes is None:
        raise InputError("no nodes specified", "specify the list of nodes with --nodes FILE")
    return _file(trace, read_pods), _file(nodes, read_nodes)


def _file(file: str, read: Callable[[str, str], _Read]) -> _Read:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{file}: expected a CSV file in UTF-8") from None
    try:
        return read(text, file)
    except TraceError as error:
        raise InvalidManifests(error.problems, {file: text}.get) from None


def policies_of(names: list[str]) -> tuple[PlacementPolicy, ...]:
    """Return the named policies in the order of the table, or all."""
    wanted: list[str] = [part for name in names for part in name.split(",") if part]
    for name in wanted:
        if find_policy(name) is None:
            known = [policy.name for policy in POLICIES]
            hint = suggestion(name, known) or f"expected one of {', '.join(known)}"
            raise InputError(f"unknown policy {name!r}", hint)
    return tuple(policy for policy in POLICIES if not wanted or policy.name in wanted)


def seeds_of(text: str) -> tuple[int, ...]:
    """Parse seeds: ``42-51`` or ``1,2,7``.

    >>> seeds_of("42-44,7")
    (42, 43, 44, 7)
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        match = _SEEDS.fullmatch(part.strip())
        if match is None:
            raise InputError(f"--seeds {text!r}: expected numbers and ranges", "for example 42-51 or 1,2,7")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InputError(f"--seeds {text!r}: {part.strip()} ends before it begins", f"did you mean {last}-{first}?")
        if last - first + len(found) >= _MOST_SEEDS:
            raise InputError(f"--seeds {text!r}: expected at most {_MOST_SEEDS:,} seeds")
        found.update(dict.fromkeys(range(first, last + 1)))
    return tuple(found)


def share_of(text: str) -> float:
    """Parse the total demand as a fraction of the GPUs.

    >>> share_of("130%"), share_of("95")
    (1.3, 0.95)
    """
    match = _SHARE.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) <= 100 * _MOST_SHARE:
        raise InputError(
            f"--load {text!r}: expected a percentage of the GPUs, at most {100 * _MOST_SHARE} %", "for example 130%"
        )
    return float(match[1]) / 100
