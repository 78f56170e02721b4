# Shared by the scripts beside it; sourced, not run.
# Every server lives in one data directory: its pid file, its log, its data.

set -euo pipefail

say() { echo "${who:-realstack}: $*" >&2; }
die() { say "$*"; exit 1; }

need() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null || die "$tool is not installed; Java 17 or later (a JDK), Maven and curl are needed"
  done
}

# init NAME PORT DATADIR: checks the arguments and sets port, dir, pidfile, log.
init() {
  name=$1
  port=${2:-}
  dir=${3:-}
  [[ $port =~ ^[0-9]+$ && -n $dir ]] || die "usage: $name.sh PORT DATADIR [key=value ...]"
  need java mvn
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  pidfile=$dir/pid
  log=$dir/$name.log
}

# jars POM: copies a pom's runtime jars into the cache, once per content of the
# pom; sets $jars. Copied aside and renamed, so that a half-done copy is never
# used and two starters do not meet.
jars() {
  local pom=$1 sum base tmp
  sum=$(cksum <"$pom" | tr ' ' -)
  base=${XDG_CACHE_HOME:-$HOME/.cache}/trawl/realstack
  jars=$base/$name-$sum
  if [[ ! -d $jars ]]; then
    say "fetching the jars of $name into $jars"
    mkdir -p "$base"
    tmp=$(mktemp -d "$base/.$name.XXXXXX")
    if ! mvn -B -q -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$tmp" >&2; then
      rm -rf "$tmp"
      die "Maven could not fetch the jars of $name; is the registry reachable?"
    fi
    chmod 755 "$tmp"
    mv -T "$tmp" "$jars" 2>/dev/null || rm -rf "$tmp"
  fi
  [[ -d $jars ]] || die "no jars at $jars"
}

# compile MAIN.java: compiles a launcher into the data directory; sets $classes.
compile() {
  need javac curl
  classes=$dir/classes
  mkdir -p "$classes"
  javac -nowarn -cp "$jars/*" -d "$classes" "$1" >&2 || die "$1 does not compile"
}

# ours PIDFILE DIR: the process is alive and its command line names the data
# directory; a recycled pid is somebody else's.
ours() {
  local pid
  pid=$(cat "$1" 2>/dev/null) || return 1
  [[ $pid =~ ^[0-9]+$ && -r /proc/$pid/cmdline ]] || return 1
  grep -sqzF -- "$2" "/proc/$pid/cmdline"
}

# taken PORT: somebody listens there.
taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# launch COMMAND...: runs the server in its own session, so that it outlives us,
# and notes its pid.
launch() {
  : >"$log"
  setsid nohup "$@" >>"$log" 2>&1 </dev/null &
  echo $! >"$pidfile"
}

# await: waits until `ready` succeeds, at most $WAIT seconds, prints the pid.
await() {
  local deadline=$((SECONDS + ${WAIT:-120}))
  while ((SECONDS < deadline)); do
    if ! ours "$pidfile" "$dir"; then
      # The command line is that of this shell until java has begun.
      sleep 0.5
      ours "$pidfile" "$dir" || { tail -n 30 "$log" >&2; die "$name died; its log is $log"; }
    fi
    if ready; then
      cat "$pidfile"
      exit 0
    fi
    sleep 0.2
  done
  tail -n 30 "$log" >&2
  die "$name is not ready after ${WAIT:-120} s; its log is $log"
}

# resume: a server that runs here already is waited for, and nothing is started.
# A port that is taken may be that of a server that ends just now.
resume() {
  if ours "$pidfile" "$dir"; then await; fi
  local deadline=$((SECONDS + 10))
  while taken "$port"; do
    ((SECONDS < deadline)) || die "port $port is taken by another process"
    sleep 0.1
  done
}

# search_ready: the state is recovered and no shard is starting. (Never "yellow":
# one index that cannot be allocated keeps a node red for ever.)
search_ready() {
  curl -sf -m 3 -o /dev/null "http://127.0.0.1:$port/_cat/indices" &&
    curl -sf -m 3 -o /dev/null "http://127.0.0.1:$port/_cluster/health?wait_for_no_initializing_shards=true&timeout=1s"
}

# workshop NAME: makes a temporary directory, work, for servers that raise
# starts. At the end of the script, whatever it was, they are stopped, and the
# directory is removed, or kept with its logs if KEEP is set.
workshop() {
  who=$1
  work=$(mktemp -d "${TMPDIR:-/tmp}/trawl-$1.XXXXXX")
  trap close_workshop EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

close_workshop() {
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

# free_port SPAN: sets port so that port and port+SPAN are free: a second port of
# each server is that far off. Below the range that systems hand out themselves.
free_port() {
  local i
  for ((i = 0; i < 100; i++)); do
    port=$((20000 + RANDOM % 10000))
    if ! taken "$port" && ! taken $((port + $1)); then return; fi
  done
  die "no free port in 100 tries"
}

# raise SERVER [key=value ...]: starts kafka, opensearch or es on free ports, in
# the workshop's directory of that name; sets port.
raise() {
  local server=$1 span=100
  shift
  if [[ $server == kafka ]]; then span=1; fi
  free_port "$span"
  "$here/$server.sh" "$port" "$work/$server" "$@" >/dev/null
}
