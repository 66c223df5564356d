package deploytest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/cmd/chronos-bridge/bridgetest/broker"
	"chronos/scheduler/verify/testkit"
)

// startKafka starts a broker with the settings that the image of Kafka makes of the environment. The image makes the settings
// by a class of Kafka itself, and formats the data folder by the same call.
func (c *cluster) startKafka() {
	c.t.Helper()
	folder := c.folders["kafka"]
	classpath, err := broker.Classpath(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	defaults, settings := filepath.Join(folder, "defaults"), filepath.Join(folder, "settings")
	for _, dir := range []string{defaults, settings, filepath.Join(folder, "mounted")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, name := range []string{"server.properties", "log4j2.yaml", "tools-log4j2.yaml"} {
		if err := os.WriteFile(filepath.Join(defaults, name), []byte("\n"), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	env := []string{"PATH=" + os.Getenv("PATH")}
	for _, v := range c.environment("kafka") {
		v = strings.ReplaceAll(v, "kafka:", c.addresses["kafka"]+":") // java reads no hosts of the test
		env = append(env, strings.ReplaceAll(v, "/var/lib/kafka/data", filepath.Join(folder, "data")))
	}
	java := []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.io.tmpdir=" + folder, "-cp", classpath}
	setup := exec.CommandContext(c.t.Context(), "java", append(slices.Clone(java), "kafka.docker.KafkaDockerWrapper", "setup",
		"--default-configs-dir", defaults, "--mounted-configs-dir", filepath.Join(folder, "mounted"), "--final-configs-dir", settings)...)
	setup.Env = env
	if out, err := setup.CombinedOutput(); err != nil {
		c.t.Fatalf("make the settings of Kafka: %v\n%s", err, out)
	}
	c.processes["kafka"] = testkit.Start(c.t, env, "java", append(java, "kafka.Kafka", filepath.Join(settings, "server.properties"))...)
	admin := kadm.NewClient(c.kafkaClient())
	testkit.Eventually(c.t, 2*testkit.Soon, "Kafka answers", func() bool {
		return c.asked(func(ctx context.Context) error { _, err := admin.ListTopics(ctx); return err }) == nil
	})
}

// kafkaClient is a client of the broker. The broker names the address that clients connect to.
func (c *cluster) kafkaClient(options ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(c.addresses["kafka"]+":9092"))...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

// createTopics runs the script of the service, and creates the topics that the script asks for. The program of the script
// is not among the jars of the tests.
func (c *cluster) createTopics() {
	c.t.Helper()
	folder, service := c.folders["kafka-topics"], c.project.Services["kafka-topics"]
	asked := filepath.Join(folder, "asked")
	program := "#!/bin/sh\necho \"$@\" >> " + asked + "\n"
	if err := os.WriteFile(filepath.Join(folder, "kafka-topics.sh"), []byte(program), 0o755); err != nil {
		c.t.Fatal(err)
	}
	args := append(slices.Clone(service.Entrypoint), strings.ReplaceAll(service.Command[0], "/opt/kafka/bin/", folder+"/"))
	if out, err := exec.CommandContext(c.t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		c.t.Fatalf("run the script of kafka-topics: %v\n%s", err, out)
	}
	text, err := os.ReadFile(asked)
	if err != nil {
		c.t.Fatal(err)
	}
	admin := kadm.NewClient(c.kafkaClient())
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		after := func(flag string) string { return words[slices.Index(words, flag)+1] }
		if after("--bootstrap-server") != "kafka:9092" || !slices.Contains(words, "--create") {
			c.t.Fatalf("kafka-topics asks for %q", line)
		}
		partitions, err := strconv.ParseInt(after("--partitions"), 10, 32)
		if err != nil {
			c.t.Fatal(err)
		}
		if err := c.asked(func(ctx context.Context) error {
			_, err := admin.CreateTopic(ctx, int32(partitions), 1, nil, after("--topic"))
			return err
		}); err != nil {
			c.t.Fatalf("create topic: %v", err)
		}
	}
	c.processes["kafka-topics"] = &testkit.Process{}
}

func (c *cluster) asked(ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), testkit.Soon)
	defer cancel()
	return ask(ctx)
}

// TestComposeDelaysAMessage runs the profile kafka.
func TestComposeDelaysAMessage(t *testing.T) {
	t.Parallel()
	broker.Need(t)
	c := newCluster(t)
	c.up("bridge")
	c.awaitHealth("bridge")
	c.scraped("bridge:7255")
	// The listener of the bridge is open in a container alone. A bridge does not start without this variable there.
	if open := c.project.Services["bridge"].Environment["CHRONOS_ADMIN_OPEN"]; open == nil || *open != "true" {
		t.Error("the listener of the bridge is not open")
	}
	deadline := time.Now().Add(2 * time.Second)
	message := &kgo.Record{Topic: "delay-in", Value: []byte("hello"), Headers: []kgo.RecordHeader{
		{Key: "chronosMessageId", Value: []byte("order-4711")},
		{Key: "chronosDeadline", Value: []byte(strconv.FormatInt(deadline.UnixMilli(), 10))},
	}}
	client := c.kafkaClient(kgo.ConsumeTopics("delay-out"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err := c.asked(func(ctx context.Context) error { return client.ProduceSync(ctx, message).FirstErr() }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Soon)
	defer cancel()
	fetched := client.PollFetches(ctx)
	if err := fetched.Err(); err != nil {
		t.Fatalf("nothing comes out of delay-out: %v", err)
	}
	got := fetched.Records()
	if early := time.Until(deadline); len(got) != 1 || string(got[0].Value) != "hello" || early > 100*time.Millisecond {
		t.Errorf("delay-out has %d messages, the first %q, %v before the deadline", len(got), got[0].Value, early)
	}
	if err := c.processes["bridge"].Stop(testkit.Soon); err != nil {
		t.Errorf("the bridge ends by %v", err)
	}
}
