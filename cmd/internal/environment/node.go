package environment

import (
	"time"

	"chronos/scheduler/webhook"
)

// Node is the configuration of a node.
type Node struct {
	Listen       string        `env:"CHRONOS_LISTEN,default=:7253" want:"address" about:"public listener: the timers"`
	AdminListen  string        `env:"CHRONOS_ADMIN_LISTEN,default=127.0.0.1:7254" want:"address" about:"admin listener: health and metrics"`
	Redis        string        `env:"CHRONOS_REDIS" secret:"true" about:"where timers are kept: shards as name=redis://host:6379/0, several separated by commas; memory keeps nothing; unset starts a redis-server in CHRONOS_DATA_DIR"`
	DataDir      string        `env:"CHRONOS_DATA_DIR,default=./chronos-data" want:"path" about:"data directory of the redis-server that is started when CHRONOS_REDIS is unset; no other user may have access to it"`
	MaxBody      int           `env:"CHRONOS_MAX_BODY,default=1048576" min:"1024" max:"67108864" about:"longest request body in bytes"`
	Strict       bool          `env:"CHRONOS_STRICT,default=false" oneof:"true false" about:"true refuses unknown members of requests unless a request prefers handling=lenient"`
	Attempts     int           `env:"CHRONOS_ATTEMPTS,default=5" min:"1" max:"100" about:"callback attempts per pop"`
	CatchUp      int           `env:"CHRONOS_CATCH_UP,default=10" min:"1" max:"1000" about:"overdue pops of a recurring timer that are called one after another; of more the latest alone is called"`
	Hold         time.Duration `env:"CHRONOS_HOLD,default=3.5s" min:"3s" max:"1m" about:"longest a node keeps a timer it is firing before others take it over"`
	PollInterval time.Duration `env:"CHRONOS_POLL_INTERVAL,default=100ms" min:"10ms" max:"175ms" about:"how often a node looks for due timers"`
	Slots        int           `env:"CHRONOS_SLOTS,default=4096" min:"8" max:"1000000" about:"callbacks under way at once"`
	Copies
	SitePatience     time.Duration `env:"CHRONOS_SITE_PATIENCE,default=300ms" min:"0s" max:"900ms" about:"how long a write waits for the other sites; a site that has not answered by then is told later"`
	IdempotencyLife  time.Duration `env:"CHRONOS_IDEMPOTENCY_LIFE,default=1h" min:"1s" max:"168h" about:"how long a request with an Idempotency-Key is answered after its timer is over"`
	DeadRetention    time.Duration `env:"CHRONOS_DEAD_RETENTION,default=168h" min:"1s" max:"87600h" about:"how long the dead letters are kept: single-pop timers that were given up after their last attempt"`
	Deliveries       int           `env:"CHRONOS_DELIVERIES,default=0" min:"0" max:"100000" about:"attempts at callbacks, about, that the log of deliveries keeps for each of the 16 partitions of a Redis, such as 1000; 0 for no log"`
	CallbackAllow    string        `env:"CHRONOS_CALLBACK_ALLOW" about:"the only places that are called back: CIDRs, addresses, host names or *.suffix, each with or without :port, or :port alone, separated by commas; unset for all but link-local and metadata addresses, the admin listener and Redis"`
	CallbackDeny     string        `env:"CHRONOS_CALLBACK_DENY" about:"places that are never called back, written likewise, where 127.0.0.0/8 and localhost mean all loopback; stronger than CHRONOS_CALLBACK_ALLOW"`
	CallbackCAFile   string        `env:"CHRONOS_CALLBACK_CA_FILE" about:"PEM file of authorities that receivers' certificates may come from, beside those that the system trusts"`
	DestinationsFile string        `env:"CHRONOS_DESTINATIONS_FILE" about:"file of limits for callbacks, a line for each destination: https://api.example.com rate=50 burst=100 concurrency=20; read again within 5 s of a change; unset for no limits"`
	WebhookSecrets   string        `env:"CHRONOS_WEBHOOK_SECRETS" secret:"true" about:"one or two secrets, whsec_ and base64, separated by a comma: callbacks are signed with each, as standardwebhooks.com says"`
	UI               bool          `env:"CHRONOS_UI,default=true" oneof:"true false" about:"the dashboard under /ui/ of the admin listener; false turns the dashboard off"`
	Access
	ListenerTLS
	Log
}

// LoadNode reads the node's configuration from environ, in the form of os.Environ. The error
// lists all faults, one a line.
func LoadNode(environ []string) (Node, error) {
	n, err := CheckNode(environ)
	if err != nil {
		return Node{}, err
	}
	return n, nil
}

// CheckNode is LoadNode, with all that is right where something is wrong.
func CheckNode(environ []string) (n Node, err error) {
	err = load(environ, &n)
	return n, err
}

func (n *Node) contradictions(map[string]bool) (faults []error) {
	if n.Redis != "" && n.Redis != "memory" {
		faults = append(faults, checkShards(n.Redis, n.Site)...)
	} else if n.Site != "" {
		faults = append(faults, checkShards("main=redis://localhost", n.Site)...)
	}
	if _, err := webhook.ParseGuard(n.CallbackAllow, n.CallbackDeny); err != nil {
		faults = append(faults, err)
	}
	if _, err := webhook.LoadAuthorities(n.CallbackCAFile); err != nil {
		faults = append(faults, err)
	}
	if _, err := webhook.ParseSecrets(n.WebhookSecrets); err != nil {
		faults = append(faults, err)
	}
	faults = append(append(faults, n.misnamed()...), n.incomplete()...)
	return append(faults, n.unguarded("CHRONOS_ADMIN_LISTEN", n.AdminListen)...)
}
