#!/bin/sh
# Registers the namespace, its retention and the search attributes that trawl
# sets. May be repeated: what exists is left alone.
set -eu

namespace=default
retention=168h

if ! temporal operator namespace describe --namespace "$namespace" >/dev/null 2>&1; then
	temporal operator namespace create --namespace "$namespace" --retention "$retention"
fi

# A namespace can be described a few seconds before it can be used.
tries=0
until existing=$(temporal operator search-attribute list --namespace "$namespace"); do
	tries=$((tries + 1))
	if [ "$tries" -ge 30 ]; then
		echo "namespace $namespace does not become usable" >&2
		exit 1
	fi
	sleep 2
done

attribute() {
	if ! echo "$existing" | grep -qw "$1"; then
		temporal operator search-attribute create --namespace "$namespace" --name "$1" --type "$2"
	fi
}

attribute TrawlCrawl Keyword
attribute TrawlState Keyword
attribute TrawlOutcome Keyword
attribute TrawlErrorClass Int
attribute TrawlPages Int
