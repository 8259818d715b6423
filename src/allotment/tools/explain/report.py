"""What ``explain`` answers, as a value: JSON shows it as it is, `text` words it."""

from __future__ import annotations

from collections.abc import Mapping

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.diagnosis.published_names import kind_of
from allotment.engine.refusal import Diagnosis
from allotment.model.meta import Value
from allotment.model.resource import Device, ResourceClaim


class GivenDevice(Value, frozen=True):
    """A device given to a request (``main`` or ``main/sub``); ``share`` is what a shared one gives, by capacity."""

    request: str
    driver: str
    pool: str
    device: str
    kind: str = ""
    share: dict[str, str] = {}
    admin_access: bool = False


class GivenClaim(Value, frozen=True, omit_defaults=False):
    """A claim of the pod and its devices. ``before``: it was allocated already, by the input or by an earlier pod."""

    name: str
    devices: tuple[GivenDevice, ...] = ()
    template: str = ""
    before: bool = False


class Answer(Value, frozen=True):
    """One pod, or a claim that no pod names. ``outcome``: fits or refused; exactly then ``reasons`` is set.

    ``bound``: the pod is on the node already, and ``outcome`` is what has been done. ``waits``: why it is not, although
    its devices fit.
    """

    kind: str
    name: str
    outcome: str
    node: str = ""
    claims: tuple[GivenClaim, ...] = ()
    reasons: Diagnosis | None = None
    owner: str = ""
    notes: tuple[str, ...] = ()
    bound: bool = False
    waits: str = ""

    @property
    def fits(self) -> bool:
        """Whether every claim gets its devices."""
        return self.outcome == "fits"


class Explanation(Value, frozen=True, omit_defaults=False):
    """The answers in the order in which the pods were tried, and what to know about the input."""

    answers: tuple[Answer, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether everything fits."""
        return all(answer.fits for answer in self.answers)


def given_claim(claim: ResourceClaim, template: str, before: bool, devices: Mapping[DeviceID, Device]) -> GivenClaim:
    """What an allocated claim gives; ``devices`` are those that are published, for their kinds."""
    allocation = claim.status.allocation
    assert allocation is not None
    given = []
    for result in allocation.devices.results:
        device = devices.get(DeviceID(result.driver, result.pool, result.device))
        given.append(
            GivenDevice(
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
    return GivenClaim(name=name, devices=tuple(given), template=template, before=before)
