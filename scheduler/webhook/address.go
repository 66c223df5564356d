package webhook

import (
	"iter"
	"net/netip"
	"strconv"
	"strings"
)

// forbidden returns why no callback ever goes to addr, or nil if callbacks may. The zero Addr is not
// forbidden.
func forbidden(addr netip.Addr) error {
	for form := range forms(addr) {
		switch {
		case form.IsLinkLocalUnicast(), metadata(form):
			return errLinkLocal
		case form.IsMulticast(), form == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			return errMulticast
		case form.IsUnspecified(), form.Is4() && form.As4()[0] == 0:
			return errUnspecified
		}
	}
	return nil
}

// metadata reports whether machines in a cloud ask for their credentials at a. Link-local addresses are
// not listed.
func metadata(a netip.Addr) bool {
	var buf [64]byte
	switch string(a.AppendTo(buf[:0])) {
	case "fd00:ec2::254", "fd00:ec2::23", // Amazon: instances, pods
		"fd00:c1::a9fe:a9fe",                   // Oracle
		"fd20:ce::254",                         // Google
		"168.63.129.16",                        // Azure
		"100.100.100.200", "fd00:100::100:200", // Alibaba
		"192.0.0.192",       // Oracle
		"fd00:42::42",       // Scaleway
		"fd00:a9fe:a9fe::1": // Akamai
		return true
	}
	return false
}

// forms are the addresses that a stands for. The first is a itself, without its zone, and as IPv4 if a
// is IPv4-mapped. The rest are the IPv4 addresses embedded in a, to which a translator or tunnel would
// lead.
func forms(a netip.Addr) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		if !a.IsValid() {
			return
		}
		a = a.Unmap().WithZone("")
		if !yield(a) || a.Is4() || a.IsLoopback() || a.IsUnspecified() {
			return
		}
		b := a.As16()
		for _, at := range embedded(b) {
			v4 := [4]byte{b[at[0]], b[at[1]], b[at[2]], b[at[3]]}
			if !yield(netip.AddrFrom4(v4)) {
				return
			}
		}
		if teredo(b) { // the client's is inverted
			yield(netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
		}
	}
}

func teredo(b [16]byte) bool { return b[0] == 0x20 && b[1] == 0x01 && b[2] == 0 && b[3] == 0 }

// embedded says which bytes of an IPv6 address are an IPv4 address.
func embedded(b [16]byte) [][4]int {
	last := [4]int{12, 13, 14, 15}
	switch {
	case [12]byte(b[:12]) == [12]byte{}, // IPv4-compatible
		[12]byte(b[:12]) == [12]byte{8: 0xff, 9: 0xff},                                // IPv4-translated
		[12]byte(b[:12]) == [12]byte{1: 0x64, 2: 0xff, 3: 0x9b},                       // NAT64
		(b[8]&^3 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe && b[0] != 0xff): // ISATAP
		return [][4]int{last}
	case b[0] == 0x20 && b[1] == 0x02: // 6to4
		return [][4]int{{2, 3, 4, 5}}
	case teredo(b): // the server's
		return [][4]int{{4, 5, 6, 7}}
	case [6]byte(b[:6]) == [6]byte{1: 0x64, 2: 0xff, 3: 0x9b, 5: 1}:
		return localNAT64(b)
	}
	return nil
}

// localNAT64 is for 64:ff9b:1::/48, where the network chooses the prefix's length: all places of RFC
// 6052 that hold an address.
func localNAT64(b [16]byte) (places [][4]int) {
	for _, at := range [][4]int{{6, 7, 9, 10}, {7, 9, 10, 11}, {9, 10, 11, 12}, {12, 13, 14, 15}} {
		if b[at[0]] != 0 {
			places = append(places, at)
		}
	}
	return places
}

// literal reads a host that a resolver would take for an address, without a lookup. The usual form is
// read, and the forms of the C library's inet_aton: up to four numbers, decimal, octal or hexadecimal,
// the last number filling the rest.
func literal(host string) (netip.Addr, bool) {
	if !strings.Contains(host, ":") && !endsInDigits(host) {
		return netip.Addr{}, false
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr, true
	}
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (4 - i)
		}
		n, ok := inetNumber(part, bits)
		if !ok {
			return netip.Addr{}, false
		}
		value = value<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

func inetNumber(s string, bits int) (uint64, bool) {
	base := 10
	switch {
	case len(s) > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'):
		s, base = s[2:], 16
		if s == "" { // as browsers read it
			s = "0"
		}
	case len(s) > 1 && s[0] == '0':
		base = 8
	}
	n, err := strconv.ParseUint(s, base, bits)
	return n, err == nil
}
