"""Verdicts of types: who serves, how many, and the first thing in the way of every other, in one line."""

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
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.pending_pods.demand import read_demand
from allotment.tools.plan.reasons.type_verdicts import group_verdicts
from allotment.tools.plan.report import GroupVerdicts, TypeVerdict
from tests.unit.tools.plan.demands import FEATURES, MIG, claim_template, instance, make_plan, pod, pods, request

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


def verdicts_by_group(values: list[Object], types: tuple[InstanceType, ...] = TYPES, limits: PlanLimits | None = None) -> list[GroupVerdicts]:
    demand = read_demand(values, FEATURES)
    assert not demand.unserved
    return list(group_verdicts(demand, types, limits or PlanLimits(), FEATURES))


def verdicts(
    *expressions: str, types: tuple[InstanceType, ...] = TYPES, limits: PlanLimits | None = None, **asked: Any
) -> dict[str, TypeVerdict]:
    """What each type is for one pod with one request."""
    template = claim_template("one", request(*expressions, **asked))
    (choice,) = verdicts_by_group([template, pod("a", template="one")], types, limits)
    return {one.instance.removeprefix("cloud/"): one for one in choice.verdicts}


def texts(found: dict[str, TypeVerdict]) -> dict[str, str]:
    return {name: one.text for name, one in found.items() if one.code}


def test_every_type_has_a_verdict_and_those_that_serve_come_first_by_price() -> None:
    found = verdicts(AMPERE)
    assert set(found) == {one.name for one in TYPES}
    assert list(found)[:3] == ["a10g", "a100", "a10g-4"]
    assert [one.code for one in found.values()][:3] == ["", "", ""]
    assert all(one.code for one in list(found.values())[3:])


def test_both_values_are_told_of_an_architecture() -> None:
    assert texts(verdicts(AMPERE))["t4"] == "Tesla T4 is Turing, Ampere asked"
    assert texts(verdicts(AMPERE))["l4"] == "L4 is Ada Lovelace, Ampere asked"


def test_both_values_are_told_of_memory() -> None:
    found = verdicts(MEMORY)
    assert texts(found)["l4"] == "L4 has 23034Mi, 24Gi asked"
    assert found["l4"].code == "not-enough-capacity"
    assert [name for name, one in found.items() if not one.code] == ["a100"]


def test_the_first_condition_that_fails_is_told() -> None:
    assert texts(verdicts(MEMORY, AMPERE))["l4"] == "L4 has 23034Mi, 24Gi asked"
    assert texts(verdicts(AMPERE, MEMORY))["l4"] == "L4 is Ada Lovelace, Ampere asked"


def test_both_numbers_are_told_of_a_count() -> None:
    assert texts(verdicts(AMPERE, count=4))["a10g"] == "1 GPU, 4 asked"
    assert not verdicts(AMPERE, count=4)["a10g-4"].code


def test_a_profile_that_a_gpu_does_not_have_is_told_with_one_that_it_has() -> None:
    wanted = 'device.attributes["gpu.nvidia.com"].profile == "1g.10gb"'
    types = (*TYPES, instance("h200", "h200", 1, "5"), instance("a100-80", "a100-80gb", 1, "5"))
    found = verdicts(wanted, of=MIG, types=types)
    assert texts(found)["h200"].startswith("no MIG profile 1g.10gb: has 1g.1")
    assert texts(found)["t4"] == "Tesla T4 has no MIG"
    assert found["a100-80"].mode.startswith("static-mig=1g.10gb:")


def test_other_vendors_and_machines_without_gpus_are_told_as_such() -> None:
    found = texts(verdicts(AMPERE))
    assert found["mi300x"] == "MI300X OAM has another driver, gpu.nvidia.com asked"
    assert found["cpu"] == "it has no GPU"


def test_a_machine_that_is_too_small_is_told_with_both_amounts() -> None:
    template = claim_template("one", request())
    (choice,) = verdicts_by_group([template, pod("a", template="one", cpu="20", memory="100Gi")], (TYPES[0],))
    assert choice.verdicts[0].text == "16 CPU for pods, 20 asked"
    (choice,) = verdicts_by_group([template, pod("a", template="one", cpu="1", memory="100Gi")], (TYPES[0],))
    assert choice.verdicts[0].text == "64Gi of memory for pods, 100Gi asked"


