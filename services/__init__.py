"""Six services, each a pure core (decide, evolve) and a thin shell; none imports another.

::

     Kubernetes API | trace | synthetic flood
            |  observations (world journal)
         [ingest] ------ pods, gangs, quotas ----> [queueing] <------ bound / failed ------+
            |                                       |   ^  ^                               |
            | nodes, assigned pods          batches |   |  | refused by every shard        |
            v                                       v   |  |                               |
         [placement x shards] <---------------------+   |  +--> [preemption] --- evict --> |
            |    |                                      |          | nominate, retry       |
            |    |                                      +----------+                       |
            |    +-- reserved --> [permit] -- permitted --------------------------> [binding] --> API
            |                                                                     ^
            +-- no gang, no wide rule --------------------------------------------+

A decision is a reservation: the shard that picks a node owns it and subtracts in the same step.
This package holds no code of its own; what the services share is in ``shared``.
"""
