package frontier

import (
	"github.com/cespare/xxhash/v2"

	"trawl/internal/contract"
)

// MaxParts is the greatest number of parts that a split host falls into.
const MaxParts = 16

// ShardOf is the partition of the frontier topic that holds the facts of a
// host: xxhash64 of the politeness key modulo the shards. Fewer than two
// shards give 0.
func ShardOf(host string, shards int) int {
	if shards < 2 {
		return 0
	}
	return int(xxhash.Sum64String(host) % uint64(shards))
}

// SlotOf is the slot of a host within its shard, 0 to contract.Slots-1. It is
// another mix of the hash than ShardOf's, so that the hosts of one shard use
// all slots whatever the number of shards.
func SlotOf(host string) int {
	return int(mix(xxhash.Sum64String(host)) % contract.Slots)
}

// PartSlot is the slot of one part (0 to MaxParts-1) of a split host. The
// parts of a host never share a slot with each other or with the host.
func PartSlot(host string, part int) int {
	m := mix(xxhash.Sum64String(host))
	stride := (m>>32)<<1 | 1 // odd, hence all multiples below Slots differ
	return int((m%contract.Slots + uint64(part+1)*stride) % contract.Slots)
}

// partOf is the part of a split host that a URL belongs to.
func partOf(url []byte, parts int) int {
	if parts < 2 {
		return 0
	}
	return int(mix(xxhash.Sum64(url)) % uint64(parts))
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// HostOf is the politeness key of a canonical URL: host, with the port unless
// it is the scheme's own. It is "" for anything that is not an http or https
// URL with a host and without user information. It does not canonicalise.
func HostOf(canonicalURL string) string {
	_, host, _ := splitURL(canonicalURL)
	return host
}

// splitURL cuts a canonical URL into scheme, politeness key and request
// target; host is "" if it is no canonical http(s) URL.
func splitURL[S string | []byte](url S) (scheme string, host, target S) {
	var none S
	rest := 0
	switch {
	case hasPrefix(url, "https://"):
		scheme, rest = "https", len("https://")
	case hasPrefix(url, "http://"):
		scheme, rest = "http", len("http://")
	default:
		return "", none, none
	}
	end := rest
	for end < len(url) && url[end] != '/' && url[end] != '?' && url[end] != '#' {
		if url[end] == '@' {
			return "", none, none
		}
		end++
	}
	host, target = url[rest:end], url[end:]
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	if hasSuffix(host, port) {
		host = host[:len(host)-len(port)]
	}
	if len(host) > maxHost || !validHost(host) {
		return "", none, none
	}
	return scheme, host, target
}

func hasPrefix[S string | []byte](s S, prefix string) bool {
	return len(s) >= len(prefix) && string(s[:len(prefix)]) == prefix
}

func hasSuffix[S string | []byte](s S, suffix string) bool {
	return len(s) >= len(suffix) && string(s[len(s)-len(suffix):]) == suffix
}

// Bytes that stand in no authority, or in no target, of a canonical URL.
var badInHost, badInTarget = func() (host, target [256]bool) {
	for c := range ' ' + 1 {
		host[c], target[c] = true, true
	}
	host[0x7f], target[0x7f], target['#'] = true, true, true
	for _, c := range []byte(`/\?#@"<>`) {
		host[c] = true
	}
	return host, target
}()

// validHost accepts what can stand in an authority; it is a guard against
// garbage in the log, not a parser.
func validHost[S string | []byte](host S) bool {
	if len(host) == 0 || host[0] == ':' {
		return false
	}
	for i := 0; i < len(host); i++ {
		if badInHost[host[i]] {
			return false
		}
	}
	return true
}

// cutCanonical cuts a URL into politeness key and target, of which batches
// put it together again; ok is false if that would give another URL.
func cutCanonical(url []byte) (host, target []byte, ok bool) {
	scheme, host, target := splitURL(url)
	if len(host) == 0 || len(target) == 0 || target[0] != '/' ||
		len(scheme)+len("://")+len(host)+len(target) != len(url) {
		return nil, nil, false
	}
	for _, c := range target {
		if badInTarget[c] {
			return nil, nil, false
		}
	}
	return host, target, true
}
