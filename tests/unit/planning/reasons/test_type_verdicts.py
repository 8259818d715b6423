"""Verdicts of types: which fit, how many pods they hold, and the first shortfall of every other, in one line."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet.catalog import catalog
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.meta import Object
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import read_demand
from allotment.planning.reasons.type_verdicts import group_verdicts
from allotment.planning.report import GroupVerdicts, TypeVerdict
from tests.unit.planning.demands import FEATURES, MIG, claim_template, instance, make_plan, pod, pods, request

TYPES = (
    instance("t4", "t4", 1, "0.5"),
    instance("l4", "l4", 1, "0.7"),
    instance("a10g", "a10g", 1, "1"),
    instance("a10g-4", "a10g", 4, "5"),
    instance("a100", "a100-40gb", 1, "3.6"),
    instance("mi300x", "mi300x", 8, "48"),
    instance("cpu", "", 0, "0.2"),
)

MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("24Gi")) >= 0'
AMPERE = 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'


def verdicts_by_group(
    values: list[Object], types: tuple[InstanceType, ...] = TYPES, limits: PlanLimits | None = None
) -> list[GroupVerdicts]:
    demand = read_demand(values, FEATURES)
    assert not demand.unserved
    return list(group_verdicts(demand, types, limits or PlanLimits(), FEATURES))


def verdicts(
    *expressions: str, types: tuple[InstanceType, ...] = TYPES, limits: PlanLimits | None = None, **options: Any
) -> dict[str, TypeVerdict]:
    """The verdict of each type for one pod with one request."""
    template = claim_template("one", request(*expressions, **options))
    (group,) = verdicts_by_group([template, pod("a", template="one")], types, limits)
    return {verdict.instance.removeprefix("cloud/"): verdict for verdict in group.verdicts}


def texts(found: dict[str, TypeVerdict]) -> dict[str, str]:
    return {name: verdict.text for name, verdict in found.items() if verdict.code}


def test_another_architecture_fits_only_pods_that_select_it_as_in_the_plan() -> None:
    types = (instance("arm", "l4", 1, "0.5", arch="arm64"), instance("l4", "l4", 1, "0.7"))
    assert texts(verdicts(types=types)) == {"arm": "it is arm64; no kubernetes.io/arch selected"}
    values = [claim_template("one", request()), pod("a", template="one", nodeSelector={"kubernetes.io/arch": "arm64"})]
    (group,) = verdicts_by_group(values, types)
    assert [verdict.instance for verdict in group.verdicts if not verdict.code] == ["cloud/arm"]
    assert [machine.instance for machine in make_plan(values, types).machines] == ["cloud/arm"]


def test_every_type_has_a_verdict_and_fitting_types_come_first_by_price() -> None:
    found = verdicts(AMPERE)
    assert set(found) == {type_.name for type_ in TYPES}
    assert list(found)[:3] == ["a10g", "a100", "a10g-4"]
    assert [verdict.code for verdict in found.values()][:3] == ["", "", ""]
    assert all(verdict.code for verdict in list(found.values())[3:])


def test_both_architectures_are_reported() -> None:
    assert texts(verdicts(AMPERE))["t4"] == "Tesla T4 is Turing; Ampere requested"
    assert texts(verdicts(AMPERE))["l4"] == "L4 is Ada Lovelace; Ampere requested"


def test_both_amounts_of_memory_are_reported() -> None:
    found = verdicts(MEMORY)
    assert texts(found)["l4"] == "L4 has 23034Mi; 24Gi requested"
    assert found["l4"].code == "not-enough-capacity"
    assert [name for name, verdict in found.items() if not verdict.code] == ["a100"]


def test_the_first_failed_condition_is_reported() -> None:
    assert texts(verdicts(MEMORY, AMPERE))["l4"] == "L4 has 23034Mi; 24Gi requested"
    assert texts(verdicts(AMPERE, MEMORY))["l4"] == "L4 is Ada Lovelace; Ampere requested"


def test_both_numbers_of_devices_are_reported() -> None:
    assert texts(verdicts(AMPERE, count=4))["a10g"] == "1 GPU; 4 requested"
    assert not verdicts(AMPERE, count=4)["a10g-4"].code


def test_a_missing_mig_profile_is_reported_with_an_available_one() -> None:
    profile = 'device.attributes["gpu.nvidia.com"].profile == "1g.10gb"'
    types = (*TYPES, instance("h200", "h200", 1, "5"), instance("a100-80", "a100-80gb", 1, "5"))
    found = verdicts(profile, of=MIG, types=types)
    assert texts(found)["h200"].startswith("no MIG profile 1g.10gb; has 1g.1")
    assert texts(found)["t4"] == "Tesla T4 does not support MIG"
    assert found["a100-80"].mode.startswith("static-mig=1g.10gb:")


def test_other_vendors_and_machines_without_gpus_are_reported() -> None:
    found = texts(verdicts(AMPERE))
    assert found["mi300x"] == "MI300X OAM uses another driver; gpu.nvidia.com requested"
    assert found["cpu"] == "it has no GPU"


def test_both_amounts_of_a_resource_are_reported() -> None:
    template = claim_template("one", request())
    (group,) = verdicts_by_group([template, pod("a", template="one", cpu="20", memory="100Gi")], (TYPES[0],))
    assert group.verdicts[0].text == "16 CPU for pods; 20 requested"
    (group,) = verdicts_by_group([template, pod("a", template="one", cpu="1", memory="100Gi")], (TYPES[0],))
    assert group.verdicts[0].text == "64Gi memory for pods; 100Gi requested"


def test_both_values_of_a_node_label_are_reported() -> None:
    template = claim_template("one", request())
    zone = {"topology.kubernetes.io/zone": "z9"}
    (group,) = verdicts_by_group([template, pod("a", template="one", nodeSelector=zone)], (TYPES[0],))
    assert group.verdicts[0].text == "zone is z1; z9 requested"
    assert group.verdicts[0].code == "node-not-eligible"
    (group,) = verdicts_by_group([template, pod("a", template="one", nodeSelector={"team": "ml"})], (TYPES[0],))
    assert group.verdicts[0].text == "label team=ml requested; new nodes do not have it"


def test_a_selected_zone_of_the_type_fits() -> None:
    template = claim_template("one", request())
    (group,) = verdicts_by_group(
        [template, pod("a", template="one", nodeSelector={"topology.kubernetes.io/zone": "z2"})]
    )
    assert "cloud/t4" in [verdict.instance for verdict in group.verdicts if not verdict.code]


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (PlanLimits(providers=("other",)), "provider cloud is not allowed"),
        (PlanLimits(excluded_types=("cloud/t*",)), "type is excluded"),
        (PlanLimits(zones=("z9",)), "not offered in z9"),
        (PlanLimits(capacity="spot"), "its spot price is unknown"),
        (PlanLimits(budget=Decimal("0.1")), "0.5 USD/h exceeds the budget of 0.1 USD/h"),
        (PlanLimits(unavailable=(("cloud/t4", "", ""),)), "out of stock"),
    ],
)
def test_limits_are_reported_first(limits: PlanLimits, text: str) -> None:
    assert texts(verdicts(types=TYPES[:2], limits=limits))["t4"] == text


def test_a_type_without_a_price_does_not_fit() -> None:
    free = instance("free", "t4", 1, "")
    found = verdicts(types=(free, *TYPES))
    assert found["free"].code == "price-unknown"
    assert found["free"].per_hour is None
    assert texts(found)["free"] == "its price is unknown"


def test_a_type_that_only_a_limit_excludes_is_the_nearest_miss() -> None:
    found = verdicts(AMPERE, limits=PlanLimits(excluded_types=("cloud/a10g",)))
    assert next(name for name, verdict in found.items() if verdict.code) == "a10g"


def test_a_smaller_shortfall_is_nearer() -> None:
    types = (instance("t4", "t4", 1, "0.5"), instance("l4", "l4", 1, "9"), instance("mi300x", "mi300x", 8, "1"))
    assert list(verdicts(MEMORY, types=types)) == ["l4", "t4", "mi300x"]


def test_a_selector_on_a_run_time_attribute_is_reported() -> None:
    found = verdicts('device.attributes["gpu.nvidia.com"].uuid == "GPU-1"')
    assert found["t4"].code == "run-time-only"
    assert "uuid" in found["t4"].text


def test_the_number_of_pods_on_one_machine_is_reported() -> None:
    template = claim_template("one", request(AMPERE))
    (group,) = verdicts_by_group([template, *pods(6, template="one", cpu="5")])
    holds = {verdict.instance: verdict.holds for verdict in group.verdicts if not verdict.code}
    assert holds == {"cloud/a10g": 1, "cloud/a10g-4": 3, "cloud/a100": 1}  # three pods of five CPUs on sixteen


def test_mig_partitions_are_counted_and_their_layout_is_reported() -> None:
    template = claim_template("one", request('device.attributes["gpu.nvidia.com"].profile == "1g.5gb"', of=MIG))
    (group,) = verdicts_by_group([template, *pods(7, template="one")])
    best = group.verdicts[0]
    assert (best.instance, best.holds, best.mode) == ("cloud/a100", 7, "static-mig=1g.5gb:7")


def test_equal_pods_are_one_group() -> None:
    values = [claim_template("one", request(AMPERE)), *pods(3, template="one"), *pods(2, "other")]
    found = verdicts_by_group(values)
    assert [len(group.pods) for group in found] == [3, 2]


def test_only_the_largest_groups_have_verdicts() -> None:
    values = [pod(f"a-{n}", cpu=f"{n + 1}m") for n in range(4)] + pods(3, "many")
    demand = read_demand(values, FEATURES)
    found = group_verdicts(demand, TYPES, PlanLimits(), FEATURES, most=1)
    assert [len(group.pods) for group in found] == [3]


def test_an_estimated_memory_size_close_to_a_threshold_is_borderline() -> None:
    sure = instance("sure", "l4", 1, "1")
    unsure = replace(sure, name="unsure", memory_bound=True)
    found = verdicts(MEMORY.replace("24Gi", "23Gi"), types=(sure, unsure))
    assert (found["sure"].borderline, found["unsure"].borderline) == (False, True)
    far = verdicts(MEMORY.replace("24Gi", "10Gi"), types=(unsure,))
    assert not far["unsure"].code
    assert not far["unsure"].borderline


def test_a_larger_figure_of_the_provider_is_reported() -> None:
    t4 = replace(instance("t4", "t4", 1, "1"), gpu_memory_gib=Decimal(16))
    found = verdicts(MEMORY.replace("24Gi", "16Gi"), types=(t4,))
    assert found["t4"].text == "Tesla T4 has 15Gi; 16Gi requested (the provider states 16384Mi)"


def test_pods_without_claims_have_verdicts() -> None:
    (group,) = verdicts_by_group([*pods(2, cpu="2")])
    assert group.verdicts[0].instance == "cloud/cpu"
    assert not any(verdict.code for verdict in group.verdicts)


@given(
    architecture=st.sampled_from(["Turing", "Ampere", "Ada Lovelace", "Volta"]),
    gibibytes=st.integers(8, 48),
    count=st.integers(1, 4),
    cpu=st.integers(1, 20),
)
def test_a_type_fits_if_and_only_if_a_plan_with_only_this_type_serves_the_pod(
    architecture: str, gibibytes: int, count: int, cpu: int
) -> None:
    requested = request(
        f'device.attributes["gpu.nvidia.com"].architecture == "{architecture}" && '
        f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{gibibytes}Gi")) >= 0',
        count=count,
    )
    values: list[Object] = [claim_template("one", requested), pod("a", template="one", cpu=str(cpu))]
    (group,) = verdicts_by_group(values)
    for verdict in group.verdicts:
        alone = [type_ for type_ in TYPES if type_.key == verdict.instance]
        assert bool(verdict.code) == bool(make_plan(values, alone).unserved), verdict


def test_every_type_of_the_packaged_catalog_has_a_verdict() -> None:
    template = claim_template("one", request(AMPERE, MEMORY.replace("24Gi", "20Gi")))
    (group,) = verdicts_by_group([template, pod("a", template="one")], catalog())
    assert len(group.verdicts) == len(catalog())
    assert group.verdicts[0].instance == "aws/g5.xlarge"
    assert all(verdict.text for verdict in group.verdicts if verdict.code)


def test_an_exact_amount_is_reported_as_such() -> None:
    found = texts(verdicts('device.capacity["gpu.nvidia.com"].memory == quantity("24Gi")'))
    assert found["l4"] == "L4 has 23034Mi; exactly 24Gi requested"
    assert texts(verdicts(MEMORY))["l4"] == "L4 has 23034Mi; 24Gi requested"


def test_a_failing_expression_is_nearer_than_any_hardware() -> None:
    expression = 'device.attributes["gpu.nvidia.com"].profile.string == "1g.10gb"'
    found = verdicts(expression, of=MIG)
    name, first = next(iter(found.items()))
    assert name == "a100"
    assert first.text == f"{expression} fails: no such key: string"


def test_the_requested_vendor_is_nearest_and_machines_without_gpus_are_farthest() -> None:
    expression = 'device.attributes["gpu.amd.com"].computePartition == "spx"'
    found = verdicts(expression, of="gpu.amd.com")
    assert next(iter(found)) == "mi300x"
    assert "no device publishes attribute" in found["mi300x"].text
    assert list(found)[-1] == "cpu"
