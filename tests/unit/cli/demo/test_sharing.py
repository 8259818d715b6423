import io
from pathlib import Path

import pytest

from allotment.cli.demo.sharing import CASES, IMAGE, Case, Measurement, Replica, objects, shown
from allotment.cli.main import main
from allotment.cli.output.console import Screen
from allotment.model.loading import load_text
from allotment.reference.packaged_examples import find_example


def replicas(*rates: float) -> list[Replica]:
    stats = {"device": "NVIDIA A100-SXM4-40GB", "images": 10}
    return [Replica(f"pod-{n}", "a100", {**stats, "per_minute": rate}, b"") for n, rate in enumerate(rates)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.namespace)
def test_a_case_is_an_example_with_another_application_and_the_same_claim(case: Case) -> None:
    originals = [document.tree for document in load_text(find_example(case.example).text).documents]
    space, *trees = objects(case)
    assert space["metadata"]["name"] == case.namespace
    for tree, original in zip(trees, originals, strict=True):
        if tree["kind"] != "Deployment":
            assert tree == original
            continue
        assert tree["spec"]["replicas"] == original["spec"]["replicas"]
        pod, before = tree["spec"]["template"]["spec"], original["spec"]["template"]["spec"]
        assert pod["resourceClaims"] == before["resourceClaims"]
        (container,), (other,) = pod["containers"], before["containers"]
        assert container["image"] == IMAGE
        assert container["resources"]["claims"] == other["resources"]["claims"]


def test_output_sums_the_measurements_and_draws_them_to_scale() -> None:
    rates = ((60.0,), (20.0, 20.0, 19.0), (60.0, 60.0, 58.0), (26.0,) * 7)
    measured = [Measurement(case, replicas(*some)) for case, some in zip(CASES, rates, strict=True)]
    lines = list(shown(Screen(io.StringIO(), None, False), measured, 15.25))
    table = [line for line in lines if line.startswith("  ")]
    assert [line.split()[-2:] for line in table if "█" in line] == [
        ["60.0", "███████▉"],
        ["59.0", "███████▊"],
        ["178.0", "███████████████████████▌"],
        ["182.0", "████████████████████████"],
    ]
    assert [line.strip() for line in table if "+" in line][1] == "60 + 60 + 58"
    assert "Three replicas that take turns draw 1.0 times" in " ".join(lines)
    assert "together they draw 3.0 times" in " ".join(lines)
    assert lines[-1] == "140 pictures, drawn by 14 containers; 15.2 s in total. The lab was deleted."
    assert all(len(line) <= 80 for line in lines)


def test_picture_is_rejected_for_explain(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["demo", "4", "--pictures", str(tmp_path / "p")]) == 2
    assert "--pictures" in capsys.readouterr().err
