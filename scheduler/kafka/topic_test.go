package kafka

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/scheduler/replica"
)

// recreate deletes a topic, and makes another topic of the same name after a while.
func (r *rig) recreate(topic string, after time.Duration) {
	r.Helper()
	if err := r.cluster.DeleteTopic(topic); err != nil {
		r.Fatal(err)
	}
	r.pass(after)
	if err := r.cluster.CreateTopic(topic, partitions, nil); err != nil {
		r.Fatal(err)
	}
	r.client.PurgeTopicsFromClient(topic)
}

// TestOutputsThatAreMadeAnew: messages go to a deleted topic again when the topic is back, for example
// with more partitions.
func TestOutputsThatAreMadeAnew(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "later": time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				b := r.start()
				r.produce(early(0, "a"), early(0, "b"), late(0, "l"), malformedRecord(0, "x"))
				r.awaitCommitted(4, -1, -1)
				r.timers.fire(context.Background(), b, "a")
				r.recreate("out", after)
				r.produce(late(0, "m"))
				r.awaitCommitted(5, -1, -1)
				for _, key := range append(r.timers.keys(), "b") { // m, if refused first
					r.await(key+" to be published", func() bool {
						r.timers.fire(context.Background(), b, key)
						return !slices.Contains(r.timers.keys(), key)
					})
				}
				wantIDs(r, r.ids("out"), "b", "m")
				r.recreate("dead", after)
				r.produce(malformedRecord(0, "y"))
				r.awaitCommitted(6, -1, -1)
				if got := len(r.records("dead")); got != 1 {
					t.Errorf("%d dead letters, want 1", got)
				}
			})
		})
	}
}

// TestInputThatIsMadeAnew: another topic of the name is read from its start. Finished records of the
// first topic are not committed for the second topic.
func TestInputThatIsMadeAnew(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "later": time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				open := make(gate)
				r.timers.set(func(ctx context.Context, _ string, a *replica.Admission) error {
					if a.Key == "old" {
						return open.wait(ctx)
					}
					return nil
				})
				b := r.start()
				r.produce(early(0, "a"), early(0, "b"), late(1, "l"), early(2, "old"))
				r.awaitCommitted(2, 1, -1)
				r.audit.forget()
				r.recreate("in", after)
				r.produce(early(0, "c"), late(1, "l"), late(2, "m")) // l stands at the same place as before
				r.awaitCommitted(1, 1, 1)
				close(open)
				r.pass(time.Minute)
				r.wantCommitted(1, 1, 1)
				wantIDs(r, r.timers.keys(), "a", "b", "c")
				wantIDs(r, r.ids("out"), "l", "l", "m")
				if r.log.Count("topic was deleted") == 0 {
					t.Error("that the topic was deleted is not logged")
				}
				r.wantLag(b, 0, 0, 0)
			})
		})
	}
}

// TestInputThatIsRefused: if the client does not try again by itself, the bridge tries with pauses, and
// logs within bounds.
func TestInputThatIsRefused(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.start()
		r.produce(early(0, "a"))
		r.awaitCommitted(1, -1, -1)
		refusal := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "in", Err: kerr.TopicAuthorizationFailed, Count: -1})
		r.pass(10 * time.Second)
		const brokers, ahead = 2, 5 // every broker is asked once a pause, and the client fetches ahead
		if most := brokers * (int(10*time.Second/errorPause) + ahead); refusal.Hits() > most {
			t.Errorf("it was tried %d times in 10 seconds, want %d at most", refusal.Hits(), most)
		}
		refusal.Remove()
		r.produce(early(0, "b"))
		r.awaitCommitted(2, -1, -1)
	})
}

