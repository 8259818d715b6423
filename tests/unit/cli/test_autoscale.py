"""``allot autoscale``, and the options of ``allot up`` that run it in a lab."""

from __future__ import annotations

from decimal import Decimal

import pytest

from allotment.api.plans.catalog import select_catalog
from allotment.cli.autoscale import faults_of, options_of, settings_of
from allotment.cli.inputs.durations import duration
from allotment.cli.main import _parsed, main
from allotment.cli.up import _settings
from allotment.cluster.leader_election import DEFAULT_TIMINGS
from allotment.errors import InputError
from allotment.fleet.catalog import catalog
from allotment.model.features import Features

FEATURES = Features(kube="1.36")


def test_options_are_those_of_the_command_line() -> None:
    arguments = _parsed(
        ["autoscale", "--provider", "simulated", "--catalog", "aws", "--budget", "30", "--max-machines", "4", "--types",
         "aws/g5.*", "--registration-timeout", "20m", "--consolidate", "cheaper", "--consolidate-after", "90s",
         "--disruption-budget", "2", "--dry-run"]
    )  # fmt: skip
    found = options_of(arguments, select_catalog(arguments.catalog), FEATURES)
    assert (found.limits.budget, found.limits.max_machines, found.limits.types) == (Decimal(30), 4, ("aws/g5.*",))
    assert (found.registration, found.consolidate_after, found.budget) == (1200, 90, "2")
    assert (found.consolidation, found.dry_run) == ("cheaper", True)
    assert found.limits.providers == ("aws",)


def test_only_the_leader_runs() -> None:
    words = ["autoscale", "--provider", "karpenter", "--namespace", "machines"]
    assert settings_of(_parsed(words)).leading is None
    first, second = (settings_of(_parsed([*words, "--leader-elect"])).leading for _ in range(2))
    assert first is not None
    assert second is not None
    assert (first.namespace, first.terms) == ("machines", DEFAULT_TIMINGS)
    assert first.identity != second.identity


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--disruption-budget", "many"], "--disruption-budget: expected a number or a percentage"),
        (["--time-limit", "0"], "--time-limit: expected a positive number"),
        (["--batch-idle-duration", "soon"], "--batch-idle-duration: invalid duration"),
        (["--registration-timeout", "-1s"], "--registration-timeout: expected a duration >= 0"),
        (["--budget", "cheap"], "budget: expected a number"),
    ],
)
def test_invalid_options_are_rejected(words: list[str], text: str) -> None:
    arguments = _parsed(["autoscale", "--provider", "simulated", "=".join(words)])
    with pytest.raises(InputError, match=text):
        options_of(arguments, select_catalog([]), FEATURES)


def test_simulation_options_are_rejected_with_karpenter() -> None:
    arguments = _parsed(["autoscale", "--provider", "karpenter", "--cloud-fault", "*=refused"])
    with pytest.raises(InputError, match="--cloud-fault: requires --provider simulated"):
        options_of(arguments, select_catalog([]), FEATURES)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--node-class", "gpu"], "node_class: expected GROUP/KIND/NAME, found 'gpu'"),
        (
            ["--node-class", "gcp=a/B/c", "--catalog", "aws"],
            "--node-class: no machines are ordered from provider 'gcp'",
        ),
        (["--mig-config", "name"], "--mig-config: expected NAMESPACE/CONFIGMAP or none"),
    ],
)
def test_karpenter_options_are_validated_before_connecting(words: list[str], text: str) -> None:
    arguments = _parsed(["autoscale", "--provider", "karpenter", *words])
    with pytest.raises(InputError, match=text):
        options_of(arguments, select_catalog(arguments.catalog), FEATURES)


def test_faults_can_be_in_one_option_or_several() -> None:
    assert len(faults_of([["*=slow:5,aws/*=fail"], ["gcp/*=lost", "azure/*=bare"]], catalog())) == 4
    with pytest.raises(InputError, match="unknown fault"):
        faults_of([["*=rain"]], catalog())
    with pytest.raises(InputError, match=r"cloud_fault: no type in the catalog matches 'aws/g5\.xlrage'"):
        faults_of([["aws/g5.xlrage=refused"]], catalog())


def test_durations_have_gos_syntax() -> None:
    assert (duration("--batch-idle-duration", "1m30s"), duration("--batch-idle-duration", "2")) == (90.0, 2.0)


def test_a_lab_with_an_autoscaler_starts_without_machines() -> None:
    settings = _settings(_parsed(["up", "--ephemeral", "--autoscale", "--catalog", "aws", "--cloud-fault", "*=slow:9"]))
    assert settings.fleet == ()
    assert settings.autoscale is not None
    assert {instance.provider for instance in settings.autoscale.types} == {"aws"}
    assert settings.autoscale.faults[0].amount == 9
    assert settings.autoscale.vendors == ("nvidia",)
    assert _settings(_parsed(["up", "--ephemeral"])).autoscale is None


def test_catalog_option_requires_the_autoscaler() -> None:
    with pytest.raises(InputError, match="--catalog: requires --autoscale"):
        _settings(_parsed(["up", "--ephemeral", "--catalog", "aws"]))


def test_without_a_provider_nothing_is_ordered(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["autoscale"])
    assert "--provider" in capsys.readouterr().err
