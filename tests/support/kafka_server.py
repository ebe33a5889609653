"""A real Kafka broker for tests and benches: started, killed, restarted and always stopped.

The broker comes from `make servers`; where there is Docker but no Java, from a container. It is
one broker without TLS on loopback: it says nothing about replication.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

from tests.support.server_process import ServerProcess, free_ports, servers_dir

START_TIMEOUT_S = 300.0
INSTALL_COMMAND = "make servers"
CONTAINER_IMAGE = "apache/kafka:4.1.0"
_ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = _ROOT / "deploy" / "servers" / "start-kafka.sh"
_READY = b"Kafka Server started"


class KafkaBroker(Protocol):
    """A test's control of a broker. Every call blocks; in an event loop use asyncio.to_thread."""

    @property
    def bootstrap(self) -> str:
        """host:port for clients; the same after a restart."""
        ...

    def start(self) -> None:
        """Start, or start again with the same data and address; returns when it serves."""
        ...

    def kill(self) -> None:
        """Kill -9."""
        ...

    def stop(self) -> None:
        """End the broker and remove its data. Idempotent."""
        ...


def java_kafka_installed() -> bool:
    """Return whether the broker's files and a Java to run them are installed."""
    installed = (servers_dir() / "kafka" / "installed.xml").is_file()
    return installed and shutil.which("java") is not None


def docker_usable() -> bool:
    """Return whether a Docker daemon answers."""
    if shutil.which("docker") is None:
        return False
    command = ["docker", "info"]
    try:
        result = subprocess.run(command, capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0


def kafka_available() -> bool:
    """Return whether `new_broker` can return a broker."""
    return java_kafka_installed() or docker_usable()


def new_broker() -> KafkaBroker:
    """Return a broker that is not started yet: by Java, else in a container. Raises
    RuntimeError.
    """
    if java_kafka_installed():
        return KafkaServer()
    if docker_usable():
        return KafkaContainerServer()
    raise RuntimeError(f"no Kafka: run '{INSTALL_COMMAND}' (needs java 17 and mvn)")


class KafkaServer:
    """A broker process with its own ports and a temporary data directory.

    A context manager. The broker ends with this process even when that is killed.
    """

    def __init__(self, more_settings: str = "", format_options: Sequence[str] = ()) -> None:
        """`more_settings` is a piece of server.properties, for TLS and the like."""
        self._ports = free_ports(2)
        self._more_settings = more_settings
        self._format_options = list(format_options)
        self._folder: Path | None = None
        self._process: ServerProcess | None = None
        self._log_begin = 0

    @property
    def bootstrap(self) -> str:
        """See KafkaBroker."""
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def pid(self) -> int:
        """The running broker's process id."""
        if self._process is None:
            raise RuntimeError("the Kafka broker is not running")
        return self._process.pid

    @property
    def data(self) -> Path:
        """Where a started broker keeps everything."""
        assert self._folder is not None, "the Kafka broker was not started"
        return self._folder / "data"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self) -> None:
        """See KafkaBroker. Raises RuntimeError with the log's end when it does not come up."""
        if self._process is None:
            self._process = self._prepare()
        log = self._process.log_path
        self._log_begin = log.stat().st_size if log.exists() else 0
        self._process.start(wait=False)
        try:
            self._process.wait_serving()
        except BaseException:
            self.stop()
            raise

    def _prepare(self) -> ServerProcess:
        self._folder = folder = Path(tempfile.mkdtemp(prefix="muster-kafka-"))
        more = folder / "more.properties"
        more.write_text(self._more_settings, encoding="utf-8")
        ports = map(str, self._ports)
        command = [str(_SCRIPT), str(folder / "data"), *ports, str(more), *self._format_options]
        log = folder / "broker.out"

        def serves() -> bool:
            with log.open("rb") as said:
                said.seek(self._log_begin)
                return _READY in said.read()

        return ServerProcess(
            "the Kafka broker", command, log, serves, start_timeout_s=START_TIMEOUT_S
        )

    def kill(self) -> None:
        """See KafkaBroker."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Stop the process: connections stay open, and nothing answers."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        """Continue the process."""
        assert self._process is not None
        self._process.resume()

    @property
    def runs(self) -> bool:
        """Return whether the broker was started and has not ended."""
        return self._process is not None and self._process.running

    def stop(self) -> None:
        """See KafkaBroker."""
        # The data is deleted too, so an orderly end would be wasted time.
        self.kill()
        self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


class KafkaContainerServer:
    """The same broker in a container; its port is fixed so that a restart keeps the address."""

    def __init__(self) -> None:
        # Only needed here, and only where there is Docker.
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.waiting_utils import wait_for_logs

        self._port = free_ports(1)[0]
        self._wait_for_logs = wait_for_logs
        self._starts = 0
        container = DockerContainer(CONTAINER_IMAGE).with_bind_ports(9092, self._port)
        for key, value in _container_settings(self._port).items():
            container = container.with_env(key, value)
        self._container = container

    @property
    def bootstrap(self) -> str:
        """See KafkaBroker."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """See KafkaBroker."""
        if self._starts:
            self._container.get_wrapped_container().start()
        else:
            self._container.start()
        self._starts += 1
        # The log continues over restarts, so the line must appear once more each time.
        ready = _READY.decode()
        self._wait_for_logs(
            self._container,
            lambda text: text.count(ready) >= self._starts,
            timeout=START_TIMEOUT_S,
        )

    def kill(self) -> None:
        """See KafkaBroker."""
        self._container.get_wrapped_container().kill()

    def stop(self) -> None:
        """See KafkaBroker."""
        if self._starts:
            self._container.stop()
            self._starts = 0


def _container_settings(port: int) -> dict[str, str]:
    """The image's form of what deploy/servers/start-kafka.sh sets."""
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_MESSAGE_MAX_BYTES": str(32 << 20),
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }
