"""Text of metrics in the format of Prometheus, without its client library."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.exporter.metric import Distribution, Family, Sample


def text_of(families: Iterable[Family]) -> str:
    lines: list[str] = []
    for metric, samples in families:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for sample in samples:
            labels = list(zip(metric.labels, sample.labels, strict=True))
            if isinstance(sample, Sample):
                lines.append(f"{metric.name}{_labels(labels)} {sample.value}")
                continue
            for bound, count in zip(sample.bounds, sample.cumulative_counts, strict=True):
                lines.append(f"{metric.name}_bucket{_labels([*labels, ('le', str(bound))])} {count}")
            lines.append(f"{metric.name}_bucket{_labels([*labels, ('le', '+Inf')])} {sample.total_count}")
            lines += [
                f"{metric.name}_sum{_labels(labels)} {sample.sum}",
                f"{metric.name}_count{_labels(labels)} {sample.total_count}",
            ]
    return "\n".join(lines) + "\n"


def values_of(families: Iterable[Family], name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by labels; for a histogram, the counts."""
    (samples,) = (family.samples for family in families if family.metric.name == name)
    return {
        sample.labels: sample.total_count if isinstance(sample, Distribution) else sample.value for sample in samples
    }


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    escaped = (
        f'{name}="{value.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"' for name, value in labels
    )
    return "{" + ",".join(escaped) + "}"
