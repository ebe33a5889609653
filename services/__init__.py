"""Six services, each a pure core (decide, evolve) and a thin shell; none imports another.

::

    Kubernetes API | trace | synthetic flood
         |  observations (world journal)
     [ingest] --- pods, gangs, quotas ---> [queueing] <---- bound / failed outcomes ---+
         |                                  |    ^                                     |
         | nodes, assigned pods     batches |    | refused by every shard,             |
         v                                  v    | nominate, retry                     |
     [placement x shards] <-----------------+    +---> [preemption] --- evict ---+     |
         |    |                                                                  v     |
         |    +--- reserved ---> [permit] --- permitted ----------------------> [binding]
         |                                                                       ^   |
         +--- no gang, no wide rule ---------------------------------------------+   +--> API

A decision is a reservation: the shard that picks a node owns it and subtracts in the same step.
This package holds no code of its own; what the services share is in ``shared``.
"""
