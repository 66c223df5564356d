package simtest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// shard is a Redis in the bubble. The shard's clock is the bubble's clock, put ahead by an offset. A shard
// executes one command at a time, in no time, and fails on request. A shard is safe for concurrent use.
type shard struct {
	name string
	mini *miniredis.Miniredis
	fast *fastClaim // nil to run every script
	// tell hears of each topology that the shard takes; may be nil.
	tell func(shard, topology string)
	log  *callLog

	links  []*link // of all nodes
	served sync.WaitGroup

	mu      sync.Mutex // held while a command is executed; guards the fields below
	ahead   time.Duration
	pauses  int
	resumed chan struct{} // closed when the last pause is over; nil without a pause
	slow    time.Duration
	down    bool
	epoch   int // of the shard's process: raised by each kill
	refuse  [refusals]int
	script  bool   // a script is under way
	wrote   bool   // the script has written
	refused string // the error that refused the command under way
	calls   tally
}

// tally counts the commands of a shard.
type tally struct{ commands, scripts, shortened, refused int }

// newShard starts an empty shard. The caller calls close.
func newShard(t *testing.T, name string, fast *fastClaim) *shard {
	t.Helper()
	s := &shard{name: name, mini: miniredis.NewMiniRedis(), fast: fast}
	first, err := s.mini.Dial() // starts miniredis without a listener
	if err != nil {
		t.Fatalf("start shard: %v", err)
	}
	_ = first.Close()
	s.mini.Server().SetPreHook(s.before)
	return s
}

// url is the shard's URL. The dial function of a node finds the host by name.
func (s *shard) url() string { return "redis://" + s.name + ".test:6379/0" }

// close ends the shard. The caller closes all connections first.
func (s *shard) close() {
	s.kill()
	s.served.Wait()
	s.mini.Close()
}

// accept serves a connection, unless the shard is down.
func (s *shard) accept(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return false
	}
	epoch := s.epoch
	s.served.Go(func() {
		defer func() { _ = conn.Close() }()
		s.serve(conn, epoch)
	})
	return true
}

// serve executes commands until the connection ends. An arrived command is executed even if the client has
// gone since.
func (s *shard) serve(conn net.Conn, epoch int) {
	in := bufio.NewReader(conn)
	var out bytes.Buffer
	var answer bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&answer))
	node := conn.RemoteAddr().String()
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		waited, alive := s.gate(epoch, out.Len() == 0)
		if !alive || !s.execute(epoch, peer, args, waited, &answer, node) {
			return
		}
		_, _ = answer.WriteTo(&out)
		if in.Buffered() == 0 {
			// Redis goes on with the commands already read, even if the client has gone.
			_, _ = conn.Write(out.Bytes())
			out.Reset()
		}
	}
}

// gate waits while the shard is paused. While the shard is slow, gate also waits before the first command of
// several.
func (s *shard) gate(epoch int, first bool) (waited, alive bool) {
	for {
		s.mu.Lock()
		resumed, slow := s.resumed, s.slow
		alive = s.epoch == epoch && !s.down
		s.mu.Unlock()
		switch {
		case !alive:
			return waited, false
		case resumed != nil:
			waited = true
			<-resumed
		case slow > 0 && first:
			waited, first = true, false
			<-time.After(slow)
		default:
			return waited, true
		}
	}
}

// execute runs a command now and fills answer; false if the process of the connection has ended.
func (s *shard) execute(epoch int, peer *server.Peer, args []string, waited bool, answer *bytes.Buffer, node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != epoch || s.down {
		return false
	}
	s.calls.commands++
	name := strings.ToUpper(args[0])
	s.script = name == "EVAL" || name == "EVALSHA"
	s.wrote, s.refused = false, ""
	if s.script {
		s.calls.scripts++
	}
	now := time.Now().Add(s.ahead)
	s.mini.SetTime(now)
	if refusal := s.refusal(name); refusal != "" {
		s.calls.refused++
		peer.WriteError(refusal)
		peer.Flush()
		return true
	}
	if name == "EVALSHA" && !waited && s.shorten(peer, args[1:], now) {
		return true
	}
	s.mini.Server().Dispatch(peer, args)
	peer.Flush()
	if s.tell != nil && s.script && len(args) > 4 && args[3] == topologyKey && args[4] == "store" {
		s.tell(s.name, s.mini.HGet(topologyKey, "current"))
	}
	if s.script && s.refused != "" {
		// A script that may not write ends with the error of the command.
		answer.Reset()
		s.calls.refused++
		peer.WriteError(s.refused)
		peer.Flush()
	}
	if name == "EVALSHA" {
		s.log.write(node, s.name, args, answer.Bytes())
	}
	return true
}

// shorten answers calls that need no Lua state, if fast knows how. The shard's mutex is held.
func (s *shard) shorten(peer *server.Peer, args []string, now time.Time) bool {
	var said []string
	partitions, ok := 0, false
	if s.refuse == ([refusals]int{}) { // otherwise a script that writes is refused
		said, ok = s.fast.beats(s.mini, args, now)
	}
	if !ok {
		partitions, ok = s.fast.answers(s.mini, args, now)
	}
	if !ok {
		return false
	}
	s.calls.shortened++
	peer.Block(func(w *server.Writer) {
		if partitions > 0 {
			w.WriteLen(partitions)
			for range partitions {
				w.WriteLen(1)
				w.WriteInt(int(now.UnixMicro()))
			}
			return
		}
		w.WriteLen(1 + len(said))
		w.WriteInt(int(now.UnixMicro()))
		for _, text := range said {
			w.WriteBulk(text)
		}
	})
	peer.Flush()
	return true
}

// pause stops all execution until the caller calls resume, once. The shard goes on taking connections and
// bytes, as the kernel does for a stopped process. The taken commands are executed afterwards.
func (s *shard) pause() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pauses++; s.pauses == 1 {
		s.resumed = make(chan struct{})
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pauses--; s.pauses == 0 {
			close(s.resumed)
			s.resumed = nil
		}
	})
}

// slowDown delays each round trip's first command by d until the caller calls lift, once. Round trips wait
// side by side.
func (s *shard) slowDown(d time.Duration) (lift func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow += d
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.slow -= d
	})
}

// kill ends the shard's process. Waiting commands are not executed, connections break, and connecting is
// refused. The data stays.
func (s *shard) kill() {
	s.mu.Lock()
	s.down = true
	s.epoch++
	s.mu.Unlock()
	for _, l := range s.links {
		l.breakAll()
	}
}

// restart starts a killed shard with its data, and without its scripts.
func (s *shard) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
	s.flushScripts()
}

// step moves the shard's clock by d for good.
func (s *shard) step(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// forgetScripts has the next call of each script fail with NOSCRIPT.
func (s *shard) forgetScripts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushScripts()
}

func (s *shard) flushScripts() {
	peer := server.NewPeer(bufio.NewWriter(io.Discard))
	s.script = false
	s.mini.Server().Dispatch(peer, []string{"SCRIPT", "FLUSH"})
	s.fast.forget(s.mini)
}

// counts returns the tally so far.
func (s *shard) counts() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// readCommand reads an array of bulk strings: the form of a client's command.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readCount(r, '*')
	if err != nil || n < 1 {
		return nil, io.ErrUnexpectedEOF
	}
	args := make([]string, n)
	for i := range args {
		length, err := readCount(r, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:length])
	}
	return args, nil
}

func readCount(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("$0\r\n") || line[0] != kind {
		return 0, io.ErrUnexpectedEOF
	}
	return strconv.Atoi(string(line[1 : len(line)-len("\r\n")]))
}
