"""A cluster that holds many pods from the start, written past the API server: nine of ten have a
node, the others fit on none.
"""

import json
from collections.abc import Iterator

from loadtest.cluster.load import PODS, node_name
from tests.live.checker.cluster_state import PODS as KEYS
from tests.support.etcd_store import EtcdStore
from tests.support.kube_objects import pod
from tests.support.kube_server import KubeServers

SHAPES, WAITS_EACH = 50, 10


def store(servers: KubeServers, pods: int, nodes: int, scheduler: str) -> None:
    """Store so many pods in the API server's form."""
    one = pod("like", schedulerName=scheduler, nodeName=node_name(0))
    servers.api.create(PODS, one).ok()
    etcd, key = EtcdStore(servers.at.etcd_url), f"{KEYS}default/"
    text = etcd.get(f"{key}like").decode()
    etcd.delete_all(f"{key}like")

    def stored() -> Iterator[tuple[str, bytes]]:
        for number in range(pods):
            body = json.loads(text)
            uid = f"00000000-0000-0000-0000-{number:012}"
            body["metadata"] |= {"name": f"stored-{number}", "uid": uid}
            asked = body["spec"]["containers"][0]["resources"]["requests"]
            if number % WAITS_EACH:
                body["spec"]["nodeName"] = node_name(number % nodes)
                asked["cpu"] = "100m"
            else:
                del body["spec"]["nodeName"]
                asked["cpu"] = str(100 + number // WAITS_EACH % SHAPES)
            yield f"{key}stored-{number}", json.dumps(body).encode()

    etcd.put_all(stored())
