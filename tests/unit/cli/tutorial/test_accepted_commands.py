"""The prompt of the tutorial passes no command to a shell, so it does not show one that needs a shell."""

from __future__ import annotations

from argparse import Namespace

import pytest

from allotment.api.inputs import Inputs
from allotment.cli.next_step import add_next_steps, only_commands
from allotment.cli.tutorial.actions import is_accepted
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
    arguments = Namespace(
        files=[], cluster=[], fleet=[], context="lab", kubeconfig=None, kube_version=None, feature_gates=[], object=None
    )
    inputs = Inputs(scenario.features, tuple(scenario.values), ())
    found = explained("product-name-shortened")
    assert "replace --force" in add_next_steps(found, arguments, inputs).answers[0].next
    with only_commands(is_accepted):
        assert not add_next_steps(found, arguments, inputs).answers[0].next
