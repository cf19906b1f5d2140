"""Where the command ``dpkv`` starts: next to nothing is imported before Ctrl-C is understood."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; Ctrl-C while it is being loaded is one sentence, too."""
    # For scikit-learn's threads in audits: on a busy machine spinning would cost most of the time.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        from dpkv.cli import main as run  # noqa: PLC0415 (that is the point)
    except KeyboardInterrupt:
        print("dpkv: error: interrupted before it began.", file=sys.stderr)
        sys.exit(130)
    run()
