"""Every cause of refusal has a scenario: manifests in, expected code and text out.

A scenario is ``<cause>.yaml`` with the expected code in its leading comment, and ``<cause>.txt`` with the text that
``explain`` gives for it. The code must be the same when unrelated devices are busy and when all devices are, unless the
comment's ``busy:`` names another one (``-``: the scenario is about what is in use, so the variant makes no sense).

``ALLOTMENT_UPDATE_CORPUS=1`` writes the texts anew; read the difference before you commit it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from allotment.model.core import Node
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Object, ObjectMeta
from allotment.model.resource import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from allotment.tools.explain import Explanation, explain, lines
from tests.changing import changed

HERE = Path(__file__).parent
SCENARIOS = sorted(path.stem for path in HERE.glob("*.yaml"))
UPDATE = bool(os.environ.get("ALLOTMENT_UPDATE_CORPUS"))

#: What the issue lists, by the scenario that stands for it.
PROMISED = (
    "selector-matches-nothing", "not-enough-capacity", "too-few-devices", "devices-tainted", "pool-incomplete",
    "pool-superseded", "constraint-values-differ", "constraint-attribute-unpublished", "class-matches-nothing",
    "driver-missing", "counters-exhausted", "no-alternative-fits", "devices-in-use", "type-mismatch",
    "unknown-attribute", "unknown-driver", "capacity-read-as-attribute", "class-missing", "all-pool-updating",
    "admin-access-not-allowed", "too-many-devices",
)  # fmt: skip


#: Where no change of an object that somebody writes could be shown to help.
SILENT = {
    "claim-missing", "extended-resource-missing", "group-missing",  # nothing of a like name is there
    "claim-not-owned",  # the claim is to be deleted, nothing written
    "all-pool-invalid", "driver-missing", "pool-invalid", "pool-superseded",  # not the
    "node-selector-unusable", "without-slices",  # manifests'
    "search-given-up",  # nothing is known to be in the way
}  # fmt: skip


def head(name: str) -> dict[str, str]:
    """The expectations in a scenario's leading comment."""
    return dict(re.findall(r"^# (code|busy|features): (.+)$", (HERE / f"{name}.yaml").read_text(), re.MULTILINE))


class Scenario:
    """A scenario file: its objects, and what its comment expects."""

    def __init__(self, name: str, text: bytes | None = None) -> None:
        expected = head(name)
        self.code = expected["code"]
        self.busy = expected.get("busy", self.code)
        gates = {gate: True for gate in expected.get("features", "").removeprefix("gates=").split(",") if gate}
        self.features = Features(kube="1.36", gates=gates)
        loaded = load_text(text or (HERE / f"{name}.yaml").read_bytes(), f"{name}.yaml")
        self.documents = loaded.documents
        decoded = decode_all(loaded.documents)
        assert not [*loaded.problems, *decoded.problems]
        self.values = [m.value for m in decoded.manifests if isinstance(m.value, Object)]

    def explain(self, *more: Object) -> Explanation:
        return explain([*more, *self.values], self.features)


@cache
def explained(name: str) -> Explanation:
    """What is explained of a scenario as it is."""
    return Scenario(name).explain()


def code(explanation: Explanation) -> str:
    """The first refusal's code, or ``fits``."""
    reasons = next((a.reasons for a in explanation.answers if a.reasons is not None), None)
    return reasons.headline.code if reasons is not None else "fits"


def busy(name: str, devices: Iterator[tuple[str, str, str]]) -> ResourceClaim:
    """A claim of somebody else that holds these devices."""
    results = tuple(
        DeviceRequestAllocationResult(request="gpu", driver=driver, pool=pool, device=device)
        for driver, pool, device in devices
    )
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="somebody"),
        status=ResourceClaimStatus(
            allocation=AllocationResult(devices=DeviceAllocationResult(results=results)),
            reserved_for=(ResourceClaimConsumerReference(resource="pods", name="else", uid="else"),),
        ),
    )


def all_devices(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    taken = {
        (r.driver, r.pool, r.device)
        for claim in scenario.values
        if isinstance(claim, ResourceClaim) and claim.status.allocation is not None
        for r in claim.status.allocation.devices.results
    }
    seen = set()
    for slice_ in scenario.values:
        if isinstance(slice_, ResourceSlice):
            for device in slice_.spec.devices or ():
                found = (slice_.spec.driver, slice_.spec.pool.name, device.name)
                if found not in taken and found not in seen:
                    seen.add(found)
                    yield found


@pytest.mark.parametrize("name", SCENARIOS)
def test_code_and_text(name: str) -> None:
    scenario = Scenario(name)
    explanation = explained(name)
    text = "\n".join(lines(explanation)) + "\n"
    assert code(explanation) == scenario.code, text
    expected = HERE / f"{name}.txt"
    if UPDATE:
        expected.write_text(text)
    assert text == expected.read_text()


@pytest.mark.parametrize("name", SCENARIOS)
def test_same_code_while_unrelated_devices_are_busy(name: str) -> None:
    """A network card on the first node, held by somebody."""
    scenario = Scenario(name)
    named = [v.metadata.name for v in scenario.values if isinstance(v, Node)]
    named += [v.spec.node_name for v in scenario.values if isinstance(v, ResourceSlice) and v.spec.node_name]
    node = named[0] if named else "node-z"
    other = ResourceSlice(
        metadata=ObjectMeta(name="other"),
        spec=ResourceSliceSpec(
            driver="nic.example.com",
            node_name=node,
            pool=ResourcePool(name=node, generation=1, resource_slice_count=1),
            devices=(Device(name="nic-0", attributes={"speed": DeviceAttribute(int_=100)}),),
        ),
    )
    holding = busy("unrelated", iter([("nic.example.com", node, "nic-0")]))
    explanation = scenario.explain(other, holding)
    assert code(explanation) == scenario.code, "\n".join(lines(explanation))


@pytest.mark.parametrize("name", [n for n in SCENARIOS if head(n).get("busy") != "-"])
def test_same_code_while_all_devices_are_busy(name: str) -> None:
    scenario = Scenario(name)
    explanation = scenario.explain(busy("everything", all_devices(scenario)))
    assert code(explanation) == scenario.busy, "\n".join(lines(explanation))


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_changes_told_make_it_fit(name: str) -> None:
    """Applied to the manifests by hand, read again, explained again."""
    scenario = Scenario(name)
    for answer in explained(name).answers:
        if answer.reasons is None:
            continue
        for refused in (answer.reasons.headline, *(row.refused for row in answer.reasons.nodes)):
            trees = [json.loads(json.dumps(document.tree)) for document in scenario.documents]
            if not refused.changes or not all(changed(trees, change) for change in refused.changes):
                continue
            text = "---\n".join(json.dumps(tree) + "\n" for tree in trees)
            again = Scenario(name, text.encode()).explain()
            assert next(a for a in again.answers if a.name == answer.name).fits, "\n".join(lines(again))


def test_refusals_tell_a_change() -> None:
    """Else the test above would prove nothing."""
    silent = set()
    for name in SCENARIOS:
        reasons = next((a.reasons for a in explained(name).answers if a.reasons is not None), None)
        if reasons is not None and not reasons.headline.changes:
            silent.add(name)
    assert silent == SILENT


def test_every_promised_cause_has_its_scenario() -> None:
    assert set(PROMISED) <= {head(name)["code"] for name in SCENARIOS}


def test_no_text_without_its_scenario() -> None:
    assert sorted(path.stem for path in HERE.glob("*.txt")) == SCENARIOS
