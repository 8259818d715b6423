"""Validation of webhook configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.apiserver.admission.expressions import Compiler
from allotment.apiserver.admission.match_rules import MATCH_POLICIES, match_conditions, rule_with_operations, supported
from allotment.apiserver.admission.policy_rules import FAILURE_POLICIES
from allotment.apiserver.kinds.field_validation import label_selector
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.webhook_clients import REVIEW_VERSIONS, client_problems, distinct_versions
from allotment.cel.checking import types
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import duplicate, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString

_WITHOUT_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun", "Some", "Unknown")
REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")


def _create(tree: Tree, write: Write) -> Errors:
    return _configuration(tree, None, write)


def _update(new: Tree, old: Tree, write: Write) -> Errors:
    return _configuration(new, old, write)


def _configuration(tree: Tree, old: Tree | None, write: Write) -> Errors:
    """``old``: the configuration before an update, which may keep what new ones may not have."""
    webhooks, before = tree.get("webhooks") or (), (old or {}).get("webhooks") or ()
    known = frozenset(str(item.get("expression")) for hook in before for item in hook.get("matchConditions") or ())
    compiler = Compiler(write.features.kube, "new", has_params=False, composition=False, preexisting=known)
    conditions = [hook.get("matchConditions") for hook in webhooks]
    unchanged = old is not None and conditions == [hook.get("matchConditions") for hook in before]
    has_old_effects = any(hook.get("sideEffects") not in _WITHOUT_SIDE_EFFECTS for hook in before)
    needs_version = all(set(hook.get("admissionReviewVersions") or ("v1",)) & set(REVIEW_VERSIONS) for hook in before)
    old_names = [hook.get("name") for hook in before]
    for index, hook in enumerate(webhooks):
        path = f"webhooks[{index}]"
        yield from _webhook(hook, path, _SIDE_EFFECTS if has_old_effects else _WITHOUT_SIDE_EFFECTS)
        if not unchanged:
            yield from match_conditions(
                hook.get("matchConditions") or (),
                f"{path}.matchConditions",
                lambda source: compiler.compile(source, (types.BOOL,)),
            )
        versions = hook.get("admissionReviewVersions") or ()
        yield from _review_versions(versions, f"{path}.admissionReviewVersions", needs_version=needs_version)
        name = hook.get("name")
        is_repeated = name and any(other.get("name") == name for other in webhooks[:index])
        if is_repeated and len(set(old_names)) == len(old_names):
            yield duplicate(f"{path}.name", name)


def _webhook(hook: Tree, path: str, side_effects: Sequence[str]) -> Errors:
    yield from _webhook_name(hook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or ()):
        yield from rule_with_operations(rule, f"{path}.rules[{index}]")
    yield from supported(hook.get("failurePolicy"), f"{path}.failurePolicy", FAILURE_POLICIES)
    yield from supported(hook.get("matchPolicy"), f"{path}.matchPolicy", MATCH_POLICIES)
    effects = hook.get("sideEffects")
    if effects is None:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(side_effects)}")
    elif effects not in side_effects:
        yield not_supported(f"{path}.sideEffects", GoNamedString(effects), side_effects)
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        yield invalid(f"{path}.timeoutSeconds", timeout, "the timeout value must be between 1 and 30 seconds")
    for name in ("namespaceSelector", "objectSelector"):
        yield from label_selector(hook.get(name), f"{path}.{name}")
    if hook.get("reinvocationPolicy") is not None:
        yield from supported(hook["reinvocationPolicy"], f"{path}.reinvocationPolicy", REINVOCATION_POLICIES)
    yield from client_problems(hook.get("clientConfig") or {}, f"{path}.clientConfig")


def _webhook_name(name: str, path: str) -> Errors:
    if not name:
        yield required(path)
    elif problems := names.subdomain_problems(name):
        yield invalid(path, name, ",".join(problems))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _review_versions(versions: Sequence[str], path: str, *, needs_version: bool) -> Errors:
    if not versions:
        yield required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")
        return
    yield from distinct_versions(versions, path)
    if needs_version and not set(versions) & set(REVIEW_VERSIONS):
        yield invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")


_KIND: Final = KindRules(validate_create=_create, validate_update=_update, has_generation=True)
RULES: Final = {
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _KIND,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _KIND,
}
