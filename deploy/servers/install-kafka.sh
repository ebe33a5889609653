#!/usr/bin/env bash
# Installs a Kafka broker, as Maven artifacts, into .servers/kafka (MUSTER_SERVERS names another
# folder). Does nothing when it is there already. Starts nothing.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
servers="${MUSTER_SERVERS:-$here/../../.servers}"
pom="$here/kafka/pom.xml"
target="$servers/kafka"

# The stamp holds the pom, so a changed version is installed.
if cmp -s "$pom" "$target/installed.xml"; then
  echo "Kafka is installed in .servers/kafka (or MUSTER_SERVERS)"
  exit 0
fi

missing=()
command -v java >/dev/null || missing+=("java (17 or newer; Debian: apt-get install openjdk-17-jre-headless)")
command -v mvn >/dev/null || missing+=("mvn (Debian: apt-get install maven)")
if [ "${#missing[@]}" -gt 0 ]; then
  printf 'missing: %s\n' "${missing[@]}" >&2
  exit 1
fi
java_major="$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)"
if [ "${java_major:-0}" -lt 17 ]; then
  echo "java is version ${java_major:-unknown}, 17 or newer is needed" >&2
  exit 1
fi

mkdir -p "$servers"
# Installed beside and moved at the end: an interrupted run leaves nothing half-done.
scratch="$(mktemp -d "$servers/kafka.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
if ! mvn -q -B -f "$pom" dependency:copy-dependencies \
  -DoutputDirectory="$scratch/lib" -DincludeScope=runtime; then
  echo "Maven could not fetch Kafka; check the network or the mirror in ~/.m2/settings.xml" >&2
  exit 1
fi
cp "$pom" "$scratch/installed.xml"
chmod 755 "$scratch"
rm -rf "$target"
mv "$scratch" "$target"
echo "Kafka installed: $(find "$target/lib" -type f | wc -l) files"
