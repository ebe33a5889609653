"""A real Kafka broker for tests and benches: started, killed, restarted and always stopped.

The broker comes from `make servers`; where there is Docker but no Java, from a container. It is
one broker without TLS on loopback: it says nothing about replication.
"""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from shared.testing.server_process import free_ports, servers_dir, watch_over

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
INSTALL_COMMAND = "make servers"
CONTAINER_IMAGE = "apache/kafka:4.1.0"
_ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = _ROOT / "deploy" / "servers" / "start-kafka.sh"
_READY = b"Kafka Server started"
_POLL_S = 0.05


class KafkaBroker(Protocol):
    """What tests do to a broker. Every call blocks; use asyncio.to_thread beside a loop."""

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
        """End it and remove its data. Idempotent."""
        ...


def java_kafka_installed() -> bool:
    """Whether the broker's files and a Java to run them are there."""
    installed = (servers_dir() / "kafka" / "installed.xml").is_file()
    return installed and shutil.which("java") is not None


def docker_usable() -> bool:
    """Whether there is a Docker daemon that answers."""
    if shutil.which("docker") is None:
        return False
    command = ["docker", "info"]
    try:
        result = subprocess.run(command, capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0


def kafka_available() -> bool:
    """Whether `new_broker` can give one."""
    return java_kafka_installed() or docker_usable()


def new_broker() -> KafkaBroker:
    """A broker, not yet started: by Java, else in a container. Raises RuntimeError."""
    if java_kafka_installed():
        return KafkaServer()
    if docker_usable():
        return KafkaContainerServer()
    raise RuntimeError(f"no Kafka: run '{INSTALL_COMMAND}' (needs java 17 and mvn)")


class KafkaServer:
    """A broker process with its own ports and a temporary data directory.

    A context manager. The broker ends with this process even when that is killed: a watchdog
    holds a pipe to it.
    """

    def __init__(self, more_settings: str = "", format_options: Sequence[str] = ()) -> None:
        """`more_settings` is a piece of server.properties, for TLS and the like."""
        self._port, self._controller_port = free_ports(2)
        self._more_settings = more_settings
        self._format_options = list(format_options)
        self._dir: Path | None = None
        self._broker: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """See KafkaBroker."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The running broker's process id."""
        if self._broker is None:
            raise RuntimeError("the Kafka broker is not running")
        return self._broker.pid

    @property
    def log_path(self) -> Path:
        """The broker's own log."""
        if self._dir is None:
            raise RuntimeError("the Kafka broker was not started")
        return self._dir / "broker.out"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """See KafkaBroker. Raises RuntimeError with the log's end when it does not come up."""
        if self._broker is not None:
            raise RuntimeError("the Kafka broker is running")
        if self._dir is None:
            self._dir = Path(tempfile.mkdtemp(prefix="muster-kafka-"))
        with self.log_path.open("ab") as log:
            start_offset = log.tell()
            more = self._dir / "more.properties"
            more.write_text(self._more_settings, encoding="utf-8")
            ports = [str(self._port), str(self._controller_port)]
            self._broker = subprocess.Popen(
                [str(_SCRIPT), str(self._dir / "data"), *ports, str(more), *self._format_options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watchdog = watch_over(self._broker.pid)
        try:
            self._wait_ready(start_offset)
        except BaseException:
            self.stop()
            raise

    def _wait_ready(self, start_offset: int) -> None:
        assert self._broker is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            text = self._log_from(start_offset)
            if _READY in text:
                return
            if self._broker.poll() is not None:
                break
            time.sleep(_POLL_S)
        tail = self._log_from(start_offset)[-2_000:].decode(errors="replace")
        raise RuntimeError(f"the Kafka broker did not start; its log ends with:\n{tail}")

    def _log_from(self, offset: int) -> bytes:
        with self.log_path.open("rb") as log:
            log.seek(offset)
            return log.read()

    def kill(self) -> None:
        """See KafkaBroker."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """An orderly shutdown; the data stays for another start."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        broker, self._broker = self._broker, None
        watchdog, self._watchdog = self._watchdog, None
        if broker is not None:
            broker.send_signal(how)
            try:
                broker.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                broker.kill()
                broker.wait()
        if watchdog is not None:
            watchdog.kill()
            watchdog.wait()
            if watchdog.stdin is not None:
                watchdog.stdin.close()

    def stop(self) -> None:
        """See KafkaBroker."""
        # The data goes too, so an orderly end would be wasted time.
        self._end(signal.SIGKILL)
        if self._dir is not None:
            shutil.rmtree(self._dir, ignore_errors=True)
            self._dir = None


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
        # The log goes on over restarts, so the line must be there once more each time.
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
