"""All checks, in the order of the documentation page.

D1xx server: APIs, feature gates and permissions. D2xx nodes: drivers on nodes with GPUs. D3xx slices: usability of
published devices. D4xx classes: selection of devices. D5xx claims: validity and use of allocations. D6xx pods: pods
that do not run.
"""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks.claims import CLAIMS
from allotment.tools.doctor.checks.classes import CLASSES
from allotment.tools.doctor.checks.nodes import NODES
from allotment.tools.doctor.checks.pods import PODS
from allotment.tools.doctor.checks.server import SERVER
from allotment.tools.doctor.checks.slices import SLICES

CHECKS: Final[tuple[ClusterCheck, ...]] = (*SERVER, *NODES, *SLICES, *CLASSES, *CLAIMS, *PODS)
