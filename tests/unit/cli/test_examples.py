"""The packaged examples have complete headers and are found by number or name."""

from __future__ import annotations

import pytest
import yaml

from allotment.cli.examples import examples, find
from allotment.engine.refusal import CODES
from allotment.errors import InputError


def test_every_example_states_its_purpose_and_expected_result() -> None:
    assert len(examples()) >= 10
    for example in examples():
        assert example.expect == "fits" or example.expect in CODES, example.name
        assert 10 <= len(example.title) <= 45, example.name
        assert example.story, example.name
        assert all(document["kind"] for document in yaml.safe_load_all(example.text))


def test_examples_are_found_by_number_and_by_name() -> None:
    assert find("3").name == find("03").name == find("mps").name == find("03-mps").name == "03-mps"


def test_an_unknown_example_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match="unknown example 'mpss'") as caught:
        find("mpss")
    assert caught.value.hint == "did you mean mps?"
