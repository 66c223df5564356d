package environment

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// leastBridge is an environment of all settings that a bridge needs, and then more.
func leastBridge(more ...string) []string {
	return append([]string{
		"CHRONOS_KAFKA_BROKERS=kafka-1:9092", "CHRONOS_KAFKA_INPUT=timers", "CHRONOS_KAFKA_OUTPUT=due", "CHRONOS_REDIS=redis://h/0",
	}, more...)
}

func TestBridgeDefaults(t *testing.T) {
	t.Parallel()
	want := Bridge{
		Brokers: []string{"kafka-1:9092"}, Input: "timers", Output: "due", Group: "chronos",
		Advance: AutoAdvance, Hold: 5 * time.Second, PollInterval: 100 * time.Millisecond, Replication: 2, Remember: 10 * time.Minute, DeadRetention: 168 * time.Hour,
		AdminListen: "127.0.0.1:7255", Redis: "redis://h/0", Slots: 4096,
		Copies: Copies{MinCopies: 1, SweepRate: 5000, AwayLimit: 15 * time.Minute, ReplicaSkew: 2 * time.Second},
		Log:    Log{LogLevel: slog.LevelInfo, LogFormat: "text"},
	}
	environments := map[string][]string{
		"unset":   {"HOME=/", "KAFKA_INPUT=x"},
		"empty":   {"CHRONOS_KAFKA_DEAD_LETTERS=", "CHRONOS_KAFKA_GROUP=", "CHRONOS_KAFKA_SASL=", "CHRONOS_KAFKA_TLS=", "CHRONOS_KAFKA_ADVANCE="},
		"cluster": {"CHRONOS_BRIDGE_PORT=tcp://10.0.0.1:7255", "CHRONOS_BRIDGE_PORT_7255_TCP_ADDR=10.0.0.1", "CHRONOS_BRIDGE_SERVICE_HOST=10.0.0.1"},
		// Only a node judges these values.
		"node's": {"CHRONOS_LISTEN=x", "CHRONOS_HOLD=1", "CHRONOS_ADMIN_LISTEN=:7254", "CHRONOS_WEBHOOK_SECRETS=x", "CHRONOS_CALLBACK_DENY=10.0.0.0/33"},
	}
	for name, environ := range environments {
		got, err := LoadBridge(leastBridge(environ...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestBridgeValues(t *testing.T) {
	t.Parallel()
	got, err := LoadBridge([]string{
		"CHRONOS_KAFKA_BROKERS=kafka-1:9092, 10.0.0.2:1,[fd00::1]:65535", "CHRONOS_KAFKA_INPUT=in", "CHRONOS_KAFKA_OUTPUT=out",
		"CHRONOS_KAFKA_DEAD_LETTERS=dead", "CHRONOS_KAFKA_GROUP=g", "CHRONOS_KAFKA_TLS=true", "CHRONOS_KAFKA_CA_FILE=/ca.pem",
		"CHRONOS_KAFKA_CERT_FILE=/cert.pem", "CHRONOS_KAFKA_KEY_FILE=/key.pem", "CHRONOS_KAFKA_SASL=scram-sha-512", "CHRONOS_KAFKA_USER=u",
		"CHRONOS_KAFKA_PASSWORD=p,=$x ", "CHRONOS_KAFKA_ADVANCE=0s", "CHRONOS_KAFKA_HOLD=1m", "CHRONOS_KAFKA_POLL_INTERVAL=10ms",
		"CHRONOS_KAFKA_REPLICATION=16", "CHRONOS_KAFKA_RELAY_ID=true", "CHRONOS_KAFKA_REMEMBER=168h", "CHRONOS_DEAD_RETENTION=720h", "CHRONOS_BRIDGE_ADMIN_LISTEN=:0",
		"CHRONOS_REDIS=a@lon=redis://h:1/2,b@nyc=redis://i", "CHRONOS_SITE=lon", "CHRONOS_SLOTS=8", "CHRONOS_MIN_COPIES=2", "CHRONOS_SWEEP_RATE=1", "CHRONOS_AWAY_LIMIT=10s",
		"CHRONOS_REPLICA_SKEW=250ms", "CHRONOS_TOKENS_FILE=/tokens", "CHRONOS_ADMIN_OPEN=false", "CHRONOS_ADMIN_HOSTS=bridge-1", "CHRONOS_LOG_LEVEL=debug", "CHRONOS_LOG_FORMAT=json",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Bridge{
		Brokers: []string{"kafka-1:9092", "10.0.0.2:1", "[fd00::1]:65535"}, Input: "in", Output: "out", DeadLetters: "dead", Group: "g",
		TLS: true, CAFile: "/ca.pem", CertFile: "/cert.pem", KeyFile: "/key.pem", SASL: "scram-sha-512", User: "u", Password: "p,=$x ",
		Hold: time.Minute, PollInterval: 10 * time.Millisecond, Replication: 16, RelayID: true, Remember: 168 * time.Hour, DeadRetention: 720 * time.Hour,
		AdminListen: ":0", Redis: "a@lon=redis://h:1/2,b@nyc=redis://i", Slots: 8,
		Copies: Copies{Site: "lon", MinCopies: 2, SweepRate: 1, AwayLimit: 10 * time.Second, ReplicaSkew: 250 * time.Millisecond},
		Access: Access{TokensFile: "/tokens", AdminHosts: []string{"bridge-1"}}, Log: Log{LogLevel: slog.LevelDebug, LogFormat: "json"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestBridgeFaults: every fault has its own line, and no line shows a password.
func TestBridgeFaults(t *testing.T) {
	t.Parallel()
	const topic = "want a topic: 1 to 249 of A-Z a-z 0-9 . _ -, but not . or .."
	const broker = " is not host:port; write it as kafka-1:9092, IPv6 as [fd00::1]:9092, and nothing around it"
	const shards = "want shards as name=redis://host:6379/0, several separated by commas: a bridge starts no redis-server of its own"
	const open = ": other machines can reach it without a token; set CHRONOS_TOKENS_FILE, or CHRONOS_ADMIN_OPEN=true if all that reach it may read health, metrics, the topology and the status of the cluster"
	const useless = ": it is of use with TLS only; set CHRONOS_KAFKA_TLS=true, or unset it"
	const nobody = " is set, but nobody logs in: set CHRONOS_KAFKA_SASL to plain, scram-sha-256 or scram-sha-512, or unset it"
	faults := map[string]string{ // from variables to their faults, one a line
		"CHRONOS_KAFKA_BROKERS=":                                                     "CHRONOS_KAFKA_BROKERS is not set: want host:port, several separated by commas",
		"CHRONOS_KAFKA_BROKERS= ":                                                    `CHRONOS_KAFKA_BROKERS=" ": want host:port, several separated by commas`,
		"CHRONOS_KAFKA_BROKERS=a:1,kafka":                                            "CHRONOS_KAFKA_BROKERS: broker 2" + broker,
		"CHRONOS_KAFKA_BROKERS=:9092":                                                "CHRONOS_KAFKA_BROKERS: broker 1" + broker,
		"CHRONOS_KAFKA_BROKERS=a:0,b:1,":                                             "CHRONOS_KAFKA_BROKERS: broker 1" + broker + "\nCHRONOS_KAFKA_BROKERS: broker 3" + broker,
		"CHRONOS_KAFKA_BROKERS=a:65536":                                              "CHRONOS_KAFKA_BROKERS: broker 1" + broker,
		"CHRONOS_KAFKA_BROKERS=u:hunter2@a:9092":                                     "CHRONOS_KAFKA_BROKERS: broker 1" + broker,
		"CHRONOS_KAFKA_BROKERS=PLAINTEXT://a:9092":                                   "CHRONOS_KAFKA_BROKERS: broker 1" + broker,
		"CHRONOS_KAFKA_INPUT=":                                                       "CHRONOS_KAFKA_INPUT is not set: " + topic,
		"CHRONOS_KAFKA_INPUT=a b":                                                    `CHRONOS_KAFKA_INPUT="a b": ` + topic,
		"CHRONOS_KAFKA_OUTPUT=":                                                      "CHRONOS_KAFKA_OUTPUT is not set: " + topic,
		"CHRONOS_KAFKA_OUTPUT=..":                                                    `CHRONOS_KAFKA_OUTPUT="..": ` + topic,
		"CHRONOS_KAFKA_OUTPUT=timers":                                                `CHRONOS_KAFKA_OUTPUT="timers": messages come from there; give another topic than CHRONOS_KAFKA_INPUT`,
		"CHRONOS_KAFKA_DEAD_LETTERS=.":                                               `CHRONOS_KAFKA_DEAD_LETTERS=".": ` + topic,
		"CHRONOS_KAFKA_DEAD_LETTERS=timers":                                          `CHRONOS_KAFKA_DEAD_LETTERS="timers": give another topic than CHRONOS_KAFKA_INPUT and CHRONOS_KAFKA_OUTPUT`,
		"CHRONOS_KAFKA_DEAD_LETTERS=due":                                             `CHRONOS_KAFKA_DEAD_LETTERS="due": give another topic than CHRONOS_KAFKA_INPUT and CHRONOS_KAFKA_OUTPUT`,
		"CHRONOS_KAFKA_GROUP= ":                                                      `CHRONOS_KAFKA_GROUP=" ": want a value that is not blank`,
		"CHRONOS_KAFKA_TLS=1":                                                        `CHRONOS_KAFKA_TLS="1": want one of true, false`,
		"CHRONOS_KAFKA_TLS=1 CHRONOS_KAFKA_CA_FILE=x":                                `CHRONOS_KAFKA_TLS="1": want one of true, false`, // 1 perhaps means true
		"CHRONOS_KAFKA_CA_FILE=x":                                                    `CHRONOS_KAFKA_CA_FILE="x"` + useless,
		"CHRONOS_KAFKA_CERT_FILE=x CHRONOS_KAFKA_KEY_FILE=y":                         `CHRONOS_KAFKA_CERT_FILE="x"` + useless + "\n" + `CHRONOS_KAFKA_KEY_FILE="y"` + useless,
		"CHRONOS_KAFKA_TLS=true CHRONOS_KAFKA_CERT_FILE=x":                           "CHRONOS_KAFKA_KEY_FILE is not set: CHRONOS_KAFKA_CERT_FILE needs it; set both or none",
		"CHRONOS_KAFKA_TLS=true CHRONOS_KAFKA_KEY_FILE=x":                            "CHRONOS_KAFKA_CERT_FILE is not set: CHRONOS_KAFKA_KEY_FILE needs it; set both or none",
		"CHRONOS_KAFKA_TLS=true CHRONOS_KAFKA_CERT_FILE=x CHRONOS_KAFKA_KEY_FILE=\t": `CHRONOS_KAFKA_KEY_FILE="\t": want a value that is not blank`,
		"CHRONOS_KAFKA_SASL=gssapi":                                                  `CHRONOS_KAFKA_SASL="gssapi": want one of plain, scram-sha-256, scram-sha-512`,
		"CHRONOS_KAFKA_SASL=PLAIN CHRONOS_KAFKA_USER=u":                              `CHRONOS_KAFKA_SASL="PLAIN": want one of plain, scram-sha-256, scram-sha-512`,
		"CHRONOS_KAFKA_SASL=plain CHRONOS_KAFKA_USER=u":                              "CHRONOS_KAFKA_PASSWORD is not set: CHRONOS_KAFKA_SASL=plain needs it; set it, or unset CHRONOS_KAFKA_SASL",
		"CHRONOS_KAFKA_SASL=plain CHRONOS_KAFKA_PASSWORD=hunter2":                    "CHRONOS_KAFKA_USER is not set: CHRONOS_KAFKA_SASL=plain needs it; set it, or unset CHRONOS_KAFKA_SASL",
		"CHRONOS_KAFKA_SASL=plain CHRONOS_KAFKA_USER=u CHRONOS_KAFKA_PASSWORD=\t":    "CHRONOS_KAFKA_PASSWORD=(not shown: it may hold a password): want a value that is not blank",
		"CHRONOS_KAFKA_USER=u CHRONOS_KAFKA_PASSWORD=hunter2":                        "CHRONOS_KAFKA_USER" + nobody + "\nCHRONOS_KAFKA_PASSWORD" + nobody,
		"CHRONOS_KAFKA_ADVANCE=-1ms":                                                 `CHRONOS_KAFKA_ADVANCE="-1ms": want auto, or a duration from 0s to 10s, such as 80ms`,
		"CHRONOS_KAFKA_ADVANCE=10001ms":                                              `CHRONOS_KAFKA_ADVANCE="10001ms": want auto, or a duration from 0s to 10s, such as 80ms`,
		"CHRONOS_KAFKA_ADVANCE=-1ns":                                                 `CHRONOS_KAFKA_ADVANCE="-1ns": want auto, or a duration from 0s to 10s, such as 80ms`,
		"CHRONOS_KAFKA_ADVANCE=Auto":                                                 `CHRONOS_KAFKA_ADVANCE="Auto": want auto, or a duration from 0s to 10s, such as 80ms`,
		"CHRONOS_KAFKA_HOLD=2.9s":                                                    `CHRONOS_KAFKA_HOLD="2.9s": want a duration from 3s to 1m, such as 5s`,
		"CHRONOS_KAFKA_POLL_INTERVAL=176ms":                                          `CHRONOS_KAFKA_POLL_INTERVAL="176ms": want a duration from 10ms to 175ms, such as 100ms`,
		"CHRONOS_KAFKA_REPLICATION=17":                                               `CHRONOS_KAFKA_REPLICATION="17": want a whole number from 1 to 16`,
		"CHRONOS_KAFKA_RELAY_ID=yes":                                                 `CHRONOS_KAFKA_RELAY_ID="yes": want one of true, false`,
		"CHRONOS_KAFKA_REMEMBER=0s":                                                  `CHRONOS_KAFKA_REMEMBER="0s": want a duration from 1s to 168h, such as 10m`,
		"CHRONOS_BRIDGE_ADMIN_LISTEN=7255":                                           `CHRONOS_BRIDGE_ADMIN_LISTEN="7255": want host:port or :port, such as 127.0.0.1:7255`,
		"CHRONOS_ADMIN_HOSTS=http://bridge-1":                                        `CHRONOS_ADMIN_HOSTS: "http://bridge-1" is not a host name; give names without scheme, port and *, such as node-1.example.com`,
		"CHRONOS_BRIDGE_ADMIN_LISTEN=:7255":                                          `CHRONOS_BRIDGE_ADMIN_LISTEN=":7255"` + open,
		"CHRONOS_REDIS=":                                                             "CHRONOS_REDIS is not set: " + shards,
		"CHRONOS_REDIS=\t":                                                           "CHRONOS_REDIS=(not shown: it may hold a password): " + shards,
		"CHRONOS_REDIS=a=redis://:hunter2@h:99999/0":                                 "CHRONOS_REDIS: shard a: a port is a number from 1 to 65535",
		"CHRONOS_REDIS=a@lon=redis://h,b@nyc=redis://i":                              "the shards belong to the sites lon, nyc; say with CHRONOS_SITE in which of them this process runs",
		"CHRONOS_REDIS=a@lon=redis://h CHRONOS_SITE=nyc":                             "CHRONOS_SITE is nyc, and CHRONOS_REDIS has no shard of this site; its sites are lon",
		"CHRONOS_SITE=nyc":                                                           "CHRONOS_SITE is set, and no shard of CHRONOS_REDIS names its site; write the shards as a@london=redis://…",
		"CHRONOS_SLOTS=7":                                                            `CHRONOS_SLOTS="7": want a whole number from 8 to 1000000`,
		"CHRONOS_MIN_COPIES=0":                                                       `CHRONOS_MIN_COPIES="0": want a whole number from 1 to 16`,
		"CHRONOS_LOG_FORMAT=xml":                                                     `CHRONOS_LOG_FORMAT="xml": want one of text, json`,
		"CHRONOS_KAFKA_BROKER=a:1":                                                   `CHRONOS_KAFKA_BROKER: no such variable; did you mean CHRONOS_KAFKA_BROKERS?`,
		"CHRONOS_BRIDGE_ADMIN=:1":                                                    `CHRONOS_BRIDGE_ADMIN: no such variable; did you mean CHRONOS_BRIDGE_ADMIN_LISTEN?`,
		"CHRONOS_LISTENS=:1":                                                         `CHRONOS_LISTENS: no such variable; did you mean CHRONOS_LISTEN?`,
	}
	for variables, want := range faults {
		more := strings.Split(strings.ReplaceAll(variables, " CHRONOS", "\nCHRONOS"), "\n")
		cfg, err := LoadBridge(leastBridge(more...)) // a later entry of the same variable counts
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", variables, err, want)
		}
		if diff := cmp.Diff(Bridge{}, cfg); diff != "" {
			t.Errorf("%s: a configuration came with the error: %s", variables, diff)
		}
	}
}

func TestBridgeReportsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := LoadBridge([]string{
		"CHRONOS_KAFKA_OUTPUT=a/b", "CHRONOS_KAFKA_HOLD=1h", "CHRONOS_KAFKA_USER=u", "CHRONOS_KAFKA_KEY_FILE=k", "CHRONOS_KAFKA_PASWORD=hunter2",
		"CHRONOS_BRIDGE_ADMIN_LISTEN=:7255", "CHRONOS_SWEEP_RATE=0",
	})
	want := strings.Join([]string{
		"CHRONOS_KAFKA_BROKERS is not set: want host:port, several separated by commas",
		"CHRONOS_KAFKA_INPUT is not set: want a topic: 1 to 249 of A-Z a-z 0-9 . _ -, but not . or ..",
		`CHRONOS_KAFKA_OUTPUT="a/b": want a topic: 1 to 249 of A-Z a-z 0-9 . _ -, but not . or ..`,
		`CHRONOS_KAFKA_HOLD="1h": want a duration from 3s to 1m, such as 5s`,
		"CHRONOS_REDIS is not set: want shards as name=redis://host:6379/0, several separated by commas: a bridge starts no redis-server of its own",
		`CHRONOS_SWEEP_RATE="0": want a whole number from 1 to 1000000`,
		`CHRONOS_KAFKA_KEY_FILE="k": it is of use with TLS only; set CHRONOS_KAFKA_TLS=true, or unset it`,
		"CHRONOS_KAFKA_CERT_FILE is not set: CHRONOS_KAFKA_KEY_FILE needs it; set both or none",
		"CHRONOS_KAFKA_USER is set, but nobody logs in: set CHRONOS_KAFKA_SASL to plain, scram-sha-256 or scram-sha-512, or unset it",
		`CHRONOS_BRIDGE_ADMIN_LISTEN=":7255": other machines can reach it without a token; set CHRONOS_TOKENS_FILE, or CHRONOS_ADMIN_OPEN=true if all that reach it may read health, metrics, the topology and the status of the cluster`,
		"CHRONOS_KAFKA_PASWORD: no such variable; did you mean CHRONOS_KAFKA_PASSWORD?",
	}, "\n")
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
