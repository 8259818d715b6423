"""The lab's context in kubectl's configuration."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.lab import kubeconfig
from allotment.lab.kubeconfig import Access, UnusableKubeconfig
from allotment.model.loading import load_text
from allotment.model.serialization import to_yaml

ACCESS = Access("https://127.0.0.1:6443", b"authority", b"certificate", b"key")
WORK = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {},
    "clusters": [{"name": "work", "cluster": {"server": "https://work:6443", "insecure-skip-tls-verify": True}}],
    "users": [{"name": "me", "user": {"exec": {"command": "login", "args": ["--as", "me"], "env": None}}}],
    "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me", "namespace": "mine"}}],
    "current-context": "work",
    "extensions": [{"name": "other", "extension": {"kept": "on"}}],
}


def read(path: Path) -> dict[str, Any]:
    loaded = load_text(path.read_bytes(), str(path))
    assert not loaded.problems
    return loaded.documents[0].tree


def names(tree: dict[str, Any], section: str) -> list[str]:
    return [entry["name"] for entry in tree[section]]


def test_a_context_is_added_selected_and_removed_completely(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(to_yaml([WORK]))
    path.chmod(0o640)
    previous = kubeconfig.add(path, "allotment", ACCESS)
    tree = read(path)
    assert previous == "work"
    assert tree["current-context"] == "allotment"
    assert [names(tree, section) for section in ("clusters", "users", "contexts")] == [
        ["work", "allotment"], ["me", "allotment"], ["work", "allotment"],
    ]  # fmt: skip
    assert tree["clusters"][1]["cluster"] == {
        "server": "https://127.0.0.1:6443", "certificate-authority-data": "YXV0aG9yaXR5",
    }  # fmt: skip
    assert tree["users"][1]["user"] == {"client-certificate-data": "Y2VydGlmaWNhdGU=", "client-key-data": "a2V5"}
    kubeconfig.remove(path, "allotment", previous)
    assert read(path) == WORK
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_created_private(tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    kubeconfig.remove(path, "allotment")
    assert not path.parent.exists()
    assert kubeconfig.add(path, "allotment-two", Access("http://127.0.0.1:8080")) == ""
    assert path.stat().st_mode & 0o777 == 0o600
    assert read(path)["users"] == [{"name": "allotment-two", "user": {}}]
    kubeconfig.remove(path, "allotment-two")
    assert read(path)["contexts"] == []
    assert read(path)["current-context"] == ""


def test_a_restart_replaces_the_context(tmp_path: Path) -> None:
    path = tmp_path / "config"
    kubeconfig.add(path, "allotment", ACCESS)
    assert kubeconfig.add(path, "allotment", ACCESS._replace(server="https://127.0.0.1:7000")) == "allotment"
    assert [entry["cluster"]["server"] for entry in read(path)["clusters"]] == ["https://127.0.0.1:7000"]


def test_a_context_of_another_cluster_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        to_yaml([{**WORK, "clusters": [{"name": "allotment", "cluster": {"server": "https://prod:6443"}}]}])
    )
    before = path.read_bytes()
    with pytest.raises(UnusableKubeconfig, match=r"another cluster \(https://prod:6443\).*--name"):
        kubeconfig.add(path, "allotment", ACCESS)
    assert path.read_bytes() == before


def test_a_context_selected_meanwhile_stays_selected(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(to_yaml([WORK]))
    kubeconfig.add(path, "allotment", ACCESS)
    path.write_text(path.read_text().replace("current-context: allotment", "current-context: work"))
    kubeconfig.remove(path, "allotment", "gone-by-now")
    assert read(path)["current-context"] == "work"


def test_a_symbolic_link_is_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    kubeconfig.add(link, "allotment", ACCESS)
    assert link.is_symlink()
    assert read(real)["current-context"] == "allotment"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a: [", "config:"),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: a}\n", "expected a kubectl configuration"),
        ("clusters: {}\n", "expected a kubectl configuration"),
        ("a: 1\n---\nb: 2\n", "expected a kubectl configuration"),
    ],
)
def test_an_invalid_file_is_not_changed(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(UnusableKubeconfig, match=complaint):
        kubeconfig.add(path, "allotment", ACCESS)
    assert path.read_text() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_held_lock_is_awaited_and_then_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, lock = tmp_path / "config", tmp_path / "config.lock"
    lock.touch()
    threading.Timer(0.1, lock.unlink).start()
    kubeconfig.add(path, "allotment", ACCESS)
    monkeypatch.setattr(kubeconfig, "_LOCK_SECONDS", 0.1)
    lock.touch()
    with pytest.raises(UnusableKubeconfig, match=r"remove .*config\.lock"):
        kubeconfig.remove(path, "allotment")


def test_concurrently_started_labs_are_all_added(tmp_path: Path) -> None:
    path = tmp_path / "config"
    threads = [threading.Thread(target=kubeconfig.add, args=(path, f"lab-{n}", ACCESS)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names(read(path), "contexts")) == [f"lab-{n}" for n in range(8)]


def test_the_file_is_the_one_that_kubectl_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert kubeconfig.default_path() == tmp_path / ".kube" / "config"
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(("", str(tmp_path / "one"), str(tmp_path / "two"))))
    assert kubeconfig.default_path() == tmp_path / "one"


def test_a_separate_file_contains_only_the_context() -> None:
    tree = load_text(kubeconfig.text("allotment", ACCESS)).documents[0].tree
    assert tree["current-context"] == "allotment"
    assert [len(tree[section]) for section in ("clusters", "users", "contexts")] == [1, 1, 1]


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20)
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=8), v, max_size=3), max_leaves=8
)


@settings(max_examples=25)
@given(extra=st.dictionaries(st.text(min_size=1, max_size=10), values, max_size=4))
def test_other_content_of_the_file_is_kept(tmp_path_factory: pytest.TempPathFactory, extra: Any) -> None:
    path = tmp_path_factory.mktemp("kube") / "config"
    whole = extra | WORK
    path.write_text(to_yaml([whole]), encoding="utf-8")
    kubeconfig.remove(path, "allotment", kubeconfig.add(path, "allotment", ACCESS))
    assert read(path) == whole
