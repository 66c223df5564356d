package certificate

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"chronos/scheduler/verify/testkit"
)

// TestClientTrustsTheFile: a client on the machine of the listener trusts the certificate in the listener's file alone, also
// if the file has the key before the certificate.
func TestClientTrustsTheFile(t *testing.T) {
	t.Parallel()
	own, other := testkit.NewAuthority(t), testkit.NewAuthority(t)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{own.Certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()

	both := filepath.Join(t.TempDir(), "both.pem")
	var text []byte
	for _, path := range []string{own.KeyFile, own.CertFile} {
		part, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, part...)
	}
	if err := os.WriteFile(both, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, trusted := range map[string]bool{own.CertFile: true, both: true, other.CertFile: false} {
		config, err := Client("", "", file)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), config) //nolint:noctx // a local listener answers at once
		if (err == nil) != trusted {
			t.Errorf("%s: %v, want trust %v", filepath.Base(file), err, trusted)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
	if _, err := Client("", "", own.KeyFile); err == nil {
		t.Error("a file without a certificate was taken")
	}
	if _, err := Client(own.CertFile, other.KeyFile, ""); err == nil {
		t.Error("a certificate was taken with the key of another")
	}
}
