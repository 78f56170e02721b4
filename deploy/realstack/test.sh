#!/usr/bin/env bash
# test.sh
# Runs the tests that need real servers, from the repository's root or anywhere:
# the suite of the Kafka log on Kafka (which is killed and started again in the
# middle), the suite of the sink on OpenSearch and on Elasticsearch, and one
# crawl on Kafka and OpenSearch. The servers get free ports and a temporary
# directory each, and are stopped at the end, whatever it was.
# Needs bin/ as "make build build-dev" leaves it. Environment: TMPDIR,
# KEEP (1: keep the directory and with it the servers' logs).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"

say() { echo "test-real: $*" >&2; }

for program in worker starter trawl-dev; do
  [[ -x bin/$program ]] || { say "there is no bin/$program; run \"make build build-dev\", or \"make test-real\""; exit 1; }
done

work=$(mktemp -d "${TMPDIR:-/tmp}/trawl-real.XXXXXX")
cleanup() {
  local code=$? dir
  trap '' INT TERM
  for dir in "$work"/*/; do
    "$here/stop.sh" "$dir" || "$here/stop.sh" "$dir" KILL || true
  done
  if [[ -n ${KEEP:-} ]]; then
    say "kept $work"
  else
    rm -rf "$work"
  fi
  exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port SPAN: sets port so that port and port+SPAN are free: a second port of
# each server is that far off. Below the range that systems hand out themselves.
free_port() {
  local i
  for ((i = 0; i < 100; i++)); do
    port=$((20000 + RANDOM % 10000))
    if free "$port" && free $((port + $1)); then return; fi
  done
  say "no free port in 100 tries"
  exit 1
}

# real PACKAGES...: the tests of a package of this module that need a server.
# Only theirs: the others are those of "make test".
real() { go test -tags real -count=1 -timeout 10m -run '^TestReal' "$@"; }

began=$SECONDS
free_port 1
kafka=$port
quick=log.cleaner.backoff.ms=200 # the cleaner looks for work so often
"$here/kafka.sh" "$kafka" "$work/kafka" "$quick" >/dev/null
free_port 100
opensearch=$port
"$here/opensearch.sh" "$opensearch" "$work/opensearch" >/dev/null
free_port 100
elastic=$port
"$here/es.sh" "$elastic" "$work/es" >/dev/null
say "Kafka on $kafka, OpenSearch on $opensearch, Elasticsearch on $elastic, ready in $((SECONDS - began)) s"

export TRAWL_KAFKA_BROKERS=127.0.0.1:$kafka
TRAWL_KAFKA_RESTART="'$here/stop.sh' '$work/kafka' KILL && '$here/kafka.sh' $kafka '$work/kafka' $quick" \
  real ./internal/kafkalog
TRAWL_ELASTIC_URL=http://127.0.0.1:$elastic real ./internal/sink/elastic
"$here/stop.sh" "$work/es"
export TRAWL_ELASTIC_URL=http://127.0.0.1:$opensearch
real ./internal/sink/elastic
real ./internal/ingest

say "one crawl on Kafka and OpenSearch"
(cd dev && HARNESS_BIN=$root/bin go test -tags e2ereal -count=1 -timeout 10m -v ./e2e/real)
say "passed in $((SECONDS - began)) s"
