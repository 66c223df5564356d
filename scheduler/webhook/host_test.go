package webhook_test

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"chronos/scheduler/timer"
	"chronos/scheduler/webhook"
)

// TestHostsThatCannotBe: a host that nobody can ever reach, or that programs read in different ways, is
// refused when the timer is created.
func TestHostsThatCannotBe(t *testing.T) {
	label := strings.Repeat("l", 63)
	long := strings.Repeat(label+".", 3) + strings.Repeat("m", 61) // 253 characters
	for _, guarded := range []*webhook.Guard{nil, guard(t, "", "10.0.0.0/8")} {
		client := newClient(t, webhook.Config{Guard: guarded})
		for authority, possible := range map[string]bool{
			"localhost":                  true,
			"a.test":                     true,
			"a.test.":                    true,
			"A.Test:80":                  true,
			"my_service":                 true, // as in a network of containers
			"_a._b.test":                 true,
			"r3---x.test":                true,
			"1.test":                     true,
			"127.0.0.1.nip.test":         true,
			"4chan.2x":                   true,
			"cafe":                       true,
			"unix":                       true,
			"unix:80":                    true,
			"unix.test:":                 true,
			"127.0.0.1":                  true,
			"[::1]:80":                   true,
			"[fe80::1%25eth0.1]":         false, // link-local
			"[fd00::1%25eth0.1]":         true,
			label + ".test":              true,
			long:                         true,
			long + ".":                   true,
			"u:p@a.test":                 true,
			".":                          false,
			".test":                      false,
			"a..test":                    false,
			"a.test..":                   false,
			"a..:80":                     false,
			"u@a..test":                  false,
			label + "l.test":             false,
			"a." + label + "L":           false,
			"m" + long:                   false,
			"m" + long + ".":             false,
			"-a.test":                    false,
			"a-.test":                    false,
			"a.-":                        false,
			"unix:":                      false,
			"UNIX:":                      false,
			"u@unix:":                    false,
			"127.1":                      false,
			"127.0.1":                    false,
			"2130706433":                 false,
			"2130706433.":                false,
			"0":                          false,
			"0x7f.1":                     false,
			"0X7F000001":                 false,
			"0x":                         false,
			"0177.0.0.1":                 false,
			"127.0.0.01":                 false,
			"127.0.0.1.":                 false,
			"127.0.0.0x1":                false,
			"256.0.0.1":                  false,
			"1.2.3.4.5":                  false,
			"a.test.1":                   false,
			"u:p@2130706433:80":          false,
			"1.1.1.18446744073709551616": false,
		} {
			err := client.Check(timer.Callback{URI: "http://" + authority + "/x"})
			refused, is := errors.AsType[*timer.InvalidError](err)
			switch {
			case possible && err != nil:
				t.Errorf("%s: %v", authority, err)
			case !possible && (!is || refused.Pointer != "/callback/http/uri" || refused.Detail == ""):
				t.Errorf("%s: have %v, want a refusal", authority, err)
			case !possible && refused.Code != "uri-host" && !strings.HasPrefix(authority, "[fe80") && !strings.HasPrefix(authority, "0"):
				t.Errorf("%s: have %s, want uri-host", authority, refused.Code)
			}
		}
	}
}

// FuzzHost: an accepted host is an address, or a name that Go's resolver would look up.
func FuzzHost(f *testing.F) {
	for _, authority := range []string{"a.test:80", "a..b", "127.1", "0x7f.1", "unix:", "_a.b-", "u@[::1]:1", strings.Repeat("l", 64)} {
		f.Add(authority)
	}
	client := webhook.New(webhook.Config{})
	f.Cleanup(client.Close)
	f.Fuzz(func(t *testing.T, authority string) {
		asked := timer.Timer{ReplicationFactor: 1, Callback: timer.Callback{URI: "http://" + authority}}
		if asked.Validate() != nil || client.Check(asked.Callback) != nil {
			return
		}
		u, err := url.Parse(asked.Callback.URI)
		if err != nil {
			t.Fatal(err)
		}
		host := u.Hostname()
		if strings.Contains(host, ":") || net.ParseIP(host) != nil {
			return
		}
		name := strings.TrimSuffix(host, ".")
		last := name[strings.LastIndexByte(name, '.')+1:]
		if len(name) > 253 || strings.Trim(last, "0123456789") == "" {
			t.Errorf("%q is accepted", host)
		}
		for label := range strings.SplitSeq(name, ".") {
			if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
				t.Errorf("label %q of %q is accepted", label, host)
			}
		}
	})
}
