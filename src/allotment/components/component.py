"""A program of ours as a component: what it is called, and what it needs of the cluster to run there alone."""

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
    """A program under a name.

    ``name`` is the word of ``allot run``. ``program`` is made when it is known which Kubernetes the cluster is.
    ``manager``: whose fields its writes are. ``lease`` is the Lease by which one of several copies leads; empty where
    each copy does its own part (a driver of a node), or where copies do no harm (an exporter).
    """

    name: str
    program: Callable[[Features], Program]
    manager: str
    lease: str = ""
    watched: Sequence[Resource] = ()
    """What a copy that stands by follows already, so that it can begin at once when it leads."""
    families: Callable[[], Sequence[Family]] = _none
    """What it measures of the cluster, for ``/metrics``."""
    unready: Callable[[], str] = _always
    """Why it is not ready though its caches are; empty when it is."""
    stops_itself: bool = False
    """Whether the program ends by itself when it is to stop; others are cancelled, which does no harm."""
    fatal_errors: tuple[type[Exception], ...] = ()
    """What cannot be mended by starting again: the process ends with it."""
