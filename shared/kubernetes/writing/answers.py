"""Maps statuses and texts of the API server to `Answer`. Pure.

The binding subresource explains its 409s in words; these are the words of Kubernetes 1.35
(pkg/registry/core/pod/storage), unchanged since its first versions.
"""

from shared.kubernetes.client.client import Response
from shared.model.api_outcome import Answer

NOT_FOUND, CONFLICT, INVALID, TOO_MANY, UNAUTHORIZED = 404, 409, 422, 429, 401
SERVER_ERROR = 500


def bind_answer(response: Response) -> Answer:
    """Return the answer to a binding POST."""
    if response.ok:
        return Answer.DONE
    if response.status == CONFLICT:
        return _conflict(response.message())
    return _plain(response)


def _conflict(message: str) -> Answer:
    if "UID in precondition" in message:
        return Answer.GONE
    if "already assigned to node" in message:
        return Answer.ASSIGNED
    if "is being deleted" in message or "schedulingGates" in message:
        return Answer.REFUSED
    if "ResourceVersion in precondition" in message:
        return Answer.STALE
    # The storage reports everything else as a conflict, too, even that etcd did not answer a
    # write.
    return Answer.UNKNOWN


def change_answer(response: Response) -> Answer:
    """Return the answer to a GET, PATCH or DELETE that names the pod's uid."""
    if response.ok:
        return Answer.DONE
    if response.status == CONFLICT and "UID in precondition" in response.message():
        return Answer.GONE
    if response.status == INVALID and "metadata.uid" in response.message():
        return Answer.GONE
    if response.status == CONFLICT:
        return Answer.BUSY
    return _plain(response)


def _plain(response: Response) -> Answer:
    if response.status == NOT_FOUND:
        return Answer.GONE
    if response.status in (TOO_MANY, UNAUTHORIZED):
        return Answer.BUSY
    if response.status >= SERVER_ERROR:
        # It may have been committed before the server failed.
        return Answer.UNKNOWN
    return Answer.REFUSED
