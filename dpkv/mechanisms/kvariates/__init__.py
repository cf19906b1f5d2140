"""k-variates++ on the grid, and what it is compared with: named releases of Algorithm 0.

``algorithm0``  the rounds, whatever the density
``certified``   smoothed D^2 seeding under Theorem A, with product-Laplace noise or with windows
``windows``     how wide a window should be
``rivals``      the Laplace mechanism, Forgy-DP, and the noise that the paper prints
"""

from dpkv.mechanisms.kvariates.algorithm0 import Algorithm0, ProductLaplace
from dpkv.mechanisms.kvariates.certified import Certified, KVariates, WindowKVariates
from dpkv.mechanisms.kvariates.rivals import Forgy, Laplace, Published

__all__ = [
    "Algorithm0",
    "Certified",
    "Forgy",
    "KVariates",
    "Laplace",
    "ProductLaplace",
    "Published",
    "WindowKVariates",
]
