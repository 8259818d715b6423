"""Pods are planned where their volumes are or can be provisioned."""

from __future__ import annotations

import pytest

from allotment.fleet.catalog import catalog
from allotment.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from allotment.model.trees import Tree, to_value
from allotment.model.workloads import StatefulSet
from allotment.planning.report import ProvisioningPlan
from tests.unit.planning.demands import claim_template, instance, make_plan, node, pod, pods, request

ZONE = "topology.kubernetes.io/zone"
T4 = instance("t4", "t4", 1, "0.5")
ANY = claim_template("any", request())


def volume(name: str, zone: str, key: str = ZONE, labels: Tree | None = None) -> PersistentVolume:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]}] if zone else []
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if zone else {}
    return to_value({"metadata": {"name": name, "labels": labels or {}}, "spec": affinity}, PersistentVolume)


def claim(name: str, to: str = "", class_: str | None = None, **metadata: str) -> PersistentVolumeClaim:
    spec: Tree = {"volumeName": to} if to else {}
    if class_ is not None:
        spec["storageClassName"] = class_
    return to_value({"metadata": {"name": name, "namespace": "ml", **metadata}, "spec": spec}, PersistentVolumeClaim)


def storage_class(
    name: str, *zones: str, binding: str = "WaitForFirstConsumer", annotations: Tree | None = None
) -> StorageClass:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}] if zones else []
    metadata = {"name": name, "annotations": annotations or {}}
    return to_value({"metadata": metadata, "volumeBindingMode": binding, "allowedTopologies": allowed}, StorageClass)


def using(*claims: str) -> Tree:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]}


def zones(plan: ProvisioningPlan) -> list[str]:
    assert not plan.unserved, plan.unserved
    return sorted(machine.zone for machine in plan.machines)


def test_a_machine_is_planned_where_the_volume_is() -> None:
    values = [ANY, volume("pv", "z2"), claim("data", to="pv"), pod("a", template="any", **using("data"))]
    assert zones(make_plan(values, (T4,))) == ["z2"]


def test_pods_with_volumes_in_several_zones_do_not_share_a_machine() -> None:
    values = [volume("pv2", "z2"), volume("pv3", "z3"), claim("two", to="pv2"), claim("three", to="pv3")]
    found = make_plan([*values, pod("a", **using("two")), pod("b", **using("three"))], (T4,))
    assert zones(found) == ["z2", "z3"]


def test_volumes_in_two_zones_fit_no_machine() -> None:
    values = [volume("pv2", "z2"), volume("pv3", "z3"), claim("two", to="pv2"), claim("three", to="pv3")]
    (unserved,) = make_plan([*values, pod("a", **using("two", "three"))], (T4,)).unserved
    assert unserved.code == "never"


def test_a_node_in_another_zone_does_not_fit() -> None:
    values = [volume("pv", "z2"), claim("data", to="pv"), pod("a", **using("data"))]
    assert zones(make_plan([*values, node("n", labels={ZONE: "z1"})], (T4,))) == ["z2"]
    assert not make_plan([*values, node("n", labels={ZONE: "z2"})], (T4,)).machines


def test_zone_labels_of_volumes_are_respected() -> None:
    old = volume("pv", "", labels={"failure-domain.beta.kubernetes.io/zone": "z2__z3"})
    values = [old, claim("data", to="pv"), pod("a", **using("data"), nodeSelector={ZONE: "z1"})]
    assert [unserved.code for unserved in make_plan(values, (T4,)).unserved] == ["never"]
    assert zones(make_plan([*values[:-1], pod("a", **using("data"), nodeSelector={ZONE: "z3"})], (T4,))) == ["z3"]


@pytest.mark.parametrize(
    ("key", "zone"),
    [
        ("topology.ebs.csi.aws.com/zone", "us-east-1c"), ("topology.gke.io/zone", "us-central1-f"),
        ("topology.disk.csi.azure.com/zone", "eastus-2"),
    ],
)  # fmt: skip
def test_zone_labels_of_csi_drivers_are_known(key: str, zone: str) -> None:
    values = [volume("pv", zone, key), claim("data", to="pv"), pod("a", **using("data"))]
    assert zones(make_plan(values, catalog())) == [zone]


def test_an_unprovisioned_volume_follows_its_pod_within_its_storage_class() -> None:
    late = storage_class("late", "z3", "z2")
    found = make_plan([late, claim("data", class_="late", uid="u"), pod("a", **using("data"))], (T4,))
    assert zones(found)[0] in ("z2", "z3")
    default = storage_class("default", "z3", annotations={"storageclass.kubernetes.io/is-default-class": "true"})
    assert zones(make_plan([late, default, claim("data"), pod("a", **using("data"))], (T4,))) == ["z3"]
    assert zones(make_plan([claim("data", class_="unknown"), pod("a", **using("data"))], (T4,))) == ["z1"]


def test_claims_that_the_scheduler_waits_for_are_reported() -> None:
    immediate = storage_class("immediate", binding="Immediate")
    values = [
        immediate, claim("unbound", class_="immediate", uid="u1"), claim("static", class_="", uid="u2"),
        claim("new", class_="immediate"), claim("going", to="pv", deletionTimestamp="2026-01-01T00:00:00Z"),
        *(pod(name, **using(name)) for name in ("unbound", "static", "new", "going", "missing")),
    ]  # fmt: skip
    found = {pod.pod.name: (pod.code, pod.text) for pod in make_plan(values, (T4,)).unserved}
    unbound = (
        "PersistentVolumeClaim ml/unbound is not bound yet, although StorageClass immediate has volumeBindingMode "
        "Immediate"
    )
    static = "PersistentVolumeClaim ml/static is not bound to a volume and has no StorageClass to provision one"
    assert found == {
        "unbound": ("not-ready", unbound),
        "static": ("not-ready", static),
        "going": ("not-ready", "PersistentVolumeClaim ml/going is being deleted"),
        "missing": ("not-ready", "PersistentVolumeClaim ml/missing does not exist"),
    }


def test_claims_that_controllers_create_are_not_missing() -> None:
    late = storage_class("late", "z2")
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {
        "replicas": 2, "template": template,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "late"}}],
    }  # fmt: skip
    db = to_value({"metadata": {"name": "db", "namespace": "ml"}, "spec": spec}, StatefulSet)
    assert zones(make_plan([late, db], (T4,))) == ["z2"]
    # An existing claim determines the zone.
    existing = [claim("data-db-1", to="pv"), volume("pv", "z3")]
    assert zones(make_plan([late, db, *existing], (T4,))) == ["z2", "z3"]
    ephemeral = {"volumeClaimTemplate": {"spec": {"storageClassName": "late"}}}
    assert zones(make_plan([late, pod("a", volumes=[{"name": "v", "ephemeral": ephemeral}])], (T4,))) == ["z2"]


def test_replicas_with_volumes_are_one_group() -> None:
    shared = [volume("pv", "z2"), claim("data", to="pv")]
    found = make_plan([*shared, *pods(40, cpu="1", **using("data"))], (instance("c", "", 0, "1", slots=20),))
    assert zones(found) == ["z2"] * 3
