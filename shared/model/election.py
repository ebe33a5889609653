"""Leader election: the Lease and its times."""

from msgspec import Struct

LEASE_S, RENEW_S, RETRY_S = 15, 10.0, 2.0
NAMESPACE = "kube-system"


class Election(Struct, frozen=True):
    """kube-scheduler's `leaderElection` with its defaults, but for the name: empty = one made of
    the names of the schedulers. Who runs Muster beside kube-scheduler does not want the two to wait
    for each other.

    Others wait for `lease_s` whole seconds after the last renewal; a leader that could not renew
    for `renew_s` writes nothing; everybody tries again after `retry_s`.
    """

    name: str = ""
    namespace: str = NAMESPACE
    lease_s: int = LEASE_S
    renew_s: float = RENEW_S
    retry_s: float = RETRY_S

    def __str__(self) -> str:
        """Return the name as kubectl would print it."""
        return f"{self.namespace}/{self.name}"
