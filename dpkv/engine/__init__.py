"""Seeding of records that are spread over nodes: the nodes, the transports, and the coordinators.

Trust. Coordinator and nodes exchange the messages of ``requests`` and nothing else, through a
``Transport``. One Dask cluster is one trust domain: whoever may submit work to a scheduler can run
any code on its workers, so Dask serves nodes that trust the coordinator to run this protocol. For
silos that do not trust each other the transport is the interface to implement, with a node behind
it that answers ``requests`` and refuses everything else; ``RecordingTransport`` shows each message.

A ``Node`` answers what it is asked, at any scale and any number of times, and keeps no account:
that a run asks no more than its plan says is the coordinator's word. Parties that do not take it
bind theirs to one run of one plan: a ``BoundNode`` counts, and refuses all other questions.

What a message gives away is the algorithm's own: protected dk-means++ sends summed distances and k
records, private dk-means++ noisy sums and k noisy points (Theorem B), k-means++ and its parallel
and coreset rivals more records than that.
"""

from dpkv.engine.bound_node import BoundNode
from dpkv.engine.comparators import coreset_seeding, kmeans_parallel
from dpkv.engine.dkmeans import dk_private, dk_protected, partitioned_kmeans_plusplus
from dpkv.engine.node import Node
from dpkv.engine.peers import Peers
from dpkv.engine.private_plan import PrivatePlan
from dpkv.engine.shards import FileShard
from dpkv.engine.transport import LocalTransport, RecordingTransport, Transport

__all__ = [
    "BoundNode",
    "FileShard",
    "LocalTransport",
    "Node",
    "Peers",
    "PrivatePlan",
    "RecordingTransport",
    "Transport",
    "coreset_seeding",
    "dk_private",
    "dk_protected",
    "kmeans_parallel",
    "partitioned_kmeans_plusplus",
]
