"""Writes of volumes and resource claims for a pod, with one answer for all of them. Any failure is
UNKNOWN.
"""

import logging

from shared.model.api_outcome import Answer
from shared.ports.cluster import ClaimsAnswer, ClaimsRequest, Cluster, VolumeRequest

log = logging.getLogger("muster.binding")


async def write(
    cluster: Cluster, volumes: list[VolumeRequest], claims: ClaimsRequest | None
) -> ClaimsAnswer:
    """Write the volumes of a pod, then its resource claims; return the first answer that is not
    DONE.
    """
    found = await _volumes(cluster, volumes) if volumes else Answer.DONE
    if found is not Answer.DONE or claims is None:
        return ClaimsAnswer(found)
    return await write_claims(cluster, claims)


async def write_claims(cluster: Cluster, request: ClaimsRequest) -> ClaimsAnswer:
    """Write the resource claims of a pod, or give them back."""
    try:
        (found,) = await cluster.write_claims([request])
    except Exception as error:
        log.warning("writing resource claims failed: %r", error)
        return ClaimsAnswer(Answer.UNKNOWN)
    return found


async def _volumes(cluster: Cluster, requests: list[VolumeRequest]) -> Answer:
    """Write volumes; return the first answer that is not DONE."""
    try:
        answers = await cluster.bind_volumes(requests)
    except Exception as error:
        log.warning("writing volumes failed: %r", error)
        return Answer.UNKNOWN
    return next((one for one in answers if one is not Answer.DONE), Answer.DONE)
