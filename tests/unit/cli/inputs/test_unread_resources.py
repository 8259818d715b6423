"""Resources that the account cannot read are not treated as absent: no result is better than a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.api.named_objects import subject_of
from allotment.errors import InputError
from allotment.model.serialization import to_yaml
from allotment.model.server_facts import API_VERSION, KIND, ServerFacts
from tests.unit.cli.conftest import Allot
from tests.unit.tools.doctor.sample_cluster import Cluster


def snapshot(folder: Path, *unread: str) -> str:
    """A snapshot with a pending pod, taken without permission to read some resources."""
    cluster = Cluster()
    cluster.pending_pod("big")
    kinds = {"nodes": "Node", "resourceslices": "ResourceSlice", "resourceclaims": "ResourceClaim", "pods": "Pod"}
    for plural in unread:
        cluster.remove(kinds[plural])
    facts = {"version": "v1.36.2", "taken": "2026-06-01T12:00:00Z", "unread": dict.fromkeys(unread, "forbidden")}
    cluster.trees.append({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "server"}, **facts})
    file = folder / "snapshot.yaml"
    file.write_text(to_yaml(cluster.trees))
    return str(file)


@pytest.mark.parametrize(
    ("command", "unread"),
    [
        ("explain", "resourceslices"),
        ("explain", "nodes"),
        ("explain", "pods"),
        ("free", "resourceslices"),
        ("free", "resourceclaims"),
        ("metrics", "nodes"),
        ("metrics", "pods"),
    ],
)
def test_no_answer_without_required_resources(allot: Allot, tmp_path: Path, command: str, unread: str) -> None:
    ran = allot(command, "--cluster", snapshot(tmp_path, unread))
    assert (ran.code, ran.out) == (2, "")
    assert f"cannot answer without {unread}, which could not be read (forbidden)" in ran.err
    assert "allot rbac reader" in ran.err


def test_unneeded_resources_can_be_unreadable(allot: Allot, tmp_path: Path) -> None:
    assert allot("free", "--cluster", snapshot(tmp_path, "pods")).code == 0
    assert allot("explain", "--cluster", snapshot(tmp_path)).code in (0, 1)


def test_doctor_counts_only_readable_objects(allot: Allot, tmp_path: Path) -> None:
    ran = allot("doctor", "--cluster", snapshot(tmp_path, "nodes", "resourceslices"))
    verdict, _, rest = ran.out.partition("\n")
    assert verdict.endswith(" in 2 claims and 4 pods.")
    assert "Not checked: nodes and resourceslices (forbidden);" in " ".join(rest.split())


@pytest.mark.parametrize(("subject", "unread"), [("pod/chat", "pods"), ("deploy/chat", "deployments")])
def test_unreadable_kind_is_not_reported_as_missing(subject: str, unread: str) -> None:
    facts = ServerFacts(unread={unread: "forbidden"})
    with pytest.raises(InputError, match=rf"cannot answer without {unread}, which could not be read \(forbidden\)"):
        subject_of(subject, None, [facts])
