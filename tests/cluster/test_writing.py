"""Writing: conflicts, preconditions, trials, patches of each kind, subresources, deletion and what goes with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.cluster.client import PatchKind
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, CONFIG_MAPS, DEVICE_CLASSES, DISRUPTION_BUDGETS, NODES, PODS
from tests.cluster.backends import Backend, Here, gone
from tests.cluster.objects import claim, config_map, owned, pod


def refused(code: int, reason: str, match: str | None = None) -> Any:
    """Expect a refusal."""
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


def test_a_name_is_taken_once(backend: Backend) -> None:
    async def story(here: Here) -> None:
        await here.client.create(CONFIG_MAPS, config_map("a"), here.namespace)
        with refused(409, "AlreadyExists", 'configmaps "a" already exists'):
            await here.client.create(CONFIG_MAPS, config_map("a"), here.namespace)
        generated = {"metadata": {"generateName": "a-"}}
        made = [await here.client.create(CONFIG_MAPS, generated, here.namespace) for _ in range(2)]
        assert len({tree["metadata"]["name"] for tree in made}) == 2

    backend.run(story)


def test_of_two_who_write_what_they_read_the_second_conflicts(backend: Backend) -> None:
    async def story(here: Here) -> None:
        read = await here.client.create(CONFIG_MAPS, config_map("a", x="1"), here.namespace)
        await here.other("other").update(CONFIG_MAPS, {**read, "data": {"x": "2"}})
        with refused(409, "Conflict", "the object has been modified"):
            await here.client.update(CONFIG_MAPS, {**read, "data": {"x": "3"}})
        metadata = {key: value for key, value in read["metadata"].items() if key != "resourceVersion"}
        assert (await here.client.update(CONFIG_MAPS, {**read, "metadata": metadata}))["data"] == {"x": "1"}

    backend.run(story)


def test_a_cluster_scoped_object_loses_its_namespace(backend: Backend) -> None:
    async def story(here: Here) -> None:
        name, client = f"class-of-{here.namespace}", here.client
        meta = {"name": name, "namespace": here.namespace}
        made = await client.create(DEVICE_CLASSES, {"metadata": meta, "spec": {}})
        try:
            labels = {"labels": {"form": "update"}}
            written = [
                await client.update(DEVICE_CLASSES, {**made, "metadata": {**made["metadata"], **meta, **labels}})
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
            assert not any("namespace" in tree["metadata"] for tree in (made, *written))
        finally:
            await client.delete(DEVICE_CLASSES, name)

    backend.run(story)


def test_an_object_in_another_namespace_is_refused(backend: Backend) -> None:
    async def story(here: Here) -> None:
        other = {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "default"},
        }  # fmt: skip
        await here.client.create(CONFIG_MAPS, config_map("a"), here.namespace)
        operation = {"op": "add", "path": "/metadata/namespace", "value": "default"}
        refusal = "the namespace of the provided object does not match the namespace sent on the request"
        with refused(400, "BadRequest", refusal):
            await here.client.create(CONFIG_MAPS, other, here.namespace)
        patches: tuple[tuple[PatchKind, Any], ...] = (("merge", other), ("strategic", other), ("json", [operation]))
        for form, patch in patches:
            with refused(400, "BadRequest", refusal):
                await here.client.patch(CONFIG_MAPS, "a", patch, here.namespace, kind=form)
        for name in ("a", "new"):
            with refused(400, "BadRequest", refusal):
                await here.client.patch(CONFIG_MAPS, name, other, here.namespace, kind="apply")

    backend.run(story)


def test_what_changes_nothing_is_no_write(backend: Backend) -> None:
    async def story(here: Here) -> None:
        made = await here.client.create(CONFIG_MAPS, config_map("a", x="1"), here.namespace)
        again = await here.client.update(CONFIG_MAPS, made)
        patched = await here.client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, here.namespace)
        assert {tree["metadata"]["resourceVersion"] for tree in (made, again, patched)} == {
            made["metadata"]["resourceVersion"]
        }

    backend.run(story)


def test_a_trial_answers_and_leaves_nothing(backend: Backend) -> None:
    async def story(here: Here) -> None:
        tried = await here.client.create(CONFIG_MAPS, config_map("a"), here.namespace, dry_run=True)
        assert tried["metadata"]["uid"]
        with refused(404, "NotFound"):
            await here.client.get(CONFIG_MAPS, "a", here.namespace)
        made = await here.client.create(CONFIG_MAPS, config_map("a", x="1"), here.namespace)
        assert (await here.client.update(CONFIG_MAPS, {**made, "data": {"x": "2"}}, dry_run=True))["data"] == {"x": "2"}
        await here.client.patch(CONFIG_MAPS, "a", {"data": {"x": "3"}}, here.namespace, dry_run=True)
        await here.client.delete(CONFIG_MAPS, "a", here.namespace, dry_run=True)
        assert await here.client.get(CONFIG_MAPS, "a", here.namespace) == made

    backend.run(story)


def test_a_deletion_is_of_the_very_object(backend: Backend) -> None:
    async def story(here: Here) -> None:
        made = await here.client.create(CONFIG_MAPS, config_map("a"), here.namespace)
        with refused(409, "Conflict", "UID in"):
            await here.client.delete(CONFIG_MAPS, "a", here.namespace, uid="00000000-0000-0000-0000-000000000000")
        with refused(409, "Conflict", "(?i)resourceversion in|resource ?version"):
            await here.client.delete(CONFIG_MAPS, "a", here.namespace, revision="1")
        metadata = made["metadata"]
        await here.client.delete(
            CONFIG_MAPS, "a", here.namespace, uid=metadata["uid"], revision=metadata["resourceVersion"]
        )
        with refused(404, "NotFound"):
            await here.client.delete(CONFIG_MAPS, "a", here.namespace)

    backend.run(story)


def test_a_merge_patch_sets_and_unsets(backend: Backend) -> None:
    async def story(here: Here) -> None:
        made = await here.client.create(CONFIG_MAPS, config_map("a", x="1", y="2"), here.namespace)
        patch = {"metadata": {"uid": made["metadata"]["uid"]}, "data": {"x": None, "z": "3"}}
        assert (await here.client.patch(CONFIG_MAPS, "a", patch, here.namespace))["data"] == {"y": "2", "z": "3"}
        wrong = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}
        with refused(422, "Invalid", "metadata.uid: Invalid value: .*: field is immutable"):
            await here.client.patch(CONFIG_MAPS, "a", wrong, here.namespace)
        old = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"x": "4"}}
        with refused(409, "Conflict"):
            await here.client.patch(CONFIG_MAPS, "a", old, here.namespace)

    backend.run(story)


def test_a_json_patch_is_done_whole_or_not_at_all(backend: Backend) -> None:
    async def story(here: Here) -> None:
        await here.client.create(CONFIG_MAPS, config_map("a", x="1"), here.namespace)
        patch = [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "replace", "path": "/data/x", "value": "2"}]
        done = await here.client.patch(CONFIG_MAPS, "a", patch, here.namespace, kind="json")
        assert done["data"] == {"x": "2"}
        with pytest.raises(StatusError) as raised:
            await here.client.patch(CONFIG_MAPS, "a", list(reversed(patch)), here.namespace, kind="json")
        assert raised.value.code == 422
        assert (await here.client.get(CONFIG_MAPS, "a", here.namespace))["data"] == {"x": "2"}

    backend.run(story)


def test_a_strategic_patch_knows_lists(backend: Backend) -> None:
    async def story(here: Here) -> None:
        await here.client.create(PODS, pod("a"), here.namespace)
        patch = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
        done = await here.client.patch(PODS, "a", patch, here.namespace, kind="strategic")
        (container,) = done["spec"]["containers"]
        assert (container["name"], container["image"]) == ("main", "busybox:2")
        assert container["terminationMessagePath"]  # what the patch does not say is still there

    backend.run(story)


def test_whoever_applies_owns_fields(backend: Backend) -> None:
    async def story(here: Here) -> None:
        def applied(**data: str) -> Any:
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}

        made = await here.client.patch(CONFIG_MAPS, "a", applied(x="1", y="1"), here.namespace, kind="apply")
        assert made["data"] == {"x": "1", "y": "1"}
        other = here.other("other")
        with refused(409, "Conflict", "conflict"):
            await other.patch(CONFIG_MAPS, "a", applied(x="2"), here.namespace, kind="apply")
        await other.patch(CONFIG_MAPS, "a", applied(x="2"), here.namespace, kind="apply", force=True)
        done = await here.client.patch(CONFIG_MAPS, "a", applied(), here.namespace, kind="apply")
        assert done["data"] == {"x": "2"}

    backend.run(story)


def test_status_and_the_rest_are_written_apart(backend: Backend) -> None:
    async def story(here: Here) -> None:
        made = await here.client.create(CLAIMS, claim("a"), here.namespace)
        # No pod, or a controller would look whether it is there.
        mine = {"apiGroup": "example.com", "resource": "things", "name": "p", "uid": "1"}
        result = {"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "x"}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [mine]}
        updated = await here.client.update(CLAIMS, {**made, "status": status}, subresource="status")
        assert updated["status"]["reservedFor"] == [mine]
        (kept,) = updated["status"]["allocation"]["devices"]["results"]
        assert result.items() <= kept.items()
        # Written to the claim itself, the status stays what it was.
        labelled = {**updated, "status": {}, "metadata": {**updated["metadata"], "labels": {"a": "b"}}}
        again = await here.client.update(CLAIMS, labelled)
        assert (again["status"], again["metadata"]["labels"]) == (updated["status"], {"a": "b"})
        # The same write again, as after an answer that was lost, conflicts: nobody takes it for a new one.
        with refused(409, "Conflict"):
            await here.client.update(CLAIMS, {**made, "status": status}, subresource="status")
        others = [mine, {**mine, "name": "q", "uid": "2"}]
        patch = {"status": {"reservedFor": others}}
        patched = await here.client.patch(CLAIMS, "a", patch, here.namespace, subresource="status")
        assert patched["status"] == {**updated["status"], "reservedFor": others}
        assert (await here.client.get(CLAIMS, "a", here.namespace, subresource="status"))["status"] == patched["status"]

    backend.run(story)


def test_a_pod_is_bound_once(backend: Backend) -> None:
    async def story(here: Here) -> None:
        made = await here.client.create(PODS, pod("a"), here.namespace)
        for node in (f"{here.namespace}-1", f"{here.namespace}-2"):
            await here.client.create(NODES, {"metadata": {"name": node}})
        try:
            body = {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a", "uid": made["metadata"]["uid"]},
                "target": {"apiVersion": "v1", "kind": "Node", "name": f"{here.namespace}-1"},
            }  # fmt: skip
            await here.client.create(PODS, body, here.namespace, name="a", subresource="binding")
            bound = await here.client.get(PODS, "a", here.namespace)
            assert bound["spec"]["nodeName"] == f"{here.namespace}-1"
            body["target"] = {"apiVersion": "v1", "kind": "Node", "name": f"{here.namespace}-2"}
            with refused(409, "Conflict", "already assigned to node"):
                await here.client.create(PODS, body, here.namespace, name="a", subresource="binding")
            await here.client.delete(PODS, "a", here.namespace, grace_seconds=0)
        finally:
            for node in (f"{here.namespace}-1", f"{here.namespace}-2"):
                await here.client.delete(NODES, node)

    backend.run(story)


def test_an_eviction_asks_the_budget(backend: Backend) -> None:
    async def story(here: Here) -> None:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
        made = await here.client.create(PODS, pod("a", app="web"), here.namespace)
        ready = {"type": "Ready", "status": "True"}
        await here.client.patch(
            PODS, "a", {"metadata": {"uid": made["metadata"]["uid"]}, "status": {"phase": "Running",
            "conditions": [ready]}}, here.namespace, subresource="status",
        )  # fmt: skip
        budget = {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
        await here.client.create(DISRUPTION_BUDGETS, budget, here.namespace)
        while True:
            found = await here.client.get(DISRUPTION_BUDGETS, "a", here.namespace)
            if (found.get("status") or {}).get("currentHealthy") == 1:
                break
            await asyncio.sleep(0.02)
        with refused(429, "TooManyRequests", "disruption budget"):
            await here.client.create(PODS, eviction, here.namespace, name="a", subresource="eviction")
        await here.client.delete(DISRUPTION_BUDGETS, "a", here.namespace)
        await here.client.create(PODS, eviction, here.namespace, name="a", subresource="eviction")
        await gone(here.client, PODS, "a", here.namespace)

    backend.run(story)


def test_a_finalizer_holds_what_is_deleted(backend: Backend) -> None:
    async def story(here: Here) -> None:
        held = config_map("a")
        held["metadata"]["finalizers"] = ["example.com/held"]
        await here.client.create(CONFIG_MAPS, held, here.namespace)
        await here.client.delete(CONFIG_MAPS, "a", here.namespace)
        found = await here.client.get(CONFIG_MAPS, "a", here.namespace)
        assert found["metadata"]["deletionTimestamp"]
        await here.client.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, here.namespace)
        await gone(here.client, CONFIG_MAPS, "a", here.namespace)

    backend.run(story)


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_what_is_owned_goes_as_it_is_asked(backend: Backend, propagation: Any) -> None:
    async def story(here: Here) -> None:
        owner = await here.client.create(CONFIG_MAPS, config_map("owner"), here.namespace)
        child = owned("child", owner, "ConfigMap", blocks=True)
        child["metadata"]["finalizers"] = ["example.com/held"]
        await here.client.create(CONFIG_MAPS, child, here.namespace)
        await here.client.delete(CONFIG_MAPS, "owner", here.namespace, propagation=propagation)
        if propagation == "Foreground":  # the owner waits for what blocks it
            while "deletionTimestamp" not in (await here.client.get(CONFIG_MAPS, "child", here.namespace))["metadata"]:
                await asyncio.sleep(0.02)
            assert (await here.client.get(CONFIG_MAPS, "owner", here.namespace))["metadata"]["deletionTimestamp"]
        else:
            await gone(here.client, CONFIG_MAPS, "owner", here.namespace)
        if propagation == "Orphan":
            assert "ownerReferences" not in (await here.client.get(CONFIG_MAPS, "child", here.namespace))["metadata"]
            return
        while "deletionTimestamp" not in (await here.client.get(CONFIG_MAPS, "child", here.namespace))["metadata"]:
            await asyncio.sleep(0.02)
        await here.client.patch(CONFIG_MAPS, "child", {"metadata": {"finalizers": None}}, here.namespace)
        await gone(here.client, CONFIG_MAPS, "owner", here.namespace)
        await gone(here.client, CONFIG_MAPS, "child", here.namespace)

    backend.run(story)


def test_what_is_wrong_is_told_with_its_field(backend: Backend) -> None:
    async def story(here: Here) -> None:
        wrong = claim("a")
        wrong["spec"]["devices"]["requests"][0]["name"] = "Not A Label"
        with refused(422, "Invalid", r"spec\.devices\.requests\[0\]\.name"):
            await here.client.create(CLAIMS, wrong, here.namespace)

    backend.run(story)
