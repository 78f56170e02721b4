#!/usr/bin/env bash
# bench.sh [arguments of benchload]
# Measures the loader beside the simplest program that does the same, on a Kafka
# and an OpenSearch of its own, which it starts on free ports and stops at the
# end. Needs bin/benchload. Environment: TMPDIR, HEAP (of each server, 512m).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[[ -x $root/bin/benchload ]] || { echo "bench: there is no bin/benchload; run \"make bench-load\"" >&2; exit 1; }

work=$(mktemp -d "${TMPDIR:-/tmp}/trawl-bench.XXXXXX")
cleanup() {
  local code=$? dir
  trap '' INT TERM
  for dir in "$work"/*/; do
    "$here/stop.sh" "$dir" || "$here/stop.sh" "$dir" KILL || true
  done
  rm -rf "$work"
  exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port SPAN: sets port so that port and port+SPAN are free.
free_port() {
  local i
  for ((i = 0; i < 100; i++)); do
    port=$((20000 + RANDOM % 10000))
    if free "$port" && free $((port + $1)); then return; fi
  done
  echo "bench: no free port in 100 tries" >&2
  exit 1
}

free_port 1
kafka=$port
"$here/kafka.sh" "$kafka" "$work/kafka" >/dev/null
free_port 100
opensearch=$port
"$here/opensearch.sh" "$opensearch" "$work/opensearch" >/dev/null
"$root/bin/benchload" -brokers "127.0.0.1:$kafka" -elastic "http://127.0.0.1:$opensearch" "$@"
