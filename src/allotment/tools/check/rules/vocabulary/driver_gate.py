"""V309: parameters that need a driver feature gate that is disabled."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.parameters import driver_parameters
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.views import at


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for parameters in driver_parameters(bundle):
        for problem in parameters.problems(bundle):
            if not problem.gate:
                continue
            gate = parameters.vocabulary.gate(problem.gate)
            driver = parameters.config.driver
            is_disabled = problem.gate in bundle.settings.driver_gates.get(driver, {})
            state = "disabled" if is_disabled else "disabled by default"
            helm_value = gate.switch if gate is not None else f"featureGates.{problem.gate}=true"
            yield RuleMatch(
                parameters.document,
                (*parameters.path, *problem.path),
                f"{at(parameters.values, problem.path)} needs feature gate {problem.gate} of {driver}, "
                f"which is {state}: the driver rejects the claim, and its pods stay in ContainerCreating",
                help=f"install the driver's chart with {helm_value} and pass --driver-gates {problem.gate}=true, "
                "or remove these parameters: pods can share a claim without them",
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
    summary="the parameters need a driver feature gate that is disabled",
    why=(
        "Parameters are opaque to Kubernetes: the scheduler allocates the device, and the driver reads the parameters "
        "when the kubelet calls it to prepare the claim (KEP-4381). In NVIDIA's driver, time-slicing settings and MPS "
        "require driver feature gates that are off by default; without them, the driver rejects the claim, and the "
        "kubelet retries indefinitely. The objects in a cluster do not show which driver gates are enabled; specify "
        "them with --driver-gates."
    ),
    bad=examples.claim("shared-gpu", devices_extra=_TIME_SLICING),
    good=examples.claim("shared-gpu"),
    find=_find,
    see="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/main/pkg/featuregates/featuregates.go",
)
