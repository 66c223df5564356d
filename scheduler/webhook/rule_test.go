package webhook

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/timer"
)

func TestLiteral(t *testing.T) {
	for host, want := range map[string]string{ // as inet_aton and netip read it; "" for a name
		"127.0.0.1":        "127.0.0.1",
		"127.1":            "127.0.0.1",
		"127.0.1":          "127.0.0.1",
		"127.65535":        "127.0.255.255",
		"2130706433":       "127.0.0.1",
		"017700000001":     "127.0.0.1",
		"0x7f000001":       "127.0.0.1",
		"0X7F.0x1":         "127.0.0.1",
		"0177.0.0.01":      "127.0.0.1",
		"0x":               "0.0.0.0",
		"4294967295":       "255.255.255.255",
		"4294967296":       "",
		"127.16777216":     "",
		"127.0.65536":      "",
		"256.0.0.1":        "",
		"1.2.3.4.5":        "",
		"1..2":             "",
		"08":               "",
		"0x1g":             "",
		"0b1":              "",
		"1_0":              "",
		"1a":               "",
		"a.test":           "",
		"1.test":           "",
		"":                 "",
		"::1":              "::1",
		"::ffff:127.0.0.1": "::ffff:127.0.0.1",
		"fe80::1%Eth0":     "fe80::1%Eth0",
	} {
		got, ok := literal(host)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%q: %v, %v, want %q", host, got, ok, want)
		}
	}
}

