"""What of a claim says that several containers or pods are to share its devices, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from allotment.tools.check.bundle import Bundle
from allotment.tools.views import ClaimView, ConfigView, RequestView, mapping

#: Devices that programs have for themselves unless somebody divides them: not channels, networks or CPUs.
_EXCLUSIVE: Final = re.compile(r"gpu|mig|tpu|accelerator", re.IGNORECASE)
#: Devices of networks, also where they are named for what they serve: tpu-net-interface.
_NETWORK: Final = re.compile(r"\b(net|nic|nics|rdma|interface|interfaces)\b", re.IGNORECASE)
#: Drivers, and the domains of their attributes, in an expression; other strings may say anything (gpu0rdma0).
_DOMAIN: Final = re.compile(r"""["']([\w-]+(?:\.[\w-]+)+)["']""")


def sharing_configs(claim: ClaimView) -> Iterator[ConfigView]:
    """The parameters of a claim that say how containers share its devices (time-slicing, MPS, partitions)."""
    return (config for config in claim.configs if _shares(config.parameters))


def shares(bundle: Bundle, claim: ClaimView) -> bool:
    """Whether the claim, or a class that it asks for, has parameters for sharing, or takes only shares of devices."""
    if any(True for _ in sharing_configs(claim)):
        return True
    if claim.requests and all(request.capacity or request.admin_access for request in claim.requests):
        return True
    classes = {request.class_name for request in claim.requests}
    return any(_shares(config.parameters) for view in bundle.classes if view.name in classes for config in view.configs)


def is_exclusive(request: RequestView) -> bool:
    """Whether a request is for devices that are of little use to several programs at once, unless divided."""
    read = (name for selector in request.selectors for name in _DOMAIN.findall(selector.expression))
    return sounds_exclusive(request.class_name) or any(map(sounds_exclusive, read))


def sounds_exclusive(name: str) -> bool:
    """Whether the name of a class, driver or claim speaks of such devices.

    >>> sounds_exclusive("mig.nvidia.com"), sounds_exclusive("dra.net"), sounds_exclusive("tpu-net-interface")
    (True, False, False)
    """
    return bool(_EXCLUSIVE.search(name)) and not _NETWORK.search(name)


def strategy(config: ConfigView) -> str:
    """How devices are to be shared, in the driver's word: ``TimeSlicing``."""
    found = mapping(mapping(config.parameters).get("sharing")).get("strategy")
    return found if isinstance(found, str) else ""


def _shares(parameters: dict[str, Any] | None) -> bool:
    return "sharing" in (parameters or {})
