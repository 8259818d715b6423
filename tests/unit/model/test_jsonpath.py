"""JSONPath: the expected results are those of ``k8s.io/client-go/util/jsonpath`` 0.36.3."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.jsonpath import EvaluationError, TemplateError, parse, relax

POD = {
    "metadata": {"name": "a", "labels": {"app.example.com/name": "web"}},
    "spec": {
        "containers": [{"name": "x", "image": "i:1"}, {"name": "y", "image": "i:2"}, {"name": "z", "image": "i:3"}]
    },
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Done", "status": "False"}],
        "n": 3, "b": True, "none": None, "empty": [], "f": 2500000.5, "whole": 2e6, "text": "<&>",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.metadata.name}", "a"),
        ("name: {.metadata.name}, n: {.status.n}", "name: a, n: 3"),
        (".metadata.name", ".metadata.name"),
        ("{$.metadata.name}{@.metadata.name}", "aa"),
        ("{.spec.containers[*].name}", "x y z"),
        ("{.spec.containers[0].name}{.spec.containers[-1].name}", "xz"),
        ("{.spec.containers[].name}", "x"),
        ("{.spec.containers[0:2].name}", "x y"),
        ("{.spec.containers[::2].name}", "x z"),
        ("{.spec.containers[-2:].name}", "y z"),
        ("{.spec.containers[1:1].name}", ""),
        ("{.spec.containers[0, 2].name}", "x z"),
        ("{.metadata['name']}", "a"),
        ("{.spec.containers[0]['name','image']}", "x i:1"),
        (r"{.metadata.labels.app\.example\.com/name}", "web"),
        (r"{.metadata.labels['app\.example\.com/name']}", "web"),
        ("{.metadata.labels['app.example.com/name']}", ""),
        ('{.status.conditions[?(@.type=="Ready")].status}', "True"),
        ("{.status.conditions[?(@.status!='True')].type}", "Done"),
        ("{.status.conditions[?(@.type > 'Done')].type}", "Ready"),
        ("{.status.conditions[?('a)b'==@.type)].type}", ""),
        ("{.spec.containers[?(@.never)].name}", ""),
        ("{.spec.containers[?(@.image)].name}", "x y z"),
        ("{..image}", "i:1 i:2 i:3"),
        ("{.metadata.*}", 'a {"app.example.com/name":"web"}'),
        ('{range .spec.containers[*]}{.name}{"\\t"}{.image}{"\\n"}{end}', "x\ti:1\ny\ti:2\nz\ti:3\n"),
        ("{range .spec.containers[*]}{$.metadata.name}{.name} {end}", "x y z "),
        ("{range .spec.containers[*]}{.name} ", "x y z  "),
        ("{range .never[*]}{.name}{end}!", "!"),
        ("{.status.b}{.status.none}{.status.whole}{.status.f}", "truenull2e+062.5000005e+06"),
        ("{.status.conditions[1]}", '{"status":"False","type":"Done"}'),
        ("{.status.text}{.status['text','whole','empty']}", "<&><&> 2e+06 []"),
        ("{.never.there[0]}", ""),
        ("{.status.none.there[0]}", ""),
        ("{.status.empty[*]}", ""),
        ("{.metadata.name .status.n}", ""),
        ("{.metadata .name}", "a"),
        ('{.metadata.name "x"}', "x"),
        (r"""{'it\'s'}{"\x41é\101"}{1}{-2.5}{true}""", "it'sAéA1-2.5true"),
        ("{.}", ""),
        ("", ""),
    ],
)
def test_render(template: str, text: str) -> None:
    assert parse(template).render(POD) == text


@pytest.mark.parametrize(
    "template",
    [
        "{.a", "{end}", "{.a[}", "{.a[x]}", '{.a["x"]}', "{.a[-]}", "{.a[?(@.b=='c']}", "{.a[?(@.b==c)}", "{'a}",
        "{.a[?(@.b==)]}", "{|}", "{..*}", "{....a}", "{1.2.3}", r"{'\q'}", "{metadata.name}", "{.a\n}", "{.a} {end}",
        "{range .a}" * 100,
    ],
)  # fmt: skip
def test_syntax_error_is_raised(template: str) -> None:
    with pytest.raises(TemplateError):
        parse(template)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{.status.empty[0]}", "array index out of bounds: index 0, length 0"),
        ("{.spec.containers[5]}", "array index out of bounds: index 5, length 3"),
        ("{.spec.containers[0:9]}", "array index out of bounds: index 8, length 3"),
        ("{.spec.containers[2:1]}", "starting index 2 is greater than ending index 1"),
        ("{.spec.containers[::0]}", "step must be > 0"),
        ("{.metadata[0]}", r"map\[string\]interface {} is not array or slice"),
        ("{.status.n[0]}", "int64 is not array or slice"),
        ("{.metadata[?(@.a)]}", "is not array or slice and cannot be filtered"),
        ("{.status.conditions[?(@.type==1)]}", "incompatible types for comparison"),
        ("{.status.conditions[?(@==1)]}", "invalid type for comparison"),
        ("{.status.conditions[?(@.*=='a')]}", "can only compare one element at a time"),
        ("{.status.conditions[?(@.type==='Ready')]}", "unrecognized filter operator ==="),
    ],
)
def test_template_that_does_not_fit_the_object_is_an_error(template: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        parse(template).render(POD)


def test_results_are_separate_for_each_node() -> None:
    template = parse("{.status.conditions[*].type}: {range .spec.containers[1:]}{.name}{end}")
    assert template.results(POD) == [["Ready", "Done"], [": "], ["y"], ["z"]]
    assert template.first(POD) == ["Ready", "Done"]
    assert parse("").first(POD) == []


SINGLE_ACTIONS = (".metadata.name", "metadata.name", "{metadata.name}", "{.metadata.name}", "{$.metadata.name}")


@pytest.mark.parametrize("text", SINGLE_ACTIONS)
def test_relax_adds_braces_and_dot(text: str) -> None:
    assert parse(relax(text)).render(POD) == "a"


@given(st.text(alphabet="{}.[]()?@$*'\"=<>!:,-0123456789ab\\ \n", max_size=30))
def test_any_text_is_rendered_or_an_error(text: str) -> None:
    try:
        assert isinstance(parse(relax(text)).render(POD), str)
    except (TemplateError, EvaluationError):
        return
