"""Plans from small catalogs, one aspect each."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.cluster import cluster_of
from allotment.fleet.description import parse_fleet
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, ResourceSlice
from allotment.model.trees import to_value
from allotment.model.workloads import DaemonSet
from allotment.planning.limits import PlanLimits
from allotment.planning.planner import plan
from allotment.planning.report import ProvisioningPlan
from tests.unit.planning.demands import (
    FEATURES,
    MIG,
    claim,
    claim_template,
    instance,
    make_plan,
    node,
    planned_types,
    pod,
    pods,
    request,
    step_limit,
)
from tests.unit.planning.scheduler_verification import scheduling_differences

T4 = instance("t4", "t4", 1, "0.5")
T4X4 = instance("t4x4", "t4", 4, "1.5")
A10G = instance("a10g", "a10g", 1, "1.0")
H100 = instance("h100", "h100", 1, "3.0")
A100 = instance("a100", "a100-40gb", 1, "2.0")
A100X8 = instance("a100x8", "a100-40gb", 8, "20.0", cpus=96, gib=1000)
CPU = instance("cpu", "", 0, "0.1")
CATALOG = (T4, T4X4, A10G, H100, A100, A100X8, CPU)

MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0'


def sound_plan(
    values: Sequence[Object], catalog: tuple[InstanceType, ...] = CATALOG, limits: PlanLimits | None = None
) -> ProvisioningPlan:
    """A plan that is verified with the scheduler."""
    found = make_plan(values, catalog, limits)
    assert scheduling_differences(values, found, catalog, FEATURES) == []
    assert found.bound <= found.total
    return found


def test_a_pod_without_claims_goes_to_the_cheapest_machine() -> None:
    found = sound_plan([pod("web")])
    assert planned_types(found) == ["cloud/cpu"]
    assert (found.total, found.bound) == (Decimal("0.1"), Decimal("0.1"))
    assert found.machines[0].placements[0].cpu_milli == 1000


def test_the_cheapest_gpu_that_satisfies_a_claim_is_planned() -> None:
    found = sound_plan([claim_template("big", request(MEMORY.format("20Gi"))), pod("train", template="big")])
    assert planned_types(found) == ["cloud/a10g"]
    (placement,) = found.machines[0].placements
    assert [device.device for claim_ in placement.claims for device in claim_.devices] == ["gpu-0"]
    assert placement.claims[0].template == "big"


def test_pods_share_a_larger_machine_if_it_costs_less() -> None:
    found = sound_plan([claim_template("any", request()), *pods(4, template="any")])
    assert planned_types(found) == ["cloud/t4x4"]


def test_all_pods_of_a_named_claim_share_one_machine() -> None:
    found = sound_plan(
        [claim("shared", request()), *pods(3, claim="shared", cpu="6")],
        (T4, instance("t4-big", "t4", 1, "0.9", cpus=32)),
    )
    assert planned_types(found) == ["cloud/t4-big"]
    before = [claim_.before for placement in found.machines[0].placements for claim_ in placement.claims]
    assert before == [False, True, True]


def test_existing_nodes_are_used_first() -> None:
    cluster = cluster_of(parse_fleet(["old=2xt4"]))
    values: list[Object] = [
        node("old"), *cluster.slices, *cluster.classes, claim_template("any", request()), *pods(3, template="any"),
    ]  # fmt: skip
    found = sound_plan(values)
    assert sorted(placement.pod.name for placement in found.existing) == ["pod-0", "pod-1"]
    assert planned_types(found) == ["cloud/t4"]


def test_running_pods_reduce_the_capacity_of_existing_nodes() -> None:
    cluster = cluster_of(parse_fleet(["old=t4"]))
    resident = pod("running", cpu="15.5", nodeName="old")
    found = sound_plan([node("old"), *cluster.slices, *cluster.classes, resident, pod("new", cpu="1")])
    assert found.existing == ()
    assert planned_types(found) == ["cloud/cpu"]


def test_seven_small_partitions_get_one_mig_layout() -> None:
    profile = 'device.attributes["gpu.nvidia.com"].profile == "1g.5gb"'
    found = sound_plan([claim_template("slice", request(profile, of=MIG)), *pods(7, template="slice")])
    assert planned_types(found) == ["cloud/a100"]
    assert found.machines[0].form == "a100-40gb/static-mig=1g.5gb:7"
    assert found.machines[0].layout == (("1g.5gb",) * 7,)


def test_partitioned_and_whole_gpus_share_one_machine() -> None:
    profile = 'device.attributes["gpu.nvidia.com"].profile == "3g.20gb"'
    whole = 'device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA A100")'
    values = [
        claim_template("slice", request(profile, of=MIG)), claim_template("whole", request(whole, count=7)),
        *pods(2, template="slice"), pod("all", template="whole"),
    ]  # fmt: skip
    found = sound_plan(values, (A100X8,))
    (machine,) = found.machines
    assert sorted(machine.layout) == [(), (), (), (), (), (), (), ("3g.20gb", "3g.20gb")]


def test_partitions_of_several_sizes_share_one_gpu() -> None:
    def of(profile: str) -> dict[str, object]:
        return request(f'device.attributes["gpu.nvidia.com"].profile == "{profile}"', of=MIG)

    values = [
        *(claim_template(f"p{size[0]}", of(size)) for size in ("1g.5gb", "2g.10gb", "4g.20gb")),
        pod("small", template="p1"), pod("middle", template="p2"), pod("large", template="p4"),
    ]  # fmt: skip
    found = sound_plan(values, (A100,))
    assert len(found.machines) == 1
    assert sorted(found.machines[0].layout[0]) == ["1g.5gb", "2g.10gb", "4g.20gb"]


def test_a_capacity_request_gets_a_share_of_a_gpu() -> None:
    values = [claim_template("share", request(capacity={"memory": "4Gi"})), *pods(3, template="share")]
    found = sound_plan(values, (T4, T4X4))
    assert planned_types(found) == ["cloud/t4"]
    assert found.machines[0].form == "t4/consumable-shares=memory"


def test_modes_can_be_allowed_by_name() -> None:
    values = [claim_template("share", request(capacity={"memory": "4Gi"})), *pods(3, template="share")]
    assert make_plan(values, (T4,), PlanLimits(modes=("shared",))).machines[0].form == "t4/shared"
    profile = 'device.attributes["gpu.nvidia.com"].profile == "1g.10gb"'
    slices = [claim_template("slice", request(profile, of=MIG)), *pods(7, template="slice")]
    found = sound_plan(slices, (H100,), PlanLimits(modes=("dynamic-mig",)))
    assert found.machines[0].form == "h100/dynamic-mig"


def test_the_cheapest_alternative_is_planned() -> None:
    big = {"name": "big", "deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1,
           "selectors": [{"cel": {"expression": MEMORY.format("70Gi")}}]}  # fmt: skip
    two = {"name": "two", "deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 2}
    values = [claim_template("either", {"name": "gpu", "firstAvailable": [big, two]}), pod("train", template="either")]
    assert planned_types(sound_plan(values)) == ["cloud/t4x4"]


def test_anti_affinity_by_host_gives_each_pod_its_own_machine() -> None:
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}]}}  # fmt: skip
    found = sound_plan(pods(3, labels={"app": "db"}, affinity=apart))
    assert planned_types(found) == ["cloud/cpu"] * 3


def test_pods_with_the_same_host_port_get_different_machines() -> None:
    container = {"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}
    found = sound_plan([pod("a", containers=[container]), pod("b", containers=[container])])
    assert planned_types(found) == ["cloud/cpu"] * 2


def test_pods_are_spread_over_zones() -> None:
    spread = [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
               "labelSelector": {"matchLabels": {"app": "web"}}}]  # fmt: skip
    found = sound_plan(pods(7, labels={"app": "web"}, topologySpreadConstraints=spread))
    by_zone = sorted(sum(len(m.placements) for m in found.machines if m.zone == zone) for zone in ("z1", "z2", "z3"))
    assert by_zone == [2, 2, 3]


def test_pods_are_spread_over_hosts() -> None:
    spread = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
               "labelSelector": {"matchLabels": {"app": "web"}}}]  # fmt: skip
    found = sound_plan([*pods(3, labels={"app": "web"}, topologySpreadConstraints=spread), pod("other", cpu="15")])
    assert all(
        sum(placement.pod.name != "other" for placement in machine.placements) <= 1 for machine in found.machines
    )


def test_affinity_by_zone_gives_one_zone() -> None:
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "db"}}}]}}  # fmt: skip
    values = [*pods(3, "db", labels={"app": "db"}, cpu="10"), *pods(3, "web", affinity=near, cpu="10")]
    found = sound_plan(values)
    assert len({machine.zone for machine in found.machines}) == 1


def test_affinity_by_host_gives_one_machine() -> None:
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}]}}  # fmt: skip
    found = sound_plan(pods(3, labels={"app": "db"}, affinity=near, cpu="5"))
    assert len(found.machines) == 1


def test_node_selectors_determine_type_and_zone() -> None:
    values = [
        pod("a", nodeSelector={"node.kubernetes.io/instance-type": "h100"}),
        pod("b", cpu="16", nodeSelector={"topology.kubernetes.io/zone": "z2"}),
    ]
    found = sound_plan(values)
    assert {(m.instance, m.zone, m.placements[0].pod.name) for m in found.machines} == {
        ("cloud/h100", "z1", "a"),
        ("cloud/cpu", "z2", "b"),
    }


def test_spot_machines_are_planned_if_limits_and_pods_allow_them() -> None:
    catalog = (instance("cpu", "", 0, "1.0", spot="0.3"),)
    assert make_plan([pod("a")], catalog).total == Decimal("1.0")
    found = make_plan([pod("a")], catalog, PlanLimits(capacity="cheapest"))
    assert (found.machines[0].capacity_type, found.total) == ("spot", Decimal("0.3"))
    steady = pod("b", nodeSelector={"karpenter.sh/capacity-type": "on-demand"})
    assert make_plan([steady], catalog, PlanLimits(capacity="cheapest")).machines[0].capacity_type == "on-demand"
    half = make_plan(pods(4, cpu="16"), catalog, PlanLimits(capacity="cheapest", spot_share=Decimal("0.5")))
    assert sorted(machine.capacity_type for machine in half.machines) == ["on-demand", "on-demand", "spot", "spot"]


def test_the_spot_share_includes_existing_machines() -> None:
    catalog = (instance("cheap", "", 0, "1", spot="0.3"),)

    def spot(count: int, *existing: int) -> int:
        limits = PlanLimits(
            capacity="cheapest", spot_share=Decimal("0.5"), existing_machines=(existing[0], existing[1])
        )
        found = make_plan(pods(count, cpu="16"), catalog, limits)
        assert found.unserved == ()
        return sum(machine.capacity_type == "spot" for machine in found.machines)

    assert spot(1, 0, 0) == 0
    assert spot(1, 1, 0) == 1
    assert spot(2, 4, 0) == 2
    assert spot(4, 4, 4) == 0
    assert spot(4, 2, 2) == 1


def test_gangs_are_planned_completely_or_not_at_all() -> None:
    gang = {"scheduling.x-k8s.io/pod-group": "g"}
    values = [
        claim_template("any", request()),
        *pods(3, "gang", template="any", labels=gang),
        pod("alone", template="any"),
    ]
    found = make_plan(values, (T4,), PlanLimits(max_machines=2))
    assert [placement.pod.name for machine in found.machines for placement in machine.placements] == ["alone"]
    assert {pod.code for pod in found.unserved} == {"gang"}
    assert len(make_plan(values, (T4,), PlanLimits(max_machines=4)).machines) == 4


def test_daemon_sets_reduce_the_capacity_of_new_machines() -> None:
    spec = {"containers": [{"name": "agent", "resources": {"requests": {"cpu": "1"}}}]}
    daemon = to_value(
        {"metadata": {"name": "agent", "namespace": "ml"}, "spec": {"template": {"spec": spec}}}, DaemonSet
    )
    assert len(make_plan([pod("a", cpu="16")], (CPU,)).machines) == 1
    assert make_plan([daemon, pod("a", cpu="16")], (CPU,)).unserved[0].code == "never"


def test_extended_resources_of_classes_get_devices() -> None:
    found = make_plan([pod("a", requests={"nvidia.com/gpu": "2"})], CATALOG)
    assert planned_types(found) == ["cloud/t4x4"]
    (placement,) = found.machines[0].placements
    assert [device.device for claim_ in placement.claims for device in claim_.devices] == ["gpu-0", "gpu-1"]


def test_arm_machines_need_a_selector_for_the_architecture() -> None:
    catalog = (instance("arm", "", 0, "0.05", arch="arm64"), CPU)
    assert planned_types(make_plan([pod("a")], catalog)) == ["cloud/cpu"]
    assert planned_types(make_plan([pod("a", nodeSelector={"kubernetes.io/arch": "arm64"})], catalog)) == ["cloud/arm"]
    assert make_plan([pod("a")], catalog[:1]).unserved[0].code == "architecture"


def test_equal_existing_nodes_are_used_one_by_one() -> None:
    cluster = cluster_of(parse_fleet(["a=2xt4", "b=2xt4", "c=2xt4"]))
    values: list[Object] = [
        *(node(name) for name in "abc"), *cluster.slices, *cluster.classes, claim_template("any", request(count=2)),
        *pods(3, template="any"),
    ]  # fmt: skip
    found = sound_plan(values)
    assert sorted(placement.node for placement in found.existing) == ["a", "b", "c"]
    assert found.machines == ()


def test_verdicts_are_included_on_request() -> None:
    values = [claim_template("any", request()), pod("a", template="any")]
    verdicts = plan(values, CATALOG, PlanLimits(), FEATURES, keep_going=step_limit(5)).choices
    assert [verdict.instance for verdict in verdicts[0].verdicts[:2]] == ["cloud/t4", "cloud/a10g"]
    assert make_plan(values, CATALOG).choices == ()


def test_mode_all_skips_full_shared_devices() -> None:
    every = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}}
    values = [
        claim_template("share", request(capacity={"memory": "2Gi"})), claim_template("all", every),
        *pods(2, template="share"), pod("rest", template="all"),
    ]  # fmt: skip
    found = sound_plan(values, (instance("a100x4", "a100-40gb", 4, "8.0"),))
    assert (found.total, found.bound) == (Decimal("8.0"), Decimal("8.0"))


def test_a_claim_usable_from_several_nodes_counts_once_in_the_bound() -> None:
    shared = to_value(
        {
            "metadata": {"name": "net"},
            "spec": {
                "driver": "net.example.com", "allNodes": True, "devices": [{"name": "net-0"}],
                "pool": {"name": "net", "generation": 1, "resourceSliceCount": 1},
            },
        },
        ResourceSlice,
    )  # fmt: skip
    found = sound_plan([shared, claim("one", request()), *pods(3, claim="one")], (T4,))
    assert (found.total, found.bound) == (Decimal("0.5"), Decimal("0.5"))


def test_machines_are_planned_again_without_pods_that_lack_shared_devices() -> None:
    shared = to_value(
        {
            "metadata": {"name": "net"},
            "spec": {
                "driver": "net.example.com", "allNodes": True, "devices": [{"name": "net-0"}],
                "pool": {"name": "net", "generation": 1, "resourceSliceCount": 1},
            },
        },
        ResourceSlice,
    )  # fmt: skip
    selector = {"cel": {"expression": 'device.driver == "net.example.com"'}}
    net = to_value({"metadata": {"name": "net"}, "spec": {"selectors": [selector]}}, DeviceClass)
    values = [shared, net, claim_template("both", request(), request(of="net", name="net")), *pods(4, template="both")]
    found = make_plan(values, (T4, instance("t4x4", "t4", 4, "1.6", cpus=64)))
    assert (planned_types(found), found.total) == (["cloud/t4"], Decimal("0.5"))
