import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.model.features import GATES, Features

ALL = Features("1.36", {gate: True for gate, releases in GATES.items() if "1.36" in releases})
#: Kinds that nothing in a lab serves, and doors to the networks of pods and nodes.
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


def test_kinds_are_named_as_the_real_server_names_them(shared: Callable[[str], Path]) -> None:
    theirs = served(shared("vectors/apiserver/10-discovery.jsonl.gz"))
    ours = {(kind.group, version, kind.plural): kind for kind in built_in_kinds(ALL) for version in kind.versions}
    assert {key for key in theirs if key not in ours} == {key for key in theirs if key[2] in ABSENT}
    assert not set(ours) - set(theirs)
    for key, kind in ours.items():
        theirs_here = theirs[key]
        assert kind.kind == theirs_here["responseKind"]["kind"]
        assert kind.namespaced == (theirs_here["scope"] == "Namespaced")
        assert kind.singular or kind.kind.lower() == theirs_here["singularResource"]
        assert list(kind.short_names) == theirs_here.get("shortNames", [])
        assert list(kind.categories) == theirs_here.get("categories", [])
        assert sorted(kind.verbs) == sorted(theirs_here["verbs"])
        named = {entry["subresource"] for entry in theirs_here.get("subresources", [])}
        assert set(kind.subresources) == named - PROXY


def test_alpha_kinds_come_with_their_gate() -> None:
    assert "podgroups" not in {kind.plural for kind in built_in_kinds(Features("1.36"))}
    assert "podgroups" in {kind.plural for kind in built_in_kinds(ALL)}
