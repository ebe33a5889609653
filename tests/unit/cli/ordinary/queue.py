"""Gates pods before the queue, by arguments that are prepared once."""

from msgspec import Struct

from muster.plugin import Plugin, Pod


class Team(Struct, frozen=True):
    name: str
    share: int = 1


class Shares(Struct, frozen=True, rename="camel"):
    teams: list[Team] = []
    blocked_namespaces: set[str] = set()


class Fair(Plugin):
    args: Shares
    reads = ("namespace", "labels.team", "priority")

    def __init__(self):
        super().__init__()
        self.shares = {team.name: team.share for team in self.args.teams}
        self.most = max(self.shares.values(), default=1)

    def pre_enqueue(self, pod: Pod):
        if pod["namespace"] in self.args.blocked_namespaces:
            return f"namespace {pod['namespace']} is blocked"
        return None

    def queue_sort(self, pod: Pod) -> int:
        share = self._share(pod["labels.team"]) * 1000 // self.most
        return int(share + min(pod["priority"], 999))

    def _share(self, team):
        return self.shares.get(team, 1)
