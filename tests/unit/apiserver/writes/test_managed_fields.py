"""Field owners after creates, updates and patches."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.writes.managed_fields import updated_entries
from allotment.model.fields import shape_of
from allotment.model.trees import Tree

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def config_map(data: dict[str, str], managed: list[Tree] | None = None, **metadata: Any) -> Tree:
    meta: Tree = {"name": "a", "uid": "1", **metadata}
    if managed is not None:
        meta["managedFields"] = managed
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": data}


def written(old: Tree | None, new: Tree, manager: str = "m", now: str = EARLY, subresource: str = "") -> list[Tree]:
    shape = shape_of(new["apiVersion"], new["kind"])
    return updated_entries(
        old, new, shape, manager=manager, api_version=new["apiVersion"], subresource=subresource, now=now
    )


def created(data: dict[str, str], manager: str = "m") -> Tree:
    tree = config_map(data)
    tree["metadata"]["managedFields"] = written(None, tree, manager)
    return tree


def test_a_create_owns_what_it_sets() -> None:
    assert written(None, config_map({"x": "1"}, labels={"l": "1"})) == [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "time": EARLY,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:x": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}},
        }
    ]


def test_a_changed_field_moves_to_the_manager_that_changed_it() -> None:
    live = created({"x": "1", "y": "1"})
    entries = written(live, {**live, "data": {"x": "2", "y": "1", "z": "1"}}, "other", LATE)
    assert [(entry["manager"], entry["time"], entry["fieldsV1"]) for entry in entries] == [
        ("m", EARLY, {"f:data": {".": {}, "f:y": {}}}),
        ("other", LATE, {"f:data": {"f:x": {}, "f:z": {}}}),
    ]


def test_removed_fields_have_no_owner() -> None:
    live = created({"x": "1"})
    without = {name: value for name, value in live.items() if name != "data"}
    assert written(live, without, "other", LATE) == []


def test_a_write_without_changes_changes_no_entry() -> None:
    live = created({"x": "1"})
    assert written(live, {**live, "data": {"x": "1"}}, "other", LATE) == live["metadata"]["managedFields"]


def test_an_empty_list_disables_tracking() -> None:
    live = created({"x": "1"})
    assert written(live, config_map({"x": "2"}, managed=[])) == []
    assert written(live, config_map({"x": "2"}, managed=[{}])) == []
    untracked = config_map({"x": "1"})
    assert written(untracked, config_map({"x": "2"})) == []


def test_missing_and_invalid_entries_from_a_client_are_ignored() -> None:
    live = created({"x": "1"})
    for given_entries in (None, [{"manager": "m", "operation": "Dance"}]):
        entries = written(live, config_map({"x": "1", "y": "1"}, managed=given_entries), "other", LATE)
        assert [entry["manager"] for entry in entries] == ["m", "other"]


def test_the_status_subresource_owns_status_only() -> None:
    pod: Tree = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p", "uid": "1"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {}}]},
        "status": {},
    }
    pod["metadata"]["managedFields"] = written(None, pod)
    running = {**pod, "spec": {**pod["spec"], "nodeName": "n"}, "status": {"phase": "Running"}}
    entries = written(pod, running, "kubelet", LATE, "status")
    assert entries[1]["subresource"] == "status"
    assert entries[1]["fieldsV1"] == {"f:status": {"f:phase": {}}}
    through_the_pod = written(pod, running, "kubelet", LATE)
    assert through_the_pod[1]["fieldsV1"] == {"f:spec": {"f:nodeName": {}}}


def test_the_oldest_of_more_than_ten_update_entries_are_merged() -> None:
    tree = created({"k0": "0"}, "m0")
    for number in range(1, 12):
        data = {**tree["data"], f"k{number}": "0"}
        entries = written(tree, {**tree, "data": data}, f"m{number}", f"2026-01-02T00:00:{number:02}Z")
        tree = config_map(data, managed=entries)
    managers = [entry["manager"] for entry in tree["metadata"]["managedFields"]]
    assert managers == ["ancient-changes", *(f"m{number}" for number in range(3, 12))]
    assert tree["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}}}


def test_items_without_a_path_element_disable_tracking() -> None:
    pod: Tree = {"kind": "Pod", "apiVersion": "v1", "metadata": {"finalizers": [["f"]]}, "spec": {}, "status": {}}
    assert written(None, pod) == []


def test_a_missing_item_key_has_its_default() -> None:
    spec = {"containers": [{"image": "i", "ports": [{"containerPort": 80}]}]}
    pod: Tree = {"kind": "Pod", "apiVersion": "v1", "metadata": {}, "spec": spec, "status": {}}
    fields = written(None, pod)[0]["fieldsV1"]["f:spec"]["f:containers"]
    assert list(fields) == ['k:{"name":""}']
    assert list(fields['k:{"name":""}']["f:ports"]) == [".", 'k:{"containerPort":80,"protocol":"TCP"}']


DATA = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12"), max_size=4)
WRITES = st.lists(st.tuples(st.sampled_from("xyz"), DATA), min_size=1, max_size=6)


@given(WRITES)
def test_every_field_is_owned_by_the_manager_that_last_changed_it(writes: list[tuple[str, dict[str, str]]]) -> None:
    tree: Tree | None = None
    owner: dict[str, str] = {}
    for manager, data in writes:
        before = tree["data"] if tree else {}
        owner = {key: manager if before.get(key) != data[key] else owner[key] for key in data}
        new = config_map(data, managed=tree["metadata"].get("managedFields") if tree else None)
        entries = written(tree, new, manager)
        if not entries:
            return  # nothing is tracked from here on
        tree = config_map(data, managed=entries)
        owned = {
            element.removeprefix("f:"): entry["manager"]
            for entry in entries
            for element in entry["fieldsV1"].get("f:data", {})
            if element != "."
        }
        assert owned == owner
