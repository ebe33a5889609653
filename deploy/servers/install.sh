#!/usr/bin/env bash
# Installs the real servers that integration tests and benches use into .servers (MUSTER_SERVERS
# names another folder): a Kafka broker, etcd, the Kubernetes servers with kubectl, KWOK, Kueue,
# Helm, Prometheus, and the program that tests/parity asks what kube-scheduler decides.
# Does nothing for those that are there already. Starts nothing.
#
# Usage: install.sh [PART]... (see `known`); without a name all but e2e. parity-cover-VERSION is
# parity-VERSION built to count what has run, e2e-VERSION Kubernetes' own test program.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
known=(kafka etcd kubernetes-{1.35,1.36,1.37} kwok kueue helm prometheus)
known+=(parity-{1.35,1.36,1.37} parity-cover-{1.35,1.36,1.37} claims-{1.35,1.36,1.37})
parts=("$@")
[ "${#parts[@]}" -gt 0 ] || parts=("${known[@]}")
known+=(e2e-1.37)

# Every part is tried, so that a machine without Java still gets the others, and the other way
# round; one that failed has said why.
failed=()
for part in "${parts[@]}"; do
  case " ${known[*]} " in
  *" $part "*) ;;
  *)
    echo "there is no '$part'; there are: ${known[*]}" >&2
    exit 2
    ;;
  esac
  case "$part" in
  kafka) bash "$here/install-kafka.sh" || failed+=("$part") ;;
  *) bash "$here/install-go.sh" "$part" || failed+=("$part") ;;
  esac
done
if [ "${#failed[@]}" -gt 0 ]; then
  echo "not installed: ${failed[*]}" >&2
  exit 1
fi