func TestAddressesThatMayBeCalled(t *testing.T) {
	for _, addr := range []string{
		"127.0.0.1", "::1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "fd00::1", "100.64.0.1", "8.8.8.8", "2001:db8::1", "2606:4700::1",
		"169.253.255.255", "169.255.0.0", "fe7f::1", "fec0::1", "fd00:ec2::253", "100.100.100.201", "223.255.255.255", "240.0.0.1",
		"64:ff9b::8.8.8.8", "64:ff9b:1::8.8.8.8", "64:ff9b:1:808:8:800::", "64:ff9b:2::a9fe:a9fe", "2002:808:808::1",
		"::ffff:10.0.0.1", "2001:db8:a9fe:a9fe::1", "2001:db8::a9fe:a9fe", "::1%lo",
	} {
		if err := forbidden(netip.MustParseAddr(addr)); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// FuzzParseGuard: accepted rules can be read again from their text, and never let a forbidden address
// through.
func FuzzParseGuard(f *testing.F) {
	for _, seed := range [][3]string{
		{"", "", "http://169.254.169.254/"},
		{"10.0.0.0/8, *.a.test:80", ":22,[fd00::/8]:443,::1", "http://x.a.test:80/"},
		{"::ffff:169.254.0.0/112,[::]:1,A.test.", "::/0,0.0.0.0/0", "https://[64:ff9b::a9fe:a9fe]:443/"},
		{"::ffff:0:0/90", "1.2.3.4:5", "http://0xa9fea9fe"},
		{"[::1]x,a:b:c,*", "10.0.0.1/8,,", "http://[fe80::1%25lo]:9/"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, allow, deny, uri string) {
		g, err := ParseGuard(allow, deny)
		if err != nil {
			return
		}
		again, err := ParseGuard(g.allow.String(), g.deny.String())
		if err != nil {
			t.Fatalf("%v isn't read again: %v", g, err)
		}
		if diff := cmp.Diff(g.String(), again.String()); diff != "" || len(g.allow) != len(again.allow) || len(g.deny) != len(again.deny) {
			t.Fatalf("read again (-want +got):\n%s", diff)
		}
		for i, r := range append(append(rules(nil), g.allow...), g.deny...) {
			if want := append(append(rules(nil), again.allow...), again.deny...)[i]; r != want {
				t.Fatalf("%#v is read again as %#v", r, want)
			}
		}
		if strings.TrimSpace(allow) != "" && len(g.allow) == 0 {
			t.Fatalf("%q allows everything", allow)
		}
		got, err := parseTarget(uri)
		if err != nil {
			return
		}
		p := got.place()
		if g.check(p) == nil && p.addr.IsValid() && (forbidden(p.addr) != nil || (*Guard)(nil).check(p) != nil) {
			t.Fatalf("%v is allowed by %v", p.addr, g)
		}
		for _, addr := range []string{"169.254.169.254", "fe80::1", "0.0.0.0", "::", "64:ff9b::a9fe:a9fe"} {
			if g.check(p.at(netip.AddrPortFrom(netip.MustParseAddr(addr), p.port))) == nil {
				t.Fatalf("%s is allowed by %v", addr, g)
			}
		}
	})
}

// FuzzParseTarget takes anything for a URI. No forbidden address is dialed. The request's head only has
// the expected lines and allowed bytes.
func FuzzParseTarget(f *testing.F) {
	for _, uri := range []string{
		"http://a.test/x?y#z", "http://169.254.169.254:80/", "http://0xa9fea9fe", "HTTPS://me:p%0d%0aw@[FE80::1%25lo]:9/\r\nX: y", "http://[::]:1",
		"http://a.test\r\nX: y/", "http://a%0d%0ab/", "http://a%25b/", "http://a.test:1 HTTP/1.1\r\n", "http://2852039166./\x00\xff", "http://.",
	} {
		f.Add(uri, "opaque\r\n\r\nPOST / HTTP/1.1\r\n\r\n")
	}
	f.Fuzz(func(t *testing.T, uri, opaque string) {
		got, err := parseTarget(uri)
		if err != nil {
			return
		}
		var guard *Guard
		host, _ := splitPort(got.address())
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if addr, err := netip.ParseAddr(host); err == nil && forbidden(addr) != nil && guard.check(got.place()) == nil {
			t.Errorf("%v is dialed", addr)
		}
		resource := appendResource(nil, got.resource)
		const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?[]@!$&'()*+,;=%"
		if resource[0] != '/' || strings.ContainsFunc(string(resource), func(r rune) bool { return !strings.ContainsRune(allowed, r) }) {
			t.Errorf("resource %q", resource)
		}
		d := dispatch.Delivery{
			Callback: timer.Callback{URI: uri, Opaque: opaque}, ID: timer.ID{Key: "k", RF: 2}, Seq: 1, Attempt: 1, Due: time.Unix(0, 0),
		}
		head, found := strings.CutSuffix(string(appendHead(nil, &got, &d, nil, time.Unix(0, 0))), "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		want := 11 // the request's and ten headers'
		if got.credentials != "" {
			want++
		}
		if !found || len(lines) != want || strings.ContainsFunc(strings.Join(lines, ""), func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("head %q", head)
		}
		if strings.Count(lines[0], " ") != 2 || !strings.HasPrefix(lines[1], "Host: ") || strings.Count(lines[1], " ") != 1 {
			t.Errorf("head %q", head)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	rules, err := ParseGuard("*.test,10.0.0.0/8,:8443", "10.1.0.0/16,secret.test,:22")
	if err != nil {
		b.Fatal(err)
	}
	for name, guard := range map[string]*Guard{"open": nil, "rules": rules} {
		client := New(Config{Guard: guard})
		defer client.Close() //nolint:gocritic // two of them, at the end of the benchmark
		for _, uri := range []string{"http://receiver.test:8080/callback", "http://10.0.0.1:8080/callback"} {
			b.Run(name+"/"+uri, func(b *testing.B) {
				cb := timer.Callback{URI: uri}
				b.ReportAllocs()
				for b.Loop() {
					if err := client.Check(cb); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkSign(b *testing.B) {
	for _, secrets := range []string{"whsec_" + strings.Repeat("A", 44), "whsec_" + strings.Repeat("A", 44) + " whsec_" + strings.Repeat("B", 44)} {
		list, err := ParseSecrets(secrets)
		if err != nil {
			b.Fatal(err)
		}
		for _, size := range []int{100, 1 << 20} {
			b.Run(fmt.Sprintf("%d/%d", len(list), size), func(b *testing.B) {
				s, body, head := newSigner(list), strings.Repeat("x", size), make([]byte, 0, 4<<10)
				b.ReportAllocs()
				for b.Loop() {
					s.appendHeader(head, []byte("0197b0c5a7c07b1e8f00000000000000.0000000000000123.7"), []byte("1700000000"), body)
				}
			})
		}
	}
}
