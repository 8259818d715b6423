"""Arguments of the wrong type: each error names the argument, what was found, and what to use."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import allotment
from allotment import Cluster, InputError
from allotment.api.question import Question
from allotment.fleet.errors import FleetError

#: Not `str`: type checkers would reject the calls.
WRONG: Any = "t4-4x-pcie"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: main, image: i}\n"


@pytest.mark.parametrize(
    "query",
    [
        lambda: allotment.check(POD, cluster=WRONG),
        lambda: allotment.fix(POD, cluster=WRONG),
        lambda: allotment.claim(cluster=WRONG),
        lambda: allotment.describe_claims(POD, cluster=WRONG),
        lambda: allotment.doctor(WRONG),
        lambda: allotment.explain(POD, WRONG),
        lambda: allotment.explain_classes(POD, WRONG),
        lambda: allotment.free(WRONG),
        lambda: allotment.load(POD).values(WRONG),
        lambda: allotment.migrate(POD, cluster=WRONG),
        lambda: allotment.plan(POD, WRONG),
        lambda: allotment.verify_driver("dra.sock", WRONG),
        lambda: allotment.reference.missing_permissions(cluster=WRONG),
    ],
)
def test_a_name_is_not_a_cluster(query: Callable[[], object]) -> None:
    with pytest.raises(InputError) as raised:
        query()
    assert str(raised.value) == (
        "cluster: expected a Cluster, found str; use Cluster.fleet(…), Cluster.snapshot(…) or Cluster.lab(…)"
    )


@pytest.mark.parametrize(
    "query",
    [
        lambda cluster: allotment.check("web.yaml", cluster),
        allotment.explain,
        allotment.plan,
        lambda cluster: allotment.load([cluster]),
    ],
)
def test_a_cluster_is_not_manifests(query: Callable[[Any], object], tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "web.yaml").write_text(POD)
    with pytest.raises(InputError, match=r"^expected manifests, found Cluster; use cluster=…$"):
        query(Cluster())


@pytest.mark.parametrize(("source", "found"), [(b"kind: Pod\n", "bytes"), (7, "int")])
def test_other_values_are_not_manifests(source: Any, found: str) -> None:
    for query in (allotment.load, allotment.check, allotment.explain):
        with pytest.raises(InputError, match=f"^expected manifests, found {found}; use a path, a text, an open file"):
            query(source)


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_an_empty_text_is_not_the_current_folder(text: str) -> None:
    for query in (allotment.load, allotment.check, allotment.explain):
        with pytest.raises(InputError, match=r"^expected manifests or the path of a file, found an empty text$"):
            query(text)


def test_machines_are_single_texts() -> None:
    machines: Any = ["t4-4x-pcie", "t4"]
    with pytest.raises(FleetError) as raised:
        Cluster.fleet(machines)
    assert str(raised.value) == "machines: expected texts, found list; use Cluster.fleet(*machines)"


def test_a_claim_is_a_source_of_manifests() -> None:
    claim = allotment.claim(gpus=2)
    assert [document.kind for document in allotment.load(claim)] == ["ResourceClaimTemplate"]
    assert allotment.explain(claim, Cluster.fleet("t4-4x-pcie")).fits
    assert not allotment.check([claim], cluster=Cluster.fleet("t4")).safe
    assert Question.of(io.StringIO(claim.text), None, None).manifests is not None


def test_the_text_of_an_error_has_its_hint_and_the_command_line_prints_it_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from allotment.cli.main import main

    with pytest.raises(FleetError) as raised:
        Cluster.fleet("t4-4x-pci")
    assert raised.value.hint == "did you mean t4-4x-pcie?"
    assert str(raised.value) == f"{raised.value.problem}; did you mean t4-4x-pcie?"
    assert raised.value.to_dict()["problems"][0]["message"] == raised.value.problem
    assert main(["explain", "--fleet", "t4-4x-pci", "-f", "-"]) == 2
    assert capsys.readouterr().err == f"allot: error: {raised.value.problem}\n  did you mean t4-4x-pcie?\n"
