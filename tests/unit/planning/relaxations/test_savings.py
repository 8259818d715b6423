"""Savings from relaxations: conditions relaxed to cheaper hardware, and verified by a new plan."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.fleet import hardware, parse_mode, slices_of
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.core import PodResourceClaimStatus, PodStatus
from allotment.model.features import Features
from allotment.model.meta import Object, OwnerReference
from allotment.model.resource import ResourceClaimTemplate
from allotment.planning.limits import PlanLimits
from allotment.planning.relaxations.candidates import FieldEdit, RelaxationCandidate
from allotment.planning.relaxations.savings import MAX_PLANNED, edited, relaxations
from allotment.planning.relaxations.selector_conditions import conditions
from allotment.planning.report import Relaxation, UntriedRelaxations
from tests.unit.planning.demands import (
    FEATURES,
    claim,
    claim_template,
    instance,
    make_plan,
    node,
    pod,
    pods,
    request,
    step_limit,
)

TYPES = (
    instance("t4", "t4", 1, "0.5", spot="0.1"),
    instance("l4", "l4", 1, "0.7"),
    instance("a10g", "a10g", 1, "1"),
    instance("a100", "a100-40gb", 1, "3.6"),
    instance("other", "a10g", 1, "0.9", provider="elsewhere", zones=("e1",)),
)
CLOUD_TYPES = tuple(type_ for type_ in TYPES if type_.provider == "cloud")

AMPERE = 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("30Gi")) >= 0'


def relaxations_of(
    values: Sequence[Object], types: tuple[InstanceType, ...] = CLOUD_TYPES, limits: PlanLimits | None = None,
    features: Features = FEATURES,
) -> tuple[Relaxation, ...]:  # fmt: skip
    limits = limits or PlanLimits()
    found = make_plan(values, types, limits, features)
    return relaxations(values, found, types, limits, features, keep_going=lambda: True).relaxations


def test_an_architecture_is_relaxed_to_the_next_cheaper_one() -> None:
    values = [claim_template("one", request(AMPERE)), pod("a", template="one")]
    found = {relaxation.what: relaxation for relaxation in relaxations_of(values)}
    turing = found["Turing also allowed"]
    assert (turing.total, turing.saves) == (Decimal("0.5"), Decimal("0.5"))
    assert turing.object == "ResourceClaimTemplate ml/one"
    assert turing.path == "spec.spec.devices.requests[0].exactly.selectors[0].cel.expression"


def test_the_smaller_change_is_reported_besides_the_largest_saving() -> None:
    values = [claim_template("one", request(AMPERE)), pod("a", template="one")]
    assert [relaxation.what for relaxation in relaxations_of(values)] == [
        "Turing also allowed",
        "Ada Lovelace also allowed",
    ]


def test_an_amount_is_relaxed_to_the_nearest_of_cheaper_gpus_first() -> None:
    values = [claim_template("one", request(MEMORY)), pod("a", template="one")]
    found = {relaxation.what: relaxation.total for relaxation in relaxations_of(values)}
    # The figure of the L4 is nearer than that of the A10G, which costs more.
    assert found == {
        "memory >= 23034Mi instead of >= 30Gi": Decimal("0.7"),
        "memory >= 15Gi instead of >= 30Gi": Decimal("0.5"),
    }
    assert next(iter(found)).startswith("memory >= 23034Mi")


def test_an_amount_is_relaxed_to_the_nearest_of_existing_nodes_with_free_devices() -> None:
    values: list[Object] = [
        claim_template("one", request(MEMORY.replace("30Gi", "80G"))),
        *gpu_node("small", "a100-40gb"),
        *gpu_node("full", "l40s", cpu="500m"),
        *gpu_node("t4", "t4"),
        pod("a", template="one"),
    ]
    types = (*CLOUD_TYPES, instance("l40s", "l40s", 1, "2"), instance("h100", "h100-pcie", 1, "3.29"))
    relaxed = [(each.what, each.total) for each in relaxations_of(values, types)]
    assert relaxed == [
        ("memory >= 46068Mi instead of >= 80G", Decimal(2)),
        ("memory >= 40Gi instead of >= 80G (fits on node small, which exists)", Decimal(0)),
    ]


def gpu_node(name: str, model: str, cpu: str = "16") -> tuple[Object, ...]:
    """A node with one GPU, and its slices."""
    machine = hardware(model, 1)
    return (node(name, cpu=cpu), *slices_of(machine, parse_mode("", machine), name))


def test_cards_of_24_gb_are_meant_by_24_gi() -> None:
    for operator in (">= 0", "> 0"):
        expression = MEMORY.replace("30Gi", "24Gi").replace(">= 0", operator)
        values = [claim_template("one", request(expression)), pod("a", template="one")]
        first, *others = relaxations_of(values)
        assert first.what == (
            f"memory >= 24G instead of {operator[:-2]} 24Gi (devices of 24 GB publish 23028Mi to 23034Mi)"
        )
        assert first.total == Decimal("0.7")
        assert [other.what for other in others] == [f"memory >= 15Gi instead of {operator[:-2]} 24Gi"]


def test_another_unit_is_not_meant_if_no_device_has_that_size() -> None:
    values = [claim_template("one", request(MEMORY.replace("30Gi", "23Gi"))), pod("a", template="one")]
    assert [relaxation.what for relaxation in relaxations_of(values)] == [
        "memory >= 23034Mi instead of >= 23Gi",
        "memory >= 15Gi instead of >= 23Gi",
    ]


def test_limits_come_before_other_devices_and_dropped_conditions_last() -> None:
    expression = f'{AMPERE} && device.attributes["gpu.nvidia.com"].type == "gpu"'
    zone = {"topology.kubernetes.io/zone": "e1"}
    types = (*TYPES, instance("expensive", "a100-40gb", 1, "4", zones=("e1",), spot="3"))
    values = [claim_template("one", request(expression)), pod("a", template="one", nodeSelector=zone)]
    what = [each.what for each in relaxations_of(values, types, PlanLimits(providers=("cloud",)))]
    kinds = ["allowed" in each and "also" not in each.replace("provider elsewhere also", "") for each in what]
    assert kinds == sorted(kinds, reverse=True)
    assert what[-1] == "without nodeSelector topology.kubernetes.io/zone=e1"


def test_the_result_is_the_same_whatever_the_number_of_calls_of_the_clock() -> None:
    """Without a time limit of the user the work is limited in steps."""
    values = [claim_template("one", request(MEMORY)), *pods(3, template="one")]
    found = make_plan(values, CLOUD_TYPES)
    results = [
        relaxations(values, found, CLOUD_TYPES, PlanLimits(), FEATURES, keep_going=lambda: True) for _ in range(2)
    ]
    assert results[0] == results[1]
    assert results[0].untried == UntriedRelaxations()


def test_relaxations_beyond_the_limit_of_work_are_counted() -> None:
    expressions = [MEMORY.replace("30Gi", f"{amount}Gi") for amount in range(25, 40)]
    values = [
        value
        for number, expression in enumerate(expressions)
        for value in (
            claim_template(f"c{number}", request(expression)),
            pod(f"p{number}", template=f"c{number}", cpu=f"{number + 1}m"),
        )
    ]
    found = relaxations(
        values, make_plan(values, CLOUD_TYPES), CLOUD_TYPES, PlanLimits(), FEATURES, keep_going=lambda: True
    )
    assert found.untried.limit == "work"
    assert found.untried.groups == 3
    assert found.untried.relaxations == 2 * 12 - MAX_PLANNED
    assert len(found.relaxations) <= MAX_PLANNED


def test_the_end_of_the_time_is_reported() -> None:
    values = [claim_template("one", request(MEMORY)), pod("a", template="one")]
    plan = make_plan(values, CLOUD_TYPES)
    found = relaxations(values, plan, CLOUD_TYPES, PlanLimits(), FEATURES, keep_going=step_limit(3))
    assert found.untried.limit == "time"
    assert found.relaxations == ()


def test_a_claim_without_a_template_is_edited_itself() -> None:
    values = [claim("one", request(AMPERE)), pod("a", claim="one")]
    assert relaxations_of(values)[0].object == "ResourceClaim ml/one"
    assert relaxations_of(values)[0].path == "spec.devices.requests[0].exactly.selectors[0].cel.expression"


def test_limits_are_relaxed() -> None:
    values = [claim_template("one", request(AMPERE)), pod("a", template="one")]
    (found,) = [
        relaxation
        for relaxation in relaxations_of(values, TYPES, PlanLimits(providers=("cloud",)))
        if "elsewhere" in relaxation.what
    ]
    assert (found.what, found.path, found.total) == (
        "provider elsewhere also allowed", "--catalog elsewhere", Decimal("0.9"),
    )  # fmt: skip
    values = [claim_template("one", request()), pod("a", template="one")]
    (found,) = relaxations_of(values)
    assert (found.what, found.total) == ("spot machines allowed", Decimal("0.1"))
    (found,) = [
        relaxation
        for relaxation in relaxations_of(values, limits=PlanLimits(excluded_types=("cloud/t4",)))
        if "t4" in relaxation.what
    ]
    assert (found.what, found.total) == ("cloud/t4 allowed", Decimal("0.5"))


def test_a_limit_on_the_number_of_machines_is_removed() -> None:
    types = (instance("one", "t4", 1, "0.5"), instance("four", "t4", 4, "9"))
    values = [claim_template("one", request()), *pods(2, template="one")]
    (found,) = relaxations_of(values, types, PlanLimits(max_machines=1))
    assert (found.what, found.path, found.total) == ("more than 1 machine allowed", "--max-machines", Decimal(1))
    (found,) = relaxations_of(values, types, PlanLimits(max_by_pattern=(("cloud/one", 0),)))
    assert (found.what, found.total) == ("more than 0 machines of type cloud/one allowed", Decimal(1))


def test_a_node_selector_is_removed() -> None:
    zone = {"topology.kubernetes.io/zone": "e1"}
    expensive = instance("expensive", "t4", 1, "2", zones=("e1",))
    values = [claim_template("one", request()), pod("a", template="one", nodeSelector=zone)]
    (found,) = [
        relaxation
        for relaxation in relaxations_of(values, (*CLOUD_TYPES, expensive))
        if "nodeSelector" in relaxation.what
    ]
    assert found.what == "without nodeSelector topology.kubernetes.io/zone=e1"
    assert (found.object, found.path, found.total) == ("Pod ml/a", "spec.nodeSelector", Decimal("0.5"))


def test_one_label_of_a_node_selector_is_removed() -> None:
    labels = {"topology.kubernetes.io/zone": "e1", "kubernetes.io/os": "linux"}
    expensive = instance("expensive", "t4", 1, "2", zones=("e1",))
    values = [claim_template("one", request()), pod("a", template="one", nodeSelector=labels)]
    (found,) = [
        relaxation
        for relaxation in relaxations_of(values, (*CLOUD_TYPES, expensive))
        if "nodeSelector" in relaxation.what
    ]
    assert found.path == 'spec.nodeSelector["topology.kubernetes.io/zone"]'
    assert (found.object, found.total) == ("Pod ml/a", Decimal("0.5"))


def test_a_required_node_affinity_is_removed() -> None:
    term = {"matchExpressions": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["a100"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    values = [claim_template("one", request()), pod("a", template="one", affinity=affinity)]
    (found,) = [relaxation for relaxation in relaxations_of(values) if "affinity" in relaxation.what]
    assert found.total == Decimal("0.5")
    assert found.path == "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def test_relaxations_without_a_saving_are_not_reported() -> None:
    values = [claim_template("one", request()), pod("a", template="one")]
    cheapest = (instance("t4", "t4", 1, "0.5"), instance("a100", "a100-40gb", 1, "3.6"))
    assert relaxations_of(values, cheapest) == ()


def test_a_smaller_number_of_devices_is_not_a_relaxation() -> None:
    values = [claim_template("one", request(count=4)), pod("a", template="one")]
    types = (instance("four", "t4", 4, "4"), instance("one", "t4", 1, "0.5"))
    assert relaxations_of(values, types) == ()


def test_the_number_of_relaxations_is_limited() -> None:
    values = [
        *(claim_template(f"c{n}", request(f"{AMPERE} && {MEMORY}")) for n in range(4)),
        *(pod(f"p{n}", template=f"c{n}", cpu=f"{n + 1}") for n in range(4)),
    ]
    assert 0 < len(relaxations_of(values)) <= MAX_PLANNED


def test_the_original_objects_are_unchanged() -> None:
    template = claim_template("one", request(AMPERE))
    change = RelaxationCandidate(
        "x", "ResourceClaimTemplate ml/one", "spec.spec.devices.requests[0].exactly.count", FieldEdit(2)
    )
    changed = edited([template], change)
    assert changed is not None
    assert isinstance(changed[0], ResourceClaimTemplate)
    counts = [value.spec.spec.devices.requests[0].exactly for value in (changed[0], template)]
    assert [request_.count for request_ in counts if request_ is not None] == [2, 1]


def test_generated_claims_are_changed_with_their_template() -> None:
    template, generated = claim_template("one", request(AMPERE)), claim("a-gpu-x1", request(AMPERE))
    owner = OwnerReference(api_version="v1", kind="Pod", name="a", uid="u1", controller=True)
    generated = replace(generated, metadata=replace(generated.metadata, uid="u2", owner_references=(owner,)))
    pending = pod("a", template="one")
    status = PodStatus(resource_claim_statuses=(PodResourceClaimStatus(name="gpu", resource_claim_name="a-gpu-x1"),))
    pending = replace(pending, metadata=replace(pending.metadata, uid="u1"), status=status)
    found = relaxations_of([template, generated, pending])
    assert [relaxation.what for relaxation in found][:1] == ["Turing also allowed"]
    assert found[0].object == "ResourceClaimTemplate ml/one"


def test_a_missing_object_cannot_be_changed() -> None:
    assert edited([], RelaxationCandidate("x", "ResourceClaim ml/one", "spec", FieldEdit(None))) is None


def test_one_condition_is_relaxed_and_the_others_are_unchanged() -> None:
    (first, second) = conditions(f"{AMPERE} && {MEMORY}", FEATURES)
    assert first.without().expression == MEMORY
    assert second.without().expression == AMPERE
    alone = conditions(AMPERE, FEATURES)[0].without()
    assert (alone.expression, alone.what) == ("", f"without condition {AMPERE}")


def test_a_selector_that_does_not_compile_has_no_conditions() -> None:
    assert conditions("device.nonsense(", FEATURES) == []


@settings(max_examples=20)
@given(architecture=st.sampled_from(["Ampere", "Ada Lovelace"]), gibibytes=st.integers(8, 36), count=st.integers(1, 4))
def test_the_reported_saving_is_the_difference_of_the_totals(architecture: str, gibibytes: int, count: int) -> None:
    expression = (
        f'device.attributes["gpu.nvidia.com"].architecture == "{architecture}" && '
        f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{gibibytes}Gi")) >= 0'
    )
    values: list[Object] = [claim_template("one", request(expression)), *pods(count, template="one")]
    before = make_plan(values, CLOUD_TYPES)
    for relaxation in relaxations_of(values):
        assert relaxation.total < before.total
        assert relaxation.saves == before.total - relaxation.total
