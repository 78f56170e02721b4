#!/usr/bin/env bash
# es.sh PORT DATADIR [key=value ...]
# One real Elasticsearch 7.17 node on 127.0.0.1 (HTTP on PORT, transport on
# PORT+100), from Maven Central's jars; for tests only (its licence). Runs until
# stop.sh DATADIR; run again it waits for the node that is there. Prints its pid.
# Further arguments are settings. Environment: HEAP (512m), WAIT (seconds, 120).
here=$(cd "$(dirname "$0")" && pwd)
source "$here/lib.sh"
init es "${1:-}" "${2:-}"
shift 2

ready() { search_ready; }
resume
jars "$here/es.pom.xml"
compile "$here/es/ElasticsearchNode.java"

mkdir -p "$dir/config" "$dir/modules" "$dir/plugins" "$dir/logs"
cd "$dir"
launch java "-Xms${HEAP:-512m}" "-Xmx${HEAP:-512m}" -XX:+UseG1GC -Djava.awt.headless=true \
  -Dio.netty.noUnsafe=true -Dio.netty.noKeySetOptimization=true \
  -Des.set.netty.runtime.available.processors=false \
  -Dlog4j2.configurationFile="$here/es/log4j2.properties" \
  -cp "$classes:$jars/*" ElasticsearchNode "$port" "$dir" "$@"
await
