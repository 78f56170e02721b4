#!/usr/bin/env bash
# Crawls the bench site with 1, 2 and 4 workers that may each use a part of one
# processor, and prints pages/s and the processor time of each part per 1,000
# pages: what a worker more brings while everything else has room. Needs root
# and cgroups (version 1 or 2), jq, and what "make build build-dev build-bench"
# builds. Usage: bench/scaling.sh [PAGES [PERCENT-OF-A-PROCESSOR]]
set -euo pipefail
cd "$(dirname "$0")/.."
pages=${1:-10000} percent=${2:-10} hosts=100
scratch=$(mktemp -d)
groups=() pids=()

cleanup() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	for g in "${groups[@]}"; do rmdir "$g" 2>/dev/null || true; done
	rm -rf "$scratch"
}
trap cleanup EXIT

# group NAME makes a control group with the quota, $g.
group() {
	if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
		g=/sys/fs/cgroup/trawl-$1
		mkdir -p "$g"
		echo "$((percent * 100)) 10000" >"$g/cpu.max"
	else
		g=/sys/fs/cgroup/cpu/trawl-$1
		mkdir -p "$g"
		echo 10000 >"$g/cpu.cfs_period_us"
		echo $((percent * 100)) >"$g/cpu.cfs_quota_us"
	fi
	groups+=("$g")
}

# cpu PID... is the time that processes have used, in hundredths of a second.
cpu() { local t=0 p; for p in "$@"; do t=$((t + $(awk '{print $14 + $15}' "/proc/$p/stat"))); done; echo "$t"; }

await() { for _ in $(seq 600); do if eval "$1" 2>/dev/null; then return; fi; sleep 0.1; done; echo "gave up waiting: $1" >&2; exit 1; }

printf '%8s %10s %14s %14s %14s\n' workers pages/s 'worker ms/page' 'stack ms/page' 'site ms/page'
for n in ${WORKERS:-1 2 4}; do
	d=$scratch/$n
	mkdir -p "$d"
	bin/webserver -hosts "$hosts" -pages $((pages / hosts)) -links 40 -size 20000 >"$d/web" & site=$!
	bin/trawl-dev --data "$d/stack" --temporal-port 0 --ui-port 0 --kafka-port 0 --json-endpoints "$d/endpoints" >"$d/dev" 2>&1 & stack=$!
	pids+=("$site" "$stack")
	await "[ -s $d/endpoints ] && [ -s $d/web ]"
	TEMPORAL_ADDRESS=$(jq -r .temporal "$d/endpoints") TEMPORAL_NAMESPACE=$(jq -r .namespace "$d/endpoints")
	TRAWL_KAFKA_BROKERS=$(jq -r .kafka "$d/endpoints") TRAWL_DATA_DIR=$d/data
	export TEMPORAL_ADDRESS TEMPORAL_NAMESPACE TRAWL_KAFKA_BROKERS TRAWL_DATA_DIR
	workers=()
	for i in $(seq "$n"); do
		group "$n-$i"
		TRAWL_HTTP_ADDR=127.0.0.1:0 GOMAXPROCS=1 bin/worker >"$d/worker$i" 2>&1 & workers+=($!)
		pids+=($!)
		await "grep -q '\"working\"' $d/worker$i"
		echo "${workers[-1]}" >"$g/cgroup.procs"
	done
	before=$(cpu "${workers[@]}") before_stack=$(cpu "$stack") before_site=$(cpu "$site")
	from=$(date +%s%N)
	root=$(jq -r .root "$d/web")
	for i in $(seq 0 $((hosts - 1))); do echo "http://127.1.0.$((i + 1)):${root##*:}"; done >"$d/seeds"
	bin/starter crawl --seed-file "$d/seeds" --name scaling --json --delay 0 --sink none --shards 8 --allow-network 127.0.0.0/8 >"$d/summary" 2>"$d/err" || { cat "$d/err" >&2; exit 1; }
	took=$(($(date +%s%N) - from))
	got=$(jq .totals.fetched "$d/summary")
	[ "$got" = "$pages" ] || { echo "$got of $pages pages" >&2; exit 1; }
	awk -v n="$n" -v p="$pages" -v t="$took" -v w=$(($(cpu "${workers[@]}") - before)) -v s=$(($(cpu "$stack") - before_stack)) -v l=$(($(cpu "$site") - before_site)) \
		'BEGIN { printf "%8d %10.0f %14.3f %14.3f %14.3f\n", n, p / (t / 1e9), w * 10 / p, s * 10 / p, l * 10 / p }'
	kill "${workers[@]}" "$site"
	sleep 0.5
	kill "$stack"
	wait "${workers[@]}" "$site" "$stack" 2>/dev/null || true
done
