"""The texts of files after the fixes of ``allot check``: to write them, or to try whether the fixes help."""

from __future__ import annotations

from allotment.api.checks.options import CheckOptions
from allotment.api.manifest_files import ManifestFiles
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.finding import Finding
from allotment.tools.check.fixer import FixResult, fix


def fixed_by(options: CheckOptions, files: ManifestFiles, bundle: Bundle, unsafe: bool) -> FixResult:
    """Return the fixed texts of the files; ``unsafe``: also fix what needs a guess."""

    def find(edited: Bundle) -> tuple[Finding, ...]:
        return options.policy.evaluate(edited, {**files.sources, **_sources(edited)}, for_fixing=True).findings

    return fix(bundle, unsafe=unsafe, find=find)


def _sources(bundle: Bundle) -> dict[str, str]:
    return {document.file: document.origin.source for document in bundle.documents}
