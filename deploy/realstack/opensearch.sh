#!/usr/bin/env bash
# opensearch.sh PORT DATADIR [key=value ...]
# One real OpenSearch node on 127.0.0.1 (HTTP on PORT, transport on PORT+100),
# from Maven Central's jars. Runs until stop.sh DATADIR; run again it waits for
# the node that is there. Prints its pid. Further arguments are settings of
# opensearch.yml. Environment: HEAP (512m), WAIT (seconds, 120).
here=$(cd "$(dirname "$0")" && pwd)
source "$here/lib.sh"
init opensearch "${1:-}" "${2:-}"
shift 2

ready() { search_ready; }
resume
jars "$here/opensearch.pom.xml"
compile "$here/opensearch/OpenSearchNode.java"

cd "$dir"
launch java "-Xms${HEAP:-512m}" "-Xmx${HEAP:-512m}" -XX:+UseG1GC -Djava.awt.headless=true \
  -Dopensearch.set.netty.runtime.available.processors=false \
  -cp "$classes:$jars/*" OpenSearchNode "$port" "$dir" "$@"
await
