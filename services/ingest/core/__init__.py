"""Ingest as a state machine: what the cluster showed, in the mesh's own numbers.

`evolve` of an observation keeps the books at once and puts the facts that follow from it on
`state.outbox`; `decide` hands them out in order, and `evolve` of each takes it off again. So a
fact is decided exactly once, and folding needs no decisions. Nothing here places or orders pods.
"""

from services.ingest.core.config import Config, parse_config
from services.ingest.core.core import IngestCore
from services.ingest.core.state import IngestState, WrongCluster

__all__ = ["Config", "IngestCore", "IngestState", "WrongCluster", "parse_config"]
