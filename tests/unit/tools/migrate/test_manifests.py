"""Manifests after the migration: only the required parts change, and the rest is parsed to the same values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.loading import load_text
from allotment.model.serialization import to_yaml
from allotment.tools.migrate.claim_plan import ClaimPlan, ClaimRequest, DriverConfig, RequestKind
from allotment.tools.migrate.manifest_writer import claim_text
from allotment.tools.migrate.node_affinity import Condition
from allotment.tools.migrate.run import migrate
from tests.unit.tools.migrate.manifests import migrated, target, workload

GPU = {"nvidia.com/gpu": 1}
T4 = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["Tesla-T4"]}
HOPPER = {"key": "nvidia.com/gpu.family", "operator": "In", "values": ["hopper"]}
COUNT = {"key": "nvidia.com/gpu.count", "operator": "In", "values": ["8"]}
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}


def affinity(*terms: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Required node affinity of these terms."""
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required, **more}}


def pod_after(text: str) -> dict[str, Any]:
    """The pod of a file with one Pod, afterwards."""
    spec = migrated(text).after[0].tree["spec"]
    assert isinstance(spec, dict)
    return spec


# --- nodeSelector and affinity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (affinity([T4]), None),
        (affinity([T4, ZONE]), affinity([ZONE])),
        (affinity([T4, COUNT]), affinity([COUNT])),
        (affinity([T4], [HOPPER]), None),
        (affinity([T4], [HOPPER, ZONE]), affinity([T4], [HOPPER, ZONE])),
        (affinity([ZONE]), affinity([ZONE])),
        ({**affinity([T4]), "podAntiAffinity": {}}, {"podAntiAffinity": {}}),
    ],
)
def test_affinity_after_the_migration(before: dict[str, Any], after: dict[str, Any] | None) -> None:
    selector = {"nvidia.com/gpu.family": "turing", "disk": "ssd"}
    pod = pod_after(workload("Pod", limits=GPU, affinity=before, nodeSelector=selector))
    assert pod.get("affinity") == after
    assert pod["nodeSelector"] == {"disk": "ssd"}


def test_alternative_terms_become_one_expression() -> None:
    text = migrated(workload("Pod", limits=GPU, affinity=affinity([T4], [HOPPER]))).new_objects[0].text
    assert "|| (device" in text
    (template,) = load_text(text).documents
    (selector,) = template.tree["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"]
    assert selector["cel"]["expression"] == (
        '(device.attributes["gpu.nvidia.com"].productName == "Tesla T4") '
        '|| (device.attributes["gpu.nvidia.com"].architecture == "Hopper")'
    )


def test_a_term_that_every_gpu_meets_is_removed() -> None:
    present = {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}
    text = workload("Pod", limits={"nvidia.com/mig-1g.5gb": 1}, affinity=affinity([T4], [present]))
    assert "affinity" not in pod_after(text)
    assert "productName" not in migrated(text).new_objects[0].text


def test_match_fields_are_kept() -> None:
    terms = affinity([T4])
    required = terms["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
    required["nodeSelectorTerms"][0]["matchFields"] = fields
    pod = pod_after(workload("Pod", limits=GPU, affinity=terms))
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [{"matchFields": fields}]


# --- containers and claims -------------------------------------------------------------------------------------------


def test_other_limits_are_kept() -> None:
    pod = pod_after(workload("Pod", limits={"cpu": 2, "nvidia.com/mig-1g.5gb": 1, "example.com/nic": 1}))
    resources = pod["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": 2, "example.com/nic": 1}, "claims": [{"name": "gpu"}]}


def test_existing_claims_are_kept() -> None:
    container = {
        "name": "main",
        "image": "i",
        "resources": {"claims": [{"name": "gpu"}], "limits": {"nvidia.com/mig-1g.5gb": 1}},
    }
    claims = [{"name": "gpu", "resourceClaimName": "nic"}]
    pod = pod_after(workload("Pod", containers=[container], resourceClaims=claims))
    assert pod["containers"][0]["resources"]["claims"] == [{"name": "gpu"}, {"name": "gpu-2"}]
    assert pod["resourceClaims"] == [*claims, {"name": "gpu-2", "resourceClaimTemplateName": "web-gpu"}]


def test_a_name_in_use_is_not_reused() -> None:
    taken = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: web-gpu}\nspec: {spec: {}}\n"
    made = migrated(taken, workload(limits={"nvidia.com/mig-1g.5gb": 1})).new_objects
    assert [new_object.name for new_object in made] == ["web-gpu-2"]