def test_what_the_pod_says_of_nodes_is_told_with_both_values() -> None:
    template = claim_template("one", request())
    zone = {"topology.kubernetes.io/zone": "z9"}
    (choice,) = verdicts_by_group([template, pod("a", template="one", nodeSelector=zone)], (TYPES[0],))
    assert choice.verdicts[0].text == "zone is z1, z9 asked"
    assert choice.verdicts[0].code == "node-not-eligible"
    (choice,) = verdicts_by_group([template, pod("a", template="one", nodeSelector={"team": "ml"})], (TYPES[0],))
    assert choice.verdicts[0].text == "label team=ml asked, a new node has none"


def test_a_zone_that_the_type_is_in_is_no_refusal() -> None:
    template = claim_template("one", request())
    (choice,) = verdicts_by_group([template, pod("a", template="one", nodeSelector={"topology.kubernetes.io/zone": "z2"})])
    assert "cloud/t4" in [one.instance for one in choice.verdicts if not one.code]


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (PlanLimits(providers=("other",)), "provider cloud is not allowed"),
        (PlanLimits(excluded_types=("cloud/t*",)), "type is excluded"),
        (PlanLimits(zones=("z9",)), "not in z9"),
        (PlanLimits(capacity="spot"), "its spot price is unknown"),
        (PlanLimits(budget=Decimal("0.1")), "0.5 USD/h exceeds the budget of 0.1"),
        (PlanLimits(unavailable=(("cloud/t4", "", ""),)), "out of stock"),
    ],
)
def test_limits_are_told_before_anything_else(limits: PlanLimits, text: str) -> None:
    assert texts(verdicts(types=TYPES[:2], limits=limits))["t4"] == text


def test_a_price_that_is_not_known_is_no_price() -> None:
    free = instance("free", "t4", 1, "")
    found = verdicts(types=(free, *TYPES))
    assert found["free"].code == "price-unknown"
    assert found["free"].per_hour is None
    assert texts(found)["free"] == "its price is unknown"


def test_what_only_a_limit_forbids_is_the_nearest_miss() -> None:
    found = verdicts(AMPERE, limits=PlanLimits(excluded_types=("cloud/a10g",)))
    assert next(name for name, one in found.items() if one.code) == "a10g"


def test_what_lacks_a_little_is_nearer_than_what_lacks_much() -> None:
    types = (instance("t4", "t4", 1, "0.5"), instance("l4", "l4", 1, "9"), instance("mi300x", "mi300x", 8, "1"))
    assert list(verdicts(MEMORY, types=types)) == ["l4", "t4", "mi300x"]


def test_a_selector_on_what_only_a_running_machine_knows_is_named() -> None:
    found = verdicts('device.attributes["gpu.nvidia.com"].uuid == "GPU-1"')
    assert found["t4"].code == "run-time-only"
    assert "uuid" in found["t4"].text


def test_how_many_pods_one_machine_holds() -> None:
    template = claim_template("one", request(AMPERE))
    (choice,) = verdicts_by_group([template, *pods(6, template="one", cpu="5")])
    holds = {one.instance: one.holds for one in choice.verdicts if not one.code}
    assert holds == {"cloud/a10g": 1, "cloud/a10g-4": 3, "cloud/a100": 1}  # three pods of five CPUs on sixteen


def test_pieces_of_mig_are_counted_and_their_layout_is_told() -> None:
    template = claim_template("one", request('device.attributes["gpu.nvidia.com"].profile == "1g.5gb"', of=MIG))
    (choice,) = verdicts_by_group([template, *pods(7, template="one")])
    best = choice.verdicts[0]
    assert (best.instance, best.holds, best.mode) == ("cloud/a100", 7, "static-mig=1g.5gb:7")


def test_equal_pods_are_one_group_and_others_another() -> None:
    values = [claim_template("one", request(AMPERE)), *pods(3, template="one"), *pods(2, "other")]
    found = verdicts_by_group(values)
    assert [len(choice.pods) for choice in found] == [3, 2]


