package endpoint

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"chronos/scheduler/awake"
	"chronos/scheduler/timing"
)

func TestParseShards(t *testing.T) {
	type named struct{ Name, URL, Site string }
	for _, c := range []struct {
		name, list string
		want       []named
	}{
		{"one URL without a name", "redis://host:6379/0", []named{{"main", "redis://host:6379/0", ""}}},
		{"one with a name", "a=redis://host", []named{{"a", "redis://host", ""}}},
		{"several", "a=redis://h1:6379/0,b=rediss://u:p@h2:6380/1", []named{{"a", "redis://h1:6379/0", ""}, {"b", "rediss://u:p@h2:6380/1", ""}}},
		{"spaces around", " a=redis://h1 , b=redis://h2 ", []named{{"a", "redis://h1", ""}, {"b", "redis://h2", ""}}},
		{"spaces after the comma", "a=redis://h1, b=redis://h2 ", []named{{"a", "redis://h1", ""}, {"b", "redis://h2", ""}}},
		{"line ends", "a=redis://h1,\n\tb=redis://h2\n", []named{{"a", "redis://h1", ""}, {"b", "redis://h2", ""}}},
		{"every kind", "a=redis://h,b=rediss://h,c=unix:///run/redis.sock,d=redis+sentinel://h:26379/0?master_name=m,e=rediss+sentinel://h?master_name=m," +
			"f=redis+cluster://h:6379?addr=h2:6379,g=rediss+cluster://h", []named{
			{"a", "redis://h", ""}, {"b", "rediss://h", ""}, {"c", "unix:///run/redis.sock", ""}, {"d", "redis+sentinel://h:26379/0?master_name=m", ""},
			{"e", "rediss+sentinel://h?master_name=m", ""}, {"f", "redis+cluster://h:6379?addr=h2:6379", ""}, {"g", "rediss+cluster://h", ""},
		}},
		{"one cluster without a name", "redis+cluster://h:6379?addr=h2:6379&addr=h3:6379",
			[]named{{"main", "redis+cluster://h:6379?addr=h2:6379&addr=h3:6379", ""}}},
		{"one socket without a name", "unix:///run/redis.sock?db=3", []named{{"main", "unix:///run/redis.sock?db=3", ""}}},
		{"comma in a path", "a=unix:///run/a,b.sock,c=redis://h", []named{{"a", "unix:///run/a,b.sock", ""}, {"c", "redis://h", ""}}},
		{"comma in a password", "a=redis://:x,y@h1,b=redis://:z,@h2", []named{{"a", "redis://:x,y@h1", ""}, {"b", "redis://:z,@h2", ""}}},
		{"comma in an option", "a=redis://h?client_name=x,y,b=redis://h", []named{{"a", "redis://h?client_name=x,y", ""}, {"b", "redis://h", ""}}},
		{"equals sign in a password", "a=redis://:x=y@h1,b=redis://h", []named{{"a", "redis://:x=y@h1", ""}, {"b", "redis://h", ""}}},
		{"escaped password", "a=redis://u%40x:p%2F%3F%23%40@h", []named{{"a", "redis://u%40x:p%2F%3F%23%40@h", ""}}},
		{"IPv6", "a=redis://[::1]:6379/0", []named{{"a", "redis://[::1]:6379/0", ""}}},
		{"sites", "a@lon=redis://h1,b@lon=redis://:p@h2 , c@nyc=rediss://h3",
			[]named{{"a", "redis://h1", "lon"}, {"b", "redis://:p@h2", "lon"}, {"c", "rediss://h3", "nyc"}}},
		{"names of all characters", "0=redis://h,A.b_c-9=redis://h," + strings.Repeat("n", 64) + "=redis://h",
			[]named{{"0", "redis://h", ""}, {"A.b_c-9", "redis://h", ""}, {strings.Repeat("n", 64), "redis://h", ""}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.list)
			if err != nil {
				t.Fatal(err)
			}
			var read []named
			for _, shard := range got {
				read = append(read, named{shard.Name, shard.URL, shard.Site})
				if shard.Dial != nil {
					t.Errorf("shard %s has a Dial", shard.Name)
				}
			}
			if diff := cmp.Diff(c.want, read); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseShardsRefuses(t *testing.T) {
	for _, c := range []struct {
		name, list string
		want       []string // the error contains all these texts
	}{
		{"empty", "", []string{"want name=redis://host:6379/0"}},
		{"a host alone", "host:6379", []string{"want name=redis://host:6379/0"}},
		{"no scheme", "a=host:6379", []string{"want name=redis://host:6379/0"}},
		{"another scheme", "http://host", []string{"want name=redis://host:6379/0"}},
		{"another kind", "redis+gossip://host", []string{"want name=redis://host:6379/0", "redis+sentinel://"}},
		{"scheme in upper case", "a=REDIS://host", []string{"want name=redis://host:6379/0"}},
		{"something before the first", "x,a=redis://h", []string{"must begin with name="}},
		{"the first without a scheme", "a=h1:6379,b=redis://h2", []string{"must begin with name="}},
		{"a later one with another scheme", "a=redis://h1,b=http://h2", []string{"shard a", "one host"}},
		{"a later one without a name", "a=redis://h1,redis://h2", []string{"shard a", "the next URL has no name", "name=redis://"}},
		{"two without names", "redis://h1:6379/0,redis://h2:6379/0", []string{"the names are missing", "a=redis://host1:6379/0,b=redis://host2:6379/0"}},
		{"three without names", "redis://h1, rediss://h2,redis+cluster://h3", []string{"the names are missing"}},
		{"two sockets without names", "unix:///run/a,unix:///run/b", []string{"the names are missing"}},
		{"two without names and one with a fault", "redis://h1:port,redis://h2", []string{"the names are missing"}},
		{"the first without a name", "redis://h1,b=redis://h2", []string{"must begin with name=", "the first has none"}},
		{"hosts as in other programs", "a=redis://h1:6379,h2:6379", []string{"shard a", "?addr="}},
		{"comma at the end", "a=redis://h1,", []string{"shard a", "one host"}},
		{"space before the equals sign", "a =redis://h1,b = redis://h2", []string{"shard a"}},
		{"empty name", "=redis://h", []string{"shard 1", "1 to 64"}},
		{"name with a space", "a b=redis://h", []string{"shard 1", "1 to 64"}},
		{"name with another alphabet", "é=redis://h", []string{"shard 1", "1 to 64"}},
		{"name begins with a hyphen", "-a=redis://h", []string{"shard 1", "1 to 64"}},
		{"name too long", strings.Repeat("n", 65) + "=redis://h", []string{"shard 1", "1 to 64"}},
		{"name twice", "a=redis://h1,b=redis://h2,a=redis://h3", []string{"shard 3", "a is taken"}},
		{"bad port", "a=redis://h:port", []string{"shard a", "not a Redis URL"}},
		{"bad database", "a=redis://h/zero", []string{"shard a", "database"}},
		{"unknown option", "a=redis://h?pool=1", []string{"shard a", "unexpected option: pool"}},
		{"sentinel without the group's name", "a=redis+sentinel://h:26379", []string{"shard a", "master_name"}},
		{"fragment", "a=redis://h#x", []string{"shard a", "percent-encode"}},
		{"socket with a host", "a=unix://run/redis.sock", []string{"shard a", "not a Redis URL"}},
		{"all at once", "x,a=redis://h:port,b b=redis://h,c=redis://h,c=redis://h,d=redis+sentinel://h,e=redis://h/zero",
			[]string{"must begin with", "shard a", "shard 2", "shard 4", "shard d", "shard e"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.list)
			if err == nil {
				t.Fatalf("parses to %v", got)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// The password is in no error about a URL, whatever is wrong with the URL, and wherever the password ends up.
func TestErrorsKeepPasswords(t *testing.T) {
	const secret = "hunter2"
	for _, url := range []string{
		"redis://:hunter2@h:port", "redis://hunter2@h:port", "redis://:hunter2@h/zero", "redis://:hunter2@h?pool=1", "redis://:hunter2@h/0/1",
		"redis://:hunter2@h1,h2", "redis://:hunter2@h#x", "redis://:%zzhunter2@h", "redis://:hunter2\x7f@h", "redis://:hun ter2 hunter2@h:port",
		"redis://:12/hunter2@h", "redis://:12/hunter2/x@h", "redis://:12?hunter2@h", "redis://:12?hunter2=x@h", "redis://:12?x=hunter2@h",
		"redis://:12?a=1&hunter2@h", "redis://:12#hunter2@h", "redis://:x/hunter2@h", "redis://:x?hunter2@h", "redis://:x#hunter2@h", "redis://:1@2/hunter2@h",
		"redis+sentinel://:hunter2@h", "redis+sentinel://:12/hunter2@h?master_name=m", "redis+cluster://:12/hunter2@h", "redis+cluster://:hunter2@h?pool=1",
		"unix://:hunter2@run/x", "unix://:12/hunter2@/run/x", "unix://:hunter2@/run/x?db=q", "http://:hunter2@h", "redis+gossip://:hunter2@h",
	} {
		for _, list := range []string{url, "a=" + url, "ok=redis://h,a=" + url + ",a=redis://:hunter2@h"} {
			got, err := Parse(list)
			if err == nil {
				t.Errorf("%s parses to %v", list, got)
			} else if strings.Contains(err.Error(), secret) {
				t.Errorf("error of %s: %v", list, err)
			}
		}
	}
}

// The bounds of a conversation come from the code, not from the URL: leases depend on the bounds.
func TestConnectionsAreBounded(t *testing.T) {
	const others = "max_retries=5&read_timeout=9s&write_timeout=9s&dial_timeout=9s&pool_timeout=9s&protocol=3&pool_size=99"
	type facts struct {
		Retries, Pool, DialerRetries, Protocol int
		Read, Write, Dial, WaitForConnection   time.Duration
		ContextTimeout                         bool
	}
	want := facts{
		Pool: 3, DialerRetries: 1, Protocol: 2, Read: 900 * time.Millisecond, Write: 900 * time.Millisecond, Dial: 900 * time.Millisecond,
		WaitForConnection: 500 * time.Millisecond, ContextTimeout: true,
	}
	for _, url := range []string{
		"redis://h?" + others, "unix:///run/x?" + others, "redis+sentinel://h?master_name=m&" + others, "redis+cluster://h?max_redirects=4&" + others,
	} {
		connect, err := NewConnector(url)
		if err != nil {
			t.Fatal(err)
		}
		client := connect(3, nil, awake.Always())
		var got facts
		switch client := client.(type) {
		case *redis.Client:
			o := client.Options()
			got = facts{o.MaxRetries, o.PoolSize, o.DialerRetries, o.Protocol, o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.PoolTimeout, o.ContextTimeoutEnabled}
		case *redis.ClusterClient:
			o := client.Options()
			// The cluster's client counts repetitions as redirections.
			got = facts{o.MaxRedirects, o.PoolSize, o.DialerRetries, o.Protocol, o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.PoolTimeout, o.ContextTimeoutEnabled}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", url, diff)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestClusterAddressesAreApart: a cluster's client appends addresses to its list, so no two clients may share one.
func TestClusterAddressesAreApart(t *testing.T) {
	connect, err := NewConnector("redis+cluster://h1:1?addr=h2:2&addr=h3:3")
	if err != nil {
		t.Fatal(err)
	}
	var lists [2][]string
	for i := range lists {
		client, ok := connect(1, nil, awake.Always()).(*redis.ClusterClient)
		if !ok {
			t.Fatal("not a cluster's client")
		}
		t.Cleanup(func() { _ = client.Close() })
		lists[i] = client.Options().Addrs
	}
	want := []string{"h1:1", "h2:2", "h3:3"}
	lists[0][0] = "changed"
	if diff := cmp.Diff(want, lists[1]); diff != "" {
		t.Errorf("addresses of a client after a change of another's (-want +got):\n%s", diff)
	}
}

// TestDial: a shard's own Dial makes the shard's connections, with the usual bounds, in the time that connecting may
// take.
func TestDial(t *testing.T) {
	for url, want := range map[string][2]string{
		"redis://nowhere.test:7000/0": {"tcp", "nowhere.test:7000"}, "unix:///nowhere/redis.sock": {"unix", "/nowhere/redis.sock"},
	} {
		t.Run(url, func(t *testing.T) {
			refused := errors.New("refused by the test")
			var dialed [2]string
			left := time.Duration(-1)
			connect, err := Config{Name: "a", URL: url, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed = [2]string{network, address}
				if deadline, ok := ctx.Deadline(); ok {
					left = time.Until(deadline)
				}
				return nil, refused
			}}.Connector()
			if err != nil {
				t.Fatal(err)
			}
			client, ok := connect(3, nil, awake.Always()).(*redis.Client)
			if !ok {
				t.Fatal("not a single instance")
			}
			defer func() { _ = client.Close() }()
			if err := client.Ping(t.Context()).Err(); !errors.Is(err, refused) {
				t.Errorf("error %v, want that of Dial", err)
			}
			if dialed != want {
				t.Errorf("dialed %q, want %q", dialed, want)
			}
			if left <= 0 || left > timing.DialTimeout {
				t.Errorf("connecting may take %v, want at most %v", left, timing.DialTimeout)
			}
			if o := client.Options(); o.MaxRetries != 0 || o.ReadTimeout != timing.IOTimeout || o.WriteTimeout != timing.IOTimeout || !o.ContextTimeoutEnabled || o.PoolSize != 3 {
				t.Errorf("options %+v: not the bounds of other shards", o)
			}
		})
	}
}

func TestDialRefuses(t *testing.T) {
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("not to be called") }
	for url, want := range map[string]string{
		"rediss://h": "single instance without TLS", "redis+sentinel://h?master_name=m": "single instance without TLS",
		"redis+cluster://h": "single instance without TLS", "redis://h:port": "not a Redis URL", "http://h": "scheme",
		"redis://h/zero": "database",
	} {
		if _, err := (Config{Name: "a", URL: url, Dial: dial}).Connector(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", url, err, want)
		}
	}
}
