#!/usr/bin/env bash
# Builds one set of servers from Go modules into .servers/NAME (MUSTER_SERVERS names another
# folder), unless that has been done with the same versions. Usage: install-go.sh NAME, where
# NAME is a folder beside this script. Its go.mod names what to build (the `tool` lines) and which
# versions; its go.sum holds the checksums. The names parity-VERSION and parity-cover-VERSION build
# the program in tests/parity/oracle instead, with that release of Kubernetes (VERSION.mod there):
# the second one counts which statements of the plugins have run. claims-VERSION builds the program
# in its folder claims. e2e-VERSION is Kubernetes' own test program.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
name="$1"
module="$here/$name"
mod=go
case "$name" in
parity-* | claims-*)
  module="$here/../../tests/parity/oracle"
  mod="${name##*-}"
  ;;
esac
servers="${MUSTER_SERVERS:-$here/../../.servers}"
target="$servers/$name"

go_needed="$(sed -n 's/^go //p' "$module/$mod.mod")"
mapfile -t packages < <(
  sed -n -e 's/^tool \([^(]*\)$/\1/p' -e '/^tool (/,/^)/s/^\t//p' "$module/$mod.mod"
)
sources=()
flags=()
case "$name" in
parity-*)
  packages=(muster/parity/oracle)
  sources=("$module"/*.go)
  flags=("-modfile=$mod.mod" "-tags=kube$mod")
  ;;
claims-*)
  packages=(muster/parity/oracle/claims)
  sources=("$module"/claims/*.go)
  flags=("-modfile=$mod.mod")
  ;;
esac
case "$name" in
parity-cover-*)
  # Without its own package among them the program would write nothing at its end.
  plugins=k8s.io/kubernetes/pkg/scheduler/framework/plugins
  flags+=(-cover "-coverpkg=muster/parity/oracle,$plugins/...,${plugins%plugins}preemption")
  ;;
esac
# Tests name the addresses to scrape: without the discovery of clouds it is half as large.
[ "$name" = prometheus ] && flags=(-tags remove_all_sd)
ldflags="-s -w"
build=(go build)
[[ "$name" = e2e-* ]] && build=(go test -c)
case "$name" in
kubernetes-* | e2e-*)
  # A release build says its version; a server that does not is refused by some clients.
  version="$(sed -n 's/^.*\bk8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' "$module/go.mod")"
  IFS=. read -r major minor _ <<<"${version#v}"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    ldflags+=" -X $package.gitVersion=$version -X $package.gitMajor=$major"
    ldflags+=" -X $package.gitMinor=$minor -X $package.gitTreeState=clean"
  done
  ;;
esac

# What the stamp holds decides whether a build is still the right one.
stamp() {
  echo "flags $ldflags${flags[*]:+ ${flags[*]}}"
  cat "$module/$mod.mod" "$module/$mod.sum" "${sources[@]}"
}
if [ -f "$target/installed" ] && cmp -s <(stamp) "$target/installed"; then
  echo "$name is installed in .servers/$name (or MUSTER_SERVERS)"
  exit 0
fi

if ! command -v go >/dev/null; then
  echo "missing: go ($go_needed or newer) on the PATH, to build $name" >&2
  exit 1
fi
go_found="$(GOTOOLCHAIN=local go env GOVERSION)"
go_found="${go_found#go}"
if [ "$(printf '%s\n' "$go_needed" "$go_found" | sort -V | head -n 1)" != "$go_needed" ]; then
  echo "go is version $go_found, $go_needed or newer is needed to build $name" >&2
  exit 1
fi

# The versions are those of go.sum or none; nothing here may fetch another tool chain.
export GOTOOLCHAIN=local GOFLAGS=-mod=readonly CGO_ENABLED=0
# The compiler collects less garbage: a sixth less CPU time, and still no 2 GiB for the linker.
export GOGC="${GOGC:-400}"
mkdir -p "$servers"
# Built beside and moved at the end: an interrupted run leaves nothing half-done.
scratch="$(mktemp -d "$servers/$name.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT

cd "$module"
started_s=$SECONDS
echo "$name: fetching and building ${#packages[@]} program(s) with go $go_found, once;" \
  "minutes without a build cache"
for package in "${packages[@]}"; do
  program="$(basename "${package%/v[0-9]}")"
  [ "$name" = etcd ] && program=etcd
  [[ "$name" = e2e-* ]] && program=e2e.test
  one_s=$SECONDS
  if ! nice -n 5 "${build[@]}" -p 2 -trimpath -buildvcs=false -ldflags "$ldflags" \
    "${flags[@]}" -o "$scratch/$program" "$package" 2> >(grep -v '^go: downloading ' >&2); then
    echo "$name: $program did not build; check the network and 'go env GOPROXY'" >&2
    exit 1
  fi
  bytes="$(wc -c <"$scratch/$program")"
  echo "$name: $program built in $((SECONDS - one_s)) s, $((bytes >> 20)) MiB"
done

if [ "$name" = kwok ]; then
  # KWOK has no stages of its own: these are the ones that come with this very version.
  stages="$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage"
  for stage in node/fast/node-initialize pod/fast/{pod-ready,pod-complete,pod-delete}; do
    echo "---"
    cat "$stages/$stage.yaml"
  done >"$scratch/stages.yaml"
fi

if [ "$name" = kueue ]; then
  # Its API and webhooks, as they come with this very version.
  components="$(go list -m -f '{{.Dir}}' sigs.k8s.io/kueue)/config/components"
  for crd in "$components"/crd/bases/*.yaml; do
    cat "$crd"
  done >"$scratch/crds.yaml"
  cat "$components/webhook/manifests.yaml" >"$scratch/webhooks.yaml"
fi

stamp >"$scratch/installed"
chmod 755 "$scratch"
rm -rf "$target"
mv "$scratch" "$target"
echo "$name installed in $((SECONDS - started_s)) s"
