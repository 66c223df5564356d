package environment

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNodeDefaults(t *testing.T) {
	t.Parallel()
	want := Node{
		Listen: ":7253", AdminListen: "127.0.0.1:7254", Redis: "", DataDir: "./chronos-data",
		MaxBody: 1 << 20, Attempts: 5, CatchUp: 10, Hold: 3500 * time.Millisecond, PollInterval: 100 * time.Millisecond,
		Slots: 4096, Copies: Copies{MinCopies: 1, SweepRate: 5000, AwayLimit: 15 * time.Minute, ReplicaSkew: 2 * time.Second},
		SitePatience: 300 * time.Millisecond, IdempotencyLife: time.Hour, DeadRetention: 7 * 24 * time.Hour, UI: true, Log: Log{LogLevel: slog.LevelInfo, LogFormat: "text"},
	}
	environments := map[string][]string{
		"unset":                 {"HOME=/", "CHRONOSPHERE=x"},
		"empty":                 {"CHRONOS_LISTEN=", "CHRONOS_REDIS=", "CHRONOS_SLOTS=", "CHRONOS_HOLD=", "CHRONOS_LOG_LEVEL="},
		"cluster":               {"CHRONOS_PORT=tcp://10.0.0.1:7253", "CHRONOS_PORT_7253_TCP_ADDR=10.0.0.1", "CHRONOS_SERVICE_HOST=10.0.0.1"},
		"cluster with a bridge": {"CHRONOS_BRIDGE_PORT=tcp://10.0.0.1:7255", "CHRONOS_BRIDGE_PORT_7255_TCP_ADDR=10.0.0.1", "CHRONOS_BRIDGE_SERVICE_HOST=10.0.0.1"},
		// Only a bridge judges these values.
		"bridge's": {"CHRONOS_KAFKA_BROKERS=nowhere", "CHRONOS_KAFKA_INPUT=..", "CHRONOS_KAFKA_HOLD=1", "CHRONOS_KAFKA_PASSWORD=x", "CHRONOS_BRIDGE_ADMIN_LISTEN=:7255"},
	}
	for name, environ := range environments {
		got, err := LoadNode(environ)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestNodeValues(t *testing.T) {
	t.Parallel()
	got, err := LoadNode([]string{
		"CHRONOS_LISTEN=[::1]:0", "CHRONOS_ADMIN_LISTEN=localhost:65535", "CHRONOS_REDIS=a@lon=redis://:x=y@h:1/0,b@nyc=rediss://i", "CHRONOS_SITE=nyc", "CHRONOS_SITE_PATIENCE=0s",
		"CHRONOS_DATA_DIR=/var/lib/with space", "CHRONOS_MAX_BODY=1024", "CHRONOS_ATTEMPTS=100", "CHRONOS_HOLD=1m",
		"CHRONOS_IDEMPOTENCY_LIFE=168h", "CHRONOS_DEAD_RETENTION=1s", "CHRONOS_CALLBACK_ALLOW=10.0.0.0/8,*.example.com:443", "CHRONOS_CALLBACK_DENY=:22",
		"CHRONOS_WEBHOOK_SECRETS=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "CHRONOS_TOKENS_FILE=/etc/chronos/tokens", "CHRONOS_ADMIN_OPEN=true",
		"CHRONOS_ADMIN_HOSTS=node-1,Timers.example.com", "CHRONOS_UI=false",
		"CHRONOS_POLL_INTERVAL=10ms", "CHRONOS_SLOTS=8", "CHRONOS_REPLICA_SKEW=250ms", "CHRONOS_LOG_LEVEL=error", "CHRONOS_LOG_FORMAT=json",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Node{
		Listen: "[::1]:0", AdminListen: "localhost:65535", Redis: "a@lon=redis://:x=y@h:1/0,b@nyc=rediss://i",
		DataDir: "/var/lib/with space", MaxBody: 1024, Attempts: 100, CatchUp: 10, Hold: time.Minute,
		Copies:          Copies{Site: "nyc", MinCopies: 1, SweepRate: 5000, AwayLimit: 15 * time.Minute, ReplicaSkew: 250 * time.Millisecond},
		IdempotencyLife: 168 * time.Hour, DeadRetention: time.Second, CallbackAllow: "10.0.0.0/8,*.example.com:443", CallbackDeny: ":22",
		WebhookSecrets: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Access: Access{TokensFile: "/etc/chronos/tokens", AdminOpen: true, AdminHosts: []string{"node-1", "Timers.example.com"}},
		PollInterval: 10 * time.Millisecond, Slots: 8, Log: Log{LogLevel: slog.LevelError, LogFormat: "json"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNodeFaults(t *testing.T) {
	t.Parallel()
	faults := map[string]string{
		"CHRONOS_LISTEN=7253":                            `CHRONOS_LISTEN="7253": want host:port or :port, such as :7253`,
		"CHRONOS_LISTEN=:http":                           `CHRONOS_LISTEN=":http": want host:port or :port, such as :7253`,
		"CHRONOS_LISTEN=:65536":                          `CHRONOS_LISTEN=":65536": want host:port or :port, such as :7253`,
		"CHRONOS_ADMIN_LISTEN=http://h:1":                `CHRONOS_ADMIN_LISTEN="http://h:1": want host:port or :port, such as 127.0.0.1:7254`,
		"CHRONOS_REDIS=\t":                               `CHRONOS_REDIS=(not shown: it may hold a password): want a value that is not blank`,
		"CHRONOS_DATA_DIR=\t":                            `CHRONOS_DATA_DIR="\t": want a path, such as ./chronos-data`,
		"CHRONOS_MAX_BODY=1023":                          `CHRONOS_MAX_BODY="1023": want a whole number from 1024 to 67108864`,
		"CHRONOS_MAX_BODY=1MiB":                          `CHRONOS_MAX_BODY="1MiB": want a whole number from 1024 to 67108864`,
		"CHRONOS_MAX_BODY=67108865":                      `CHRONOS_MAX_BODY="67108865": want a whole number from 1024 to 67108864`,
		"CHRONOS_ATTEMPTS=0":                             `CHRONOS_ATTEMPTS="0": want a whole number from 1 to 100`,
		"CHRONOS_ATTEMPTS=101":                           `CHRONOS_ATTEMPTS="101": want a whole number from 1 to 100`,
		"CHRONOS_HOLD=2.9s":                              `CHRONOS_HOLD="2.9s": want a duration from 3s to 1m, such as 3.5s`,
		"CHRONOS_HOLD=5":                                 `CHRONOS_HOLD="5": want a duration from 3s to 1m, such as 3.5s`,
		"CHRONOS_HOLD=-4s":                               `CHRONOS_HOLD="-4s": want a duration from 3s to 1m, such as 3.5s`,
		"CHRONOS_POLL_INTERVAL=0s":                       `CHRONOS_POLL_INTERVAL="0s": want a duration from 10ms to 175ms, such as 100ms`,
		"CHRONOS_POLL_INTERVAL=1001ms":                   `CHRONOS_POLL_INTERVAL="1001ms": want a duration from 10ms to 175ms, such as 100ms`,
		"CHRONOS_REDIS=a=redis://h:99999/0":              `CHRONOS_REDIS: shard a: a port is a number from 1 to 65535`,
		"CHRONOS_REDIS=a@lon=redis://h,b@nyc=redis://i":  `the shards belong to the sites lon, nyc; say with CHRONOS_SITE in which of them this process runs`,
		"CHRONOS_REDIS=a@lon=redis://h CHRONOS_SITE=nyc": `CHRONOS_SITE is nyc, and CHRONOS_REDIS has no shard of this site; its sites are lon`,
		"CHRONOS_REDIS=a=redis://h CHRONOS_SITE=nyc":     `CHRONOS_SITE is set, and no shard of CHRONOS_REDIS names its site; write the shards as a@london=redis://…`,
		"CHRONOS_REDIS=memory CHRONOS_SITE=nyc":          `CHRONOS_SITE is set, and no shard of CHRONOS_REDIS names its site; write the shards as a@london=redis://…`,
		"CHRONOS_SITE=nyc":                               `CHRONOS_SITE is set, and no shard of CHRONOS_REDIS names its site; write the shards as a@london=redis://…`,
		"CHRONOS_REDIS=a@lon=redis://h,b=redis://i":      `CHRONOS_REDIS: shard b: either all shards have a site, as in a@london=redis://…, or none has`,
		"CHRONOS_REDIS=a@-=redis://h":                    `CHRONOS_REDIS: shard a: the name of a site is 1 to 64 of A-Z a-z 0-9 . _ - and begins with a letter or digit`,
		"CHRONOS_SITE_PATIENCE=901ms":                    `CHRONOS_SITE_PATIENCE="901ms": want a duration from 0s to 900ms, such as 300ms`,
		"CHRONOS_DEAD_RETENTION=0s":                      `CHRONOS_DEAD_RETENTION="0s": want a duration from 1s to 87600h, such as 168h`,
		"CHRONOS_DEAD_RETENTION=7d":                      `CHRONOS_DEAD_RETENTION="7d": want a duration from 1s to 87600h, such as 168h`,
		"CHRONOS_SLOTS=0":                                `CHRONOS_SLOTS="0": want a whole number from 8 to 1000000`,
		"CHRONOS_SLOTS=1000001":                          `CHRONOS_SLOTS="1000001": want a whole number from 8 to 1000000`,
		"CHRONOS_SLOTS=9223372036854775808":              `CHRONOS_SLOTS="9223372036854775808": want a whole number from 8 to 1000000`,
		"CHRONOS_REPLICA_SKEW=249ms":                     `CHRONOS_REPLICA_SKEW="249ms": want a duration from 250ms to 1m, such as 2s`,
		"CHRONOS_IDEMPOTENCY_LIFE=0s":                    `CHRONOS_IDEMPOTENCY_LIFE="0s": want a duration from 1s to 168h, such as 1h`,
		"CHRONOS_ADMIN_HOSTS=a,node-1:7254":              `CHRONOS_ADMIN_HOSTS: "node-1:7254" is not a host name; give names without scheme, port and *, such as node-1.example.com`,
		"CHRONOS_ADMIN_HOSTS=*.example.com":              `CHRONOS_ADMIN_HOSTS: "*.example.com" is not a host name; give names without scheme, port and *, such as node-1.example.com`,
		"CHRONOS_ADMIN_OPEN=yes":                         `CHRONOS_ADMIN_OPEN="yes": want one of true, false`,
		"CHRONOS_ADMIN_LISTEN=:7254": `CHRONOS_ADMIN_LISTEN=":7254": other machines can reach it without a token; ` +
			`set CHRONOS_TOKENS_FILE, or CHRONOS_ADMIN_OPEN=true if all that reach it may read health, metrics, the topology and the status of the cluster`,
		"CHRONOS_ADMIN_LISTEN=10.0.0.1:1": `CHRONOS_ADMIN_LISTEN="10.0.0.1:1": other machines can reach it without a token; ` +
			`set CHRONOS_TOKENS_FILE, or CHRONOS_ADMIN_OPEN=true if all that reach it may read health, metrics, the topology and the status of the cluster`,
		"CHRONOS_WEBHOOK_SECRETS=hunter2": "read CHRONOS_WEBHOOK_SECRETS: secret 1 doesn't begin with whsec_; give one secret, or two while one " +
			"replaces the other, separated by a comma or space, each whsec_ and the base64 of 24 to 64 random bytes",
		"CHRONOS_CALLBACK_DENY=10.0.0.0/33": "read callback rules: CHRONOS_CALLBACK_DENY entry 1 is no CIDR; write one as 10.0.0.0/8; " +
			"an entry is a CIDR, an address, a host name or *.suffix, each with or without :port, or :port alone; " +
			"entries are separated by commas, and IPv6 before a port is in brackets, as in [fd00::/8]:443",
		"CHRONOS_CALLBACK_CA_FILE=/none/ca.pem": `CHRONOS_CALLBACK_CA_FILE: open /none/ca.pem: no such file or directory`,
		"CHRONOS_LOG_LEVEL=loud":                `CHRONOS_LOG_LEVEL="loud": want one of debug, info, warn, error`,
		`CHRONOS_LOG_LEVEL="info"`:              `CHRONOS_LOG_LEVEL="\"info\"": want one of debug, info, warn, error`,
		"CHRONOS_LOG_FORMAT=xml":                `CHRONOS_LOG_FORMAT="xml": want one of text, json`,
		"CHRONOS_REDDIS=a":                      `CHRONOS_REDDIS: no such variable; did you mean CHRONOS_REDIS?`,
		"CHRONOS_POLL=1s":                       `CHRONOS_POLL: no such variable; did you mean CHRONOS_POLL_INTERVAL?`,
		"CHRONOS_LOGLEVEL=info":                 `CHRONOS_LOGLEVEL: no such variable; did you mean CHRONOS_LOG_LEVEL?`,
		"CHRONOS_PORTAL=":                       `CHRONOS_PORTAL: no such variable; did you mean CHRONOS_URL?`,
		"CHRONOS_=":                             `CHRONOS_: no such variable; did you mean CHRONOS_UI?`,
		"CHRONOS_KAFKA_INPUTS=in":               `CHRONOS_KAFKA_INPUTS: no such variable; did you mean CHRONOS_KAFKA_INPUT?`,
		"CHRONOS_BRIDGE_PORTS=1":                `CHRONOS_BRIDGE_PORTS: no such variable; did you mean CHRONOS_ATTEMPTS?`,
	}
	for variable, want := range faults {
		cfg, err := LoadNode(strings.Split(strings.ReplaceAll(variable, " CHRONOS", "\nCHRONOS"), "\n"))
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", variable, err, want)
		}
		if diff := cmp.Diff(Node{}, cfg); diff != "" {
			t.Errorf("%s: a configuration came with the error: %s", variable, diff)
		}
	}
}

func TestNodeReportsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := LoadNode([]string{
		"CHRONOS_SLOTS=none", "CHRONOS_HOLD=1h", "CHRONOS_REDIS=redis://:hunter2@h", "CHRONOS_LISTENS=:1", "CHRONOS_ATTEMPT=3", "CHRONOS_LISTEN=x",
	})
	want := strings.Join([]string{
		`CHRONOS_LISTEN="x": want host:port or :port, such as :7253`,
		`CHRONOS_HOLD="1h": want a duration from 3s to 1m, such as 3.5s`,
		`CHRONOS_SLOTS="none": want a whole number from 8 to 1000000`,
		`CHRONOS_ATTEMPT: no such variable; did you mean CHRONOS_ATTEMPTS?`,
		`CHRONOS_LISTENS: no such variable; did you mean CHRONOS_LISTEN?`,
	}, "\n")
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
