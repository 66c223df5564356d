package endpoint

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// hosts is a resolver that knows the given names.
func hosts(known map[string][]string) func(context.Context, string, string) ([]netip.Addr, error) {
	return func(_ context.Context, _, host string) (found []netip.Addr, err error) {
		for _, text := range known[host] {
			found = append(found, netip.MustParseAddr(text))
		}
		if found == nil {
			err = errors.New("no such host")
		}
		return found, err
	}
}

func wantKnown(t *testing.T, b *Book, want ...string) {
	t.Helper()
	var got []string
	for _, at := range b.Known() {
		got = append(got, at.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("the addresses are %v, want %v", got, want)
	}
}

func TestAddressesOfURLs(t *testing.T) {
	for raw, want := range map[string][]string{
		"redis://10.0.0.1:7000/0":                                    {"10.0.0.1:7000"},
		"redis://10.0.0.1":                                           {"10.0.0.1:6379"},
		"redis://:secret@[::ffff:10.0.0.1]:6379/3":                   {"[::ffff:10.0.0.1]:6379"},
		"rediss://user:secret@[fd00::1]:6390":                        {"[fd00::1]:6390"},
		"redis://:6380":                                              {"127.0.0.1:6380", "[::1]:6380"},
		"redis://LocalHost.:6380":                                    {"127.0.0.1:6380", "[::1]:6380"},
		"unix:///run/redis.sock":                                     nil,
		"redis+cluster://10.0.0.1:7000?addr=10.0.0.2:7001&addr=a:1":  {"10.0.0.1:7000", "10.0.0.2:7001"},
		"redis+sentinel://10.0.0.1?master_name=m&addr=10.0.0.2:7001": {"10.0.0.1:6379", "10.0.0.2:7001"},
		"redis://redis.test:6379":                                    nil, // until the name is looked up
	} {
		b := NewBook()
		b.Publish(Of(raw))
		wantKnown(t, b, want...)
	}
}

// A host name stands for all addresses that the resolver gave lately; if the resolver fails, for the known
// addresses.
func TestAddressesOfHostNames(t *testing.T) {
	t.Parallel()
	b, endpoints := NewBook(), Of("redis://redis.test:1")
	b.Publish(endpoints)
	wantKnown(t, b)
	for _, step := range []struct {
		known map[string][]string
		want  []string
	}{
		{map[string][]string{"redis.test": {"10.0.0.1", "fd00::1"}}, []string{"10.0.0.1:1", "[fd00::1]:1"}},
		{map[string][]string{"redis.test": {"::ffff:10.0.0.2"}}, []string{"10.0.0.1:1", "10.0.0.2:1", "[fd00::1]:1"}},
		{nil, []string{"10.0.0.1:1", "10.0.0.2:1", "[fd00::1]:1"}},
	} {
		b.lookUp = hosts(step.known)
		b.Resolve(t.Context(), endpoints)
		b.Publish(endpoints)
		wantKnown(t, b, step.want...)
	}
	b.note("redis.test", []netip.Addr{netip.MustParseAddr("10.0.0.3")}, time.Now().Add(addressLife+time.Minute))
	b.Publish(endpoints)
	wantKnown(t, b, "10.0.0.3:1")
}

// Few addresses of a name are remembered, however many the name has in the course of time.
func TestAddressesAreBounded(t *testing.T) {
	b := NewBook()
	addr := netip.MustParseAddr("10.0.0.0")
	for range 10 * maxAddresses {
		addr = addr.Next()
		b.note("redis.test", []netip.Addr{addr}, time.Now())
	}
	all := b.addressesOf("redis.test")
	if len(all) > maxAddresses+1 || !slices.Contains(all, addr) {
		t.Errorf("%d addresses are remembered, the latest among them: %t", len(all), slices.Contains(all, addr))
	}
	b.lookUp = hosts(map[string][]string{"other.test": {"10.0.0.1"}})
	b.Resolve(t.Context(), []string{"other.test:1"})
	if len(b.addressesOf("redis.test")) != 0 || len(b.addressesOf("other.test")) != 1 {
		t.Errorf("names after the topology has changed: %v", b.names)
	}
}
