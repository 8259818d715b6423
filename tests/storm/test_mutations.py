"""Some hundred broken manifests: check only reports findings, and fixing keeps comments and other objects."""

from __future__ import annotations

from pathlib import Path

from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.tools.check.bundle import CheckSettings
from tests.storm.mutations import attempt, run, sources

EXAMPLES = Path(__file__).parents[2] / "src/allotment/examples"


def test_no_file_content_raises_an_exception() -> None:
    counts, raised = run(sources([EXAMPLES]), range(300), seed=20261122)
    assert raised == []
    assert len(counts) > 25, "the rules are not reached"
    assert counts["S100"] < 150, "most cannot be read"


def test_every_packaged_manifest_is_reported_in_every_format() -> None:
    for text in sources([EXAMPLES])[::4]:
        assert not load_text(text).problems
        for form in range(4):
            attempt(text, CheckSettings(Features(kube="1.36")), None, fixing=False, output_format=form)
