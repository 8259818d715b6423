"""The packaged examples have complete headers and are found by number or name."""

from __future__ import annotations

import pytest
import yaml

from allotment.engine.refusal import CODES
from allotment.errors import InputError
from allotment.reference.packaged_examples import find_example, packaged_examples


def test_every_example_states_its_purpose_and_expected_result() -> None:
    assert len(packaged_examples()) >= 10
    for example in packaged_examples():
        assert example.expect == "fits" or example.expect in CODES, example.name
        assert 10 <= len(example.title) <= 45, example.name
        assert example.story, example.name
        assert all(document["kind"] for document in yaml.safe_load_all(example.text))


def test_examples_are_found_by_number_and_by_name() -> None:
    assert {find_example(word).name for word in ("3", "03", "mps", "03-mps")} == {"03-mps"}


def test_an_unknown_example_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match="unknown example 'mpss'") as caught:
        find_example("mpss")
    assert caught.value.hint == "did you mean mps?"
