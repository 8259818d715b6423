"""Every refusal of the corpus ends with one command; it succeeds, and if it changes something, the pod fits then."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from allotment.cli.main import main
from allotment.explanation import Answer, Explanation
from allotment.explanation.next_step import with_next_steps
from allotment.explanation.replacement import manifests, replacement_of
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from tests.corpus.commands import accepts, commands_of, replace, run_kubectl
from tests.corpus.test_corpus import HERE, SCENARIOS, Scenario, explained

#: A search that reaches its limit takes too long.
REFUSED = [name for name in SCENARIOS if not name.startswith("fits-") and name != "search-given-up"]
#: Clusters in which several things are wrong.
MIXED = sorted(f"mixed/{path.stem}" for path in HERE.glob("mixed/*.yaml") if "search" not in path.stem)
#: The kinds that the author of the pods applies; all others are in the cluster.
OWN = ("Pod", "Deployment", "ResourceClaimTemplate")


def trees_of(scenario: Scenario) -> list[Tree]:
    """Copies of the objects of a scenario."""
    return [json.loads(json.dumps(document.tree)) for document in scenario.documents]


def explained_again(name: str, trees: Sequence[Tree]) -> Explanation:
    """The explanation of a scenario with other objects."""
    return Scenario(name, "---\n".join(json.dumps(tree) + "\n" for tree in trees).encode()).explain()


@pytest.mark.parametrize("name", [*REFUSED, *MIXED])
def test_command_for_a_cluster_succeeds_and_makes_the_pod_fit(name: str) -> None:
    scenario = Scenario(name)
    for answer in with_next_steps(explained(name), scenario.cluster).answers:
        assert bool(answer.next) != answer.fits
        trees = trees_of(scenario)
        changed = False
        same = [other for other in explained(name).answers if f"pod/{other.name.partition('/')[2]}" in answer.next]
        for command in commands_of(answer.next) if answer.next else ():
            if command[0] == "allot":
                assert accepts(command), answer.next
            elif command[1] == "replace":
                found = next(filter(None, (replacement_of(named, scenario.cluster.objects) for named in same)))
                replace(manifests(found, {name_of(tree): tree for tree in trees}), trees)
                changed = True
            else:
                changed |= run_kubectl(command, trees)
        if changed:
            again = explained_again(name, trees)
            subject = (*same, answer)[0].name  # of a gang whose minCount is lowered, not all pods fit
            if waits(answer):
                continue
            assert next(after.fits for after in again.answers if after.name == subject), answer.next


def waits(answer: Answer) -> bool:
    """Whether the pod also has to wait for devices, or for other pods, after its first remedy."""
    changes = answer.reasons.headline.changes if answer.reasons is not None else ()
    return any(change.remedy == "wait" for change in changes)


def name_of(tree: Tree) -> str:
    """Kind and name, as changes name their object."""
    metadata = tree["metadata"]
    return f"{tree['kind']} {ObjectKey(metadata.get('namespace', 'default'), metadata['name'])}"


def printed_step(out: str) -> str:
    """The command in the output of `allot explain` or `allot check`."""
    lines = [line.strip() for line in out.splitlines()]
    return next((line.removeprefix("next: ") for line in lines if line.startswith("next: ")), "")


@pytest.mark.parametrize("name", REFUSED)
def test_command_for_files_is_accepted_and_makes_the_pod_fit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The author's objects are in app.yaml, those of the cluster in a snapshot."""
    scenario = Scenario(name)
    monkeypatch.chdir(tmp_path)
    Path("app.yaml").write_text(yaml.safe_dump_all(d.tree for d in scenario.documents if d.kind in OWN))
    Path("cluster.yaml").write_text(yaml.safe_dump_all(d.tree for d in scenario.documents if d.kind not in OWN))
    gates = [f"{gate}={str(on).lower()}" for gate, on in scenario.features.gates.items()]
    gates += ["GenericWorkload=true"] if "DRAWorkloadResourceClaims" in scenario.features.gates else []
    version = ["--kube-version", scenario.features.kube, *(["--feature-gates", ",".join(gates)] if gates else [])]
    question = ["explain", "-f", "app.yaml", "--cluster", "cluster.yaml", *version]

    def run(words: Sequence[str]) -> tuple[int, str]:
        code = main(list(words))
        output = capsys.readouterr()
        return code, f"{output.out}\n{output.err}"

    code, out = run(question)
    step = printed_step(out)
    assert bool(step) == bool(code), out
    for command in commands_of(step) if step else ():
        if command[0] == "kubectl":
            if command[1] != "replace":  # its objects are checked with those of a cluster
                run_kubectl(command, trees_of(scenario))
            continue
        assert accepts(command), step
        if "--fix" in command:
            run(command[1:])
            if not any(
                document.kind == "ResourceSlice" for document in scenario.documents
            ):  # the fix is for the hardware that check knows
                continue
            first = out.split(" does not fit", 1)[0].split()[-1]
            again = run(question)[1]
            assert f"{first} does not fit" not in again, f"{step}\n{again}"


def test_commands_are_quoted_for_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    scenario = Scenario("not-enough-capacity")
    Path("my app.yaml").write_text(yaml.safe_dump_all(d.tree for d in scenario.documents))
    assert main(["explain", "-f", "my app.yaml"]) == 1
    step = printed_step(capsys.readouterr().out)
    assert "'my app.yaml'" in step
    assert "my app.yaml" in shlex.split(step)
