"""What the paper's theorems are called: the number and a title, everywhere the same.

docs/explanation/paper.md has the table that maps them to the paper's source.
"""

from __future__ import annotations

EXPECTED_POTENTIAL = "Theorem 1 (expected potential)"
DISTRIBUTED = "Theorem 2 (distributed seeding)"
STREAMS = "Theorem 3 (streams)"
MINIBATCHES = "Theorem 4 (minibatches)"
