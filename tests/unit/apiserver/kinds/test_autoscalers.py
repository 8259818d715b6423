from allotment.apiserver.kinds.autoscalers import autoscaler_from_version, autoscaler_to_version
from tests.unit.apiserver.shelf import manifest


def test_conversion_of_an_autoscaler_to_v1_keeps_other_metrics() -> None:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    other = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}}
    stored = manifest(apiVersion="autoscaling/v2", spec={"maxReplicas": 3, "metrics": [cpu, other]}, status={})
    old = autoscaler_to_version(stored, "v1")
    assert old["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 80}
    assert autoscaler_from_version(old, "v1")["spec"] == stored["spec"]
