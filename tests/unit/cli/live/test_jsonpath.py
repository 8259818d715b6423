"""Templates: what kubectl's users write, and that nothing else ever ends in a traceback."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cli.live.jsonpath import BadTemplate, Template

POD = {
    "metadata": {"name": "a", "labels": {"app.example.com/name": "web"}},
    "spec": {
        "containers": [{"name": "x", "image": "i:1"}, {"name": "y", "image": "i:2"}, {"name": "z", "image": "i:3"}]
    },
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Done", "status": "False"}],
        "n": 3,
        "b": True,
    },
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.metadata.name}", "a"),
        ("name: {.metadata.name}, n: {.status.n}", "name: a, n: 3"),
        (".metadata.name", "a"),
        ("metadata.name", "a"),
        ("{metadata.name}", "a"),
        ("{$.metadata.name}{@.metadata.name}", "aa"),
        ("{.spec.containers[*].name}", "x y z"),
        ("{.spec.containers[0].name}{.spec.containers[-1].name}", "xz"),
        ("{.spec.containers[0:2].name}", "x y"),
        ("{.spec.containers[::2].name}", "x z"),
        ("{.spec.containers[0,2].name}", "x z"),
        ("{.metadata['name']}", "a"),
        (r"{.metadata.labels.app\.example\.com/name}", "web"),
        ("{.metadata.labels['app.example.com/name']}", "web"),
        ('{.status.conditions[?(@.type=="Ready")].status}', "True"),
        ("{.status.conditions[?(@.status!='True')].type}", "Done"),
        ("{.spec.containers[?(@.never)].name}", ""),
        ("{..image}", "i:1 i:2 i:3"),
        ('{range .spec.containers[*]}{.name}{"\\t"}{.image}{"\\n"}{end}', "x\ti:1\ny\ti:2\nz\ti:3\n"),
        ("{range .spec.containers[*]}{$.metadata.name}{.name} {end}", "ax ay az "),
        ("{.status.b}", "true"),
        ("{.status.conditions[1]}", '{"status":"False","type":"Done"}'),
        ("{.never.there[0]}", ""),
        ("{.metadata.name .status.n}", "a3"),
    ],
)
def test_a_template_is_rendered_as_kubectl_does(template: str, text: str) -> None:
    assert Template(template).render(POD) == text


@pytest.mark.parametrize(
    "template",
    ["{.a", "{range .a}{.b}", "{end}", "{.a[}", "{.a[x]}", "{.a[?(@.b=='c']}", "{.a[?(@.b==)]}", "{'a}", "{|}"],
)
def test_what_is_no_template_is_refused(template: str) -> None:
    with pytest.raises(BadTemplate):
        Template(template)


@given(st.text(alphabet="{}.[]()?@$*'\"=<>!:,-0123456789ab\\ \n", max_size=30))
def test_any_text_is_rendered_or_refused(text: str) -> None:
    try:
        template = Template(text)
    except BadTemplate:
        return
    assert isinstance(template.render(POD), str)
