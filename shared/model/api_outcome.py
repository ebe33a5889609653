"""Definite and indefinite answers of the API to a bind, a read, a fencing patch or an eviction."""

from enum import IntEnum


class Answer(IntEnum):
    """The outcome of one request. Only UNKNOWN leaves open whether the cluster changed."""

    DONE = 0  # 201/200: ours
    UNKNOWN = 1  # timeout, reset, 5xx after send: may have been, or may still be, committed
    ASSIGNED = 2  # 409: the pod already has a node; read to learn which
    STALE = 3  # 409: resourceVersion precondition failed; read to learn the new one
    GONE = 4  # 404, or another uid under the name
    REFUSED = 5  # a definite no that repeating will not change (403, 422, gated, deleting)
    BUSY = 6  # 429 or not sent: certainly not committed, try later
