package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"chronos/api/client"
)

// TestAFoundTokenGoesToItsListenerAlone: a command sends a found token only to the address of the token's
// listener: not to a proxy, and not to another address of the name in the URL.
func TestAFoundTokenGoesToItsListenerAlone(t *testing.T) {
	host := ""
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host = r.Host
		_, _ = io.WriteString(w, `{}`)
	}))
	defer listener.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a proxy was asked for %s", r.URL)
	}))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	admin, err := client.NewAdmin("http://elsewhere.test:7254", client.WithToken("secret"), client.WithHTTPClient(onlyTo(listener.Listener.Addr().String(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Status(t.Context()); err != nil || host != "elsewhere.test:7254" {
		t.Errorf("asked %q, %v", host, err)
	}
}
