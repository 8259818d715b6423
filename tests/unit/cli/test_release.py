"""Which Kubernetes: versions as clusters report them, gates as kubectl users write them."""

from __future__ import annotations

import pytest

from allotment.cli.mistakes import Mistake
from allotment.cli.release import features, release


@pytest.mark.parametrize("text", ["1.36", "v1.36", "1.36.2", "v1.36.2-gke.100", "1.36.0+k3s1"])
def test_versions_of_a_release(text: str) -> None:
    assert release(text) == "1.36"


@pytest.mark.parametrize("text", ["1.2", "2.0", "", "latest", "1.36.", "1.360"])
def test_other_versions_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(Mistake, match=r"wanted one of 1\.34, 1\.35, 1\.36, 1\.37"):
        release(text)


def test_gates_are_read_from_one_or_several_options() -> None:
    found = features("1.36", ["DRADeviceTaints=false,DRAListTypeAttributes=true", "DRADeviceTaintRules=True"])
    assert not found.enabled("DRADeviceTaints")
    assert found.enabled("DRAListTypeAttributes")
    assert found.enabled("DRADeviceTaintRules")
    assert found.enabled("DRAPartitionableDevices")


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("DRADeviceTaint=true", "no DRA gate 'DRADeviceTaint'", "did you mean DRADeviceTaints"),
        ("DRADeviceTaints", "wanted NAME=true or NAME=false", ""),
        ("DRADeviceTaints=maybe", "found 'DRADeviceTaints=maybe'", ""),
    ],
)
def test_bad_gates_are_explained(text: str, problem: str, hint: str) -> None:
    with pytest.raises(Mistake) as caught:
        features("1.36", [text])
    assert problem in str(caught.value)
    assert hint in caught.value.hint
