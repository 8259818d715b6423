"""The result of ``explain`` as values: JSON output encodes them, `text` formats them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.diagnosis.published_names import kind_of
from allotment.engine.refusal import Diagnosis
from allotment.model.meta import Value
from allotment.model.resource import Device, ResourceClaim


class DeviceAllocation(Value, frozen=True):
    """A device allocated to a request (``main`` or ``main/sub``); ``share`` are the consumed amounts by capacity."""

    request: str
    driver: str
    pool: str
    device: str
    kind: str = ""
    share: dict[str, str] = {}
    admin_access: bool = False


class ClaimAllocation(Value, frozen=True, omit_defaults=False):
    """A claim of the pod and its devices. ``before``: it was already allocated, in the input or by an earlier pod."""

    name: str
    devices: tuple[DeviceAllocation, ...] = ()
    template: str = ""
    before: bool = False


class Answer(Value, frozen=True):
    """The result of a pod, or of a claim that no pod uses. ``outcome`` is ``fits``, ``refused`` with ``reasons``, or
    ``unprepared``: the pod has devices on its node, but the driver cannot prepare them.

    ``owner``: its workload; ``group``: the PodGroup with which it is scheduled, both as kind and name.
    ``bound``: the pod is already on its node. ``waits``: the reason why the pod is still pending although its devices
    fit. ``next``: the command that helps most unless it fits (`next_step`).
    """

    kind: str
    name: str
    outcome: str
    node: str = ""
    claims: tuple[ClaimAllocation, ...] = ()
    reasons: Diagnosis | None = None
    owner: str = ""
    group: str = ""
    notes: tuple[str, ...] = ()
    bound: bool = False
    waits: str = ""
    next: str = ""

    @property
    def fits(self) -> bool:
        """Whether every claim gets its devices."""
        return self.outcome == "fits"


class Explanation(Value, frozen=True, omit_defaults=False):
    """The answers in the order in which the pods were tried, and notes about the input.

    ``unread``: the resources that the answers do not consider, because the cluster does not serve them or they could
    not be read, with the reason.
    """

    answers: tuple[Answer, ...] = ()
    notes: tuple[str, ...] = ()
    unread: dict[str, str] = {}

    @property
    def fits(self) -> bool:
        """Whether everything fits."""
        return all(answer.fits for answer in self.answers)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``-o json`` prints."""
        data = {"fits": self.fits, **super().to_dict()}
        if not self.unread:
            del data["unread"]
        return data


def claim_allocation(
    claim: ResourceClaim, template: str, before: bool, published: Callable[[DeviceID], Device | None]
) -> ClaimAllocation:
    """The devices of an allocated claim; ``published`` returns a published device, for its kind."""
    allocation = claim.status.allocation
    assert allocation is not None
    given = []
    for result in allocation.devices.results:
        device = published(DeviceID(result.driver, result.pool, result.device))
        given.append(
            DeviceAllocation(
                request=result.request,
                driver=result.driver,
                pool=result.pool,
                device=result.device,
                kind=kind_of(device, result.driver) if device is not None else "",
                share={name: str(amount) for name, amount in result.consumed_capacity.items()},
                admin_access=bool(result.admin_access),
            )
        )
    name = str(claim.key)
    return ClaimAllocation(name=name, devices=tuple(given), template=template, before=before)
