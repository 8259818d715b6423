"""A program of ours as a component: what it is called, and what it needs of the cluster to run there alone."""

from __future__ import annotations

from typing import NamedTuple

from allotment.cluster.program import Program


class Component(NamedTuple):
    """A program under a name.

    ``name`` is the word of ``allot run``, the field manager and the first part of the User-Agent. ``lease`` is the
    Lease by which one of several copies leads; empty where each copy does its own part (a driver of a node), or where
    copies do no harm (an exporter).
    """

    name: str
    program: Program
    lease: str = ""
