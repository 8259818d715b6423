"""V309: parameters for which the driver needs a feature gate that is off."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.parameters import driver_parameters
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.views import at


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for parameters in driver_parameters(bundle):
        for problem in parameters.problems(bundle):
            if not problem.gate:
                continue
            gate = parameters.vocabulary.gate(problem.gate)
            driver = parameters.config.driver
            is_disabled = problem.gate in bundle.settings.driver_gates.get(driver, {})
            state = "off" if is_disabled else "off by default"
            helm_value = gate.switch if gate is not None else f"featureGates.{problem.gate}=true"
            yield RuleMatch(
                parameters.document,
                (*parameters.path, *problem.path),
                f"{at(parameters.parameters, problem.path)} needs feature gate {problem.gate} of {driver}, which is {state}: the "
                "driver then refuses the claim, and its pods stay in ContainerCreating",
                help=f"install the driver's chart with {helm_value}, and say so with --driver-gates {problem.gate}=true; "
                "or leave these parameters out: pods can share a claim without any",
            )


_TIME_SLICING = """\
config:
- requests: ["gpu"]
  opaque:
    driver: gpu.nvidia.com
    parameters:
      apiVersion: resource.nvidia.com/v1beta1
      kind: GpuConfig
      sharing:
        strategy: TimeSlicing
        timeSlicingConfig:
          interval: Long
"""

RULE = Rule(
    code="V309",
    name="driver-gate",
    family="vocabulary",
    level="warning",
    summary="parameters for which the driver needs a feature gate that is off",
    why=(
        "Parameters are opaque to Kubernetes: the scheduler gives the pod its device, and the driver reads them when "
        "the kubelet asks it to prepare the claim (KEP-4381). NVIDIA's driver has time-slicing settings and MPS behind "
        "gates of its own that are off by default, so the claim is refused there and the kubelet tries for ever. "
        "Which gates the driver has on cannot be seen in a cluster's objects; tell those with --driver-gates."
    ),
    bad=examples.claim("shared-gpu", devices_extra=_TIME_SLICING),
    good=examples.claim("shared-gpu"),
    find=_find,
    see="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/main/pkg/featuregates/featuregates.go",
)
