package fetch

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// AddressError is a dial that the address policy refused.
type AddressError struct {
	Address netip.Addr
	Why     string       // what the address is, e.g. "loopback"
	Network netip.Prefix // the network that is refused
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("address %s is not dialled: %s belongs to %s; to allow it give --allow-network %s (allow_networks in the spec)",
		e.Address, e.Network, e.Why, e.Network)
}

// special is one row of the table of networks that are no public site.
type special struct {
	net netip.Prefix
	why string
}

// specials follows the IANA special-purpose registries; rows whose addresses
// are globally reachable are left out. The first match names the reason.
var specials = table(`
0.0.0.0/8          this network
10.0.0.0/8         private use
100.64.0.0/10      shared address space of carriers
127.0.0.0/8        loopback
168.63.129.16/32   the metadata service of a cloud
169.254.0.0/16     link local
172.16.0.0/12      private use
192.0.0.0/24       protocol assignments
192.0.2.0/24       documentation
192.88.99.0/24     6to4 relays
192.168.0.0/16     private use
198.18.0.0/15      benchmarks
198.51.100.0/24    documentation
203.0.113.0/24     documentation
224.0.0.0/4        multicast
240.0.0.0/4        reserved
::/128             the unspecified address
::1/128            loopback
::/96              IPv4-compatible addresses
64:ff9b::/96       translation to IPv4
64:ff9b:1::/48     local translation to IPv4
100::/64           discard only
100:0:0:1::/64     dummy prefix
2001::/23          protocol assignments (Teredo and others)
2001:db8::/32      documentation
2002::/16          6to4
3fff::/20          documentation
5f00::/16          segment routing
fc00::/7           unique local addresses
fe80::/10          link local
fec0::/10          site local
ff00::/8           multicast
`)

// unicast is the only part of IPv6 that has been given to sites.
var unicast = netip.MustParsePrefix("2000::/3")

func table(rows string) []special {
	var t []special
	for row := range strings.Lines(strings.TrimSpace(rows)) {
		network, why, _ := strings.Cut(strings.TrimSpace(row), " ")
		t = append(t, special{netip.MustParsePrefix(network), strings.TrimSpace(why)})
	}
	return t
}

// Policy says which addresses may be dialled: public ones, and the named
// exceptions. The zero Policy has no exceptions.
type Policy struct {
	allowed []netip.Prefix
}

// NewPolicy makes a policy with the networks of allow_networks (CIDR) as its
// only exceptions.
func NewPolicy(allow []string) (Policy, error) {
	var p Policy
	for _, s := range allow {
		network, err := netip.ParsePrefix(s)
		if err != nil {
			return Policy{}, fmt.Errorf("allow_networks: %q is no network: give it like 127.0.0.0/8", s)
		}
		p.allowed = append(p.allowed, unmapPrefix(network))
	}
	return p, nil
}

// unmapPrefix turns a network of IPv4-mapped addresses into the IPv4 network.
func unmapPrefix(n netip.Prefix) netip.Prefix {
	if n.Addr().Is4In6() && n.Bits() >= 96 {
		return netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96).Masked()
	}
	return n.Masked()
}

// Check answers nil if a may be dialled, otherwise an *AddressError.
func (p Policy) Check(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	for _, n := range p.allowed {
		if n.Contains(a) {
			return nil
		}
	}
	for _, s := range specials {
		if s.net.Contains(a) {
			return &AddressError{a, s.why, s.net}
		}
	}
	if a.Is6() && !unicast.Contains(a) {
		return &AddressError{a, "no assigned unicast space", netip.PrefixFrom(a, 128)}
	}
	return nil
}

// control is the hook of net.Dialer. It runs after the name was resolved, on
// the very address that is about to be dialled, so no answer of the DNS can
// differ from what was checked.
func (p Policy) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q is no IP address and port: %w", address, err)
	}
	return p.Check(ap.Addr())
}
