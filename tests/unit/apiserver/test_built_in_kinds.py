import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.model.features import GATES, Features

ALL = Features("1.36", {gate: True for gate, releases in GATES.items() if "1.36" in releases})
#: Kinds that the lab does not serve, and proxy subresources.
ABSENT = {"componentstatuses", "apiservices", "flowschemas", "prioritylevelconfigurations"}
PROXY = {"proxy"}


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
    actual = {(kind.group, version, kind.plural): kind for kind in built_in_kinds(ALL) for version in kind.versions}
    assert {key for key in upstream if key not in actual} == {key for key in upstream if key[2] in ABSENT}
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
        assert set(kind.subresources) == named - PROXY


def test_alpha_kinds_require_their_feature_gate() -> None:
    assert "podgroups" not in {kind.plural for kind in built_in_kinds(Features("1.36"))}
    assert "podgroups" in {kind.plural for kind in built_in_kinds(ALL)}
