#!/usr/bin/env bash
# bench.sh [arguments of benchload]
# Measures the loader beside the simplest program that does the same, on a Kafka
# and an OpenSearch of its own, which it starts on free ports and stops at the
# end. Needs bin/benchload. Environment: TMPDIR, HEAP (of each server, 512m),
# KEEP (1: keep the directory and with it the servers' logs).
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$here/lib.sh"
[[ -x $root/bin/benchload ]] || die 'there is no bin/benchload; run "make bench-load"'

workshop bench
raise kafka
kafka=$port
raise opensearch
"$root/bin/benchload" -brokers "127.0.0.1:$kafka" -elastic "http://127.0.0.1:$port" "$@"
