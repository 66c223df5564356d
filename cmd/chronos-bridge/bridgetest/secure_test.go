package bridgetest

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/cmd/chronos-bridge/bridgetest/broker"
	"chronos/scheduler/verify/testkit"
)

// User and password with all characters that SCRAM, Java's properties and Kafka's settings
// escape. A log would escape some characters, too, but would leave secret as is.
const (
	secret         = "wörd"
	securePassword = `pa,ss="` + secret + `\`
	secureUser     = "us=er,1"
)

// TestSecureBroker: bridges log in by every mechanism over TLS, and move messages. A bridge that
// is refused, or can't trust the broker, ends at once with advice for the operator.
func TestSecureBroker(t *testing.T) {
	testkit.Program(t, "redis-server")
	b, secure := broker.StartSecure(t, secureUser, securePassword)
	environ := func(more ...string) []string {
		return append([]string{
			"CHRONOS_KAFKA_BROKERS=" + secure.Addr, "CHRONOS_KAFKA_TLS=true", "CHRONOS_KAFKA_CA_FILE=" + secure.CAFile,
			"CHRONOS_KAFKA_USER=" + secureUser, "CHRONOS_KAFKA_PASSWORD=" + securePassword, "CHRONOS_LOG_LEVEL=debug",
		}, more...)
	}
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run(mechanism, func(t *testing.T) {
			r := newRig(t, &scenario{name: mechanism, stores: 1, copies: 1, bridges: 1, environ: environ("CHRONOS_KAFKA_SASL=" + mechanism)}, plan{}, b)
			r.passOn(20)
			last := r.bridges[0]
			r.stopBridge(last)
			wantSecret(t, last.Process)
		})
	}

	r := &rig{t: t, scenario: &scenario{copies: 1}, broker: b, stores: []*store{newStore(t, "a")}, input: "in", output: "out", deadLetters: "dead", group: "refused"}
	const (
		plain, scram256, scram512 = "CHRONOS_KAFKA_SASL=plain", "CHRONOS_KAFKA_SASL=scram-sha-256", "CHRONOS_KAFKA_SASL=scram-sha-512"
		wrong                     = "CHRONOS_KAFKA_PASSWORD=another " + securePassword
		notKnown                  = "check CHRONOS_KAFKA_USER and CHRONOS_KAFKA_PASSWORD"
		notTrusted                = "set CHRONOS_KAFKA_CA_FILE"
	)
	for name, c := range map[string]struct {
		environ []string
		want    string
	}{
		"plain, wrong password":         {[]string{plain, wrong}, notKnown},
		"scram-sha-256, wrong password": {[]string{scram256, wrong}, notKnown},
		"scram-sha-512, wrong password": {[]string{scram512, wrong}, notKnown},
		"scram-sha-512, wrong user":     {[]string{scram512, "CHRONOS_KAFKA_USER=nobody"}, notKnown},
		"unknown authority":             {[]string{plain, "CHRONOS_KAFKA_CA_FILE="}, notTrusted},
		"another name":                  {[]string{plain, "CHRONOS_KAFKA_BROKERS=" + strings.Replace(secure.Addr, "127.0.0.1", "localhost", 1)}, "call brokers as their certificates do"},
		"no login is wanted":            {[]string{plain, "CHRONOS_KAFKA_BROKERS=" + b.Addr(), "CHRONOS_KAFKA_TLS=false", "CHRONOS_KAFKA_CA_FILE="}, "unset CHRONOS_KAFKA_SASL"},
	} {
		t.Run(name, func(t *testing.T) {
			p := testkit.Start(t, append(r.environ(), environ(c.environ...)...), binary)
			fails(t, p, 10*time.Second, c.want)
			wantSecret(t, p)
		})
	}
}

// passOn publishes n messages, and waits until all have come unaltered.
func (r *rig) passOn(n int) {
	r.t.Helper()
	all := make([]*kgo.Record, n)
	for i := range all {
		all[i] = delayed(r.input, i, time.Now().Add(300*time.Millisecond))
	}
	if err := r.load.client.ProduceSync(r.t.Context(), all...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
	testkit.Await(r.t, 10*time.Second, "all messages have come", func() bool {
		messages, _ := r.out.seen()
		return messages == n
	})
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	for _, how := range r.out.altered {
		r.t.Errorf("a message has come altered: %s", how)
	}
}

// fails waits until the process has ended by itself. The last line of the log must name the reason.
func fails(t *testing.T, p *testkit.Process, within time.Duration, want string) {
	t.Helper()
	select {
	case <-p.Done:
		last := p.Log.Tail(1)
		t.Log(last)
		if p.Err == nil || !strings.Contains(last, want) {
			t.Errorf("ended with %v, want it to say %q", p.Err, want)
		}
	case <-time.After(within):
		t.Errorf("has not ended after %v", within)
	}
}

// wantSecret: the password is not in the log.
func wantSecret(t *testing.T, p *testkit.Process) {
	t.Helper()
	if strings.Contains(p.Log.String(), secret) {
		t.Error("the log has the password")
	}
}
