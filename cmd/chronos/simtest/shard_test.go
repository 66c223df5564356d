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

// shard is a Redis in the bubble whose clock is the bubble's, put ahead by an
// offset. It executes one command at a time, takes no time for it, and fails as it
// is told to. It is safe for concurrent use.
type shard struct {
	name string
	mini *miniredis.Miniredis
	fast *fastClaim // nil to run every script
	// tell is told of each topology that the shard takes, and nil to tell nobody.
	tell func(shard, topology string)
	log  *callLog

	links  []*link // of all nodes
	served sync.WaitGroup

	mu      sync.Mutex // held while a command is executed; guards what follows
	ahead   time.Duration
	pauses  int
	resumed chan struct{} // closed when the last pause is over; nil while there is none
	slow    time.Duration
	down    bool
	epoch   int // of its process: raised by each kill
	refuse  [refusals]int
	script  bool   // one is under way
	wrote   bool   // that one has written
	refused string // what the command under way was refused with
	calls   tally
}

// tally counts what a shard executed.
type tally struct{ commands, scripts, shortened, refused int }

// newShard starts an empty shard. It ends by close.
func newShard(t *testing.T, name string, fast *fastClaim) *shard {
	t.Helper()
	s := &shard{name: name, mini: miniredis.NewMiniRedis(), fast: fast}
	first, err := s.mini.Dial() // starts it without a listener
	if err != nil {
		t.Fatalf("start shard: %v", err)
	}
	_ = first.Close()
	s.mini.Server().SetPreHook(s.before)
	return s
}

// url is the shard's, for nodes whose dial knows where the host is.
func (s *shard) url() string { return "redis://" + s.name + ".test:6379/0" }

// close ends the shard. All connections to it are closed before.
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

// serve executes what comes until the connection ends. What has arrived is
// executed even if the client has gone since.
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
			// Redis goes on with what it has read, whether or not the client is there.
			_, _ = conn.Write(out.Bytes())
			out.Reset()
		}
	}
}

// gate waits while the shard is paused, and for as long as it is slow at the first
// command of several.
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

// execute runs a command now and leaves its answer; false if the process that the
// connection belongs to has ended.
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

// shorten answers what needs no Lua state, if fast knows how. The shard's mutex is
// held.
func (s *shard) shorten(peer *server.Peer, args []string, now time.Time) bool {
	var said []string
	ok := false
	if s.refuse == ([refusals]int{}) { // else a script that writes is refused
		said, ok = s.fast.beats(s.mini, args, now)
	}
	if !ok && !s.fast.answers(s.mini, args, now) {
		return false
	}
	s.calls.shortened++
	peer.Block(func(w *server.Writer) {
		w.WriteLen(1 + len(said))
		w.WriteInt(int(now.UnixMicro()))
		for _, text := range said {
			w.WriteBulk(text)
		}
	})
	peer.Flush()
	return true
}

// pause has the shard execute nothing until what it returns is called, once; it
// goes on taking connections and bytes, as the kernel does for a process that was
// stopped. Then it executes them.
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

// slowDown makes each round trip's first command wait, beside those of others,
// until what it returns is called, once.
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

// kill ends the shard's process: nothing of what waits for it is executed, its
// connections break and none can be made. Its data stays.
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

// counts is what the shard executed so far.
func (s *shard) counts() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// readCommand reads an array of bulk strings, which is how clients send commands.
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
