"""Shell commands to install drivers and to move nodes from device plugin to driver and back.

They follow the vendors' instructions. The driver's DaemonSet selects nodes by a label, so that nodes can move one at a
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.tools.migrate.plugin_requests import Vendor
from allotment.tools.migrate.request_mapping import AMD, HAMI, INTEL, NVIDIA

#: The node label that selects nodes for the driver, by vendor; the GPU operator uses NVIDIA's.
DRIVER_LABEL: Mapping[Vendor, str] = {
    "nvidia": "nvidia.com/dra-kubelet-plugin",
    "amd": "gpu.amd.com/dra",
    "intel": "gpu.intel.com/dra",
}
#: The node label that the GPU operator's DaemonSets select.
PLUGIN_LABEL = "nvidia.com/gpu.deploy.device-plugin"
_CHART = "oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu"
_MORE = " \\"


def install(driver: str, gates: Iterable[str] = (), shares: bool = False) -> tuple[str, ...]:
    """Install a driver. ``shares``: publish GPUs that several claims can share."""
    match driver:
        case _ if driver == NVIDIA:
            values = ["gpuResourcesEnabledOverride=true", "nvidiaDriverRoot=/run/nvidia/driver"]
            values += [f"featureGates.{gate}=true" for gate in gates]
            values += ["featureGates.ConsumableShares=true", "consumableShares=memory"] if shares else []
            return (
                "helm upgrade -i dra-driver-nvidia-gpu" + _MORE,
                f"  {_CHART}" + _MORE,
                "  --namespace dra-driver-nvidia-gpu --create-namespace" + _MORE,
                *(f"  --set {value}{_MORE}" for value in values),
                f"  --set-string{_MORE}",
                f"  '{_selector('nvidia')}=true'",
            )
        case _ if driver == AMD:
            return (
                "helm repo add amd-dra https://rocm.github.io/k8s-gpu-dra-driver",
                "helm upgrade -i k8s-gpu-dra-driver amd-dra/k8s-gpu-dra-driver" + _MORE,
                "  --namespace kube-amd-gpu --create-namespace" + _MORE,
                f"  --set-string '{_selector('amd')}=true'",
            )
        case _ if driver == INTEL:
            return (
                "helm upgrade -i intel-gpu-resource-driver" + _MORE,
                "  oci://ghcr.io/intel/intel-resource-drivers-for-kubernetes/intel-gpu-resource-driver-chart" + _MORE,
                "  --namespace intel-gpu-resource-driver --create-namespace" + _MORE,
                f"  --set-string '{_selector('intel')}=true'",
            )
        case _ if driver == HAMI:
            return ("# HAMi's DRA driver: https://github.com/Project-HAMi/k8s-dra-driver",)
    return ()


def _selector(vendor: Vendor) -> str:
    return "kubeletPlugin.nodeSelector." + DRIVER_LABEL[vendor].replace(".", "\\.")


def to_driver(vendor: Vendor, node: str) -> tuple[str, ...]:
    """Move a drained node to the driver."""
    if vendor == "nvidia":
        labels = (f"  {PLUGIN_LABEL}=false" + _MORE, f"  {DRIVER_LABEL[vendor]}=true")
        return (f"kubectl label node {node} --overwrite" + _MORE, *labels)
    return (f"kubectl label node {node} --overwrite {DRIVER_LABEL[vendor]}=true",)


def to_plugin(vendor: Vendor, node: str) -> tuple[str, ...]:
    """Return a drained node to the device plugin."""
    if vendor == "nvidia":
        labels = (f"  {PLUGIN_LABEL}=true" + _MORE, f"  {DRIVER_LABEL[vendor]}-")
        return (f"kubectl label node {node} --overwrite" + _MORE, *labels)
    return (f"kubectl label node {node} {DRIVER_LABEL[vendor]}-",)


def plugin_off(vendor: Vendor, daemon_set: str = "") -> tuple[str, ...]:
    """Keep the device plugin off the driver's nodes, or stop it on all nodes.

    ``daemon_set``: its ``namespace/name``, if known and not managed by an operator.
    """
    match vendor:
        case "nvidia":
            return (
                *(_by_label(daemon_set) if daemon_set else ()),
                "# GPU operator only, once every node has moved to the driver:",
                "helm upgrade gpu-operator nvidia/gpu-operator -n gpu-operator" + _MORE,
                "  --version VERSION --reuse-values --set devicePlugin.enabled=false",
            )
        case "amd":
            return (
                "# AMD's GPU operator runs the device plugin or the driver (DeviceConfig):",
                "kubectl -n kube-amd-gpu patch deviceconfig NAME --type=merge" + _MORE,
                '  -p \'{"spec":{"devicePlugin":{"enableDevicePlugin":false}}}\'',
            )
        case "intel":
            return ("kubectl delete gpudeviceplugin NAME",)


def _by_label(daemon_set: str) -> tuple[str, ...]:
    """Select nodes for a plugin without an operator by the label that the operator uses."""
    namespace, _, name = daemon_set.partition("/")
    selector = '{"spec":{"template":{"spec":{"nodeSelector":{"' + PLUGIN_LABEL + '":"true"}}}}}'
    return (
        "# keep the device plugin off nodes that have moved to the driver:",
        f"kubectl label node -l nvidia.com/gpu.present=true {PLUGIN_LABEL}=true",
        f"kubectl -n {namespace} patch daemonset {name}{_MORE}",
        f"  -p '{selector}'",
    )


def plugin_on(vendor: Vendor) -> tuple[str, ...]:
    """Restore the device plugin on all nodes."""
    match vendor:
        case "nvidia":
            return (
                "helm upgrade gpu-operator nvidia/gpu-operator -n gpu-operator" + _MORE,
                "  --version VERSION --reuse-values --set devicePlugin.enabled=true",
            )
        case "amd":
            return (
                "kubectl -n kube-amd-gpu patch deviceconfig NAME --type=merge" + _MORE,
                '  -p \'{"spec":{"devicePlugin":{"enableDevicePlugin":true}}}\'',
            )
        case "intel":
            return ("kubectl apply -f GPUDEVICEPLUGIN.yaml",)
