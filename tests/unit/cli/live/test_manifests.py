"""Kinds of a manifest that a cluster does not serve."""

from __future__ import annotations

import pytest

from allotment.cli.live.manifests import served_by
from allotment.cli.output.errors import Failure
from allotment.cluster.inspection.discovery import Discovery
from allotment.model.loading import load_text

TAINT_RULES = (
    "the cluster does not serve DeviceTaintRule (Kubernetes has v1alpha3 since 1.33, v1beta2 since 1.36, v1 "
    "since 1.37): alpha and beta versions require --runtime-config=resource.k8s.io/VERSION=true, and the "
    "feature gate DRADeviceTaintRules"
)


@pytest.mark.parametrize(
    ("api_version", "kind", "hint"),
    [
        ("resource.k8s.io/v1", "DeviceTaintRule", TAINT_RULES),
        ("example.com/v1", "Train", "ensure CRDs are installed first"),
    ],
)
def test_a_kind_that_is_not_served_names_what_is_required(api_version: str, kind: str, hint: str) -> None:
    (document,) = load_text(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n").documents
    with pytest.raises(Failure, match="no matches for kind") as refused:
        served_by(Discovery([]), document)
    assert refused.value.hint == hint