def test_equal_requests_of_one_namespace_share_a_template() -> None:
    migration = migrated(*(workload(name=name, limits={"nvidia.com/mig-1g.5gb": 1}) for name in "ab"))
    assert [workload_.claim_name for workload_ in migration.workloads] == ["mig-1g-5gb", "mig-1g-5gb"]
    assert len(migration.new_objects) == 1


# --- files -----------------------------------------------------------------------------------------------------------

MIG_POD = workload("Pod", name="a", limits={"nvidia.com/mig-1g.5gb": 1})


def test_line_endings_are_kept() -> None:
    text = MIG_POD.replace("\n", "\r\n")
    after = migrate(load_text(text, "a.yaml").documents, target()).texts["a.yaml"]
    assert "\r\n---\r\n# For Pod default/a" in after
    assert "\n" not in after.replace("\r\n", "")


def test_items_of_a_list_are_migrated() -> None:
    items = [
        document.tree for document in load_text(MIG_POD + "---\n" + MIG_POD.replace("name: a", "name: b")).documents
    ]
    text = "# the list\n" + to_yaml([{"apiVersion": "v1", "kind": "List", "items": items}])
    migration = migrate(load_text(text, "a.yaml").documents, target())
    assert migration.decided
    assert migration.texts["a.yaml"].startswith("# the list\n")
    assert [d.kind for d in migration.after] == ["Pod", "Pod", "ResourceClaimTemplate"]


def test_new_objects_for_a_json_file_are_written_to_another_file() -> None:
    text = json.dumps(load_text(MIG_POD).documents[0].tree, indent=2)
    migration = migrate(load_text(text, "a.json").documents, target())
    assert migration.decided
    assert sorted(migration.texts) == ["a-claims.yaml", "a.json"]
    json.loads(migration.texts["a.json"])
    assert [d.kind for d in migration.after] == ["Pod", "ResourceClaimTemplate"]


def test_a_file_without_requests_is_unchanged() -> None:
    migration = migrated(workload(limits={"cpu": 1}))
    assert (migration.workloads, migration.texts, migration.decided) == ((), {}, True)


# --- new objects -----------------------------------------------------------------------------------------------------

words = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
texts = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=60)
kinds = st.builds(
    RequestKind,
    class_name=words,
    admin=st.just(False),
    conditions=st.lists(st.builds(Condition, texts.map(str.strip).filter(bool), texts), max_size=2).map(tuple),
    capacity=st.lists(st.tuples(words, texts.map(str.strip).filter(bool)), max_size=2, unique_by=lambda x: x[0]).map(
        tuple
    ),
)
requests = st.lists(st.builds(ClaimRequest, words, kinds, st.integers(1, 9)), min_size=1, max_size=3).map(tuple)
configs = st.lists(
    st.builds(DriverConfig, words, st.dictionaries(words, texts.map(str.strip).filter(bool), min_size=1), texts),
    max_size=1,
)


@given(requests, configs.map(tuple), st.sampled_from(("ResourceClaim", "ResourceClaimTemplate")), texts)
def test_the_manifest_matches_the_plan(
    requests: tuple[ClaimRequest, ...], configs: tuple[DriverConfig, ...], kind: str, why: str
) -> None:
    loaded = load_text(claim_text(kind, "a", "yes", ClaimPlan(requests, configs), why))
    assert not loaded.problems
    (document,) = loaded.documents
    assert document.tree["metadata"] == {"name": "a", "namespace": "yes"}
    spec = document.tree["spec"] if kind == "ResourceClaim" else document.tree["spec"]["spec"]
    for written, request in zip(spec["devices"]["requests"], requests, strict=True):
        exactly = written["exactly"]
        assert (written["name"], exactly["deviceClassName"]) == (request.name, request.kind.class_name)
        assert exactly.get("count", 1) == request.number
        expressions = [selector["cel"]["expression"] for selector in exactly.get("selectors", [])]
        assert expressions == [condition.expression for condition in request.kind.conditions]
        assert exactly.get("capacity", {}).get("requests", {}) == dict(request.kind.capacity)
    for written, config in zip(spec["devices"].get("config", []), configs, strict=True):
        assert written["opaque"] == {"driver": config.driver, "parameters": config.parameters}
