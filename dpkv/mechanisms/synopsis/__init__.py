"""Private synopses: cells that adapt to the records, at a price that is proved, clustered for free.

``cells``        noisy counts and places, and the weighted points made of them
``clustering``   sk-means++ and Lloyd's iterations on these, with restarts and swaps
``refine``       private Lloyd steps on the records
``mechanism``    all of it as one frozen description, with the proof of the whole
"""

from dpkv.mechanisms.synopsis.cells import PrivateCells, WeightedPoints, weighted_points
from dpkv.mechanisms.synopsis.mechanism import Synopsis

__all__ = ["PrivateCells", "Synopsis", "WeightedPoints", "weighted_points"]
