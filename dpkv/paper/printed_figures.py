"""What the paper's Table 10 (results) prints for eps~ at eps = 1, on its own data sets."""

from __future__ import annotations

PRINTED_AT_EPS_ONE: dict[tuple[int, int], tuple[str, dict[int, float]]] = {
    (26733, 10): ("LifeSci", {2: 8.5, 3: 4.4, 4: 0.6}),
    (34112, 3): ("Image", {2: 12.6, 3: 3.2}),
    (169308, 2): (
        "EuropeDiff",
        {2: 19.0, 3: 21.0, 4: 18.0, 5: 14.0, 6: 10.4, 7: 6.6, 8: 1.8},
    ),
}
"""(records, columns) to the name and eps~ by k: the shapes tell the three sets apart."""


def printed_eps_tilde(
    eps: float, n_records: int, n_features: int, n_clusters: int
) -> tuple[str, float] | None:
    """Return the data set's name and the printed eps~, if this is a row of the paper's table."""
    if eps != 1.0 or (n_records, n_features) not in PRINTED_AT_EPS_ONE:
        return None
    name, by_k = PRINTED_AT_EPS_ONE[n_records, n_features]
    return (name, by_k[n_clusters]) if n_clusters in by_k else None
