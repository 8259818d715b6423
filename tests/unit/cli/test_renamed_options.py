"""Old names of options: aliases that work and that help does not show."""

from __future__ import annotations

import re

import pytest

from allotment.cli.main import command_line

#: Old name, new name, a value if the option takes one, and a command that has it.
RENAMED = (
    ("--longest", "--batch-max-duration", "3s", "autoscale --provider karpenter"),
    ("--idle", "--batch-idle-duration", "3s", "autoscale --provider karpenter"),
    ("--registration", "--registration-timeout", "3s", "autoscale --provider karpenter"),
    ("--disrupt", "--disruption-budget", "3", "run autoscaler --provider karpenter"),
    ("--seconds", "--time-limit", "3", "autoscale --provider karpenter"),
    ("--elect", "--leader-elect", "", "autoscale --provider karpenter"),
    ("--cloud", "--cloud-fault", "*=bare", "up"),
    ("--delay", "--provisioning-delay", "3s", "up"),
    ("--data", "--data-dir", "x", "up"),
    ("--host", "--bind-address", "::1", "up"),
    ("--without", "--disable", "garbage", "up"),
    ("--without", "--exclude-types", "aws/p5*", "plan"),
    ("--capacity", "--capacity-type", "spot", "plan"),
    ("--spot-at-most", "--max-spot", "50%", "plan"),
    ("--most", "--max-per-type", "aws/p5*=2", "plan"),
    ("--machines", "--max-machines", "3", "plan"),
    ("--seconds", "--time-limit", "3", "plan"),
    ("--unsafe", "--unsafe-fixes", "", "check"),
    ("--gates", "--feature-gates", "A=true", "check"),
    ("--only", "--select", "D1", "doctor"),
    ("--to", "--strategy", "claims", "migrate app.yaml"),
    ("--same", "--match-attribute", "pcieRoot", "migrate app.yaml"),
    ("--most-series", "--max-series", "3", "metrics"),
    ("--directory", "--output-dir", "x", "metrics dashboards"),
    ("--runbooks", "--runbook-url", "x", "metrics alerts -d y"),
    ("--arrive", "--load", "90%", "replay sample"),
    ("--times", "--use-times", "", "replay sample"),
    ("--out", "--output-dir", "x", "replay sample"),
    ("--settle", "--bind-delay", "3s", "run scheduler"),
    ("--traces", "--otlp-endpoint", "http://x:1", "run claims"),
    ("--account", "--service-account", "x", "rbac"),
    ("--node", "--node-name", "n", "driver run nvidia"),
    ("--node", "--node-name", "n", "fleet slices t4"),
    ("--node", "--node-name", "n", "catalog slices g5.xlarge"),
    ("--cert", "--tls-cert-file", "x", "cluster-autoscaler"),
    ("--key", "--tls-private-key-file", "x", "cluster-autoscaler"),
    ("--client-ca", "--client-ca-file", "x", "cluster-autoscaler"),
    ("--certificates", "--cert-dir", "x", "cluster-autoscaler"),
    ("--host-name", "--tls-san", "x", "cluster-autoscaler"),
    ("--plain", "--plaintext", "", "cluster-autoscaler"),
    ("--provisioning", "--max-node-provision-time", "3s", "cluster-autoscaler"),
)


@pytest.mark.parametrize(
    ("old", "new", "value", "command"), RENAMED, ids=[f"{row[3].split()[0]}{row[0]}" for row in RENAMED]
)
def test_old_option_name_is_a_hidden_alias(old: str, new: str, value: str, command: str) -> None:
    words = command.split()

    def values(option: str) -> dict[str, object]:
        parsed = vars(command_line(words[0]).parse_args([*words, option, *filter(None, [value])]))
        return {name: parsed[name] for name in parsed if name not in {"run", "help_of"}}

    assert values(old) == values(new)
    assert values(new)[new.removeprefix("--").replace("-", "_")]
    text = command_line(words[0]).command_parser(words).format_help()
    assert re.search(rf"{new}\b", text)
    assert not re.search(rf"{old}(?![-\w])", text)
