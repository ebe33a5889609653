#!/usr/bin/env bash
# Renders the kustomize bases from the Helm chart, into this folder or another one.
# Usage: render.sh [FOLDER]
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target="${1:-$here}"
helm="${MUSTER_SERVERS:-$here/../../.servers}/helm/helm"
[ -x "$helm" ] || helm="$(command -v helm)" || {
  echo "missing: helm; run 'bash deploy/servers/install.sh helm'" >&2
  exit 1
}
for base in process services; do
  mkdir -p "$target/$base"
  {
    echo "# Rendered from deploy/helm/muster with values.yaml: change the chart, then run 'make manifests'."
    "$helm" template muster "$here/../helm/muster" --namespace muster --kube-version 1.37 \
      --values "$here/$base/values.yaml" |
      grep -v '^# Source: '
  } >"$target/$base/muster.yaml"
done
