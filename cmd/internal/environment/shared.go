package environment

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"time"

	"chronos/cmd/internal/certificate"
	"chronos/redisstore/endpoint"
)

// Copies say how the copies of timers are kept.
type Copies struct {
	Site        string        `env:"CHRONOS_SITE" about:"the site of this process, if the shards of CHRONOS_REDIS name their sites, as in a@london=redis://host:6379/0"`
	ReplicaSkew time.Duration `env:"CHRONOS_REPLICA_SKEW,default=2s" min:"250ms" max:"1m" about:"longest delay between two copies of a timer"`
	MinCopies   int           `env:"CHRONOS_MIN_COPIES,default=1" min:"1" max:"16" about:"copies of a timer, at most those it asks for, that must be stored before a write is acknowledged"`
	SweepRate   int           `env:"CHRONOS_SWEEP_RATE,default=5000" min:"1" max:"1000000" about:"copies a second that this node looks at to bring them where they belong, after Redis instances came, went or were away"`
	AwayLimit   time.Duration `env:"CHRONOS_AWAY_LIMIT,default=15m" min:"10s" max:"168h" about:"how long a Redis may be away before the other Redis instances take its place; once it is back and swept, it takes timers again"`
}

// checkShards are the faults of a list of shards, and of the process's site.
func checkShards(list, site string) (faults []error) {
	shards, err := endpoint.Parse(list)
	if err != nil {
		return []error{fmt.Errorf("CHRONOS_REDIS: %w", err)}
	}
	if err := endpoint.CheckSite(shards, site); err != nil {
		return []error{err}
	}
	return nil
}

// Access is the configuration of access to the listeners.
type Access struct {
	TokensFile string   `env:"CHRONOS_TOKENS_FILE" about:"file of the tokens that requests need; chronos token makes its lines; unset leaves the public listener open, and makes a token for the admin listener at each start"`
	AdminHosts []string `env:"CHRONOS_ADMIN_HOSTS" want:"host names without ports, several separated by commas" about:"host names without ports, separated by commas, under which the admin listener answers beside addresses and localhost; under any other it answers 421"`
	AdminOpen  bool     `env:"CHRONOS_ADMIN_OPEN,default=false" oneof:"true false" about:"true allows an admin listener that other machines can reach though CHRONOS_TOKENS_FILE is unset: they may read health, metrics, the topology and the status of the cluster without a token, and change nothing"`
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$`)

// misnamed are the faults of CHRONOS_ADMIN_HOSTS.
func (a Access) misnamed() (faults []error) {
	for _, host := range a.AdminHosts {
		if !hostName.MatchString(host) {
			faults = append(faults, fmt.Errorf("CHRONOS_ADMIN_HOSTS: %q is not a host name; give names without scheme, port and *, such as node-1.example.com", host))
		}
	}
	return faults
}

// unguarded are the faults of an admin listener at the address. The variable gives the
// address.
func (a Access) unguarded(variable, address string) []error {
	if a.TokensFile != "" || a.AdminOpen || address == "" || isLoopback(address) {
		return nil
	}
	return []error{fmt.Errorf("%s=%q: other machines can reach it without a token; set CHRONOS_TOKENS_FILE, or CHRONOS_ADMIN_OPEN=true if all that reach it may read health, metrics, the topology and the status of the cluster", variable, address)}
}

// isLoopback reports whether only this machine reaches a listener at the address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// ListenerTLS are the files of the listeners' TLS.
type ListenerTLS struct {
	TLSCertFile     string `env:"CHRONOS_TLS_CERT_FILE" about:"PEM file of the listeners' certificate and its chain; read again within 5 s of a change; unset for listeners without TLS"`
	TLSKeyFile      string `env:"CHRONOS_TLS_KEY_FILE" about:"PEM file of the key to CHRONOS_TLS_CERT_FILE"`
	TLSClientCAFile string `env:"CHRONOS_TLS_CLIENT_CA_FILE" about:"PEM file of authorities: clients of the listeners need a certificate of one of the authorities; unset asks clients for none"`
}

// Files are the files, as package certificate reads the files.
func (t ListenerTLS) Files() certificate.Files {
	return certificate.Files{Cert: t.TLSCertFile, Key: t.TLSKeyFile, ClientCA: t.TLSClientCAFile}
}

// incomplete are the faults of TLS files that don't go together.
func (t ListenerTLS) incomplete() (faults []error) {
	if (t.TLSCertFile == "") != (t.TLSKeyFile == "") {
		faults = append(faults, errors.New("CHRONOS_TLS_CERT_FILE and CHRONOS_TLS_KEY_FILE go together; set both, or none for listeners without TLS"))
	}
	if t.TLSClientCAFile != "" && t.TLSCertFile == "" {
		faults = append(faults, errors.New("CHRONOS_TLS_CLIENT_CA_FILE needs CHRONOS_TLS_CERT_FILE and CHRONOS_TLS_KEY_FILE"))
	}
	return faults
}

// Log says which lines are logged, and in which format.
type Log struct {
	LogLevel  slog.Level `env:"CHRONOS_LOG_LEVEL,default=info" oneof:"debug info warn error" about:"least severe level that is logged"`
	LogFormat string     `env:"CHRONOS_LOG_FORMAT,default=text" oneof:"text json" about:"format of the log on standard error"`
}
