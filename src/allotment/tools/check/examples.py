"""Files for the examples of rules, as a user would write them, made from what is of interest in them.

>>> print(
...     template("training", selector='device.attributes["gpu.nvidia.com"].architecture == "Hopper"', more="count: 2")
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


def together(*documents: str) -> str:
    """Documents in one file."""
    return "---\n".join(documents)


def claim(
    name: str,
    *,
    class_name: str = "gpu.nvidia.com",
    request: str = "gpu",
    selector: str = "",
    more: str = "",
    beside: str = "",
) -> str:
    """A claim with one request. ``more`` are other lines of the request, ``beside`` those below all requests."""
    return _object("ResourceClaim", name, "", _devices(class_name, request, selector, more, beside))


def template(
    name: str,
    *,
    namespace: str = "",
    class_name: str = "gpu.nvidia.com",
    request: str = "gpu",
    selector: str = "",
    more: str = "",
    beside: str = "",
) -> str:
    """A template of such a claim."""
    spec = _under("spec", _devices(class_name, request, selector, more, beside))
    return _object("ResourceClaimTemplate", name, namespace, spec)


def device_class(name: str, selector: str) -> str:
    """A class that selects by one expression."""
    return _object("DeviceClass", name, "", _selectors(selector))


def resource_slice(devices: str, *, driver: str = "gpu.nvidia.com", node: str, of: int = 1, end: str = "") -> str:
    """A slice of a node's pool, which has ``of`` slices. ``end`` is that of the name."""
    pool = _under("pool", f"name: {node}\ngeneration: 1\nresourceSliceCount: {of}")
    spec = f"driver: {driver}\nnodeName: {node}\n{pool}devices:\n{_lines(devices)}"
    return _object("ResourceSlice", f"{node}-{driver}{end}", "", spec)


def pod(name: str, entry: str, *, namespace: str = "", claim: str = "gpu", more: str = "", resources: str = "") -> str:
    """A pod with one claim, to which ``entry`` leads. ``more`` are other lines of its spec; ``resources`` those of its
    container where they are not just the claim."""
    return _object("Pod", name, namespace, _lines(more) + _pod(name, entry, claim, resources), version="v1")


def deployment(name: str, entry: str, replicas: int) -> str:
    """A Deployment of such pods."""
    labels = f"labels: {{app: {name}}}"
    template = _under("metadata", labels) + _under("spec", _pod(name, entry, "gpu", ""))
    spec = f"replicas: {replicas}\n{_under('selector', f'matchLabels: {{app: {name}}}')}{_under('template', template)}"
    return _object("Deployment", name, "", spec, version="apps/v1")


def _object(kind: str, name: str, namespace: str, spec: str, *, version: str = "resource.k8s.io/v1") -> str:
    metadata = f"name: {name}\n" + (f"namespace: {namespace}\n" if namespace else "")
    return f"apiVersion: {version}\nkind: {kind}\n{_under('metadata', metadata)}{_under('spec', spec)}"


def _devices(class_name: str, request: str, selector: str, more: str, beside: str) -> str:
    asked = f"deviceClassName: {class_name}\n{_lines(more)}{_selectors(selector) if selector else ''}"
    item = f"- name: {request}\n{indent(_under('exactly', asked), '  ')}"
    return _under("devices", f"requests:\n{item}{_lines(beside)}")


def _selectors(expression: str) -> str:
    text = "|\n" + indent(expression, "      ") if "\n" in expression else expression
    return f"selectors:\n- cel:\n    expression: {_lines(text)}"


def _pod(name: str, entry: str, claim: str, resources: str) -> str:
    container = f"- name: {name}\n  image: registry.example/{name}:1\n"
    given = indent(_under("resources", resources or f"claims:\n- name: {claim}"), "  ")
    return f"resourceClaims:\n- name: {claim}\n  {entry}\ncontainers:\n{container}{given}"


def _under(key: str, text: str) -> str:
    return f"{key}:\n{indent(_lines(text), '  ')}"


def _lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
