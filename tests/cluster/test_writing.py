"""Writing: conflicts, preconditions, dry runs, patches of each kind, subresources, deletion and its propagation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.cluster.client import PatchKind
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, CONFIG_MAPS, DEVICE_CLASSES, DISRUPTION_BUDGETS, NODES, PODS
from tests.cluster.backends import Backend, ScenarioInput, wait_deleted
from tests.cluster.objects import claim, config_map, owned, pod


def rejected(code: int, reason: str, match: str | None = None) -> Any:
    """Expect a rejection."""
    return _Refused(code, reason, match)


class _Refused:
    def __init__(self, code: int, reason: str, match: str | None) -> None:
        self._expected = code, reason
        self._raises = pytest.raises(StatusError, match=match)

    def __enter__(self) -> None:
        self._info = self._raises.__enter__()

    def __exit__(self, *error: Any) -> bool:
        swallowed = bool(self._raises.__exit__(*error))
        assert (self._info.value.code, self._info.value.reason) == self._expected
        return swallowed


def test_a_name_can_be_created_once(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        await given.client.create(CONFIG_MAPS, config_map("a"), given.namespace)
        with rejected(409, "AlreadyExists", 'configmaps "a" already exists'):
            await given.client.create(CONFIG_MAPS, config_map("a"), given.namespace)
        generated = {"metadata": {"generateName": "a-"}}
        created = [await given.client.create(CONFIG_MAPS, generated, given.namespace) for _ in range(2)]
        assert len({tree["metadata"]["name"] for tree in created}) == 2

    backend.run(scenario)


def test_the_second_of_two_concurrent_updates_conflicts(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        read = await given.client.create(CONFIG_MAPS, config_map("a", x="1"), given.namespace)
        await given.other_client("other").update(CONFIG_MAPS, {**read, "data": {"x": "2"}})
        with rejected(409, "Conflict", "the object has been modified"):
            await given.client.update(CONFIG_MAPS, {**read, "data": {"x": "3"}})
        metadata = {key: value for key, value in read["metadata"].items() if key != "resourceVersion"}
        assert (await given.client.update(CONFIG_MAPS, {**read, "metadata": metadata}))["data"] == {"x": "1"}

    backend.run(scenario)


def test_a_cluster_scoped_object_loses_its_namespace(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        name, client = f"class-of-{given.namespace}", given.client
        meta = {"name": name, "namespace": given.namespace}
        created = await client.create(DEVICE_CLASSES, {"metadata": meta, "spec": {}})
        try:
            labels = {"labels": {"form": "update"}}
            written = [
                await client.update(DEVICE_CLASSES, {**created, "metadata": {**created["metadata"], **meta, **labels}})
            ]
            for form in ("merge", "strategic"):
                patch = {"metadata": {"namespace": "other", "labels": {"form": form}}}
                written.append(await client.patch(DEVICE_CLASSES, name, patch, kind=form))
            operations = [
                {"op": "add", "path": "/metadata/namespace", "value": "other"},
                {"op": "add", "path": "/metadata/labels/form", "value": "json"},
            ]
            written.append(await client.patch(DEVICE_CLASSES, name, operations, kind="json"))
            applied = {
                "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
                "metadata": {**meta, "labels": {"form": "apply"}}, "spec": {},
            }  # fmt: skip
            written += [await client.patch(DEVICE_CLASSES, name, applied, kind="apply", force=True) for _ in range(2)]
            assert written[-1] == written[-2]
            forms = [tree["metadata"]["labels"]["form"] for tree in written]
            assert forms == ["update", "merge", "strategic", "json", "apply", "apply"]
            assert not any("namespace" in tree["metadata"] for tree in (created, *written))
        finally:
            await client.delete(DEVICE_CLASSES, name)

    backend.run(scenario)


def test_an_object_in_another_namespace_is_rejected(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        other = {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "default"},
        }  # fmt: skip
        await given.client.create(CONFIG_MAPS, config_map("a"), given.namespace)
        operation = {"op": "add", "path": "/metadata/namespace", "value": "default"}
        refusal = "the namespace of the provided object does not match the namespace sent on the request"
        with rejected(400, "BadRequest", refusal):
            await given.client.create(CONFIG_MAPS, other, given.namespace)
        patches: tuple[tuple[PatchKind, Any], ...] = (("merge", other), ("strategic", other), ("json", [operation]))
        for form, patch in patches:
            with rejected(400, "BadRequest", refusal):
                await given.client.patch(CONFIG_MAPS, "a", patch, given.namespace, kind=form)
        for name in ("a", "new"):
            with rejected(400, "BadRequest", refusal):
                await given.client.patch(CONFIG_MAPS, name, other, given.namespace, kind="apply")

    backend.run(scenario)


def test_an_update_without_changes_is_no_write(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        created = await given.client.create(CONFIG_MAPS, config_map("a", x="1"), given.namespace)
        again = await given.client.update(CONFIG_MAPS, created)
        patched = await given.client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, given.namespace)
        assert {tree["metadata"]["resourceVersion"] for tree in (created, again, patched)} == {
            created["metadata"]["resourceVersion"]
        }

    backend.run(scenario)


def test_a_dry_run_writes_nothing(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        tried = await given.client.create(CONFIG_MAPS, config_map("a"), given.namespace, dry_run=True)
        assert tried["metadata"]["uid"]
        with rejected(404, "NotFound"):
            await given.client.get(CONFIG_MAPS, "a", given.namespace)
        created = await given.client.create(CONFIG_MAPS, config_map("a", x="1"), given.namespace)
        assert (await given.client.update(CONFIG_MAPS, {**created, "data": {"x": "2"}}, dry_run=True))["data"] == {
            "x": "2"
        }
        await given.client.patch(CONFIG_MAPS, "a", {"data": {"x": "3"}}, given.namespace, dry_run=True)
        await given.client.delete(CONFIG_MAPS, "a", given.namespace, dry_run=True)
        assert await given.client.get(CONFIG_MAPS, "a", given.namespace) == created

    backend.run(scenario)


def test_a_deletion_checks_its_preconditions(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        created = await given.client.create(CONFIG_MAPS, config_map("a"), given.namespace)
        with rejected(409, "Conflict", "UID in"):
            await given.client.delete(CONFIG_MAPS, "a", given.namespace, uid="00000000-0000-0000-0000-000000000000")
        with rejected(409, "Conflict", "(?i)resourceversion in|resource ?version"):
            await given.client.delete(CONFIG_MAPS, "a", given.namespace, revision="1")
        metadata = created["metadata"]
        await given.client.delete(
            CONFIG_MAPS, "a", given.namespace, uid=metadata["uid"], revision=metadata["resourceVersion"]
        )
        with rejected(404, "NotFound"):
            await given.client.delete(CONFIG_MAPS, "a", given.namespace)

    backend.run(scenario)


def test_a_merge_patch_sets_and_unsets(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        created = await given.client.create(CONFIG_MAPS, config_map("a", x="1", y="2"), given.namespace)
        patch = {"metadata": {"uid": created["metadata"]["uid"]}, "data": {"x": None, "z": "3"}}
        assert (await given.client.patch(CONFIG_MAPS, "a", patch, given.namespace))["data"] == {"y": "2", "z": "3"}
        wrong = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}
        with rejected(422, "Invalid", "metadata.uid: Invalid value: .*: field is immutable"):
            await given.client.patch(CONFIG_MAPS, "a", wrong, given.namespace)
        old = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {"x": "4"}}
        with rejected(409, "Conflict"):
            await given.client.patch(CONFIG_MAPS, "a", old, given.namespace)

    backend.run(scenario)


def test_a_json_patch_is_atomic(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        await given.client.create(CONFIG_MAPS, config_map("a", x="1"), given.namespace)
        patch = [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "replace", "path": "/data/x", "value": "2"}]
        done = await given.client.patch(CONFIG_MAPS, "a", patch, given.namespace, kind="json")
        assert done["data"] == {"x": "2"}
        with pytest.raises(StatusError) as raised:
            await given.client.patch(CONFIG_MAPS, "a", list(reversed(patch)), given.namespace, kind="json")
        assert raised.value.code == 422
        assert (await given.client.get(CONFIG_MAPS, "a", given.namespace))["data"] == {"x": "2"}

    backend.run(scenario)


def test_a_strategic_merge_patch_merges_lists(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        await given.client.create(PODS, pod("a"), given.namespace)
        patch = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
        done = await given.client.patch(PODS, "a", patch, given.namespace, kind="strategic")
        (container,) = done["spec"]["containers"]
        assert (container["name"], container["image"]) == ("main", "busybox:2")
        assert container["terminationMessagePath"]  # the fields that the patch does not contain are unchanged

    backend.run(scenario)


def test_server_side_apply_owns_fields(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        def applied(**data: str) -> Any:
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}

        created = await given.client.patch(CONFIG_MAPS, "a", applied(x="1", y="1"), given.namespace, kind="apply")
        assert created["data"] == {"x": "1", "y": "1"}
        other = given.other_client("other")
        with rejected(409, "Conflict", "conflict"):
            await other.patch(CONFIG_MAPS, "a", applied(x="2"), given.namespace, kind="apply")
        await other.patch(CONFIG_MAPS, "a", applied(x="2"), given.namespace, kind="apply", force=True)
        done = await given.client.patch(CONFIG_MAPS, "a", applied(), given.namespace, kind="apply")
        assert done["data"] == {"x": "2"}

    backend.run(scenario)


def test_status_is_written_through_its_subresource(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        created = await given.client.create(CLAIMS, claim("a"), given.namespace)
        # No pod, because a controller would check that it exists.
        own_status = {"apiGroup": "example.com", "resource": "things", "name": "p", "uid": "1"}
        result = {"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "x"}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [own_status]}
        updated = await given.client.update(CLAIMS, {**created, "status": status}, subresource="status")
        assert updated["status"]["reservedFor"] == [own_status]
        (kept,) = updated["status"]["allocation"]["devices"]["results"]
        assert result.items() <= kept.items()
        # A write to the claim itself leaves the status unchanged.
        labelled = {**updated, "status": {}, "metadata": {**updated["metadata"], "labels": {"a": "b"}}}
        again = await given.client.update(CLAIMS, labelled)
        assert (again["status"], again["metadata"]["labels"]) == (updated["status"], {"a": "b"})
        # The same write again, as after a lost answer, conflicts: it is not taken for a new one.
        with rejected(409, "Conflict"):
            await given.client.update(CLAIMS, {**created, "status": status}, subresource="status")
        others = [own_status, {**own_status, "name": "q", "uid": "2"}]
        patch = {"status": {"reservedFor": others}}
        patched = await given.client.patch(CLAIMS, "a", patch, given.namespace, subresource="status")
        assert patched["status"] == {**updated["status"], "reservedFor": others}
        assert (await given.client.get(CLAIMS, "a", given.namespace, subresource="status"))["status"] == patched[
            "status"
        ]

    backend.run(scenario)


def test_a_pod_is_bound_once(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        created = await given.client.create(PODS, pod("a"), given.namespace)
        for node in (f"{given.namespace}-1", f"{given.namespace}-2"):
            await given.client.create(NODES, {"metadata": {"name": node}})
        try:
            body = {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a", "uid": created["metadata"]["uid"]},
                "target": {"apiVersion": "v1", "kind": "Node", "name": f"{given.namespace}-1"},
            }  # fmt: skip
            await given.client.create(PODS, body, given.namespace, name="a", subresource="binding")
            bound = await given.client.get(PODS, "a", given.namespace)
            assert bound["spec"]["nodeName"] == f"{given.namespace}-1"
            body["target"] = {"apiVersion": "v1", "kind": "Node", "name": f"{given.namespace}-2"}
            with rejected(409, "Conflict", "already assigned to node"):
                await given.client.create(PODS, body, given.namespace, name="a", subresource="binding")
            await given.client.delete(PODS, "a", given.namespace, grace_seconds=0)
        finally:
            for node in (f"{given.namespace}-1", f"{given.namespace}-2"):
                await given.client.delete(NODES, node)

    backend.run(scenario)


def test_an_eviction_respects_the_budget(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
        created = await given.client.create(PODS, pod("a", app="web"), given.namespace)
        ready = {"type": "Ready", "status": "True"}
        await given.client.patch(
            PODS, "a", {"metadata": {"uid": created["metadata"]["uid"]}, "status": {"phase": "Running",
            "conditions": [ready]}}, given.namespace, subresource="status",
        )  # fmt: skip
        budget = {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
        await given.client.create(DISRUPTION_BUDGETS, budget, given.namespace)
        while True:
            found = await given.client.get(DISRUPTION_BUDGETS, "a", given.namespace)
            if (found.get("status") or {}).get("currentHealthy") == 1:
                break
            await asyncio.sleep(0.02)
        with rejected(429, "TooManyRequests", "disruption budget"):
            await given.client.create(PODS, eviction, given.namespace, name="a", subresource="eviction")
        await given.client.delete(DISRUPTION_BUDGETS, "a", given.namespace)
        await given.client.create(PODS, eviction, given.namespace, name="a", subresource="eviction")
        await wait_deleted(given.client, PODS, "a", given.namespace)

    backend.run(scenario)


def test_a_finalizer_delays_a_deletion(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        held = config_map("a")
        held["metadata"]["finalizers"] = ["example.com/held"]
        await given.client.create(CONFIG_MAPS, held, given.namespace)
        await given.client.delete(CONFIG_MAPS, "a", given.namespace)
        found = await given.client.get(CONFIG_MAPS, "a", given.namespace)
        assert found["metadata"]["deletionTimestamp"]
        await given.client.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, given.namespace)
        await wait_deleted(given.client, CONFIG_MAPS, "a", given.namespace)

    backend.run(scenario)


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_dependents_are_deleted_by_the_propagation_policy(backend: Backend, propagation: Any) -> None:
    async def scenario(given: ScenarioInput) -> None:
        owner = await given.client.create(CONFIG_MAPS, config_map("owner"), given.namespace)
        child = owned("child", owner, "ConfigMap", blocks=True)
        child["metadata"]["finalizers"] = ["example.com/held"]
        await given.client.create(CONFIG_MAPS, child, given.namespace)
        await given.client.delete(CONFIG_MAPS, "owner", given.namespace, propagation=propagation)
        if propagation == "Foreground":  # the owner waits for the dependents that block it
            while (
                "deletionTimestamp" not in (await given.client.get(CONFIG_MAPS, "child", given.namespace))["metadata"]
            ):
                await asyncio.sleep(0.02)
            assert (await given.client.get(CONFIG_MAPS, "owner", given.namespace))["metadata"]["deletionTimestamp"]
        else:
            await wait_deleted(given.client, CONFIG_MAPS, "owner", given.namespace)
        if propagation == "Orphan":
            assert "ownerReferences" not in (await given.client.get(CONFIG_MAPS, "child", given.namespace))["metadata"]
            return
        while "deletionTimestamp" not in (await given.client.get(CONFIG_MAPS, "child", given.namespace))["metadata"]:
            await asyncio.sleep(0.02)
        await given.client.patch(CONFIG_MAPS, "child", {"metadata": {"finalizers": None}}, given.namespace)
        await wait_deleted(given.client, CONFIG_MAPS, "owner", given.namespace)
        await wait_deleted(given.client, CONFIG_MAPS, "child", given.namespace)

    backend.run(scenario)


def test_a_validation_error_names_the_field(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        wrong = claim("a")
        wrong["spec"]["devices"]["requests"][0]["name"] = "Not A Label"
        with rejected(422, "Invalid", r"spec\.devices\.requests\[0\]\.name"):
            await given.client.create(CLAIMS, wrong, given.namespace)

    backend.run(scenario)
