"""All checks: the table of contents; the page of documentation and the tests are made from this tuple.

server D1xx: does it offer what devices need, and to us? nodes D2xx: do drivers run where GPUs are? slices D3xx: is what
they publish usable? classes D4xx: do classes select devices? claims D5xx: is what is allocated right, and of use?
pods D6xx: why does a pod not run?
"""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import Check
from allotment.tools.doctor.checks.claims import CLAIMS
from allotment.tools.doctor.checks.classes import CLASSES
from allotment.tools.doctor.checks.nodes import NODES
from allotment.tools.doctor.checks.pods import PODS
from allotment.tools.doctor.checks.server import SERVER
from allotment.tools.doctor.checks.slices import SLICES

CHECKS: Final[tuple[Check, ...]] = (*SERVER, *NODES, *SLICES, *CLASSES, *CLAIMS, *PODS)
