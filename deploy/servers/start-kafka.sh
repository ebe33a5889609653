#!/usr/bin/env bash
# Runs one Kafka broker in the foreground (KRaft, combined mode, loopback, no TLS: for tests and
# benches). Usage: start-kafka.sh DATA_DIR PORT CONTROLLER_PORT [MORE_SETTINGS [FORMAT_OPTION...]]
# MORE_SETTINGS is a properties file that overrides; format options (SCRAM users) count once.
# The data directory is formatted on first use and kept. MUSTER_KAFKA_JAVA_OPTS sets JVM options.
# `exec` makes this process the broker, so that its id is the one to signal.
set -euo pipefail

if [ "$#" -lt 3 ]; then
  echo "usage: start-kafka.sh DATA_DIR PORT CONTROLLER_PORT [MORE_SETTINGS [FORMAT_OPTION...]]" >&2
  exit 2
fi
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
kafka="${MUSTER_SERVERS:-$here/../../.servers}/kafka"
data="$1" port="$2" controller="$3"

if [ ! -f "$kafka/installed.xml" ]; then
  echo "Kafka is not installed; run 'make servers'" >&2
  exit 1
fi
mkdir -p "$data"
config="$data/server.properties"
cat >"$config" <<EOF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
log.dirs=$data/log
# Topics are created by their owner with checked settings, never by accident.
auto.create.topics.enable=false
message.max.bytes=33554432
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# A killed broker must be forgotten before it may register again: seconds, not the default nine.
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
# Two cores, which those share that are tested and measured beside this broker.
num.network.threads=1
num.io.threads=2
EOF
if [ "$#" -gt 3 ]; then
  # Of a setting that is given twice the last counts.
  cat "$4" >>"$config"
fi

log="-Dlog4j2.configurationFile=$here/kafka/log4j2.properties"
# Compiling more than once and collecting in parallel would take a third of two cores from those
# who are tested and measured beside this broker.
defaults="-Xms256m -Xmx768m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
read -r -a options <<<"${MUSTER_KAFKA_JAVA_OPTS:-$defaults}"
if [ ! -f "$data/log/meta.properties" ]; then
  java -Xmx128m "$log" -cp "$kafka/lib/*" kafka.tools.StorageTool \
    format -t bXVzdGVyLXRlc3QtMDAwMQ -c "$config" "${@:5}"
fi
exec java "${options[@]}" "$log" -cp "$kafka/lib/*" kafka.Kafka "$config"
