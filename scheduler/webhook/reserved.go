package webhook

import (
	"net"
	"net/netip"
)

// Reserved are addresses that callbacks never connect to, whatever the rules allow: the addresses of
// services for the node or its operator.
type Reserved struct {
	// Whose completes the reason of a refused callback: "address not allowed: …".
	Whose string
	// Addresses are the addresses at which the service listens. An unspecified address (0.0.0.0, ::)
	// stands for every address of this machine.
	Addresses []netip.AddrPort
	// AnyLocal says that the service may listen on further addresses. If an address in Addresses
	// belongs to this machine, all addresses of this machine with the same port are reserved.
	AnyLocal bool
}

// unreserved returns nil if a callback may connect to the address, otherwise a
// *refusedError.
func (c *Client) unreserved(address netip.AddrPort) error {
	if c.reserved == nil {
		return nil
	}
	for _, r := range c.reserved() {
		if r.has(address) {
			return &refusedError{reason: "address not allowed: " + r.Whose}
		}
	}
	return nil
}

// has asks the system for this machine's addresses only if the port is equal, which is rare.
func (r *Reserved) has(address netip.AddrPort) bool {
	for _, own := range r.Addresses {
		if own.Port() != address.Port() {
			continue
		}
		at := own.Addr().Unmap().WithZone("")
		local := at.IsUnspecified() || r.AnyLocal && ofThisMachine(at)
		for form := range forms(address.Addr()) {
			if form == at || local && ofThisMachine(form) {
				return true
			}
		}
	}
	return false
}

// ofThisMachine reports whether a connection to the address stays on this machine. If the system
// doesn't tell, the answer is true.
func ofThisMachine(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, at := range all {
		network, ok := at.(*net.IPNet)
		if !ok {
			continue
		}
		if own, ok := netip.AddrFromSlice(network.IP); ok && own.Unmap() == addr {
			return true
		}
	}
	return false
}
