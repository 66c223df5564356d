// Package endpoint names Redis deployments and leads to them. The package reads the URLs of shards, and makes
// clients with the bounds that leases depend on (config.go, conn.go). The package also knows at which addresses the
// instances listen (members.go, book.go).
package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"chronos/scheduler/awake"
	"chronos/scheduler/timing"
)

// Config names one Redis deployment.
type Config struct {
	Name string // placement follows the name: a renamed shard is another shard
	URL  string // may hold a password: never log it
	Site string // "" without sites
	// Dial connects instead of the network, for shards in the process's own memory; nil for the network. Many
	// goroutines call Dial at once, once for each connection, with the network and address of the URL and with a
	// context that ends when connecting may take no longer. Only a single instance without TLS may have a Dial: a
	// sentinel or cluster URL leads to addresses unknown to Dial, and a rediss URL asks for TLS, which Dial would
	// not do.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const schemes = `(redis|rediss|unix|redis\+sentinel|rediss\+sentinel|redis\+cluster|rediss\+cluster)://`

var (
	shardName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	// The beginning of a shard in a list; commas also separate the hosts of one URL.
	shardStart = regexp.MustCompile(`(?:^|,)\s*([^=,:/?@]*)(?:@([^=,:/?@]*))?=` + schemes)
	// A URL without a name in a list.
	unnamed = regexp.MustCompile(`,\s*` + schemes)
)

// ValidName reports whether a shard may have the name.
func ValidName(name string) bool { return shardName.MatchString(name) }

// Parse reads a list of shards:
//
//	a=redis://host:6379/0,b=rediss://host,c=redis+sentinel://host:26379/0?master_name=m,d=redis+cluster://host:6379?addr=host2:6379,e=unix:///path
//
// A shard of a site is written a@site=redis://host:6379/0; either all shards have sites, or none has. A single URL without a name is a shard named main. All faults are reported at once, without the URLs, which may
// hold passwords.
func Parse(list string) ([]Config, error) {
	starts := shardStart.FindAllStringSubmatchIndex(list, -1)
	if len(starts) == 0 {
		if unnamed.MatchString(list) {
			return nil, errNames
		}
		if _, err := NewConnector(list); err != nil {
			return nil, fmt.Errorf("want name=redis://host:6379/0, several separated by commas: %w", err)
		}
		return []Config{{Name: "main", URL: list}}, nil
	}
	var shards []Config
	var faults []error
	if starts[0][0] != 0 {
		faults = append(faults, errors.New("the list must begin with name=redis://…, and the first has none"))
	}
	seen := map[string]bool{}
	for i, at := range starts {
		end := len(list)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		name := strings.TrimSpace(list[at[2]:at[3]])
		shard := Config{Name: name, URL: strings.TrimSpace(list[at[6]:end])}
		if at[4] >= 0 {
			shard.Site = strings.TrimSpace(list[at[4]:at[5]])
		}
		switch _, err := NewConnector(shard.URL); {
		case !ValidName(name):
			faults = append(faults, fmt.Errorf("shard %d: a name is 1 to 64 of A-Z a-z 0-9 . _ - and begins with a letter or digit", i+1))
		case at[4] >= 0 && !ValidName(shard.Site):
			faults = append(faults, fmt.Errorf("shard %s: the name of a site is 1 to 64 of A-Z a-z 0-9 . _ - and begins with a letter or digit", name))
		case i > 0 && (shard.Site == "") != (shards[0].Site == ""):
			faults = append(faults, fmt.Errorf("shard %s: either all shards have a site, as in a@london=redis://…, or none has", name))
		case unnamed.MatchString(shard.URL):
			faults = append(faults, fmt.Errorf("shard %s: the next URL has no name; write name=redis://… for each", name))
		case seen[name]:
			faults = append(faults, fmt.Errorf("shard %d: the name %s is taken; each shard needs its own", i+1, name))
		case err != nil:
			faults = append(faults, fmt.Errorf("shard %s: %w", name, err))
		}
		seen[name] = true
		shards = append(shards, shard)
	}
	return shards, errors.Join(faults...)
}

// Connector makes a client of one deployment with a pool of the given size. The client has meet look at each new
// connection, and measures time by the clock.
type Connector func(poolSize int, meet Meeting, clock *awake.Clock) redis.UniversalClient

// Meeting looks at a new connection before its first call.
type Meeting func(ctx context.Context, conn *redis.Conn) error

var (
	errURL = errors.New("not a Redis URL; want redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://, " +
		"with special characters in user and password percent-encoded")
	// A bare / ? or # in a password ends the host early. The rest would be taken for a database or an option, and
	// quoted in errors.
	errEscape = errors.New("percent-encode / ? # and @ where they stand in a password")
	errPort   = errors.New("a port is a number from 1 to 65535")
	errDial   = errors.New("a shard with a Dial of its own is a single instance without TLS; want redis:// or unix://")
	errNames  = errors.New("the names are missing: each of several shards needs one, as in a=redis://host1:6379/0,b=redis://host2:6379/0")
	errHosts  = errors.New("a URL has one host; name each shard, and give a shard's further hosts as ?addr=host:port")
)

// Connector reads the shard's URL, and returns a Connector whose clients connect by Dial, if any. Errors never hold
// the URL.
func (c Config) Connector() (Connector, error) {
	connect, err := NewConnector(c.URL)
	if err != nil || c.Dial == nil {
		return connect, err
	}
	u, err := bounded(c.URL)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "redis" && u.Scheme != "unix":
		return nil, errDial
	}
	return singleConnector(u.String(), c.dialInTime)
}

