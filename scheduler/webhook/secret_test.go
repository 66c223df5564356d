package webhook_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"chronos/scheduler/webhook"
)

func secretOf(n int, b byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, n))
}

func secrets(t *testing.T, text string) []webhook.Secret {
	t.Helper()
	list, err := webhook.ParseSecrets(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// received is the last request as a receiver's HTTP library reads the request.
func received(t *testing.T, server *rawServer) (header http.Header, body []byte) {
	t.Helper()
	requests := server.seen()
	head, text, _ := strings.Cut(requests[len(requests)-1], "\r\n\r\n")
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + "\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	return req.Header, []byte(text)
}

// verify asks the public library whether a receiver with this secret accepts the request.
func verify(t *testing.T, secret string, header http.Header, body []byte) error {
	t.Helper()
	receiver, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return receiver.Verify(body, header)
}

func TestSignaturesVerify(t *testing.T) {
	server := serveRaw(t, answering(ok))
	shortest, longest, other := secretOf(24, 1), secretOf(64, 0xff), secretOf(32, 7)
	var all strings.Builder
	for i := range 256 {
		all.WriteByte(byte(i))
	}
	bodies := map[string]string{
		"empty": "", "text": "opaque", "binary": all.String(), "NUL": "\x00", "dots": "..1.2",
		"4 KiB": strings.Repeat("x", 4096), "4 KiB and 1": strings.Repeat("x", 4097), "1 MiB": strings.Repeat(all.String(), 4096),
	}
	for name, configured := range map[string]struct {
		text    string
		signers []string
	}{
		"one":      {shortest, []string{shortest}},
		"another":  {" " + longest + "\n", []string{longest}},
		"rotation": {shortest + "," + longest, []string{shortest, longest}},
		"by space": {longest + " \t" + shortest, []string{longest, shortest}},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, webhook.Config{Secrets: secrets(t, configured.text)})
			for name, body := range bodies {
				d := delivery(server.url)
				d.Callback.Opaque = body
				wantDelivered(t, deliver(t, client, d))
				header, got := received(t, server)
				if string(got) != body {
					t.Fatalf("%s: the body arrived changed", name)
				}
				signature := header.Values("Webhook-Signature")
				if len(signature) != 1 || strings.Count(signature[0], "v1,") != len(configured.signers) {
					t.Errorf("%s: signatures %q", name, signature)
				}
				for _, secret := range configured.signers {
					if err := verify(t, secret, header, got); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				if err := verify(t, other, header, got); !errors.Is(err, standardwebhooks.ErrNoMatchingSignature) {
					t.Errorf("%s: with another secret: %v", name, err)
				}
			}
		})
	}
}

func TestChangedCallbackDoesNotVerify(t *testing.T) {
	server := serveRaw(t, answering(ok))
	secret := secretOf(32, 3)
	client := newClient(t, webhook.Config{Secrets: secrets(t, secret)})
	wantDelivered(t, deliver(t, client, delivery(server.url)))
	header, body := received(t, server)
	if err := verify(t, secret, header, body); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(http.Header) []byte{
		"body":      func(http.Header) []byte { return []byte("opaquE") },
		"longer":    func(http.Header) []byte { return append(slices.Clip(body), 0) },
		"empty":     func(http.Header) []byte { return nil },
		"id":        func(h http.Header) []byte { h.Set("Webhook-Id", h.Get("Webhook-Id")+"0"); return body },
		"timestamp": func(h http.Header) []byte { h.Set("Webhook-Timestamp", "1"+h.Get("Webhook-Timestamp")); return body },
	} {
		changed := header.Clone()
		if err := verify(t, secret, changed, change(changed)); err == nil {
			t.Errorf("with changed %s it verifies", name)
		}
	}
}

func TestNothingIsSignedWithoutSecrets(t *testing.T) {
	server := serveRaw(t, answering(ok))
	for _, given := range [][]webhook.Secret{nil, secrets(t, ""), secrets(t, " \n"), {webhook.Secret{}}} {
		wantDelivered(t, deliver(t, newClient(t, webhook.Config{Secrets: given}), delivery(server.url)))
		if header, _ := received(t, server); len(header["Webhook-Signature"]) != 0 {
			t.Errorf("signed: %q", header)
		}
	}
}

