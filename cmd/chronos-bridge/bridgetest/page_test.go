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
	"chronos/scheduler/verify/testkit"
)

// The addresses in the example of docs/kafka.md. The test uses different addresses.
const (
	pageBroker = "127.0.0.1:9092"
	pagePort   = "6390"
)

// TestExampleOfThePageKeepsMessages runs the very commands of the example in docs/kafka.md, with
// different addresses, and kills the redis-server while messages wait.
func TestExampleOfThePageKeepsMessages(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	b := broker.Start(t)
	for _, topic := range []string{"delay-in", "delay-out", "delay-dead"} {
		b.CreateTopic(topic, 4, nil)
	}
	e := newExample(t, b.Addr())
	server := e.run("redis-server")
	store := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + e.port})
	t.Cleanup(func() { _ = store.Close() })
	awaitServer := func() {
		testkit.Await(t, 10*time.Second, "redis-server answers", func() bool { return store.Ping(t.Context()).Err() == nil })
	}
	awaitServer()
	worker := e.run(".bin/chronos-bridge")
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

	const messages = 20
	out := collect(t, b.Addr(), "delay-out")
	produceWaiting(t, b.Addr(), messages, 8*time.Second)
	testkit.Await(t, 6*time.Second, "all messages are stored", func() bool {
		return up.metric(`chronos_bridge_messages_total{as="stored"}`) == messages
	})
	server.Kill()
	e.run("redis-server")
	awaitServer()
	testkit.Await(t, 25*time.Second, "all messages come", func() bool { _, n := out.seen(); return n >= messages })
	_, n := out.seen()
	t.Logf("%d of %d messages came after the redis-server was killed", n, messages)
	if n != messages {
		t.Errorf("%d messages came, want %d", n, messages)
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
	blocks           []string
}

func newExample(t *testing.T, kafka string) *example {
	t.Helper()
	e := &example{t: t, dir: t.TempDir(), kafka: kafka, port: testkit.FreePort(t), blocks: pageCommands(t)}
	if err := os.Mkdir(filepath.Join(e.dir, ".bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(e.dir, ".bin", "chronos-bridge")); err != nil {
		t.Fatal(err)
	}
	return e
}

// pageCommands are the shell blocks of the example in docs/kafka.md.
func pageCommands(t *testing.T) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, _ := strings.Cut(string(text), "\n## Try the bridge\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	for i, part := range strings.Split(chapter, "```") {
		if block, is := strings.CutPrefix(part, "sh\n"); is && i%2 == 1 {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// run runs the block that starts the program. The program takes the place of its shell.
func (e *example) run(program string) *testkit.Process {
	e.t.Helper()
	for _, block := range e.blocks {
		if !strings.Contains(block, program+"\n") && !strings.Contains(block, program+" -") {
			continue
		}
		script := strings.NewReplacer(pageBroker, e.kafka, pagePort, e.port, program, "exec "+program).Replace(block)
		return testkit.Start(e.t, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + e.dir, "CHRONOS_BRIDGE_ADMIN_LISTEN=127.0.0.1:0"},
			"bash", "-ec", "cd "+e.dir+"\n"+script)
	}
	e.t.Fatalf("the example of docs/kafka.md has no block that runs %s", program)
	return nil
}
