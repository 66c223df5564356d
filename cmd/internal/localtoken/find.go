package localtoken

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Found is a token that a process of this user made.
type Found struct {
	Token string // "" if not found
	File  string
	// Address is the listener's host:port. Connect to this address: a name of this machine may
	// lead to another user's listener as well.
	Address string

	written time.Time
}

// Find returns the token of the admin listener at a URL, or the newest of several tokens: a
// killed process leaves its file. Only listeners of this machine have a token.
// The error is about directories and files that can't be used; newest may be valid all the same.
func Find(environ []string, adminURL string) (newest Found, err error) {
	var errs []error
	addresses := ownAddresses(adminURL)
	for _, dir := range runtimeDirs(environ) {
		for _, at := range addresses {
			for _, ip := range []netip.Addr{at.Addr(), netip.IPv6Unspecified()} {
				found, err := dir.find(fileName(ip, at.Port()))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					errs = append(errs, err)
				}
				if found.written.After(newest.written) {
					newest = found
					newest.Address = at.String()
				}
			}
		}
	}
	return newest, errors.Join(errs...)
}

// ownAddresses are the addresses of this machine that the URL leads to. A host that is not
// known to be this machine has no such address: the host could be anybody's.
func ownAddresses(adminURL string) (addresses []netip.AddrPort) {
	u, err := url.Parse(adminURL)
	if err != nil {
		return nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return nil
	}
	var ips []netip.Addr
	if host := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")); host == "localhost" {
		ips = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	} else if ip, err := netip.ParseAddr(host); err == nil && isOwn(ip) {
		ips = []netip.Addr{ip}
	}
	for _, ip := range ips {
		addresses = append(addresses, netip.AddrPortFrom(ip, uint16(port)))
	}
	return addresses
}

// isOwn reports whether an address leads to this machine.
func isOwn(ip netip.Addr) bool {
	if ip = ip.Unmap().WithZone(""); ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap() == ip {
			return true
		}
	}
	return false
}

func (d Dir) find(name string) (Found, error) {
	root, err := d.open()
	if err != nil {
		return Found{}, err
	}
	defer func() { _ = root.Close() }() // only read
	f, err := root.Open(name)
	if err != nil {
		return Found{}, fmt.Errorf("open token file: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return Found{}, fmt.Errorf("look at token file: %w", err)
	}
	const longest = 1 << 10
	text, err := io.ReadAll(io.LimitReader(f, longest))
	if err != nil {
		return Found{}, fmt.Errorf("read token file: %w", err)
	}
	return Found{Token: strings.TrimSpace(string(text)), File: filepath.Join(d.path, name), written: info.ModTime()}, nil
}
