"""Hypothesis strategies for edits and specifications, with few names so that conflicts occur."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

from allotment.cdi.spec import CdiDevice, ContainerEdits, DeviceNode, Hook, IntelRdt, Mount, NetDevice, Spec

_NAMES = st.sampled_from(("A", "B", "CUDA_VISIBLE_DEVICES"))
_PATHS = st.sampled_from(("/dev/nvidia0", "/dev/nvidiactl", "/dev/dri/card1"))
_PLACES = st.sampled_from(("/a", "/a/b", "/a/b/c", "/usr/lib64", "/usr/lib64/libcuda.so.1"))
_SMALL = st.integers(1, 9)

nodes = st.builds(
    DeviceNode, path=_PATHS, host_path=st.sampled_from(("", "/dev/other")), type=st.just("c"), major=_SMALL,
    minor=_SMALL, permissions=st.sampled_from(("", "r", "rw", "rwm")), file_mode=st.none() | st.just(0o666),
)  # fmt: skip
mounts = st.builds(
    Mount, host_path=st.sampled_from(("/x", "/y")), container_path=_PLACES,
    options=st.sampled_from(((), ("ro", "bind"))), type=st.sampled_from(("", "bind")),
)  # fmt: skip
hooks = st.builds(Hook, hook_name=st.sampled_from(("createRuntime", "poststop")), path=st.just("/usr/bin/hook"))
rdts = st.builds(IntelRdt, clos_id=st.sampled_from(("", "gold")), schemata=st.none() | st.just(("MB:0=50",)))


_T = TypeVar("_T")


def _tuples(values: st.SearchStrategy[_T]) -> st.SearchStrategy[tuple[_T, ...]]:
    return st.lists(values, max_size=3).map(tuple)


edits = st.builds(
    ContainerEdits,
    env=_tuples(st.builds("{}={}".format, _NAMES, _SMALL)),
    device_nodes=_tuples(nodes),
    mounts=_tuples(mounts),
    hooks=_tuples(hooks),
    net_devices=st.just(()) | st.just((NetDevice("eth1", "net0"),)),
    additional_gids=_tuples(st.integers(0, 3)),
    intel_rdt=st.none() | rdts,
)
devices = st.builds(
    CdiDevice, name=st.sampled_from(("gpu-0", "gpu-1", "7f0c-gpu-0", "mig:1.2_3")), container_edits=edits.filter(bool),
    annotations=st.just({}) | st.just({"a": "b"}),
)  # fmt: skip
specs = st.builds(
    Spec, kind=st.sampled_from(("example.com/gpu", "k8s.gpu.example.com/claim", "ab/c.d")),
    devices=st.lists(devices, min_size=1, max_size=3, unique_by=lambda device: device.name).map(tuple),
    container_edits=edits, annotations=st.just({}) | st.just({"made": "by"}),
)  # fmt: skip
