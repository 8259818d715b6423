"""``allot metrics``: the metrics of a cluster once, in Prometheus' text format."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec

from allotment.cli.inputs import Inputs, is_live, read_inputs
from allotment.cli.mistakes import Mistake
from allotment.cli.planning.offered import offered
from allotment.cli.screen import tell
from allotment.cli.unread import OF_DEVICES, OF_PODS, must_know
from allotment.cluster.asking.snapshot import DEVICES, PODS
from allotment.exporter.families import families
from allotment.fleet.catalog import InstanceType


def run(arguments: Namespace) -> int:
    """Print the metrics of a cluster."""
    if find_spec("prometheus_client") is None:
        raise Mistake(
            "prometheus_client is not installed, and metrics are written by it", "pip install 'allotment[run]'"
        )
    most = most_series(arguments)
    types = catalog_of(arguments.catalog)
    inputs, notes = _inputs(arguments)
    from allotment.components.metrics import text_of

    must_know(inputs.cluster, *OF_DEVICES, *OF_PODS)
    tell(notes)
    values = (*inputs.cluster, *inputs.asked)
    sys.stdout.write(text_of(families(values, inputs.features, types, per_claim=arguments.per_claim, most=most)))
    return 0


def catalog_of(words: Sequence[str]) -> Sequence[InstanceType]:
    """What ``--catalog`` says; nothing costs anything that is known without it. Raises Mistake."""
    if not words:
        return ()
    found = offered(words)
    found.catalog.complain()
    return [one for one in found.catalog.types if not found.providers or one.provider in found.providers]


def most_series(arguments: Namespace) -> int:
    """``--most-series``. Raises Mistake."""
    most: int = arguments.most_series
    if most < 1:
        raise Mistake(f"--most-series: wanted a number from 1 on, found {most}")
    return most


def _inputs(arguments: Namespace) -> tuple[Inputs, tuple[str, ...]]:
    if not is_live(arguments):
        return read_inputs(arguments), ()
    from allotment.cli.live.state import live_inputs

    return live_inputs(arguments, (*DEVICES, *PODS))
