"""The number and length of findings are limited."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.examination import MAX_FINDINGS_PER_CHECK, limit_findings, run_checks
from allotment.tools.doctor.finding import ClusterFinding, Severity
from allotment.tools.doctor.workload_groups import pods_text
from tests.unit.tools.doctor.sample_cluster import Cluster


def test_findings_beyond_the_limit_are_combined() -> None:
    many = [
        ClusterFinding("D603", "error", f"pod ml/p-{number}", "e", "r", (f"ml/p-{number}",)) for number in range(20)
    ]
    reported = list(limit_findings(many))
    assert reported[: MAX_FINDINGS_PER_CHECK - 1] == many[: MAX_FINDINGS_PER_CHECK - 1]
    assert len(reported) == MAX_FINDINGS_PER_CHECK
    assert reported[-1].subject == "16 more"
    assert reported[-1].evidence == "the same problem affects pod ml/p-4, pod ml/p-5, pod ml/p-6 and 13 more"
    assert "$ allot doctor --select D603 -o wide" in reported[-1].remedy


SEVERITY: st.SearchStrategy[Severity] = st.sampled_from(("error", "note"))


@given(st.lists(st.tuples(st.sampled_from(("D501", "D603")), SEVERITY)))
def test_limited_findings_keep_all_objects(kinds: list[tuple[str, Severity]]) -> None:
    found = [ClusterFinding(c, s, f"s{n}", "e", "", (f"o{n}",)) for n, (c, s) in enumerate(sorted(kinds))]
    reported = list(limit_findings(found))
    assert len(reported) <= 4 * MAX_FINDINGS_PER_CHECK
    assert [name for finding in reported for name in finding.objects] == [f"o{n}" for n in range(len(found))]


def test_many_missing_nodes_are_one_finding() -> None:
    cluster = Cluster()
    for number in range(100):
        cluster.pod(f"p{number}", claim=f"c{number}", node="node-1")
        cluster.claim(f"c{number}", f"gone-{number}/gpu-0", pods=[f"p{number}"])
    reported = cluster.finding("D503")
    assert reported.subject == "100 claims"
    assert "100 pools (gone-0, gone-1, gone-2 and 97 more) of gpu.nvidia.com are missing" in reported.evidence
    assert len(reported.evidence) < 300
    assert len(reported.objects) == 100


def test_pods_are_summarized_by_workload() -> None:
    cluster = Cluster()
    for number in range(4):
        cluster.pod(f"a-{number}", owner=("Job", "a"))
    for number in range(2):
        replica = cluster.pod(f"b-{number}", owner=("ReplicaSet", "b-5f6d"))
        replica["metadata"]["labels"]["pod-template-hash"] = "5f6d"
    cluster.pod("alone")
    index = ClusterIndex(cluster.snapshot())
    names = [f"ml/a-{number}" for number in range(4)]
    assert pods_text(index, names) == "4 pods of Job ml/a"
    assert pods_text(index, names[:1]) == "pod ml/a-0"
    assert pods_text(index, ["ml/alone", "ml/web"]) == "2 pods (ml/alone, ml/web)"
    assert pods_text(index, [*names, "ml/b-0", "ml/b-1", "ml/alone"]) == (
        "7 pods (4 of Job ml/a, 2 of Deployment ml/b, 1 without a workload)"
    )


def test_pods_with_the_same_cause_are_one_finding() -> None:
    cluster = Cluster()
    for number in range(200):
        cluster.pending_pod(f"p{number}", owner=("Job", f"j{number % 7}"))
    found = [finding for finding in run_checks(cluster.snapshot()) if finding.code == "D602"]
    assert [(finding.severity, len(finding.objects)) for finding in found] == [("warning", 197)]