def test_only_the_largest_groups_are_judged_where_there_are_many() -> None:
    values = [pod(f"a-{n}", cpu=f"{n + 1}m") for n in range(4)] + pods(3, "many")
    demand = read_demand(values, FEATURES)
    found = group_verdicts(demand, TYPES, PlanLimits(), FEATURES, most=1)
    assert [len(choice.pods) for choice in found] == [3]


def test_a_figure_that_is_not_the_drivers_makes_a_near_answer_borderline() -> None:
    sure = instance("sure", "l4", 1, "1")
    unsure = replace(sure, name="unsure", memory_bound=True)
    found = verdicts(MEMORY.replace("24Gi", "23Gi"), types=(sure, unsure))
    assert (found["sure"].borderline, found["unsure"].borderline) == (False, True)
    far = verdicts(MEMORY.replace("24Gi", "10Gi"), types=(unsure,))
    assert not far["unsure"].code
    assert not far["unsure"].borderline


def test_where_the_cloud_says_more_than_the_driver_that_is_told() -> None:
    t4 = replace(instance("t4", "t4", 1, "1"), gpu_memory_gib=Decimal(16))
    found = verdicts(MEMORY.replace("24Gi", "16Gi"), types=(t4,))
    assert found["t4"].text == "Tesla T4 has 15Gi, 16Gi asked (the provider states 16384Mi)"


def test_pods_without_claims_have_choices_too() -> None:
    (choice,) = verdicts_by_group([*pods(2, cpu="2")])
    assert choice.verdicts[0].instance == "cloud/cpu"
    assert not any(one.code for one in choice.verdicts)


@given(
    architecture=st.sampled_from(["Turing", "Ampere", "Ada Lovelace", "Volta"]),
    gibibytes=st.integers(8, 48),
    count=st.integers(1, 4),
    cpu=st.integers(1, 20),
)
def test_a_type_serves_exactly_if_a_plan_of_that_type_alone_serves(
    architecture: str, gibibytes: int, count: int, cpu: int
) -> None:
    asked = request(
        f'device.attributes["gpu.nvidia.com"].architecture == "{architecture}" && '
        f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{gibibytes}Gi")) >= 0',
        count=count,
    )
    values: list[Object] = [claim_template("one", asked), pod("a", template="one", cpu=str(cpu))]
    (choice,) = verdicts_by_group(values)
    for verdict in choice.verdicts:
        alone = [one for one in TYPES if one.key == verdict.instance]
        assert bool(verdict.code) == bool(make_plan(values, alone).unserved), verdict


def test_the_packaged_catalogue_has_a_verdict_for_each_type() -> None:
    template = claim_template("one", request(AMPERE, MEMORY.replace("24Gi", "20Gi")))
    (choice,) = verdicts_by_group([template, pod("a", template="one")], catalog())
    assert len(choice.verdicts) == len(catalog())
    assert choice.verdicts[0].instance == "aws/g5.xlarge"
    assert all(one.text for one in choice.verdicts if one.code)


def test_an_amount_that_is_asked_exactly_is_told_so() -> None:
    found = texts(verdicts('device.capacity["gpu.nvidia.com"].memory == quantity("24Gi")'))
    assert found["l4"] == "L4 has 23034Mi, exactly 24Gi asked"
    assert texts(verdicts(MEMORY))["l4"] == "L4 has 23034Mi, 24Gi asked"


def test_an_expression_that_stops_with_an_error_is_nearer_than_any_hardware() -> None:
    expression = 'device.attributes["gpu.nvidia.com"].profile.string == "1g.10gb"'
    found = verdicts(expression, of=MIG)
    name, first = next(iter(found.items()))
    assert name == "a100"
    assert first.text == f"{expression} stops with an error: no such key: string"


def test_the_vendor_that_is_asked_is_nearer_than_others_and_no_gpu_is_farthest() -> None:
    expression = 'device.attributes["gpu.amd.com"].computePartition == "spx"'
    found = verdicts(expression, of="gpu.amd.com")
    assert next(iter(found)) == "mi300x"
    assert "no device publishes attribute" in found["mi300x"].text
    assert list(found)[-1] == "cpu"
