package endpoint

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookUpPatience bounds the questions to the resolver.
	lookUpPatience = 2 * time.Second
	// lookupsAtOnce bounds how many host names are looked up at the same time.
	lookupsAtOnce = 8
	// addressLife is how long an address is remembered after the resolver last gave the address: a resolver may give
	// only some of a name's addresses at a time.
	addressLife = 10 * time.Minute
	// maxAddresses bounds the addresses of one name.
	maxAddresses = 256
)

// Book knows the addresses of endpoints. It is safe for concurrent use.
type Book struct {
	lookUp    func(ctx context.Context, network, host string) ([]netip.Addr, error)
	published atomic.Pointer[[]netip.AddrPort]

	mu    sync.Mutex
	names map[string]map[netip.Addr]time.Time // addresses of host names, and when the resolver last gave the address
}

// NewBook makes a book that asks the resolver of this machine.
func NewBook() *Book {
	return &Book{lookUp: net.DefaultResolver.LookupNetIP, names: map[string]map[netip.Addr]time.Time{}}
}

// Known are the addresses of the endpoints that were published last, as far as the book knows the addresses. The
// slice must not be changed.
func (b *Book) Known() []netip.AddrPort { return *b.published.Load() }

// Publish has Known tell the addresses of the endpoints. An endpoint is host:port; ":port" stands for every address
// of this machine.
func (b *Book) Publish(endpoints []string) {
	var known []netip.AddrPort
	for _, endpoint := range endpoints {
		host, port, ok := splitEndpoint(endpoint)
		if !ok {
			continue
		}
		for _, addr := range b.addressesOf(host) {
			known = append(known, netip.AddrPortFrom(addr, port))
		}
	}
	b.published.Store(&known)
}

func splitEndpoint(endpoint string) (host string, port uint16, ok bool) {
	host, text, err := net.SplitHostPort(endpoint)
	if err != nil {
		return "", 0, false
	}
	number, err := strconv.ParseUint(text, 10, 16)
	return host, uint16(number), err == nil && number > 0
}

// literalAddresses are the addresses of a host that needs no lookup.
func literalAddresses(host string) []netip.Addr {
	if host == "" {
		return []netip.Addr{netip.IPv6Unspecified()}
	}
	if isLocalhost(host) {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}
	}
	return nil
}

func isLocalhost(host string) bool {
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

func (b *Book) addressesOf(host string) []netip.Addr {
	all := literalAddresses(host)
	b.mu.Lock()
	defer b.mu.Unlock()
	for addr := range b.names[host] {
		all = append(all, addr)
	}
	return all
}

// Resolve looks up the host names among the endpoints, and forgets all further names. Resolve takes two seconds at
// most.
func (b *Book) Resolve(ctx context.Context, endpoints []string) {
	ctx, cancel := context.WithTimeout(ctx, lookUpPatience)
	defer cancel()
	wanted := map[string]bool{}
	for _, endpoint := range endpoints {
		if host, _, ok := splitEndpoint(endpoint); ok && (literalAddresses(host) == nil || isLocalhost(host)) {
			wanted[host] = true
		}
	}
	places := make(chan struct{}, lookupsAtOnce)
	var wg sync.WaitGroup
	for host := range wanted {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if found, err := b.lookUp(ctx, "ip", host); err == nil {
				b.note(host, found, time.Now())
			}
		})
	}
	wg.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	for host := range b.names {
		if !wanted[host] {
			delete(b.names, host)
		}
	}
}

// note adds the addresses that a lookup found, and forgets addresses that no lookup has found for long.
func (b *Book) note(host string, found []netip.Addr, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.names[host]
	if known == nil {
		known = map[netip.Addr]time.Time{}
		b.names[host] = known
	}
	for addr, at := range known {
		if now.Sub(at) > addressLife || len(known) > maxAddresses {
			delete(known, addr)
		}
	}
	for _, addr := range found {
		known[addr.Unmap()] = now
	}
}
