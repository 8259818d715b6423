import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from allotment.apiserver.built_in_kinds import NOT_SERVED, built_in_kinds
from allotment.model.features import GATES, Features

ALL = Features("1.36", {gate: True for gate, releases in GATES.items() if "1.36" in releases})
#: The versions of devices and groups that the recorded server had.
RECORDED = (
    "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3", "scheduling.k8s.io/v1alpha2",
)  # fmt: skip


def served(path: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            body = json.loads(line)["response"].get("body")
            if isinstance(body, dict) and body.get("kind") == "APIGroupDiscoveryList":
                for group in body["items"]:
                    for version in group["versions"]:
                        for resource in version["resources"]:
                            key = group["metadata"].get("name", ""), version["version"], resource["resource"]
                            found[key] = resource
    return found


def test_kinds_match_upstream_discovery(shared: Callable[[str], Path]) -> None:
    upstream = served(shared("vectors/apiserver/10-discovery.jsonl.gz"))
    kinds = built_in_kinds(ALL, RECORDED)
    actual = {(kind.group, version, kind.plural): kind for kind in kinds for version in kind.versions}
    missing = {".".join(filter(None, (plural, group))) for group, _, plural in set(upstream) - set(actual)}
    assert missing == {"componentstatuses"} <= set(NOT_SERVED)
    assert not set(actual) - set(upstream)
    for key, kind in actual.items():
        expected = upstream[key]
        assert kind.kind == expected["responseKind"]["kind"]
        assert kind.namespaced == (expected["scope"] == "Namespaced")
        assert kind.singular or kind.kind.lower() == expected["singularResource"]
        assert list(kind.short_names) == expected.get("shortNames", [])
        assert list(kind.categories) == expected.get("categories", [])
        assert sorted(kind.verbs) == sorted(expected["verbs"])
        named = {entry["subresource"] for entry in expected.get("subresources", [])}
        assert set(kind.subresources) == {name for name in named if f"{kind.plural}/{name}" not in NOT_SERVED}


def versions(features: Features, plural: str, *runtime_config: str) -> tuple[str, ...]:
    found = [kind.versions for kind in built_in_kinds(features, runtime_config) if kind.plural == plural]
    return found[0] if found else ()


def test_a_release_serves_its_own_versions_by_default() -> None:
    assert versions(Features("1.37"), "resourceclaims") == ("v1",)
    assert versions(Features("1.37"), "devicetaintrules") == ("v1",)
    assert versions(ALL, "devicetaintrules") == ()
    assert versions(ALL, "podgroups") == ()


def test_more_versions_are_served_on_request() -> None:
    assert versions(Features("1.37"), "resourceclaims", "api/all=true") == ("v1", "v1beta2", "v1beta1")
    assert versions(ALL, "devicetaintrules", "api/all=true") == ("v1beta2", "v1alpha3")
    assert versions(ALL, "podgroups", "scheduling.k8s.io/v1alpha2=true") == ("v1alpha2",)


def test_groups_require_their_feature_gates() -> None:
    every = "api/all=true"
    assert versions(Features("1.36"), "podgroups", every) == ()
    assert versions(ALL, "podgroups", every) == ("v1alpha2",)
    groups = Features("1.37", {"GenericWorkload": True})
    assert versions(Features("1.37"), "podgroups", every) == ()
    assert versions(groups, "podgroups", every) == ("v1beta1", "v1alpha3")
    assert versions(groups, "compositepodgroups", every) == ()
    composite = Features("1.37", {"GenericWorkload": True, "CompositePodGroup": True})
    assert versions(composite, "compositepodgroups", every) == ("v1alpha3",)


def test_gates_of_taint_rules_and_pool_states_do_not_decide_whether_they_are_served() -> None:
    off = Features("1.37", {"DRADeviceTaintRules": False, "DRAResourcePoolStatus": False})
    assert versions(off, "devicetaintrules") == ("v1",)
    assert versions(off, "resourcepoolstatusrequests", "api/alpha=true") == ("v1alpha3",)


def test_objects_are_stored_in_a_version_that_need_not_be_served() -> None:
    groups = Features("1.37", {"GenericWorkload": True})
    [kind] = [k for k in built_in_kinds(groups, ["scheduling.k8s.io/v1alpha3=true"]) if k.plural == "podgroups"]
    assert (kind.versions, kind.storage_version) == (("v1alpha3",), "v1beta1")


def test_versions_are_deprecated_from_a_release_on() -> None:
    def deprecated(release: str, plural: str) -> dict[str, str]:
        kinds = built_in_kinds(Features(release, {"DRADeviceTaintRules": True}), ["api/all=true"])
        return next(dict(kind.deprecated) for kind in kinds if kind.plural == plural)

    assert set(deprecated("1.35", "resourceslices")) == {"v1beta1"}
    assert set(deprecated("1.36", "resourceslices")) == {"v1beta2", "v1beta1"}
    assert deprecated("1.37", "devicetaintrules") == {
        "v1alpha3": "resource.k8s.io/v1alpha3 DeviceTaintRule is deprecated in v1.36+, unavailable in v1.39+"
    }


def test_updates_of_groups_require_a_resource_version_and_those_of_priorities_do_not() -> None:
    kinds = {
        kind.plural: kind for kind in built_in_kinds(Features("1.37", {"GenericWorkload": True}), ["api/all=true"])
    }
    assert {"v1beta1", "v1alpha3"} <= kinds["podgroups"].conditional_update
    assert not kinds["priorityclasses"].conditional_update
