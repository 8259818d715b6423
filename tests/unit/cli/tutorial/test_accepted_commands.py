"""The prompt of the tutorial passes no command to a shell, so it does not show one that needs a shell."""

from __future__ import annotations

import pytest

from allotment.api.named_objects import object_name
from allotment.cli.next_step import only_commands, without_other_commands
from allotment.cli.tutorial.actions import is_accepted
from allotment.explanation.next_step import Origin, with_next_steps
from tests.corpus.test_corpus import Scenario, explained


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        ("allot check app.yaml --fix", True),
        ("allot explain pod/a -n ml -o manifests | kubectl replace --force -f -", False),
        ("allot free && kubectl uncordon a", False),
        ("allot plan", False),  # another terminal is necessary
        ("kubectl get pod a", False),
        ("", False),
    ],
)
def test_a_line_with_one_command_of_allot_is_accepted(line: str, accepted: bool) -> None:
    assert is_accepted(line) is accepted


def test_a_next_step_that_is_not_accepted_is_left_out() -> None:
    scenario = Scenario("product-name-shortened")
    origin = Origin({object_name(value): value for value in scenario.values})
    found = with_next_steps(explained("product-name-shortened"), origin)
    assert "replace --force" in without_other_commands(found).answers[0].next
    with only_commands(is_accepted):
        assert not without_other_commands(found).answers[0].next
