"""Reading traces: all formats, and a problem for every invalid row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from allotment.tools.replay.trace import TraceError, TraceNode, TracePod, read_nodes, read_pods

OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
DLRM = (
    "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,"
    "memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time\n"
)


def problems_of(text: str, read: Callable[[str, str], object] = read_pods) -> list[str]:
    with pytest.raises(TraceError) as caught:
        read(text, "t.csv")
    return [str(problem) for problem in caught.value.problems]


def test_a_share_of_a_gpu_with_the_models_it_accepts_and_its_times() -> None:
    [pod] = read_pods(OPENB + "p-1,6000,12288,1,460,T4|P100|T4,LS,Running,427061,12902960,427061\n")
    assert pod == TracePod("p-1", 6000, 12288, 1, 460, ("T4", "P100"), 427061.0, 12902960.0)


def test_columns_that_are_not_needed_may_be_missing() -> None:
    [pod] = read_pods("name,cpu_milli,memory_mib,num_gpu,gpu_milli\r\np-1,4000,8192,8,1000\r\n")
    assert (pod.gpu_total, pod.models, pod.created) == (8000, (), None)


def test_cores_and_gibibytes_of_recommendation_models_are_in_the_same_units() -> None:
    [pod] = read_pods(DLRM + "i-0,HN,app_0,12,12,1,1,25,25,120.5,120.5,640.0,800.0,8,,,\n")
    assert pod == TracePod("i-0", 12_000, 123_392, 1, 1000, app="app_0/HN", per_node=8)


def test_minus_one_is_no_limit_per_node() -> None:
    [pod] = read_pods(DLRM + "i-0,CN,app_0,12,12,0,0,25,25,120,120,640,800,-1,5.0,5.0,9.0\n")
    assert (pod.per_node, pod.gpus, pod.gpu_milli, pod.created, pod.deleted) == (None, 0, 0, 5.0, 9.0)


def test_nodes_of_both_formats() -> None:
    assert read_nodes("sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,2,P100\nm,32000,262144,0,\n") == (
        TraceNode("n", 64_000, 262_144, 2, "P100"),
        TraceNode("m", 32_000, 262_144, 0, ""),
    )
    assert read_nodes("gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,2\n") == (
        TraceNode("node-2", 128_000, None, 1, "A10"),
    )


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("p,4000,8192,1,half", "t.csv:2:15: gpu_milli: expected a number, found 'half'"),
        ("p,4000,8192,1,", "t.csv:2:15: gpu_milli: expected a number, found an empty field"),
        ("p,4000,8192,1,nan", "t.csv:2:15: gpu_milli: expected a number <= 1,000,000,000,000, found 'nan'"),
        ("p,4000,8192,1,1200", "t.csv:2:15: gpu_milli: expected an integer from 0 to 1,000, found '1200'"),
        ("p,4000,8192,1,0", "t.csv:2:15: gpu_milli: expected 1 to 1000 (thousandths of each GPU), found '0'"),
        ("p,4000,8192,2,500", "t.csv:2:15: gpu_milli: expected 1000, because num_gpu is greater than 1, found '500'"),
        ("p,4000,8192,0,500", "t.csv:2:15: gpu_milli: expected 0, because num_gpu is 0, found '500'"),
        ("p,-1,8192,0,0", "t.csv:2:3: cpu_milli: expected an integer from 0 to 1,000,000,000,000, found '-1'"),
        ("p,4000,8192", "t.csv:2:1: expected 5 fields, as in the first line, but found 3"),
        (",4000,8192,0,0", "t.csv:2:1: name: expected a name, found an empty field"),
    ],
)
def test_an_invalid_row_is_reported_with_its_position(row: str, problem: str) -> None:
    assert problems_of(f"name,cpu_milli,memory_mib,num_gpu,gpu_milli\n{row}\n") == [problem]


def test_all_invalid_rows_are_reported_together() -> None:
    rows = "a,1,1,0,0\nb,x,1,0,0\na,1,1,0,0\nc,1,1,1,9999\n"
    problems = problems_of(f"name,cpu_milli,memory_mib,num_gpu,gpu_milli\n{rows}")
    assert [problem.split(": ")[0] for problem in problems] == [
        "t.csv:3:3", "t.csv:4:1", "t.csv:5:9",
    ]  # fmt: skip


def test_a_pod_cannot_be_deleted_before_its_creation() -> None:
    assert problems_of(OPENB + "p,1,1,0,0,,LS,Running,100,50,100\n") == [
        "t.csv:2:27: deletion_time: expected at least creation_time (100), found '50'"
    ]


def test_an_unknown_format_is_reported_with_the_expected_columns() -> None:
    [problem] = problems_of("sn,cpu_milli,memory_mib,gpu\nn,1,1,1\n", read_nodes)
    assert problem.startswith("t.csv:1:1: expected a list of nodes, but the first line lacks model")


def test_comments_may_precede_the_columns() -> None:
    head = "# of a small cluster\n\nname,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
    assert [pod.name for pod in read_pods(head + "p,1,1,0,0\n")] == ["p"]
    assert problems_of(head + "p,x,1,0,0\n") == ["t.csv:4:3: cpu_milli: expected a number, found 'x'"]


def test_an_empty_file_and_one_without_rows() -> None:
    assert "but the first line lacks" in problems_of("")[0]
    assert problems_of("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n\n") == ["t.csv:1:1: the file has no pods"]


def test_the_published_traces_are_read_completely(shared: Callable[[str], Path]) -> None:
    pods = read_pods(shared("traces/openb_pod_list_default.csv").read_text())
    nodes = read_nodes(shared("traces/openb_node_list_gpu_node.csv").read_text())
    assert (len(pods), sum(pod.gpu_total for pod in pods)) == (8152, 6_086_800)
    assert (len(nodes), sum(node.gpus for node in nodes)) == (1213, 6212)
    assert len(read_pods(shared("traces/dlrm2025_apps_even.csv").read_text())) == 13_624
    assert len(read_nodes(shared("traces/spotgpu2026_node_info.csv").read_text())) == 4278
