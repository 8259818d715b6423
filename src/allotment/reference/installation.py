"""The installed version of Allotment, and its running labs."""

from __future__ import annotations

from typing import Any

import msgspec

from allotment import __version__
from allotment.lab.state import Register
from allotment.model.releases import RELEASES


def versions() -> dict[str, Any]:
    """Return the version of Allotment, and the Kubernetes releases that it models.

    The keys: ``allotment``, ``kubernetes``.
    """
    return {"allotment": __version__, "kubernetes": list(RELEASES)}


def labs() -> list[dict[str, Any]]:
    """Return the running labs.

    The keys of a lab: ``name``, ``pid``, ``url``, ``context``, ``kubeconfig``, ``started``, ``version``, ``data``,
    ``log``, ``fleet``, ``speed``, ``previous_context``, ``web``.
    """
    # Via JSON, because msgspec then converts tuples to lists.
    return [msgspec.json.decode(msgspec.json.encode(lab)) for lab in Register().running()]
