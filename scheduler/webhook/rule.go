package webhook

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// rule is an entry of CHRONOS_CALLBACK_ALLOW or CHRONOS_CALLBACK_DENY. A rule without prefix and name
// is about a port alone.
type rule struct {
	prefix netip.Prefix // valid if the rule is about addresses
	name   string       // a host; with a leading dot all names below
	port   uint16       // 0 for any
}

type rules []rule

var (
	errRuleEmpty  = errors.New("is empty")
	errRulePort   = errors.New("has a port that is no number from 1 to 65535")
	errRuleIPv6   = errors.New("has brackets around something else than IPv6, or something else than :port after them")
	errRuleZone   = errors.New("has a zone; leave it out")
	errRuleCIDR   = errors.New("is no CIDR; write one as 10.0.0.0/8")
	errRuleBits   = errors.New("is a CIDR with bits set behind its prefix; clear them")
	errRuleNumber = errors.New("is a number and no address; write addresses as 192.0.2.1 or 2001:db8::1")
	errRuleName   = errors.New("is no host name; write names from another script than ASCII as xn--")
)

// parseRules returns the rules, and the faults of the text.
func parseRules(variable, text string) (list rules, faults []string) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for i, entry := range strings.Split(text, ",") {
		r, err := parseRule(strings.TrimSpace(entry))
		if err != nil {
			faults = append(faults, variable+" entry "+strconv.Itoa(i+1)+" "+err.Error())
		}
		list = append(list, r)
	}
	return list, faults
}

func parseRule(entry string) (r rule, err error) {
	if entry == "" {
		return rule{}, errRuleEmpty
	}
	host, port, err := splitRule(entry)
	if err != nil {
		return rule{}, err
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' {
			return rule{}, errRulePort
		}
		r.port = uint16(n)
	}
	switch {
	case host == "":
	case strings.ContainsAny(host, "/:") || endsInDigits(host):
		r.prefix, err = parseRulePrefix(host)
	default:
		r.name, err = parseRuleName(host)
	}
	return r, err
}

// splitRule cuts off the port, "" without a port.
func splitRule(entry string) (host, port string, err error) {
	if inner, bracketed := strings.CutPrefix(entry, "["); bracketed {
		host, rest, _ := strings.Cut(inner, "]")
		port, ok := strings.CutPrefix(rest, ":")
		if !strings.Contains(host, ":") || ok != (port != "") || !ok && rest != "" ||
			len(entry) < len("[]")+len(host) {
			return "", "", errRuleIPv6
		}
		return host, port, nil
	}
	if strings.Count(entry, ":") != 1 { // no colon, or IPv6
		return entry, "", nil
	}
	host, port, _ = strings.Cut(entry, ":")
	if port == "" {
		return "", "", errRulePort
	}
	return host, port, nil
}

// parseRulePrefix reads an address or CIDR. IPv4-mapped addresses become IPv4, like the addresses to
// compare with.
func parseRulePrefix(host string) (netip.Prefix, error) {
	text, _, isPrefix := strings.Cut(host, "/")
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil && isPrefix:
		return netip.Prefix{}, errRuleCIDR
	case err != nil:
		return netip.Prefix{}, errRuleNumber
	case addr.Zone() != "":
		return netip.Prefix{}, errRuleZone
	case !isPrefix:
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(host)
	if err != nil {
		return netip.Prefix{}, errRuleCIDR
	}
	if mapped := addr.Unmap(); mapped != addr && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(mapped, prefix.Bits()-96)
	}
	if prefix != prefix.Masked() {
		return netip.Prefix{}, errRuleBits
	}
	return prefix, nil
}

func parseRuleName(host string) (string, error) {
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	below, wildcard := strings.CutPrefix(name, "*.")
	if len(below) > 253 {
		return "", errRuleName
	}
	for label := range strings.SplitSeq(below, ".") {
		if label == "" || len(label) > 63 || !hostBytes(label) {
			return "", errRuleName
		}
	}
	if endsInDigits(below) {
		return "", errRuleNumber
	}
	if wildcard {
		below = "." + below
	}
	return below, nil
}

// endsInDigits reports whether the text after the last dot begins with a digit. The host may then be
// some spelling of an address, and ends in no top-level domain.
func endsInDigits(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last != "" && '0' <= last[0] && last[0] <= '9'
}

// denies decides for denial in doubt: an address that stands for another address counts as either
// address, and a rule about loopback is about all loopback addresses.
func (r rule) denies(p place) bool {
	switch {
	case r.port != 0 && r.port != p.port:
		return false
	case r.aboutLoopback() && p.isLoopback():
		return true
	case r.prefix.IsValid():
		for form := range forms(p.addr) {
			if r.prefix.Contains(form) {
				return true
			}
		}
		return false
	}
	return r.name == "" || r.named(p.name)
}

const localhost = "localhost"

// aboutLoopback reports whether the rule names localhost, or all of IPv4's loopback
// addresses.
func (r rule) aboutLoopback() bool {
	return r.name == localhost || r.prefix.Bits() <= 8 && r.prefix.Contains(netip.AddrFrom4([4]byte{127}))
}

// isLoopback reports whether the place can only be this machine, in IPv4 or IPv6.
func (p place) isLoopback() bool {
	for form := range forms(p.addr) {
		if form.IsLoopback() {
			return true
		}
	}
	return p.name == localhost || strings.HasSuffix(p.name, "."+localhost)
}

// allows reports whether the rule allows p, or may do so when p is settled.
func (r rule) allows(p place) bool {
	switch {
	case r.port != 0 && r.port != p.port:
		return false
	case r.prefix.IsValid() && !p.addr.IsValid():
		return !p.settled
	case r.prefix.IsValid():
		return r.prefix.Contains(p.addr.Unmap().WithZone(""))
	}
	return r.name == "" || r.named(p.name)
}

func (r rule) named(host string) bool {
	if strings.HasPrefix(r.name, ".") {
		return strings.HasSuffix(host, r.name)
	}
	return host == r.name
}

// String is the rule as ParseGuard reads it.
func (r rule) String() string {
	host := r.name
	switch {
	case strings.HasPrefix(r.name, "."):
		host = "*" + r.name
	case r.prefix.IsValid() && r.prefix.IsSingleIP():
		host = r.prefix.Addr().String()
	case r.prefix.IsValid():
		host = r.prefix.String()
	}
	if r.port == 0 {
		return host
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(r.port))
}

// String is the list as ParseGuard reads it.
func (l rules) String() string {
	entries := make([]string, len(l))
	for i, r := range l {
		entries[i] = r.String()
	}
	return strings.Join(entries, ",")
}
