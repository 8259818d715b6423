"""Conversion between the DRA API's values (:mod:`.messages`) and protobuf messages.

Both versions of the DRA service have the same fields, except for the share ID (KEP-5075), which only v1 has. As in
upstream's conversion, answers to v1beta1 kubelets have no share IDs. The two versions of the health service (KEP-4680)
have the same messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, Health, PreparedDevice, PrepareResult
from allotment.kubelet_plugin.wire import dra_v1_pb2, dra_v1beta1_pb2, health_v1_pb2, health_v1alpha1_pb2


class Version(NamedTuple):
    name: str
    """The entry in a plugin's ``supported_versions``."""
    service: str
    """The full name of the service in method paths."""
    wire: Any
    """The module with the messages; the two modules have no common type, so messages created by name are Any."""
    has_share_ids: bool


V1: Final = Version("v1.DRAPlugin", "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", dra_v1_pb2, True)
V1BETA1: Final = Version("v1beta1.DRAPlugin", "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin", dra_v1beta1_pb2, False)
VERSIONS: Final = (V1, V1BETA1)

PREPARE: Final = "NodePrepareResources"
UNPREPARE: Final = "NodeUnprepareResources"


class HealthVersion(NamedTuple):
    """A version of the health service. ``wire``: the module with its messages."""

    service: str
    """The full name of the service, which is also its entry in ``supported_versions``: the package has no prefix."""
    wire: Any


HEALTH_V1: Final = HealthVersion("v1.DRAResourceHealth", health_v1_pb2)
HEALTH_V1ALPHA1: Final = HealthVersion("v1alpha1.DRAResourceHealth", health_v1alpha1_pb2)
#: In the order of preference of a kubelet 1.37; kubelets of earlier releases know v1alpha1 only.
HEALTH_VERSIONS: Final = (HEALTH_V1, HEALTH_V1ALPHA1)
WATCH: Final = "NodeWatchResources"

_HEALTH: Final[Mapping[Health, int]] = {
    "Unknown": health_v1_pb2.UNKNOWN,
    "Healthy": health_v1_pb2.HEALTHY,
    "Unhealthy": health_v1_pb2.UNHEALTHY,
}
_HEALTH_NAMES: Final = {number: name for name, number in _HEALTH.items()}


def encode_claims(version: Version, method: str, claims: Iterable[ClaimRef]) -> Message:
    """Return the request of ``PREPARE`` or ``UNPREPARE``: both contain a list of claims."""
    request: Message = getattr(version.wire, method + "Request")(
        claims=[version.wire.Claim(namespace=c.namespace, uid=c.uid, name=c.name) for c in claims]
    )
    return request


def decode_claims(request: Any) -> tuple[ClaimRef, ...]:
    return tuple(ClaimRef(c.namespace, c.uid, c.name) for c in request.claims)


def encode_prepare_response(version: Version, results: Mapping[str, PrepareResult]) -> Message:
    response: Message = version.wire.NodePrepareResourcesResponse(
        claims={uid: _encode_prepare_result(version, result) for uid, result in results.items()}
    )
    return response


def _encode_prepare_result(version: Version, result: PrepareResult) -> Any:
    devices = [_encode_device(version, device) for device in result.devices]
    return version.wire.NodePrepareResourceResponse(devices=devices, error=replace_surrogates(result.error))


def _encode_device(version: Version, device: PreparedDevice) -> Any:
    share = {"share_id": device.share_id} if version.has_share_ids and device.share_id else {}
    return version.wire.Device(
        request_names=device.requests,
        pool_name=device.pool,
        device_name=device.device,
        cdi_device_ids=device.cdi_ids,
        **share,
    )


def decode_prepare_response(version: Version, response: Any) -> dict[str, PrepareResult]:
    """Return the driver's results by claim UID."""
    return {
        uid: PrepareResult(tuple(_decode_device(version, device) for device in result.devices), result.error)
        for uid, result in response.claims.items()
    }


def _decode_device(version: Version, device: Any) -> PreparedDevice:
    return PreparedDevice(
        tuple(device.request_names),
        device.pool_name,
        device.device_name,
        tuple(device.cdi_device_ids),
        device.share_id if version.has_share_ids else "",
    )


def encode_unprepare_response(version: Version, errors: Mapping[str, str]) -> Message:
    result_type = version.wire.NodeUnprepareResourceResponse
    response: Message = version.wire.NodeUnprepareResourcesResponse(
        claims={uid: result_type(error=replace_surrogates(error)) for uid, error in errors.items()}
    )
    return response


def decode_unprepare_response(response: Any) -> dict[str, str]:
    """Return the driver's errors by claim UID; empty for success."""
    return {uid: result.error for uid, result in response.claims.items()}


def encode_health(version: HealthVersion, devices: Sequence[DeviceHealth]) -> Message:
    """Return a message of the health stream."""
    wire = version.wire
    response: Message = wire.NodeWatchResourcesResponse(
        devices=[
            wire.DeviceHealth(
                device=wire.DeviceIdentifier(pool_name=d.pool, device_name=d.device),
                health=_HEALTH[d.health],
                last_updated_time=d.updated,
                health_check_timeout_seconds=d.timeout,
                message=replace_surrogates(d.message),
            )
            for d in devices
        ]
    )
    return response


def decode_health(response: Any) -> tuple[DeviceHealth, ...]:
    """Return the devices of a message of the health stream. An unrecognized health value is Unknown."""
    return tuple(
        DeviceHealth(
            d.device.pool_name,
            d.device.device_name,
            _HEALTH_NAMES.get(d.health, "Unknown"),
            d.last_updated_time,
            d.health_check_timeout_seconds,
            d.message,
        )
        for d in response.devices
    )


def replace_surrogates(text: str) -> str:
    """Return ``text`` without lone surrogates, which protobuf rejects.

    File names that are not UTF-8 add them to error texts.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass").decode(errors="replace")
    return text
