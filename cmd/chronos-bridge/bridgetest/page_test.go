package bridgetest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/cmd/chronos-bridge/bridgetest/broker"
	"chronos/cmd/internal/pages"
	"chronos/scheduler/verify/testkit"
)

// The addresses in the example of docs/kafka.md. The test uses different addresses.
const (
	pageBroker = "127.0.0.1:9092"
	pagePort   = "6390"
)

// TestExampleOfThePageKeepsMessages runs the very commands of the example in docs/kafka.md, with
// different addresses, and then kills the redis-server while messages wait.
func TestExampleOfThePageKeepsMessages(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	b := broker.Start(t)
	for _, topic := range []string{"delay-in", "delay-out", "delay-dead"} {
		b.CreateTopic(topic, 4, nil)
	}
	e := newExample(t, b.Addr())
	server, _ := e.start("redis-server")
	store := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + e.port})
	t.Cleanup(func() { _ = store.Close() })
	awaitServer := func() {
		testkit.Await(t, 10*time.Second, "redis-server answers", func() bool { return store.Ping(t.Context()).Err() == nil })
	}
	awaitServer()
	worker, _ := e.start(".bin/chronos-bridge")
	up := &bridge{Process: worker}
	testkit.Await(t, 20*time.Second, "the bridge is ready", func() bool {
		found := upLine.FindStringSubmatch(worker.Log.String())
		if found == nil {
			return false
		}
		up.admin = found[2]
		status, _, err := up.get("/readyz")
		return err == nil && status == http.StatusOK
	})
	if log := worker.Log.String(); strings.Contains(log, "append-only file") || !strings.Contains(log, "fewer Redis instances than copies") {
		t.Errorf("want a warning about copies and none about the append-only file:\n%s", log)
	}
	testkit.Program(t, "kcat")
	e.sends()

	const messages, withKcat = 20, 21
	out := collect(t, b.Addr(), "delay-out")
	produceWaiting(t, b.Addr(), messages, 8*time.Second)
	testkit.Await(t, 6*time.Second, "all messages are stored", func() bool {
		return up.metric(`chronos_bridge_messages_total{as="stored"}`) == withKcat
	})
	server.Kill()
	e.start("redis-server")
	awaitServer()
	testkit.Await(t, 25*time.Second, "all messages come", func() bool { _, n := out.seen(); return n >= withKcat })
	_, n := out.seen()
	t.Logf("%d of %d messages came, all but one after the redis-server was killed", n, withKcat)
	if n != withKcat {
		t.Errorf("%d messages came, want %d", n, withKcat)
	}
	if err := worker.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
}

func produceWaiting(t *testing.T, addr string, n int, delay time.Duration) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	var all []*kgo.Record
	for i := range n {
		r := plainMessage(fmt.Sprint("message ", i), []byte("hello"), time.Now().Add(delay))
		r.Topic = "delay-in"
		all = append(all, r)
	}
	if err := client.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// example is the example of docs/kafka.md, in its own folder.
type example struct {
	t                *testing.T
	dir, kafka, port string
	blocks           []pages.Block
}

func newExample(t *testing.T, kafka string) *example {
	t.Helper()
	text, err := os.ReadFile("../../../docs/kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	e := &example{t: t, dir: t.TempDir(), kafka: kafka, port: testkit.FreePort(t)}
	if e.blocks, err = pages.Read(string(text)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(e.dir, ".bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(e.dir, ".bin", "chronos-bridge")); err != nil {
		t.Fatal(err)
	}
	return e
}

// start starts the block of a program. The program takes the place of its shell.
func (e *example) start(program string) (*testkit.Process, pages.Block) {
	e.t.Helper()
	for _, block := range e.blocks {
		if block.How != pages.RunBy || !strings.Contains(block.Script+"\n", program+"\n") && !strings.Contains(block.Script, program+" -") {
			continue
		}
		script := strings.NewReplacer(pageBroker, e.kafka, pagePort, e.port).Replace(block.Script)
		if program != "kcat" {
			script = strings.ReplaceAll(script, program, "exec "+program)
		}
		return testkit.Start(e.t, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + e.dir, "CHRONOS_BRIDGE_ADMIN_LISTEN=127.0.0.1:0"},
			"bash", "-ec", "cd "+e.dir+"\n"+script), block
	}
	e.t.Fatalf("the example of docs/kafka.md has no block that runs %s", program)
	return nil, pages.Block{}
}

// sends runs the block that sends a message and shows the message on arrival.
func (e *example) sends() {
	e.t.Helper()
	p, block := e.start("kcat")
	select {
	case <-p.Done:
	case <-time.After(30 * time.Second):
		e.t.Fatalf("no message has come: %s", p.Log)
	}
	if _, err := pages.Compare(block.Output, p.Log.String()); err != nil || p.Err != nil {
		e.t.Errorf("%v, %v\n%s", err, p.Err, p.Log)
	}
}
