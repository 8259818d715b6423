"""Some hundred broken manifests: whatever is in a file, check ends with findings, and mending keeps what it must."""

from __future__ import annotations

from pathlib import Path

from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.tools.check.bundle import CheckSettings
from tests.storm.mutations import attempt, run, sources

EXAMPLES = Path(__file__).parents[2] / "src/allotment/examples"


def test_nothing_that_is_in_a_file_raises() -> None:
    told, raised = run(sources([EXAMPLES]), range(300), seed=20261122)
    assert raised == []
    assert len(told) > 25, "the rules are not reached"
    assert told["S100"] < 150, "most cannot be read"


def test_every_packaged_manifest_is_checked_and_told_in_every_format() -> None:
    for text in sources([EXAMPLES])[::4]:
        assert not load_text(text).problems
        for form in range(4):
            attempt(text, CheckSettings(Features(kube="1.36")), None, mend=False, form=form)
