package freeport

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// The port of a server that was killed is nobody else's while its test may still look for the server.
func TestAPortIsPickedOnce(t *testing.T) {
	if address := os.Getenv("CHRONOS_TEST_RESERVE"); address != "" {
		if reserve(address) {
			t.Error("another process gets the port, too")
		}
		if _, err := Pick(); err != nil {
			t.Errorf("another process gets no port at all: %v", err)
		}
		return
	}
	port, err := Pick()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if reserve(address) {
		t.Error("this process gets the port twice")
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAPortIsPickedOnce$")
	other.Env = append(os.Environ(), "CHRONOS_TEST_RESERVE="+address)
	if out, err := other.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	l, err := net.Listen("tcp", address) //nolint:noctx // at once
	if err != nil {
		t.Fatalf("the server of the port can't listen: %v", err)
	}
	_ = l.Close()
}