// TestOpenAsksTheBrokers: Open returns the faults that the brokers tell.
func TestOpenAsksTheBrokers(t *testing.T) {
	inBubble(t, func(r *rig) {
		refuse := func(key kmsg.Key, err *kerr.Error) func() {
			return func() { r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: -1}) }
		}
		for _, c := range []struct {
			name   string
			change func(*Config)
			before func()
			want   []string
		}{
			{"all is well", func(*Config) {}, func() {}, nil},
			{"no dead letters", func(c *Config) { c.DeadLetters = "" }, func() {}, nil},
			{"topics are missing", func(c *Config) { c.Input, c.Output, c.DeadLetters = "x", "y", "z" }, func() {},
				[]string{"topic x doesn't exist", "topic y doesn't exist", "topic z doesn't exist"}},
			{"settings can't be read", func(*Config) {}, refuse(kmsg.DescribeConfigs, kerr.TopicAuthorizationFailed), nil},
			{"a topic is denied", func(*Config) {}, refuse(kmsg.Metadata, kerr.TopicAuthorizationFailed),
				[]string{
					"topic in: grant Read on topic in to the bridge's user: TOPIC_AUTHORIZATION_FAILED",
					"topic out: grant Write on topic out to the bridge's user: TOPIC_AUTHORIZATION_FAILED",
					"topic dead: grant Write on topic dead to the bridge's user: TOPIC_AUTHORIZATION_FAILED",
				}},
		} {
			c.before()
			b, err := Open(r.Context(), r.config(c.change))
			if err == nil {
				b.Close()
			}
			if (err == nil) != (c.want == nil) {
				t.Errorf("%s: %v", c.name, err)
			}
			for _, part := range c.want {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %v, want it to say %q", c.name, err, part)
				}
			}
		}
	})
}

// TestOpenWithoutBrokers: brokers may come later.
func TestOpenWithoutBrokers(t *testing.T) {
	inBubble(t, func(r *rig) {
		end := r.silence()
		defer end()
		begun := time.Now()
		b, err := Open(context.Background(), r.config())
		if err != nil || time.Since(begun) > 5*openTime {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
		defer b.Close() // clients wait for connections that are being made
		r.wantLogged(1, "no broker answers")
		end()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := Open(ctx, r.config()); err == nil {
			t.Error("it opens although it isn't wanted any more")
		}
	})
}

// TestOpenIsRefused: waiting is useless if a broker refuses the bridge, or the bridge doesn't trust the
// broker. The error says what to do.
func TestOpenIsRefused(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(ca.server()), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "u", testPassword), kfake.SeedTopics(1, "in", "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	brokers := cluster.ListenAddrs()
	open := func(change func(*Connection)) error {
		c := Connection{Brokers: brokers, TLS: true, CAFile: ca.file, SASL: "plain", User: "u", Password: testPassword}
		change(&c)
		b, err := Open(t.Context(), Config{Connection: c, Input: "in", Output: "out", Log: newLog(t.Output())})
		if err == nil {
			b.Close()
		}
		return err
	}
	if err := open(func(*Connection) {}); err != nil {
		t.Fatal(err)
	}
	refuse := func(key kmsg.Key, code *kerr.Error) func(*Connection) { // as brokers do, and kfake doesn't
		return func(*Connection) {
			cluster.ControlKey(key.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
				switch refusal := request.ResponseKind().(type) {
				case *kmsg.SASLHandshakeResponse:
					refusal.ErrorCode = code.Code
					return refusal, nil, true
				case *kmsg.SASLAuthenticateResponse:
					refusal.ErrorCode = code.Code
					return refusal, nil, true
				}
				return nil, nil, false
			})
		}
	}
	for name, c := range map[string]struct {
		change func(*Connection)
		want   []string
	}{
		"another authority": {func(c *Connection) { c.CAFile = other.file }, []string{"unknown authority", "set CHRONOS_KAFKA_CA_FILE"}},
		"the system's":      {func(c *Connection) { c.CAFile = "" }, []string{"unknown authority", "set CHRONOS_KAFKA_CA_FILE"}},
		"another name": {
			func(c *Connection) { c.Brokers = []string{strings.Replace(brokers[0], "127.0.0.1", "localhost", 1)} },
			[]string{"localhost", "CHRONOS_KAFKA_BROKERS", "advertised.listeners"},
		},
		"another password":  {refuse(kmsg.SASLAuthenticate, kerr.SaslAuthenticationFailed), []string{"SASL_AUTHENTICATION_FAILED", "check CHRONOS_KAFKA_USER and CHRONOS_KAFKA_PASSWORD"}},
		"another mechanism": {refuse(kmsg.SASLHandshake, kerr.UnsupportedSaslMechanism), []string{"UNSUPPORTED_SASL_MECHANISM", "set CHRONOS_KAFKA_SASL"}},
		"no login":          {refuse(kmsg.SASLHandshake, kerr.IllegalSaslState), []string{"ILLEGAL_SASL_STATE", "unset CHRONOS_KAFKA_SASL"}},
		"something else":    {refuse(kmsg.SASLHandshake, kerr.ClusterAuthorizationFailed), []string{"the brokers refuse: CLUSTER_AUTHORIZATION_FAILED"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := open(c.change)
			if err == nil || strings.Contains(err.Error(), testPassword) {
				t.Fatal(err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v, want it to say %q", err, part)
				}
			}
		})
	}
}
