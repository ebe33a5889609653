"""Takes writes of resource claims in a simulated cluster, and plays the resourceclaim controller:
pods that are gone use no claim any more, a claim without users has no devices, and what was made
for a pod is deleted after it. Claims made from templates are part of the world.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from shared.model.api_outcome import Answer
from shared.model.claims import ClaimChoice
from shared.model.cluster_objects import ClaimObject, ClusterObject
from shared.ports.cluster import ClaimsAnswer, ClaimsRequest


class SimClaims:
    """`objects` are the cluster's, by uid; `change` replaces one, and `remove` deletes one."""

    def __init__(
        self,
        objects: Mapping[str, ClusterObject],
        change: Callable[[ClusterObject], None],
        remove: Callable[[str], None],
    ) -> None:
        """Start with what there is."""
        self._objects, self._change, self._remove = objects, change, remove

    def write(self, request: ClaimsRequest) -> ClaimsAnswer:
        """Carry out a request under the preconditions of the API server."""
        revisions, stale = [], False
        for choice in request.choices:
            answer = self._write_one(request, choice)
            stale = stale or answer is Answer.STALE
            may_go_on = answer is Answer.STALE or (request.gives_back and answer is Answer.GONE)
            if answer is not Answer.DONE and not may_go_on:
                return ClaimsAnswer(answer)
            claim = self._objects.get(choice.uid)
            revisions.append(claim.revision if isinstance(claim, ClaimObject) else 0)
        return ClaimsAnswer(Answer.STALE if stale else Answer.DONE, tuple(revisions))

    def _write_one(self, request: ClaimsRequest, choice: ClaimChoice) -> Answer:
        claim, user = self._objects.get(choice.uid), request.pod.uid
        if not isinstance(claim, ClaimObject):
            return Answer.GONE
        has = claim.value.allocation
        is_ours = choice.allocation is None or (
            has is not None and has.results == choice.allocation.results
        )
        if request.gives_back:
            if claim.revision != choice.revision:
                return Answer.STALE
            if has is None:
                self._set(claim)  # older writes are refused from now on
            elif is_ours:
                self._without(claim, user)
            return Answer.DONE
        if claim.value.is_deleted or (has is not None and not is_ours):
            return Answer.REFUSED
        if has is not None:
            if user not in claim.reserved_for:
                self._set(replace(claim, reserved_for=(*claim.reserved_for, user)))
            return Answer.DONE
        if choice.allocation is None or claim.revision != choice.revision:
            return Answer.REFUSED
        value = replace(claim.value, allocation=choice.allocation)
        self._set(replace(claim, value=value, reserved_for=(user,)))
        return Answer.DONE

    def _set(self, claim: ClaimObject) -> None:
        self._change(replace(claim, revision=claim.revision + 1))

    def _without(self, claim: ClaimObject, user: str) -> None:
        left = tuple(one for one in claim.reserved_for if one != user)
        if left and left == claim.reserved_for:
            return
        value = claim.value if left else replace(claim.value, allocation=None)
        self._set(replace(claim, value=value, reserved_for=left))

    def of_pod(self, uid: str) -> Iterator[ClaimObject]:
        """Yield the claims that a pod uses, and those that were made for it."""
        for one in list(self._objects.values()):
            if isinstance(one, ClaimObject) and (uid in one.reserved_for or one.value.owner == uid):
                yield one

    def pods_gone(self, uids: list[str]) -> None:
        """Clean up after pods that no longer exist."""
        for uid in uids:
            for one in self.of_pod(uid):
                if uid in one.reserved_for:
                    self._without(one, uid)
                if one.value.owner == uid:
                    self._remove(one.uid)
