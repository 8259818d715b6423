"""The kubelet's errors about claims whose devices a driver cannot prepare for a pod on its node."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: The reason of the kubelet's event.
FAILED_PREPARE: Final = "FailedPrepareDynamicResources"
_PREFIXES: Final = ("Failed to prepare dynamic resources: ", "prepare dynamic resources: ")
_UNREGISTERED: Final = re.compile(r"DRA driver (\S+) is not registered")
#: Allotment's drivers name the entry that they reject.
_PARAMETERS: Final = re.compile(r"config\[\d+\] \(of the (claim|device class)\)")


class PrepareError(NamedTuple):
    """``cause``: the driver's or kubelet's own words. ``advice``: what to do, as a sentence."""

    cause: str
    advice: str


def prepare_error(message: str) -> PrepareError:
    """The cause in the message of an event, and what to do.

    >>> error = "claim a/b: config[0] (of the claim): sharing.strategy: expected one of …"
    >>> prepare_error(f"Failed to prepare dynamic resources: {error}").advice
    "Correct the parameters in the claim's config; allot check names the field."
    """
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    cause = message or "the kubelet's message is not available"
    if unregistered := _UNREGISTERED.search(message):
        return PrepareError(
            cause,
            f"{unregistered[1]} is not registered with the kubelet: its pod on the node is not running, or its socket "
            "in /var/lib/kubelet/plugins_registry was not detected. Restart the pod.",
        )
    if parameters := _PARAMETERS.search(message):
        return PrepareError(
            cause, f"Correct the parameters in the {parameters[1]}'s config; allot check names the field."
        )
    return PrepareError(cause, "Check the driver's log on the node.")