func TestParseSecretsErrors(t *testing.T) {
	good, second := secretOf(24, 0xfa), secretOf(24, 0xfb)
	for _, tt := range []struct {
		text string
		want []string
	}{
		{",", []string{"0 secrets"}},
		{good + "," + second + "," + secretOf(24, 0xfc), []string{"3 secrets"}},
		{good + " " + good, []string{"secret 2 is there twice"}},
		{strings.TrimPrefix(good, "whsec_"), []string{"secret 1 doesn't begin with whsec_"}},
		{"WHSEC_" + good[6:], []string{"secret 1 doesn't begin"}},
		{"whsec_", []string{"secret 1 isn't of 24 to 64 bytes"}},
		{secretOf(23, 1), []string{"secret 1 isn't of 24 to 64 bytes"}},
		{secretOf(65, 1), []string{"secret 1 isn't of 24 to 64 bytes"}},
		{good + "!", []string{"secret 1 isn't base64"}},
		{strings.TrimRight(secretOf(25, 0xfa), "="), []string{"secret 1 isn't base64"}},
		{"whsec_" + base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, 24)), []string{"secret 1 isn't base64"}},
		{"hunter2 hunter3,", []string{"secret 1 doesn't begin", "secret 2 doesn't begin"}},
		{good + ",hunter2", []string{"secret 2 doesn't begin"}},
	} {
		list, err := webhook.ParseSecrets(tt.text)
		if err == nil || list != nil {
			t.Errorf("%q: %d secrets, %v", tt.text, len(list), err)
			continue
		}
		for _, want := range append(tt.want, "CHRONOS_WEBHOOK_SECRETS", "give one secret") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %q isn't in %q", tt.text, want, err)
			}
		}
		if strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), good[6:14]) {
			t.Errorf("%q shows a secret", err)
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	const raw = "0123456789abcdefghijklmnopqrstuv"
	list := secrets(t, "whsec_"+base64.StdEncoding.EncodeToString([]byte(raw)))
	client := newClient(t, webhook.Config{Secrets: list})
	var out bytes.Buffer
	type holder struct{ inner any }
	for _, v := range []any{list[0], &list[0], list, webhook.Config{Secrets: list}, client, holder{list[0]}, holder{list}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p"} {
			_, _ = fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("text", "value", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "value", v)
	}
	encoded, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(encoded)
	if list[0].String() != "whsec_…" {
		t.Errorf("shown as %q", list[0])
	}
	base64Of := base64.StdEncoding.EncodeToString([]byte(raw))
	for _, leak := range []string{
		raw[:8], base64Of[:8], fmt.Sprintf("%x", raw[:8]), fmt.Sprintf("%X", raw[:8]), "48 49 50 51", "0x30, 0x31", "[30 31 32",
	} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("%q is shown in %s", leak, regexp.MustCompile(`.*`+regexp.QuoteMeta(leak)+`.*`).FindString(out.String()))
		}
	}
}

// FuzzParseSecrets asks the public library about accepted secrets. An error only has words of this
// package.
func FuzzParseSecrets(f *testing.F) {
	for _, text := range []string{
		"", ",", " ", "whsec_", secretOf(24, 1), secretOf(24, 1) + "," + secretOf(64, 2), secretOf(24, 1) + " " + secretOf(24, 1) + "\n",
		"whsec_\xff", "whsec_AAAA\r\nAAAA", "secret 1 is there twice",
	} {
		f.Add(text)
	}
	words := regexp.MustCompile(`^read CHRONOS_WEBHOOK_SECRETS: ` +
		`(, )?(\d+ secrets)?((, )?secret \d+ (doesn't begin with whsec_|isn't base64 after whsec_|isn't of 24 to 64 bytes|is there twice))*` +
		`; give one secret, [-a-z0-9_, ]*$`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := webhook.ParseSecrets(text)
		if err != nil {
			if list != nil || !words.MatchString(err.Error()) {
				t.Errorf("%d secrets, %v", len(list), err)
			}
			return
		}
		fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
		if len(list) > 2 || len(list) != len(fields) {
			t.Errorf("%d secrets from %q", len(list), text)
		}
		for _, field := range fields {
			if _, err := standardwebhooks.NewWebhook(field); err != nil {
				t.Errorf("the public library refuses %q: %v", field, err)
			}
		}
	})
}
