"""A component: a program with its name, Lease, watched resources and metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from allotment.cluster.client import Resource
from allotment.cluster.program import Program
from allotment.exporter.metric import Family
from allotment.model.features import Features


def _none() -> Sequence[Family]:
    return ()


def _always() -> str:
    return ""


class Component(NamedTuple):
    """A program that runs in a process of its own.

    ``name``: the argument of ``allot run``. ``program``: created when the cluster's features are known. ``manager``:
    the field manager of its writes. ``lease``: the Lease for leader election; empty if each copy has its own task (the
    driver of a node) or copies do no harm (an exporter).
    """

    name: str
    program: Callable[[Features], Program]
    manager: str
    lease: str = ""
    watched: Sequence[Resource] = ()
    """Resources that a standby copy watches, so that it can start immediately as leader."""
    families: Callable[[], Sequence[Family]] = _none
    """Its metrics of the cluster, for ``/metrics``."""
    unready: Callable[[], str] = _always
    """Returns why it is not ready although its caches are; empty if it is ready."""
    stops_itself: bool = False
    """Whether the program ends by itself on shutdown; others are cancelled, which does no harm."""
    fatal_errors: tuple[type[Exception], ...] = ()
    """Errors that a restart cannot fix: they end the process."""
