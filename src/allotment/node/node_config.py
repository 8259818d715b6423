"""The machine configuration of a node; a simulated node needs none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from allotment.cdi.store import SpecStore
from allotment.node.runtimes.runtime import Runtime


class Machine(NamedTuple):
    """The machine configuration of one node.

    ``runtime``: its container runtime; None for the simulated one, which all nodes share. ``cdi``: the CDI spec
    folders of its drivers; for the same device the later one wins. ``state``: the node's folder for state that must
    outlive the agent (the kubelet's ``dra_manager_state``, volumes); without it claims are prepared again.
    ``volumes``: the folder of persistent volumes, which the nodes of a lab share.
    """

    runtime: Runtime | None = None
    cdi: Sequence[SpecStore] = ()
    state: Path | None = None
    volumes: Path | None = None
