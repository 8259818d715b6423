"""Data of a lab that is opened with another release."""

from __future__ import annotations

import asyncio
from pathlib import Path

from allotment.apiserver.stored_versions import convert_stored
from allotment.model.features import Features
from tests.unit.apiserver.served import Served

RULES = "/apis/resource.k8s.io/{}/devicetaintrules"
WORKLOADS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/shop/workloads"
GROUPS = "/apis/scheduling.k8s.io/{}/namespaces/shop/podgroups"
GATES = {"DRADeviceTaintRules": True, "GenericWorkload": True}
RULE = {
    "metadata": {"name": "r"},
    "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoSchedule"}},
}
WORKLOAD = {
    "metadata": {"name": "w"},
    "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]},
}
TEMPLATE = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
GROUP = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}, "podGroupTemplateRef": TEMPLATE}}


def test_objects_are_converted_to_the_storage_versions_of_the_release(tmp_path: Path) -> None:
    async def scenario() -> None:
        older = await Served(tmp_path / "data", Features("1.36", GATES)).started()
        assert (await older.post(RULES.format("v1beta2"), RULE)).code == 201
        assert (await older.post(WORKLOADS, WORKLOAD)).code == 201
        assert (await older.post(GROUPS.format("v1alpha2"), GROUP)).code == 201
        await older.store.close()

        newer = Served(tmp_path / "data", Features("1.37", GATES))
        convert_stored(newer.store, newer.api.catalog)
        rule = (await newer.get(f"{RULES.format('v1')}/r")).body
        assert rule["apiVersion"] == "resource.k8s.io/v1"
        assert rule["spec"]["taint"]["effect"] == "NoSchedule"
        group = (await newer.get(f"{GROUPS.format('v1beta1')}/g")).body
        assert group["apiVersion"] == "scheduling.k8s.io/v1beta1"
        assert group["spec"]["workloadRef"] == {"workloadName": "w", "templateName": "t"}
        revision = newer.store.revision
        convert_stored(newer.store, newer.api.catalog)
        assert newer.store.revision == revision
        await newer.store.close()

    asyncio.run(scenario())


def test_fields_that_the_release_does_not_have_are_removed(tmp_path: Path) -> None:
    """As kube-apiserver does when it decodes objects of a newer release."""

    async def scenario() -> None:
        slices = "/apis/resource.k8s.io/v1/resourceslices"
        pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": [{"name": "gpu"}]}
        gates = {"DRAOptionalNodeOperations": True}
        newer = await Served(tmp_path / "data", Features("1.37", gates)).started()
        new = {"metadata": {"name": "new"}, "spec": {**spec, "skipNodeOperations": ["*"]}}
        assert "skipNodeOperations" in (await newer.post(slices, new)).body["spec"]
        unchanged = (await newer.post(slices, {"metadata": {"name": "old"}, "spec": spec})).body
        await newer.store.close()

        older = Served(tmp_path / "data", Features("1.36", gates))
        convert_stored(older.store, older.api.catalog)
        found = (await older.get(f"{slices}/new")).body
        assert found["spec"] == unchanged["spec"]
        assert (await older.get(f"{slices}/old")).body == unchanged
        await older.store.close()

    asyncio.run(scenario())
