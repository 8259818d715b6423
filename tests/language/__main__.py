"""Print the words to avoid: ``python -m tests.language [PATH…]``, or figures: ``--metrics [--since REF]``.

Without PATH, everything that users and contributors read, and the help of all commands. Exit status: 0 no word was
found, 1 some were, 2 bad usage.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from tests.language import metrics
from tests.language.files import READ_BY_PEOPLE, Hit, files_below, hits_in_file
from tests.language.word_list import CATEGORIES, ROOT, searcher

#: Up to this many files, starting other processes takes longer than it saves.
_FEW_FILES: Final = 150


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.language", description="Find words to avoid.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or directories [all, and --help]")
    parser.add_argument("--metrics", action="store_true", help="print figures instead of each word")
    parser.add_argument("--since", default="", metavar="REF", help="with --metrics: commits after REF [all]")
    options = parser.parse_args(arguments)
    for path in options.paths:
        if not path.exists():
            parser.error(f"{path}: no such file or directory")
    hits = _hits(options.paths)
    if options.metrics:
        try:
            print("\n".join(metrics.lines(hits, options.since)))
        except subprocess.CalledProcessError as error:
            parser.error(f"--since {options.since}: {error.stderr.strip()}")
        return 0
    for hit in hits:
        print(hit)
    print(_summary(hits))
    return 1 if hits else 0


def _hits(paths: Sequence[Path]) -> list[Hit]:
    roots = paths or [ROOT / name for name in READ_BY_PEOPLE]
    files = [file for root in roots for file in files_below(root)]
    if len(files) <= _FEW_FILES:
        found = map(_in_file, files)
        hits = [hit for part in found for hit in part]
    else:
        with ProcessPoolExecutor(os.cpu_count()) as processes:
            hits = [hit for part in processes.map(_in_file, files, chunksize=32) for hit in part]
    if not paths:
        from tests.language.help_pages import hits_in_help

        hits += hits_in_help(searcher())
    return hits


def _in_file(path: Path) -> list[Hit]:
    return hits_in_file(path, searcher())


def _summary(hits: Iterable[Hit]) -> str:
    counts = Counter(hit.category for hit in hits)
    return ", ".join(f"{counts[category]} in {category}" for category in CATEGORIES if counts[category]) or "none"


if __name__ == "__main__":
    sys.exit(main())
