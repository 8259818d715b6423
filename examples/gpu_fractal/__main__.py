"""``python -m gpu_fractal``."""

from __future__ import annotations

import os
import sys

from gpu_fractal.server import serve
from gpu_fractal.settings import VARIABLES


def main() -> int:
    """Serve, configured by environment variables."""
    if len(sys.argv) > 1:
        sys.stdout.write(
            f"python -m gpu_fractal takes no arguments; it reads these environment variables:\n\n{VARIABLES}\n"
        )
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    return serve(os.environ)


if __name__ == "__main__":
    sys.exit(main())
