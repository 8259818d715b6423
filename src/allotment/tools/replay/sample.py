"""A synthetic sample trace, to try a replay without data. It is random with a fixed seed, so always the same.

It resembles a cluster for inference and training: many shares of GPUs, most pods with one GPU, a few with a whole node,
and nodes with different ratios of CPU to GPU, so that placement matters. None of its figures is a measurement.
"""

from __future__ import annotations

import random
from typing import Final

from allotment.tools.replay.trace import TraceNode, TracePod

#: The seed of the random generator.
_SEED: Final = 20260815
_PODS: Final = 560
_HOUR: Final = 3600

#: Number of nodes, cpu_milli, memory_mib, GPUs, model.
_NODES: Final = (
    (12, 64_000, 262_144, 2, "T4"),
    (6, 96_000, 393_216, 4, "A10"),
    (30, 96_000, 786_432, 8, "A100-SXM4-80GB"),
    (8, 192_000, 1_048_576, 8, "A100-SXM4-80GB"),
)

#: Weight, cpu_milli, memory_mib, GPUs, thousandths of each, models.
_SHAPES: Final = (
    (10, 12_000, 49_152, 0, 0, ()),
    (4, 32_000, 65_536, 0, 0, ()),
    (16, 3_000, 6_144, 1, 800, ()),
    (12, 11_000, 32_768, 1, 450, ()),
    (9, 4_000, 16_384, 1, 300, ()),
    (4, 2_000, 8_192, 1, 150, ("T4", "A10")),
    (18, 11_500, 65_536, 1, 1000, ()),
    (12, 4_000, 32_768, 1, 1000, ()),
    (8, 19_000, 98_304, 1, 1000, ()),
    (4, 16_000, 65_536, 2, 1000, ()),
    (2, 40_000, 262_144, 4, 1000, ("A100-SXM4-80GB",)),
    (1, 88_000, 524_288, 8, 1000, ("A100-SXM4-80GB",)),
)


def sample_trace() -> tuple[tuple[TracePod, ...], tuple[TraceNode, ...]]:
    """The pods and the nodes."""
    random_ = random.Random(_SEED)
    weights = [shape[0] for shape in _SHAPES]
    pods: list[TracePod] = []
    now = 0.0
    for number in range(_PODS):
        _, cpu, memory, gpus, milli, models = random_.choices(_SHAPES, weights)[0]
        now += random_.expovariate(1 / 120)
        stays = random_.expovariate(1 / (60 * _HOUR))
        pods.append(
            TracePod(
                f"sample-{number:04d}", cpu, memory, gpus, milli, models,
                created=float(round(now)), deleted=float(round(now + stays) + 1),
            )
        )  # fmt: skip
    node_specs = [spec for spec in _NODES for _ in range(spec[0])]
    # Shuffled, so that no policy benefits from the order of the nodes.
    random_.shuffle(node_specs)
    nodes = [
        TraceNode(f"sample-node-{number:02d}", cpu, memory, gpus, model)
        for number, (_, cpu, memory, gpus, model) in enumerate(node_specs)
    ]
    return tuple(pods), tuple(nodes)
