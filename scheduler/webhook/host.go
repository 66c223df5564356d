package webhook

import (
	"net/netip"
	"strings"
)

const (
	maxLabel = 63  // characters, of a name in the DNS
	maxName  = 253 // without a final dot
)

// checkHost returns a *[chronos/scheduler/timer.InvalidError] for a host that no resolver can know. The
// same goes for numbers that programs read in two ways, as an IPv4 address or as a name. Only new
// timers are checked: a stored timer keeps its URI.
func checkHost(uri string) error {
	_, authority, _, _ := splitURI(uri)
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	host, _ := splitPort(authority)
	if strings.HasPrefix(host, "[") {
		return nil
	}
	name := strings.TrimSuffix(host, ".")
	switch fault := nameFault(name); {
	case strings.EqualFold(authority, "unix:"): // the rest is meant as the path of a socket
		return invalidURI("uri-host", "uri names a Unix socket, and callbacks go over TCP; give a host name or an address")
	case fault != "":
		return invalidURI("uri-host", fault)
	}
	if !endsInNumber(name) {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return invalidURI("uri-host", "uri's host ends in a number, so it must be an IPv4 address of four decimal numbers, such as 127.0.0.1; correct it")
	}
	return nil
}

// nameFault says why a name without its final dot can't be in the DNS, "" for a possible name. An
// underscore is no fault: containers and services have underscores.
func nameFault(name string) string {
	if len(name) > maxName {
		return "uri's host is over 253 characters; give a name that can be"
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return "uri's host has an empty label, such as between two dots; correct it"
		case len(label) > maxLabel:
			return "uri's host has a label of over 63 characters between its dots; give a name that can be"
		case label[0] == '-' || label[len(label)-1] == '-':
			return "uri's host has a label that begins or ends with a hyphen; give a name that can be"
		}
	}
	return ""
}

// endsInNumber reports whether the last label is a number, decimal, octal or hexadecimal. Then the
// whole host is an IPv4 address or nothing (URL Standard, 3.5).
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hasPrefixFold(last, "0x") {
		return strings.Trim(last[2:], "0123456789abcdefABCDEF") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}
