#!/usr/bin/env bash
# kafka.sh PORT DATADIR [key=value ...]
# One real Kafka node (KRaft) on 127.0.0.1, from Maven Central's jars. Runs until
# stop.sh DATADIR; run again it waits for the node that is there. Prints its pid.
# Further arguments are lines of server.properties. Environment: CONTROLLER_PORT
# (PORT+1), HEAP (512m), WAIT (seconds until it must be ready, 120).
here=$(cd "$(dirname "$0")" && pwd)
source "$here/lib.sh"
init kafka "${1:-}" "${2:-}"
shift 2

ready() { grep -q 'Kafka Server started' "$log" && taken "$port"; }
resume
jars "$here/kafka.pom.xml"

controller=${CONTROLLER_PORT:-$((port + 1))}
conf=$dir/server.properties
# The session settings: without them a node that was killed waits nine seconds
# for its own former registration to expire.
cat >"$conf" <<END
node.id=1
process.roles=broker,controller
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:$controller
listeners=CLIENTS://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=CLIENTS://127.0.0.1:$port
inter.broker.listener.name=CLIENTS
listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
log.dirs=$dir/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=16777216
END
((!$#)) || printf '%s\n' "$@" >>"$conf"

jvm=(java -Xms128m "-Xmx${HEAP:-512m}" -XX:+UseG1GC -Djava.awt.headless=true
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn
  -Dorg.slf4j.simpleLogger.showDateTime=true
  -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info
  -cp "$jars/*")
if [[ ! -f $dir/data/meta.properties ]]; then
  cluster=$("${jvm[@]}" kafka.tools.StorageTool random-uuid 2>/dev/null) || die "StorageTool gives no cluster id"
  "${jvm[@]}" kafka.tools.StorageTool format -t "$cluster" -c "$conf" >"$dir/format.log" 2>&1 ||
    { cat "$dir/format.log" >&2; die "the storage could not be formatted"; }
fi
launch "${jvm[@]}" kafka.Kafka "$conf"
await
