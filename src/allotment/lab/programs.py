"""What runs in a lab beside the API server: each program is a line.

They meet in the API's objects only, so a lab with some of them left out (``Lab(programs=...)``) is a cluster in which
nobody does their work.
"""

from __future__ import annotations

from collections.abc import Mapping

from allotment.cluster.program import Program
from allotment.control.resource_claims import resource_claims
from allotment.node.kubelet import Kubelets


def programs(kubelets: Kubelets) -> Mapping[str, Program]:
    """Every program by name."""
    return {"resource-claims": resource_claims, "kubelets": kubelets.run}