// dialInTime is Dial within the time that connecting may take.
func (c Config) dialInTime(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timing.DialTimeout)
	defer cancel()
	return c.Dial(ctx, network, address)
}

// bounds bounds every conversation with a shard. The client retries nothing: a claim or a merge that the client
// sends again by itself would break leases.
func bounds(query url.Values) {
	for name, value := range map[string]string{
		"max_retries": "-1", "protocol": "2", "dial_timeout": timing.DialTimeout.String(), "pool_timeout": timing.PoolTimeout.String(),
		"read_timeout": timing.IOTimeout.String(), "write_timeout": timing.IOTimeout.String(), "pipeline_pool_size": "-1",
	} {
		query.Set(name, value)
	}
}

// NewConnector reads a shard's URL. Errors never hold the URL.
func NewConnector(raw string) (Connector, error) {
	u, err := bounded(raw)
	if err != nil {
		return nil, err
	}
	base, kind, _ := strings.Cut(u.Scheme, "+")
	u.Scheme = base
	switch kind {
	case "":
		return singleConnector(u.String(), nil)
	case "sentinel":
		return sentinelConnector(u.String())
	case "cluster":
		return clusterConnector(u.String())
	}
	return nil, errURL
}

// bounded is a shard's URL with the bounds in the URL's query, or an error for any other URL.
func bounded(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Scheme == "unix" && u.Host != "":
		return nil, errURL
	case u.Scheme != "unix" && strings.Contains(u.Path+u.RawQuery, "@"), u.Fragment != "":
		return nil, errEscape
	case strings.Contains(u.Host, ","):
		return nil, errHosts
	case !portOK(u.Port()):
		return nil, errPort
	}
	query := u.Query()
	bounds(query)
	u.RawQuery = query.Encode()
	return u, nil
}

func portOK(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// singleConnector makes clients that connect by dial, nil for the network.
func singleConnector(raw string, dial func(ctx context.Context, network, address string) (net.Conn, error)) (Connector, error) {
	options, err := redis.ParseURL(raw)
	if err != nil {
		return nil, redacted(err)
	}
	options.ContextTimeoutEnabled, options.DisableIdentity, options.DialerRetries = true, true, 1
	options.MaintNotificationsConfig = noMaintenanceNotifications()
	options.Dialer = dial
	all := &lines{}
	return func(poolSize int, meet Meeting, clock *awake.Clock) redis.UniversalClient {
		o := *options
		o.PoolSize, o.OnConnect, o.Dialer = poolSize, meet, patientDial(clock, all, o.Dialer, o.TLSConfig)
		return redis.NewClient(&o)
	}, nil
}

func sentinelConnector(raw string) (Connector, error) {
	options, err := redis.ParseFailoverURL(raw)
	if err != nil {
		return nil, redacted(err)
	}
	if options.MasterName == "" {
		return nil, errors.New("a sentinel URL needs ?master_name=…")
	}
	options.ContextTimeoutEnabled, options.DisableIdentity, options.DialerRetries = true, true, 1
	all := &lines{}
	return func(poolSize int, meet Meeting, clock *awake.Clock) redis.UniversalClient {
		o := *options
		o.PoolSize, o.OnConnect, o.Dialer = poolSize, meet, patientDial(clock, all, o.Dialer, o.TLSConfig)
		return redis.NewFailoverClient(&o)
	}, nil
}

func clusterConnector(raw string) (Connector, error) {
	options, err := redis.ParseClusterURL(raw)
	if err != nil {
		return nil, redacted(err)
	}
	options.ContextTimeoutEnabled, options.DisableIdentity, options.DialerRetries = true, true, 1
	// MaxRedirects counts redirections, but also repetitions of unanswered calls. With no redirects a moved slot
	// costs one error, and the next call knows the new place.
	options.MaxRedirects = -1
	options.MaintNotificationsConfig = noMaintenanceNotifications()
	all := &lines{}
	return func(poolSize int, meet Meeting, clock *awake.Clock) redis.UniversalClient {
		o := *options
		// A client appends the addresses that it learns, so each needs a slice of its own.
		o.Addrs = slices.Clone(o.Addrs)
		o.PoolSize, o.OnConnect, o.Dialer = poolSize, meet, patientDial(clock, all, o.Dialer, o.TLSConfig)
		return redis.NewClusterClient(&o)
	}, nil
}

func noMaintenanceNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// redacted is err without the URL that the parsers quote.
func redacted(err error) error {
	if _, bad := errors.AsType[*url.Error](err); bad {
		return errors.New("malformed URL")
	}
	if strings.Contains(err.Error(), "://") {
		return errURL
	}
	return err
}

// SamePlace reports whether two URLs lead to the same database.
func SamePlace(a, b string) bool {
	at := func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			return raw
		}
		if u.Scheme == "unix" {
			return u.Path + "?" + cmp.Or(u.Query().Get("db"), "0")
		}
		return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379")) + "/" + cmp.Or(strings.TrimPrefix(u.Path, "/"), u.Query().Get("db"), "0")
	}
	return at(a) == at(b)
}

// WithoutSecrets is a URL for display.
func WithoutSecrets(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	u.User = nil
	query := u.Query()
	for _, name := range []string{"password", "username", "sentinel_password", "sentinel_username"} {
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	return u.String()
}
