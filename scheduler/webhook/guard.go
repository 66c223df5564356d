package webhook

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

const (
	allowVariable = "CHRONOS_CALLBACK_ALLOW"
	denyVariable  = "CHRONOS_CALLBACK_DENY"

	guardSyntax = "an entry is a CIDR, an address, a host name or *.suffix, each with or without :port, or :port alone; " +
		"entries are separated by commas, and IPv6 before a port is in brackets, as in [fd00::/8]:443"
)

// Guard says where callbacks may go. ParseGuard makes a Guard; nil and the zero value have no rules. A
// Guard never changes, and is safe for concurrent use.
//
// Some addresses are never called, whatever the rules say:
//
//   - link-local addresses (169.254.0.0/16, fe80::/10);
//   - the metadata addresses of clouds;
//   - unspecified addresses (0.0.0.0/8 and ::, which reach the machine itself);
//   - multicast and broadcast;
//   - IPv6 addresses that stand for such an IPv4 address (IPv4-mapped, IPv4-compatible, NAT64, 6to4, Teredo, ISATAP).
//
// A match of a rule in CHRONOS_CALLBACK_DENY is refused. If CHRONOS_CALLBACK_ALLOW has rules, only a
// match of an allow rule is called. Without rules, loopback and private addresses are called like any
// address.
//
// A rule with an address or CIDR is about the address that is connected to, after the lookup of the
// host, for every address that is tried. A rule that denies an IPv4 address also denies the IPv6
// addresses that stand for the address. A rule that denies 127.0.0.0/8 or localhost denies every
// loopback address, ::1 included. Any other rule with a name is about the host in the URI, whatever its
// case and with or without a final dot. *.a.test matches all names below a.test, not a.test itself. The
// same receiver may have several names, so deny the receiver's address to be sure. An allowed name may
// have any address that isn't denied.
type Guard struct {
	allow, deny rules
}

// ParseGuard reads CHRONOS_CALLBACK_ALLOW and CHRONOS_CALLBACK_DENY, two lists of rules separated by
// commas. A blank text has no rules. The error names every fault by its position.
func ParseGuard(allow, deny string) (*Guard, error) {
	allowed, faults := parseRules(allowVariable, allow)
	denied, more := parseRules(denyVariable, deny)
	if faults = append(faults, more...); len(faults) > 0 {
		return nil, fmt.Errorf("read callback rules: %s; %s", strings.Join(faults, "; "), guardSyntax)
	}
	return &Guard{allow: allowed, deny: denied}, nil
}

// String shows the rules as written in the environment.
func (g *Guard) String() string {
	if g == nil {
		g = new(Guard)
	}
	return allowVariable + "=" + g.allow.String() + " " + denyVariable + "=" + g.deny.String()
}

// open reports whether the guard has no rules.
func (g *Guard) open() bool { return g == nil || len(g.allow) == 0 && len(g.deny) == 0 }

// refusedError is why a callback may not go to its destination.
type refusedError struct {
	reason string // in an attempt's outcome
	detail string // in the answer to a client, with what to do
}

func (e *refusedError) Error() string { return e.reason }

var (
	errLinkLocal = &refusedError{
		"address not allowed: link-local or metadata",
		"callbacks to link-local and cloud metadata addresses are never made; give the receiver's own address",
	}
	errUnspecified = &refusedError{
		"address not allowed: unspecified",
		"0.0.0.0 and :: are no address to call; for this machine give 127.0.0.1 or ::1",
	}
	errMulticast = &refusedError{
		"address not allowed: multicast or broadcast",
		"a callback goes to one receiver; give its own address, not one of multicast or broadcast",
	}
	errDenied = &refusedError{
		"address denied by " + denyVariable,
		"this service makes no callbacks to the host or port of uri (" + denyVariable + "); give another, or ask its operator",
	}
	errNotAllowed = &refusedError{
		"not in " + allowVariable,
		"this service makes callbacks only to listed hosts and ports (" + allowVariable + "); give one of them, or ask its operator",
	}
)

// place is the destination of a callback.
type place struct {
	name    string     // the URI's host in lower case, without a final dot
	addr    netip.Addr // the zero value while unknown
	port    uint16     // 0 if the URI's port doesn't exist
	settled bool       // nothing more will be known
}

// check returns nil if p may be called or more must be known to decide, otherwise a *refusedError.
func (g *Guard) check(p place) error {
	if err := forbidden(p.addr); err != nil {
		return err
	}
	if g.open() {
		return nil
	}
	if slices.ContainsFunc(g.deny, func(r rule) bool { return r.denies(p) }) {
		return errDenied
	}
	if len(g.allow) > 0 && !slices.ContainsFunc(g.allow, func(r rule) bool { return r.allows(p) }) {
		return errNotAllowed
	}
	return nil
}

// at is p for a connection to an address such as 127.0.0.1:80.
func (p place) at(address netip.AddrPort) place {
	p.addr, p.port, p.settled = address.Addr(), address.Port(), true
	return p
}

// over is p for a connection of a Config.Dial. The port stays the URI's port, so that a Dial may lead
// elsewhere.
func (p place) over(c net.Conn) place {
	p.settled = true
	if remote, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		p.addr = remote.AddrPort().Addr()
	}
	return p
}
