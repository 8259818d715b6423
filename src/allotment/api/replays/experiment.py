"""The experiment of a replay: trace, nodes, policies, demand and prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from os import PathLike, fspath
from pathlib import Path
from typing import Final, TypeVar

from allotment.api.plans.catalog import read_catalog_files
from allotment.api.plans.instance_types import products_named
from allotment.errors import InputError, InvalidManifests
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.errors import suggestion
from allotment.phrases import split_words
from allotment.tools.replay.experiment import Experiment, find_policy
from allotment.tools.replay.manifests import PRODUCTS
from allotment.tools.replay.policies import POLICIES, PlacementPolicy
from allotment.tools.replay.sample import sample_trace
from allotment.tools.replay.trace import TraceError, TraceNode, TracePod, read_nodes, read_pods
from allotment.tools.replay.workload import capacity_of

#: The name of the packaged trace.
SAMPLE: Final = "sample"
#: Maximum demand as a fraction of the GPUs.
_MOST_LOAD: Final = 10

_Read = TypeVar("_Read")


def read_experiment(
    trace: str | PathLike[str],
    nodes: str | PathLike[str] | None,
    *,
    load: float,
    use_times: bool,
    catalog: Sequence[str | PathLike[str]],
) -> Experiment:
    """Return the experiment of a replay; the arguments are those of ``allotment.replay``. Raises InputError."""
    if not 0 < load <= _MOST_LOAD:
        raise InputError(f"expected a fraction of the GPUs, at most {_MOST_LOAD}, found {load}", argument="load")
    trace_pods, trace_nodes = _read_trace(fspath(trace), None if nodes is None else fspath(nodes))
    if not capacity_of(trace_nodes):
        hint = "a replay requires nodes with GPUs"
        raise InputError(f"{nodes}: none of the nodes has a GPU", hint)
    if use_times and not any(pod.created is not None for pod in trace_pods):
        raise InputError(f"{trace}: no pod has an arrival time", argument="use_times")
    found = read_catalog_files(catalog)
    if found.problems:
        raise found.error
    others = {node.model: products_named(node.model) for node in trace_nodes if node.model not in PRODUCTS}
    prices = gpu_prices(found.types, {**others, **PRODUCTS})
    return Experiment(trace_pods, trace_nodes, load, use_times, prices)


def gpu_prices(catalog: Iterable[InstanceType], products: Mapping[str, tuple[str, ...]]) -> dict[str, Decimal]:
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


def policies_named(names: Sequence[str]) -> tuple[PlacementPolicy, ...]:
    """Return the named policies in the order of the table, or all. Raises InputError."""
    wanted = split_words(names)
    for name in wanted:
        if find_policy(name) is None:
            known = [policy.name for policy in POLICIES]
            hint = suggestion(name, known) or f"expected one of {', '.join(known)}"
            raise InputError(f"unknown policy {name!r}", hint)
    return tuple(policy for policy in POLICIES if not wanted or policy.name in wanted)


def _read_trace(trace: str, nodes: str | None) -> tuple[tuple[TracePod, ...], tuple[TraceNode, ...]]:
    if trace == SAMPLE:
        own = sample_trace()
        return own[0], own[1] if nodes is None else _read_file(nodes, read_nodes)
    if not Path(trace).exists():
        hint = suggestion(trace, [SAMPLE]) or f"the name of the packaged trace is {SAMPLE}"
        raise InputError(f"{trace}: no such file or directory", hint)
    if nodes is None:
        raise InputError("no nodes specified", f"specify the file with the nodes of {trace}", argument="nodes")
    return _read_file(trace, read_pods), _read_file(nodes, read_nodes)


def _read_file(file: str, read: Callable[[str, str], _Read]) -> _Read:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{file}: expected a CSV file in UTF-8") from None
    try:
        return read(text, file)
    except TraceError as error:
        raise InvalidManifests(error.problems, {file: text}.get) from None
