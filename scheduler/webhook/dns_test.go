package webhook_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"chronos/scheduler/webhook"
)

// nameserver answers every UDP question for addresses as told.
type nameserver struct {
	conn net.PacketConn

	mu      sync.Mutex
	answers func(name string) []netip.Addr
	asked   map[string]int // questions for IPv4 addresses by name
}

// serveDNS starts a nameserver on loopback. Only one goroutine at a time calls answers, once for every
// question.
func serveDNS(t *testing.T, answers func(name string) []netip.Addr) *nameserver {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameserver{conn: conn, answers: answers, asked: map[string]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := s.reply(buf[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return s
}

const (
	typeA    = 1
	typeAAAA = 28
)

// reply answers a message with a single question; nil for any other message.
func (s *nameserver) reply(query []byte) []byte {
	const header = 12
	var labels []string
	end := header
	for end < len(query) && query[end] != 0 {
		next := end + 1 + int(query[end])
		if next > len(query) {
			return nil
		}
		labels = append(labels, string(query[end+1:next]))
		end = next
	}
	if end += 5; end > len(query) { // the root label, type and class
		return nil
	}
	kind := binary.BigEndian.Uint16(query[end-4:])
	reply := append([]byte(nil), query[:end]...)
	copy(reply[2:], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}) // no error; one question, no answer yet
	for _, addr := range s.lookUp(strings.ToLower(strings.Join(labels, ".")), kind) {
		reply[7]++
		reply = append(reply, 0xc0, header) // the name asked for
		reply = binary.BigEndian.AppendUint16(reply, kind)
		reply = append(reply, 0, 1, 0, 0, 0, 0) // class IN, may not be kept
		reply = binary.BigEndian.AppendUint16(reply, uint16(addr.BitLen()/8))
		reply = append(reply, addr.AsSlice()...)
	}
	return reply
}

func (s *nameserver) lookUp(name string, kind uint16) (found []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind == typeA {
		s.asked[name]++
	}
	for _, addr := range s.answers(name) {
		if addr.Is4() && kind == typeA || addr.Is6() && kind == typeAAAA {
			found = append(found, addr)
		}
	}
	return found
}

func (s *nameserver) times(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

// client looks all hosts up with s.
func (s *nameserver) client(t *testing.T, cfg webhook.Config) *webhook.Client {
	t.Helper()
	client := newClient(t, cfg)
	client.SetResolver(&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}})
	return client
}

func always(addrs ...string) func(string) []netip.Addr {
	var found []netip.Addr
	for _, addr := range addrs {
		found = append(found, netip.MustParseAddr(addr))
	}
	return func(string) []netip.Addr { return found }
}
