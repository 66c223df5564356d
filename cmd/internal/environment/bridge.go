package environment

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Bridge is the configuration of a bridge to Kafka.
type Bridge struct {
	Brokers       []string      `env:"CHRONOS_KAFKA_BROKERS,required" want:"host:port, several separated by commas" about:"brokers of Kafka to begin with: host:port, several separated by commas"`
	Input         string        `env:"CHRONOS_KAFKA_INPUT,required" want:"topic" about:"topic that messages come from"`
	Output        string        `env:"CHRONOS_KAFKA_OUTPUT,required" want:"topic" about:"another topic, to which they are published when it is time"`
	DeadLetters   string        `env:"CHRONOS_KAFKA_DEAD_LETTERS" want:"topic" about:"a third topic, for malformed messages; unset has them logged and counted only"`
	Group         string        `env:"CHRONOS_KAFKA_GROUP,default=chronos" about:"consumer group of all bridges that share the work"`
	TLS           bool          `env:"CHRONOS_KAFKA_TLS,default=false" oneof:"true false" about:"true speaks TLS with the brokers"`
	CAFile        string        `env:"CHRONOS_KAFKA_CA_FILE" about:"PEM file of the authorities that the brokers' certificates must come from; unset trusts those that the system trusts"`
	CertFile      string        `env:"CHRONOS_KAFKA_CERT_FILE" about:"PEM file of the bridge's own certificate, if the brokers want one"`
	KeyFile       string        `env:"CHRONOS_KAFKA_KEY_FILE" about:"PEM file of the key to CHRONOS_KAFKA_CERT_FILE"`
	SASL          string        `env:"CHRONOS_KAFKA_SASL" oneof:"plain scram-sha-256 scram-sha-512" about:"how CHRONOS_KAFKA_USER logs in to the brokers; unset for no login"`
	User          string        `env:"CHRONOS_KAFKA_USER" about:"who logs in to the brokers"`
	Password      string        `env:"CHRONOS_KAFKA_PASSWORD" secret:"true" about:"password of CHRONOS_KAFKA_USER"`
	Advance       Advance       `env:"CHRONOS_KAFKA_ADVANCE,default=auto" want:"auto, or a duration from 0s to 10s, such as 80ms" about:"how long before its deadline a message is published: auto, the median of the way to the output as the bridge measures that, at most 50ms; or a duration from 0s to 10s, such as 80ms, where 0s is never early"`
	Hold          time.Duration `env:"CHRONOS_KAFKA_HOLD,default=5s" min:"3s" max:"1m" about:"how long another bridge waits before it takes over a message that is being published"`
	PollInterval  time.Duration `env:"CHRONOS_KAFKA_POLL_INTERVAL,default=100ms" min:"10ms" max:"175ms" about:"how often a bridge looks for due messages"`
	Replication   int           `env:"CHRONOS_KAFKA_REPLICATION,default=2" min:"1" max:"16" about:"copies of a message, each on a Redis of its own, as many as there are"`
	RelayID       bool          `env:"CHRONOS_KAFKA_RELAY_ID,default=false" oneof:"true false" about:"true relays the header chronosMessageId to the output"`
	Remember      time.Duration `env:"CHRONOS_KAFKA_REMEMBER,default=10m" min:"1s" max:"168h" about:"how long a fired message is remembered, so that a re-delivery of the same record is ignored"`
	DeadRetention time.Duration `env:"CHRONOS_DEAD_RETENTION,default=168h" min:"1s" max:"87600h" about:"how long messages are kept that the output refuses, or that can't be read any more"`
	AdminListen   string        `env:"CHRONOS_BRIDGE_ADMIN_LISTEN,default=127.0.0.1:7255" want:"address" about:"admin listener: health and metrics"`
	Redis         string        `env:"CHRONOS_REDIS,required" secret:"true" want:"shards as name=redis://host:6379/0, several separated by commas: a bridge starts no redis-server of its own" about:"where messages are kept until it is time: shards as name=redis://host:6379/0, several separated by commas"`
	Slots         int           `env:"CHRONOS_SLOTS,default=4096" min:"8" max:"1000000" about:"messages being published at once"`
	Copies
	Access
	ListenerTLS
	Log
}

// Advance is how long before its deadline a message is published: a duration, or
// AutoAdvance.
type Advance time.Duration

// AutoAdvance tells the bridge to measure the advance.
const AutoAdvance Advance = -1

// UnmarshalText reads auto or a duration.
func (a *Advance) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*a = AutoAdvance
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err == nil && (d < 0 || d > 10*time.Second) {
		err = errors.New("out of range")
	}
	*a = Advance(d)
	return err
}

