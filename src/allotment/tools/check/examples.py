"""Builders for the YAML of rule examples.

>>> print(
...     template(
...         "training",
...         selector='device.attributes["gpu.nvidia.com"].architecture == "Hopper"',
...         request_extra="count: 2",
...     )
... )
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: training
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          count: 2
          selectors:
          - cel:
              expression: device.attributes["gpu.nvidia.com"].architecture == "Hopper"
<BLANKLINE>
"""

from __future__ import annotations

from textwrap import indent


def join_documents(*documents: str) -> str:
    """The documents as one file."""
    return "---\n".join(documents)


def claim(
    name: str,
    *,
    class_name: str = "gpu.nvidia.com",
    request: str = "gpu",
    selector: str = "",
    request_extra: str = "",
    devices_extra: str = "",
) -> str:
    """A ResourceClaim with one request. ``request_extra`` are further lines of the request, ``devices_extra`` of
    ``devices``.
    """
    return _manifest("ResourceClaim", name, "", _devices(class_name, request, selector, request_extra, devices_extra))


def template(
    name: str,
    *,
    namespace: str = "",
    class_name: str = "gpu.nvidia.com",
    request: str = "gpu",
    selector: str = "",
    request_extra: str = "",
    devices_extra: str = "",
) -> str:
    """A ResourceClaimTemplate with one request, with the parameters of ``claim``."""
    spec = _nested("spec", _devices(class_name, request, selector, request_extra, devices_extra))
    return _manifest("ResourceClaimTemplate", name, namespace, spec)


def device_class(name: str, selector: str) -> str:
    """A DeviceClass with one selector."""
    return _manifest("DeviceClass", name, "", _selectors(selector))


def resource_slice(
    devices: str, *, driver: str = "gpu.nvidia.com", node: str, slice_count: int = 1, name_suffix: str = ""
) -> str:
    """A slice of a node's pool, which has ``slice_count`` slices. ``name_suffix`` is appended to the slice's name."""
    pool = _nested("pool", f"name: {node}\ngeneration: 1\nresourceSliceCount: {slice_count}")
    spec = f"driver: {driver}\nnodeName: {node}\n{pool}devices:\n{_with_newline(devices)}"
    return _manifest("ResourceSlice", f"{node}-{driver}{name_suffix}", "", spec)


def pod(
    name: str, entry: str, *, namespace: str = "", claim: str = "gpu", spec_extra: str = "", resources: str = ""
) -> str:
    """A pod with one claim, whose ``entry`` names a claim or template. ``spec_extra`` are further lines of its spec,
    and ``resources`` replaces the resources of its container.
    """
    return _manifest(
        "Pod", name, namespace, _with_newline(spec_extra) + _pod(name, entry, claim, resources), version="v1"
    )


def deployment(name: str, entry: str, replicas: int) -> str:
    """A Deployment of such pods."""
    labels = f"labels: {{app: {name}}}"
    template = _nested("metadata", labels) + _nested("spec", _pod(name, entry, "gpu", ""))
    spec = (
        f"replicas: {replicas}\n{_nested('selector', f'matchLabels: {{app: {name}}}')}{_nested('template', template)}"
    )
    return _manifest("Deployment", name, "", spec, version="apps/v1")


def _manifest(kind: str, name: str, namespace: str, spec: str, *, version: str = "resource.k8s.io/v1") -> str:
    metadata = f"name: {name}\n" + (f"namespace: {namespace}\n" if namespace else "")
    return f"apiVersion: {version}\nkind: {kind}\n{_nested('metadata', metadata)}{_nested('spec', spec)}"


def _devices(class_name: str, request: str, selector: str, request_extra: str, devices_extra: str) -> str:
    exactly = f"deviceClassName: {class_name}\n{_with_newline(request_extra)}{_selectors(selector) if selector else ''}"
    item = f"- name: {request}\n{indent(_nested('exactly', exactly), '  ')}"
    return _nested("devices", f"requests:\n{item}{_with_newline(devices_extra)}")


def _selectors(expression: str) -> str:
    text = "|\n" + indent(expression, "      ") if "\n" in expression else expression
    return f"selectors:\n- cel:\n    expression: {_with_newline(text)}"


def _pod(name: str, entry: str, claim: str, resources: str) -> str:
    container = f"- name: {name}\n  image: registry.example/{name}:1\n"
    container_fields = indent(_nested("resources", resources or f"claims:\n- name: {claim}"), "  ")
    return f"resourceClaims:\n- name: {claim}\n  {entry}\ncontainers:\n{container}{container_fields}"


def _nested(key: str, text: str) -> str:
    return f"{key}:\n{indent(_with_newline(text), '  ')}"


def _with_newline(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
