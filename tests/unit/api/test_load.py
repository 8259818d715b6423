"""Loading of manifests from files, folders, streams, texts and dicts."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from allotment import Cluster, InvalidManifests, Manifests, load
from allotment.api.load import read_sources
from allotment.model.core import Pod

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: main, image: i}\n"


def names(manifests: Manifests) -> list[str]:
    return [document.name for document in manifests]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "web.yaml"
    file.write_text(POD)
    return file


def test_sources_of_all_kinds_are_loaded_in_order(file: Path) -> None:
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dict"}}
    text, binary = io.StringIO(POD.replace("web", "text")), io.BytesIO(POD.replace("web", "bytes").encode())
    loaded = load(file, str(file.parent), [text, binary], tree, POD.replace("web", "string"), load(file))
    assert names(loaded) == ["web", "web", "text", "bytes", "dict", "string", "web"]
    assert loaded.names == (str(file), str(file.parent), str(file))
    assert not loaded.is_repeatable
    assert load(file).is_repeatable
    assert len(loaded[1:3]) == 2


def test_values_have_positions(file: Path) -> None:
    (document,) = load(file)
    assert str(document.position(("spec", "containers", 0, "image"))) == f"{file}:6:25"


def test_values_are_typed_and_validated(file: Path) -> None:
    (pod,) = load(file).values(namespace="ml")
    assert isinstance(pod, Pod)
    assert str(pod.key) == "ml/web"
    file.write_text(f"{POD}spek: {{}}\n")
    with pytest.raises(InvalidManifests, match=f"{file}:7:1: ") as raised:
        load(file).values()
    assert raised.value.source(str(file)) == file.read_text()


def test_fields_are_those_of_the_release_of_the_cluster() -> None:
    taint = (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: a}\n"
        "spec: {taint: {key: a, effect: NoSchedule}}\n"
    )
    assert load(taint).values(Cluster(kube="1.37"))
    with pytest.raises(InvalidManifests, match="DeviceTaintRule"):
        load(taint).values(Cluster(kube="1.36"))


def test_errors_of_syntax_are_raised_with_all_positions(file: Path) -> None:
    with pytest.raises(InvalidManifests) as raised:
        load("kind: [\n", str(file.parent / "none.yaml"))
    assert [problem.code for problem in raised.value.problems] == ["unreadable", "bad-yaml"]
    assert [str(problem) in str(raised.value) for problem in raised.value.problems] == [True, True]
    assert len(read_sources("kind: [\n").problems) == 1


def test_standard_input_is_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    loaded = load(sys.stdin)
    assert (names(loaded), loaded.names, loaded.is_repeatable) == (["web"], ("-",), False)
    assert loaded[0].file == "<stdin>"


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    loaded = load("-", "-")
    assert (names(loaded), loaded.text_of("<stdin>"), loaded.is_repeatable) == (["web"], POD, False)


def test_the_items_of_a_list_are_objects() -> None:
    trees = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} for name in "ab"]
    assert names(load({"apiVersion": "v1", "kind": "List", "items": trees})) == ["a", "b"]
    with pytest.raises(InvalidManifests, match=r"<dict>:1:1: items\[0\]: expected an object, found null"):
        load({"apiVersion": "v1", "kind": "List", "items": [None]})


def test_texts_have_different_names() -> None:
    second = f"# the second\n{POD}spek: {{}}\n"
    loaded = load(POD, [second])
    assert [(document.file, loaded.text_of(document.file)) for document in loaded] == [
        ("<text>", POD),
        ("<text> 2", second),
    ]
    with pytest.raises(InvalidManifests, match="<text> 2:8:1: "):
        loaded.values()


def test_a_single_document_cannot_be_read_again_by_a_command(file: Path) -> None:
    assert not load(load(file)[:]).is_repeatable


def test_a_text_without_objects_is_an_error_for_a_question() -> None:
    with pytest.raises(InvalidManifests, match="<text>:1:1: the file contains no Kubernetes objects"):
        load("# nothing\n").values()


def test_an_empty_file_is_an_error_only_for_a_question(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    loaded = load(tmp_path / "empty.yaml")
    assert list(loaded) == []
    with pytest.raises(InvalidManifests, match="contains no Kubernetes objects"):
        loaded.values()
