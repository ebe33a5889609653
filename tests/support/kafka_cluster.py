"""Three real Kafka brokers whose clients come with TLS and SASL: each can be killed, stopped, and
left without a disk that takes more.
"""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

from aiokafka.admin import AIOKafkaAdminClient

from tests.support.kafka_brokers import PASSWORD, make_certificates, secure_listener
from tests.support.kafka_server import INSTALL_COMMAND, KafkaServer, java_kafka_installed
from tests.support.required_tools import require_tool
from tests.support.server_process import free_ports

BROKERS = 3
ALL_REPLICAS = """
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
# Leaders go back to a broker soon after it has returned.
leader.imbalance.check.interval.seconds=3
leader.imbalance.per.broker.percentage=0
"""


class KafkaCluster:
    """`brokers` in order of their ids; `address` is for `--bus`, without the prefix of a mesh."""

    def __init__(self, folder: Path) -> None:
        """Prepare; the secrets are in the folder."""
        make_certificates(folder)
        (folder / "password").write_text(PASSWORD + "\n")
        ports = free_ports(3 * BROKERS)
        plain, controllers, secure = (
            [f"127.0.0.1:{port}" for port in ports[at::3]] for at in range(3)
        )
        voters = ",".join(f"{at}@{one}" for at, one in enumerate(controllers, 1))
        scram = ["--add-scram", f"SCRAM-SHA-512=[name=muster,password={PASSWORD}]"]
        self.brokers = [
            KafkaServer(
                f"node.id={at + 1}\ncontroller.quorum.voters={voters}\n{ALL_REPLICAS}"
                + secure_listener(folder, plain[at], controllers[at], ports[3 * at + 2]),
                scram,
            )
            for at in range(BROKERS)
        ]
        self.bootstrap = ",".join(secure)
        self.query = urlencode(
            {
                "security_protocol": "SASL_SSL",
                "ssl_ca_file": folder / "ca.pem",
                "ssl_cert_file": folder / "cert.pem",
                "ssl_key_file": folder / "key.pem",
                "sasl_username": "muster",
                "sasl_password_file": folder / "password",
            }
        )
        self._plain = ",".join(plain)

    def start(self) -> None:
        """Start all: one alone would wait for a second."""
        with ThreadPoolExecutor(BROKERS) as pool:
            list(pool.map(KafkaServer.start, self.brokers))

    def stop(self) -> None:
        """End all and remove their data."""
        for broker in self.brokers:
            broker.stop()

    async def is_whole(self, prefix: str) -> bool:
        """Return whether all replicas of a mesh are in sync, and each broker leads some."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self._plain)
        await admin.start()
        try:
            topics = [name for name in await admin.list_topics() if name.startswith(f"{prefix}.")]
            found = await admin.describe_topics(topics)
        finally:
            await admin.close()
        partitions = [one for topic in found for one in topic["partitions"]]
        in_sync = all(len(one["isr"]) == BROKERS for one in partitions)
        return in_sync and len({one["leader"] for one in partitions}) == BROKERS


def fill_disk(broker: KafkaServer) -> None:
    """Let no file of a broker grow any more. To Kafka this is the same as a full disk: a failed
    write, after which it gives its data up and ends.
    """
    subprocess.run(["prlimit", "--fsize=1", "--pid", str(broker.pid)], check=True)


def running_cluster(folder: Path) -> Iterator[KafkaCluster]:
    """Yield a running cluster to a fixture."""
    require_tool("kafka", INSTALL_COMMAND, found=java_kafka_installed())
    require_tool("openssl", "apt-get install openssl")
    cluster = KafkaCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
