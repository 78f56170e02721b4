#!/usr/bin/env bash
# stop.sh DATADIR [SIGNAL]
# Stops the server of a data directory and waits for its end; KILL as the signal
# makes a crash of it. A server that does not run is no error.
here=$(cd "$(dirname "$0")" && pwd)
source "$here/lib.sh"
[[ -n ${1:-} ]] || die "usage: stop.sh DATADIR [SIGNAL]"
[[ -d $1 ]] || exit 0
dir=$(cd "$1" && pwd)
ours "$dir/pid" "$dir" || exit 0
pid=$(<"$dir/pid")
kill -s "${2:-TERM}" "$pid" 2>/dev/null || exit 0
# A dying process loses its command line, and its first thread, before its
# sockets: it has let go of its port when no other thread is left. (A listing of
# its threads ends early if one goes meanwhile; the count is right.)
for ((i = 0; i < 300; i++)); do
  status=$(cat "/proc/$pid/status" 2>/dev/null) || exit 0
  if grep -q '^State:[[:space:]]*[ZX]' <<<"$status" && grep -q '^Threads:[[:space:]]*[01]$' <<<"$status"; then exit 0; fi
  sleep 0.1
done
die "process $pid of $dir does not end; stop.sh $dir KILL"
