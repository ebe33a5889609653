"""Leader election: the Lease and its times."""

from msgspec import Struct

LEASE_S, RENEW_S, RETRY_S = 15, 10.0, 2.0
NAMESPACE = "kube-system"


class Election(Struct, frozen=True):
    """kube-scheduler's `leaderElection` with its defaults, except for the name. An empty name
    becomes one made of the schedulers' names, so that Muster and kube-scheduler on one cluster do
    not wait for each other.

    Other candidates wait for `lease_s` whole seconds after the last renewal. A leader that could
    not renew for `renew_s` writes nothing. All candidates try again after `retry_s`.
    """

    name: str = ""
    namespace: str = NAMESPACE
    lease_s: int = LEASE_S
    renew_s: float = RENEW_S
    retry_s: float = RETRY_S

    def __str__(self) -> str:
        """Return the name as kubectl would print it."""
        return f"{self.namespace}/{self.name}"
