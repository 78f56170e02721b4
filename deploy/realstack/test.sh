#!/usr/bin/env bash
# test.sh
# Runs the tests that need real servers, from the repository's root or anywhere:
# the suite of the Kafka log on Kafka (which is killed and started again in the
# middle), the suite of the sink on OpenSearch and on Elasticsearch, the faults of
# the loader, and by the shipped programs one crawl and one load. The servers get
# free ports and a temporary directory each, and are stopped at the end, whatever
# it was.
# Needs bin/ as "make build build-dev" leaves it. Environment: TMPDIR,
# KEEP (1: keep the directory and with it the servers' logs).
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$here/lib.sh"
cd "$root"

for program in worker starter trawl-dev; do
  [[ -x bin/$program ]] || die "there is no bin/$program; run \"make build build-dev\", or \"make test-real\""
done
workshop test-real

# real PACKAGES...: the tests of a package of this module that need a server.
# Only theirs: the others are those of "make test".
real() { go test -tags real -count=1 -timeout 10m -run '^TestReal' "$@"; }

began=$SECONDS
quick=log.cleaner.backoff.ms=200 # the cleaner looks for work so often
acl=(authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
  allow.everyone.if.no.acl.found=true) # a test forbids something for a while
raise kafka "$quick" "${acl[@]}"
kafka=$port
raise opensearch
opensearch=$port
raise es
elastic=$port
say "Kafka on $kafka, OpenSearch on $opensearch, Elasticsearch on $elastic, ready in $((SECONDS - began)) s"

export TRAWL_KAFKA_BROKERS=127.0.0.1:$kafka
TRAWL_KAFKA_RESTART="'$here/stop.sh' '$work/kafka' KILL && '$here/kafka.sh' $kafka '$work/kafka' $quick ${acl[*]}" \
  real ./internal/kafkalog
TRAWL_ELASTIC_URL=http://127.0.0.1:$elastic real ./internal/sink/elastic
"$here/stop.sh" "$work/es"
export TRAWL_ELASTIC_URL=http://127.0.0.1:$opensearch
real ./internal/sink/elastic
real ./internal/ingest

say "one crawl, and a load as Qanal had them, on Kafka and OpenSearch"
(cd dev && HARNESS_BIN=$root/bin go test -p 1 -tags e2ereal -count=1 -timeout 10m -v -run '^TestReal' ./e2e/real ./e2e/load)
say "passed in $((SECONDS - began)) s"
