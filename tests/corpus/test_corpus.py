"""Every cause of refusal has a scenario: manifests as input, expected code and text as output.

A scenario is ``<cause>.yaml`` with the expected code in its leading comment, and ``<cause>.txt`` with the text that
``explain`` prints for it. The code must be the same when unrelated devices are in use and when all devices are, unless
the comment's ``busy:`` names another one (``-``: the scenario is about devices in use, so the variant makes no sense).
``event:`` is the code in the pod's event if it differs, because an event must not name objects of other namespaces.

``ALLOTMENT_UPDATE_CORPUS=1`` regenerates the texts; review the difference before you commit it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from allotment.engine.search.depth_first import STEP_LIMIT
from allotment.explanation import Explanation, explain, lines
from allotment.explanation.next_step import Origin, with_next_steps
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
from tests.manifest_changes import apply_change
from tests.step_limit import SHORT_LIMIT

pytestmark = pytest.mark.usefixtures("short_searches")

HERE = Path(__file__).parent
SCENARIOS = sorted(path.stem for path in HERE.glob("*.yaml"))
UPDATE = bool(os.environ.get("ALLOTMENT_UPDATE_CORPUS"))

#: The causes that the project's requirements list, by their scenario.
REQUIRED = (
    "selector-matches-nothing", "not-enough-capacity", "too-few-devices", "devices-tainted", "pool-incomplete",
    "pool-superseded", "constraint-values-differ", "constraint-attribute-unpublished", "class-matches-nothing",
    "driver-missing", "counters-exhausted", "no-alternative-fits", "devices-in-use", "type-mismatch",
    "unknown-attribute", "unknown-driver", "capacity-read-as-attribute", "class-missing", "all-pool-updating",
    "admin-access-not-allowed", "too-many-devices",
)  # fmt: skip


#: Scenarios for which no change of a manifest could be shown to help.
WITHOUT_CHANGE = {
    "claim-missing", "extended-resource-missing", "group-missing",  # no similar name exists
    "claim-not-owned",  # the claim must be deleted, nothing written
    "group-topology-missing",  # the nodes must be labelled, or another key used
    "all-pool-invalid", "driver-missing", "pool-invalid", "pool-superseded",  # not in
    "node-selector-unusable", "without-slices",  # the manifests
    "search-given-up",  # no cause is known
    "device-use-unknown",  # the driver must publish the device
    "mapped-claim-in-use",  # the pod needs a claim of its own
    "claim-used-in-other-namespace",  # it must stay where it is used
}  # fmt: skip


def head(name: str) -> dict[str, str]:
    """The expectations in a scenario's leading comment."""
    text = (HERE / f"{name}.yaml").read_text()
    return dict(re.findall(r"^# (code|busy|event|kube|features): (.+)$", text, re.MULTILINE))


class Scenario:
    """A scenario file: its objects, and the expectations in its comment."""

    def __init__(self, name: str, text: bytes | None = None) -> None:
        expected = head(name)
        self.code = expected["code"]
        self.busy = expected.get("busy", self.code)
        gates = {gate: True for gate in expected.get("features", "").removeprefix("gates=").split(",") if gate}
        self.features = Features(kube=expected.get("kube", "1.36"), gates=gates)
        loaded = load_text(text or (HERE / f"{name}.yaml").read_bytes(), f"{name}.yaml")
        self.documents = loaded.documents
        decoded = decode_all(loaded.documents)
        assert not [*loaded.problems, *decoded.problems]
        self.values = [m.value for m in decoded.manifests if isinstance(m.value, Object)]

    @property
    def cluster(self) -> Origin:
        """A running cluster with all objects of the scenario."""
        return Origin({f"{type(value).__name__} {value.key}": value for value in self.values})

    def explain(self, *more: Object) -> Explanation:
        return explain([*more, *self.values], self.features)


def text_of(explanation: Explanation, scenario: Scenario) -> str:
    """The text that ``explain`` prints, whose searches end at the product's step limit."""
    text = "\n".join(lines(with_next_steps(explanation, scenario.cluster))) + "\n"
    return text.replace(f" {SHORT_LIMIT} steps", f" {STEP_LIMIT} steps")


@cache
def explained(name: str) -> Explanation:
    """The explanation of a scenario as it is."""
    return Scenario(name).explain()


def code(explanation: Explanation) -> str:
    """The first refusal's code, or ``fits``."""
    reasons = next((a.reasons for a in explanation.answers if a.reasons is not None), None)
    return reasons.headline.code if reasons is not None else "fits"


def busy(name: str, devices: Iterator[tuple[str, str, str]]) -> ResourceClaim:
    """A claim of another user to which these devices are allocated."""
    results = tuple(
        DeviceRequestAllocationResult(request="gpu", driver=driver, pool=pool, device=device)
        for driver, pool, device in devices
    )
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="other"),
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
    text = text_of(explanation, scenario)
    assert code(explanation) == scenario.code, text
    expected = HERE / f"{name}.txt"
    if UPDATE:
        expected.write_text(text)
    assert text == expected.read_text()


@pytest.mark.parametrize("name", SCENARIOS)
def test_same_code_while_unrelated_devices_are_in_use(name: str) -> None:
    """A network card on the first node, allocated to another claim."""
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
def test_same_code_while_all_devices_are_in_use(name: str) -> None:
    scenario = Scenario(name)
    explanation = scenario.explain(busy("everything", all_devices(scenario)))
    assert code(explanation) == scenario.busy, "\n".join(lines(explanation))


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_suggested_changes_make_it_fit(name: str) -> None:
    """Applied to the manifests, decoded again, explained again."""
    scenario = Scenario(name)
    for answer in explained(name).answers:
        if answer.reasons is None:
            continue
        for refused in (answer.reasons.headline, *(row.refused for row in answer.reasons.nodes)):
            trees = [json.loads(json.dumps(document.tree)) for document in scenario.documents]
            if not refused.changes or not all(apply_change(trees, change) for change in refused.changes):
                continue
            text = "---\n".join(json.dumps(tree) + "\n" for tree in trees)
            again = Scenario(name, text.encode()).explain()
            assert next(a for a in again.answers if a.name == answer.name).fits, "\n".join(lines(again))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_printed_value_can_be_pasted(name: str) -> None:
    """A parser of YAML 1.1, in which ``yes`` is a boolean, reads the value that was tried."""
    explanation = explained(name)
    printed = lines(explanation)
    for answer in explanation.answers:
        if answer.reasons is None:
            continue
        headline = answer.reasons.headline
        last = {(c.object, c.path): c for changes in (headline.changes, headline.otherwise) for c in changes}
        for change in last.values():  # of several values for one field, only the complete one is printed
            if not change.object or change.becomes is None or change.remedy == "wait":
                continue
            values = [after for path, after in pairwise(printed) if path.strip() == f"{change.path}:"]
            assert json.loads(json.dumps(change.becomes)) in [yaml.safe_load(value) for value in values], values


def test_refusals_suggest_a_change() -> None:
    """Otherwise the test above would prove nothing."""
    silent = set()
    for name in SCENARIOS:
        reasons = next((a.reasons for a in explained(name).answers if a.reasons is not None), None)
        if reasons is not None and not reasons.headline.changes:
            silent.add(name)
    assert silent == WITHOUT_CHANGE


def test_every_required_cause_has_a_scenario() -> None:
    assert set(REQUIRED) <= {head(name)["code"] for name in SCENARIOS}


def test_every_text_has_a_scenario() -> None:
    assert sorted(path.stem for path in HERE.glob("*.txt")) == SCENARIOS
