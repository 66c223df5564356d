package webhook

import (
	"net/url"
	"strings"
	"testing"

	"chronos/scheduler/timer"
)

func TestDestination(t *testing.T) {
	client := New(Config{})
	defer client.Close()
	for uri, want := range map[string]string{
		"http://a.test":                              "http://a.test:80",
		"http://a.test:8080/x?y#z":                   "http://a.test:8080",
		"https://a.test/":                            "https://a.test:443",
		"https://a.test:80/":                         "https://a.test:80",
		"http://a.test?x=http://b.test:1/":           "http://a.test:80",
		"http://a.test#x@b.test":                     "http://a.test:80",
		"http://A.Test:1":                            "http://a.test:1",
		"HTTP://a.test:1/":                           "http://a.test:1",
		"hTTps://A.TEST":                             "https://a.test:443",
		"http://a.test:/":                            "http://a.test:80",
		"http://me:secret@a.test/":                   "http://a.test:80",
		"http://me:p%40ss@A.test:8/":                 "http://a.test:8",
		"http://127.0.0.1:7/":                        "http://127.0.0.1:7",
		"http://[::1]/":                              "http://[::1]:80",
		"https://[2001:DB8::A]:8443/":                "https://[2001:db8::a]:8443",
		"http://[fe80::1%25Eth0]:9/":                 "http://[fe80::1%Eth0]:9",
		"http://" + strings.Repeat("a", 300) + ":1/": "http://" + strings.Repeat("a", 300) + ":1",
		"http:///x":                                  "",
		"http://:80/":                                "",
		"http://a:b:c/":                              "",
		"http://a b/":                                "",
		"http://a%25b/":                              "",
		"http://a,b/":                                "",
		"http://a\"b/":                               "",
		"http://[fe80::1%25a%20b]/":                  "",
		"http://[::1]x/":                             "",
		"ftp://a.test/":                              "",
		"/x":                                         "",
		"":                                           "",
	} {
		if got := client.Destination(timer.Callback{URI: uri}); got != want {
			t.Errorf("%s: destination %q, want %q", uri, got, want)
		}
	}
}

// TestParseDestination: a destination as an operator writes it is the destination of the callbacks.
func TestParseDestination(t *testing.T) {
	client := New(Config{})
	defer client.Close()
	for _, text := range []string{
		"https://api.example.com", "https://API.example.com", "HTTPS://api.example.com:443", "https://api.example.com:443/", "https://api.example.com:",
		"http://a.test:8080", "http://127.0.0.1:7", "http://[::1]", "https://[2001:DB8::A]:8443", "http://[fe80::1%25Eth0]:9",
	} {
		got, err := ParseDestination(text)
		if want := client.Destination(timer.Callback{URI: text}); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
	if got, _ := ParseDestination("https://API.example.com"); got != "https://api.example.com:443" {
		t.Errorf("the destination is %q", got)
	}
	for _, text := range []string{
		"", "api.example.com", "ftp://api.example.com", "https://", "https://:443", "https://me:hush@api.example.com", "https://@api.example.com",
		"https://api.example.com/v1", "https://api.example.com?x", "https://api.example.com#x", "https://api.example.com:0", "https://api.example.com:65536",
		"https://api.example.com:x", "https://api example.com", "https://api.example.com\n", "https://bücher.example", "https://a,b", "https://a\\b",
		"https://" + strings.Repeat("a", 300), "https://a b", "https://a\x00", "https://[::1",
	} {
		if got, err := ParseDestination(text); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q is the destination %q, %v; want it refused", text, got, err)
		}
	}
}

func TestTargetNames(t *testing.T) {
	for uri, want := range map[string][3]string{ // Host header, address, name on the certificate
		"https://a.test/":              {"a.test", "a.test:443", "a.test"},
		"https://A.test:/":             {"A.test", "a.test:443", "a.test"},
		"http://a.test:80":             {"a.test:80", "a.test:80", "a.test"},
		"https://[2001:DB8::1]:8443":   {"[2001:DB8::1]:8443", "[2001:db8::1]:8443", "2001:db8::1"},
		"https://[fe80::1%25Eth0]/":    {"[fe80::1]", "[fe80::1%Eth0]:443", "fe80::1"},
		"https://[fe80::1%25Eth0]:9/x": {"[fe80::1]:9", "[fe80::1%Eth0]:9", "fe80::1"},
	} {
		got, err := parseTarget(uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if names := [3]string{got.host, got.address(), got.serverName()}; names != want {
			t.Errorf("%s: %q, want %q", uri, names, want)
		}
	}
}

func TestDestinationAllocates(t *testing.T) {
	client := New(Config{})
	defer client.Close()
	for uri, want := range map[string]float64{
		"http://10.0.0.1:8080/callback":      0,
		"https://a.test/callback":            1,
		"https://a.test:8443/callback?x=y#z": 0,
	} {
		cb := timer.Callback{URI: uri}
		if got := testing.AllocsPerRun(100, func() { client.Destination(cb) }); got > want {
			t.Errorf("%s: %v allocations, want %v", uri, got, want)
		}
	}
}

// FuzzTarget compares with net/url, for any URI that a Timer may have.
func FuzzTarget(f *testing.F) {
	for _, uri := range []string{
		"http://a.test:8080/x?y#z", "HTTPS://me:p%40ss@A.Test", "http://[fe80::1%25Eth0]:9/", "http://a.test:?q", "http://ü.test/é?ü",
	} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		asked := timer.Timer{ReplicationFactor: 1, Callback: timer.Callback{URI: uri}}
		if asked.Validate() != nil {
			return
		}
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseTarget(uri)
		if !ascii(u.Host) {
			if err == nil {
				t.Fatalf("host %q is accepted", u.Host)
			}
			return
		}
		if !validHost(u.Host) {
			if err == nil {
				t.Fatalf("host %q is accepted", u.Host)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
		if u.Port() != "" {
			port = u.Port()
		}
		if want := u.Scheme + "://"; !strings.HasPrefix(got.destination, want) || got.secure != (u.Scheme == "https") {
			t.Errorf("destination %q, want %s…", got.destination, want)
		}
		host := u.Hostname()
		if strings.HasPrefix(u.Host, "[") {
			host = "[" + host + "]"
		}
		if !strings.EqualFold(got.address(), host+":"+port) {
			t.Errorf("address %q, want host %q and port %s", got.address(), host, port)
		}
		head := string(appendResource(nil, got.resource))
		sent, err := url.ParseRequestURI(head)
		if err != nil || strings.ContainsFunc(head, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Fatalf("resource %q: %v", head, err)
		}
		want, _, _ := strings.Cut(u.Path, "#")
		if sent.Path != want && (sent.Path != "/" || want != "") {
			t.Errorf("path %q, want %q", sent.Path, want)
		}
		if strings.ContainsAny(got.host, " \r\n\t/@") {
			t.Errorf("host header %q", got.host)
		}
	})
}

func BenchmarkDestination(b *testing.B) {
	client := New(Config{})
	defer client.Close()
	for _, uri := range []string{
		"http://10.0.0.1:8080/callback", "https://receiver.test/callback", "https://me:secret@Receiver.test/callback",
	} {
		b.Run(uri, func(b *testing.B) {
			cb := timer.Callback{URI: uri}
			b.ReportAllocs()
			for b.Loop() {
				client.Destination(cb)
			}
		})
	}
	b.Run("url.Parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := url.Parse("https://receiver.test/callback"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