// LoadBridge reads the bridge's configuration from environ, in the form of os.Environ. The
// error lists all faults, one a line.
func LoadBridge(environ []string) (Bridge, error) {
	var b Bridge
	if err := load(environ, &b); err != nil {
		return Bridge{}, err
	}
	return b, nil
}

func (b *Bridge) contradictions(wrong map[string]bool) (faults []error) {
	for i, broker := range b.Brokers {
		if !isBroker(broker) { // not shown: a password may precede the host
			faults = append(faults, fmt.Errorf("CHRONOS_KAFKA_BROKERS: broker %d is not host:port; write it as kafka-1:9092, IPv6 as [fd00::1]:9092, and nothing around it", i+1))
		}
	}
	faults = append(faults, b.topicsMixedUp()...)
	faults = append(faults, b.lacksTLS(wrong)...)
	faults = append(faults, b.lacksLogin(wrong)...)
	if b.Redis == "memory" {
		faults = append(faults, errors.New("CHRONOS_REDIS=memory: what a bridge has committed would end with it; name a Redis, such as redis://127.0.0.1:6379/0"))
	} else if b.Redis != "" {
		faults = append(faults, checkShards(b.Redis, b.Site)...)
	}
	faults = append(append(faults, b.misnamed()...), b.incomplete()...)
	return append(faults, b.unguarded("CHRONOS_BRIDGE_ADMIN_LISTEN", b.AdminListen)...)
}

// isBroker reports whether the address has the form of a broker's address. Names are not
// looked up.
func isBroker(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsAny(host, " /@") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// topicsMixedUp are the faults of topics that must differ: a bridge that reads its own
// output would never come to rest.
func (b *Bridge) topicsMixedUp() (faults []error) {
	if b.Output != "" && b.Output == b.Input {
		faults = append(faults, fmt.Errorf("CHRONOS_KAFKA_OUTPUT=%q: messages come from there; give another topic than CHRONOS_KAFKA_INPUT", b.Output))
	}
	if b.DeadLetters != "" && (b.DeadLetters == b.Input || b.DeadLetters == b.Output) {
		faults = append(faults, fmt.Errorf("CHRONOS_KAFKA_DEAD_LETTERS=%q: give another topic than CHRONOS_KAFKA_INPUT and CHRONOS_KAFKA_OUTPUT", b.DeadLetters))
	}
	return faults
}

// lacksTLS are the faults of the files for TLS. An operator who names files wants the bridge
// to use the files, so the bridge ignores no file.
func (b *Bridge) lacksTLS(wrong map[string]bool) (faults []error) {
	for _, file := range []struct{ name, path string }{
		{"CHRONOS_KAFKA_CA_FILE", b.CAFile}, {"CHRONOS_KAFKA_CERT_FILE", b.CertFile}, {"CHRONOS_KAFKA_KEY_FILE", b.KeyFile},
	} {
		if file.path != "" && !b.TLS && !wrong["CHRONOS_KAFKA_TLS"] {
			faults = append(faults, fmt.Errorf("%s=%q: it is of use with TLS only; set CHRONOS_KAFKA_TLS=true, or unset it", file.name, file.path))
		}
	}
	switch {
	case wrong["CHRONOS_KAFKA_CERT_FILE"] || wrong["CHRONOS_KAFKA_KEY_FILE"]:
	case b.CertFile != "" && b.KeyFile == "":
		faults = append(faults, errors.New("CHRONOS_KAFKA_KEY_FILE is not set: CHRONOS_KAFKA_CERT_FILE needs it; set both or none"))
	case b.CertFile == "" && b.KeyFile != "":
		faults = append(faults, errors.New("CHRONOS_KAFKA_CERT_FILE is not set: CHRONOS_KAFKA_KEY_FILE needs it; set both or none"))
	}
	return faults
}

// lacksLogin are the faults of a login with missing or useless settings.
func (b *Bridge) lacksLogin(wrong map[string]bool) (faults []error) {
	if wrong["CHRONOS_KAFKA_SASL"] {
		return nil
	}
	for _, word := range []struct{ name, value string }{{"CHRONOS_KAFKA_USER", b.User}, {"CHRONOS_KAFKA_PASSWORD", b.Password}} {
		switch {
		case b.SASL != "" && word.value == "" && !wrong[word.name]:
			faults = append(faults, fmt.Errorf("%s is not set: CHRONOS_KAFKA_SASL=%s needs it; set it, or unset CHRONOS_KAFKA_SASL", word.name, b.SASL))
		case b.SASL == "" && word.value != "":
			faults = append(faults, fmt.Errorf("%s is set, but nobody logs in: set CHRONOS_KAFKA_SASL to plain, scram-sha-256 or scram-sha-512, or unset it", word.name))
		}
	}
	return faults
}
