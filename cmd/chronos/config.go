package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"

	"chronos/redisstore"
	"chronos/scheduler/webhook"
)

// config is what the environment says about a node. A variable that is unset
// or empty has its default. The tags are the only list of variables there is:
// loadConfig reads by them, its errors and configTable quote them.
//
//	env     name and default, as go-envconfig reads them
//	about   its meaning in one line
//	min max bounds of a number or duration, both allowed
//	oneof   the values that are allowed
//	want    what is allowed, where the type does not say it
//	secret  the value may hold a password and is never shown
type config struct {
	Listen          string        `env:"CHRONOS_LISTEN,default=:7253" want:"address" about:"public listener: the timers"`
	AdminListen     string        `env:"CHRONOS_ADMIN_LISTEN,default=127.0.0.1:7254" want:"address" about:"admin listener: health and metrics"`
	Redis           string        `env:"CHRONOS_REDIS" secret:"true" about:"where timers are kept: shards as name=redis://host:6379/0, several separated by commas; memory keeps nothing; unset starts a redis-server in CHRONOS_DATA_DIR"`
	DataDir         string        `env:"CHRONOS_DATA_DIR,default=./chronos-data" want:"path" about:"data directory of the redis-server that is started when CHRONOS_REDIS is unset"`
	MaxBody         int           `env:"CHRONOS_MAX_BODY,default=1048576" min:"1024" max:"67108864" about:"longest request body in bytes"`
	Attempts        int           `env:"CHRONOS_ATTEMPTS,default=5" min:"1" max:"100" about:"callback attempts per pop"`
	Hold            time.Duration `env:"CHRONOS_HOLD,default=3.5s" min:"3s" max:"1m" about:"longest a node keeps a timer it is firing before others take it over"`
	PollInterval    time.Duration `env:"CHRONOS_POLL_INTERVAL,default=100ms" min:"10ms" max:"200ms" about:"how often a node looks for due timers"`
	Slots           int           `env:"CHRONOS_SLOTS,default=4096" min:"8" max:"1000000" about:"callbacks under way at once"`
	ReplicaSkew     time.Duration `env:"CHRONOS_REPLICA_SKEW,default=2s" min:"250ms" max:"1m" about:"longest delay between two copies of a timer"`
	MinCopies       int           `env:"CHRONOS_MIN_COPIES,default=1" min:"1" max:"16" about:"copies of a timer, at most those it asks for, that must be stored before a write is acknowledged"`
	SweepRate       int           `env:"CHRONOS_SWEEP_RATE,default=5000" min:"1" max:"1000000" about:"copies a second that this node looks at to bring them where they belong, after Redis instances came, went or were away"`
	AwayLimit       time.Duration `env:"CHRONOS_AWAY_LIMIT,default=15m" min:"10s" max:"168h" about:"how long a Redis may be away before nobody waits for it any more; then it fires nothing until it is back and swept"`
	IdempotencyLife time.Duration `env:"CHRONOS_IDEMPOTENCY_LIFE,default=1h" min:"1s" max:"168h" about:"how long a request with an Idempotency-Key is answered after its timer is over"`
	DeadRetention   time.Duration `env:"CHRONOS_DEAD_RETENTION,default=168h" min:"1s" max:"87600h" about:"how long the dead letters are kept: single-pop timers that were given up after their last attempt"`
	CallbackAllow   string        `env:"CHRONOS_CALLBACK_ALLOW" about:"the only places that are called back: CIDRs, addresses, host names or *.suffix, each with or without :port, or :port alone, separated by commas; unset for all but link-local and metadata addresses"`
	CallbackDeny    string        `env:"CHRONOS_CALLBACK_DENY" about:"places that are never called back, written likewise; stronger than CHRONOS_CALLBACK_ALLOW"`
	WebhookSecrets  string        `env:"CHRONOS_WEBHOOK_SECRETS" secret:"true" about:"one or two secrets, whsec_ and base64, separated by a comma: callbacks are signed with each, as standardwebhooks.com says"`
	TokensFile      string        `env:"CHRONOS_TOKENS_FILE" about:"file of the tokens that requests need; chronos token makes its lines; unset asks for none"`
	AdminOpen       bool          `env:"CHRONOS_ADMIN_OPEN,default=false" oneof:"true false" about:"true allows an admin listener without tokens that other machines can reach"`
	LogLevel        slog.Level    `env:"CHRONOS_LOG_LEVEL,default=info" oneof:"debug info warn error" about:"least severe level that is logged"`
	LogFormat       string        `env:"CHRONOS_LOG_FORMAT,default=text" oneof:"text json" about:"format of the log on standard error"`
}

// settingsOfAll are the settings of every binary of chronos: one environment
// may serve them all. A new binary adds its own here.
func settingsOfAll() []setting {
	return settingsOf(reflect.TypeFor[config]())
}

// loadConfig reads the node's configuration from environ, which looks like
// os.Environ. Its error lists everything that is wrong, a line each.
func loadConfig(environ []string) (config, error) {
	env := chronosVariables(environ)
	var cfg config
	var faults []error
	fields := reflect.ValueOf(&cfg).Elem()
	for i, s := range settingsOf(fields.Type()) {
		faults = append(faults, s.read(env, fields.Field(i)))
	}
	faults = append(faults, cfg.contradictions()...)
	faults = append(faults, unknownVariables(env, settingsOfAll())...)
	if err := errors.Join(faults...); err != nil {
		return config{}, err
	}
	return cfg, nil
}

// contradictions are what is wrong with values that are fine by themselves, or
// that have a syntax of their own.
func (c *config) contradictions() (faults []error) {
	if c.Redis != "" && c.Redis != "memory" {
		if _, err := redisstore.ParseShards(c.Redis); err != nil {
			faults = append(faults, fmt.Errorf("CHRONOS_REDIS: %w", err))
		}
	}
	if _, err := webhook.ParseGuard(c.CallbackAllow, c.CallbackDeny); err != nil {
		faults = append(faults, err)
	}
	if _, err := webhook.ParseSecrets(c.WebhookSecrets); err != nil {
		faults = append(faults, err)
	}
	if c.TokensFile == "" && !c.AdminOpen && c.AdminListen != "" && !isLoopback(c.AdminListen) {
		faults = append(faults, fmt.Errorf("CHRONOS_ADMIN_LISTEN=%q: other machines can reach it without a token; set CHRONOS_TOKENS_FILE, or CHRONOS_ADMIN_OPEN=true if all that reach it may", c.AdminListen))
	}
	return faults
}

// isLoopback reports whether only this machine reaches a listener at the address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// chronosVariables picks from environ what begins with CHRONOS_.
func chronosVariables(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "CHRONOS_") {
			env[name] = value
		}
	}
	return env
}

// setting is one variable, as the tags of its field describe it.
type setting struct {
	field  reflect.StructField
	name   string
	preset string // the default, "" for none
}

func settingsOf(t reflect.Type) []setting {
	settings := make([]setting, t.NumField())
	for i := range settings {
		field := t.Field(i)
		name, preset, _ := strings.Cut(field.Tag.Get("env"), ",default=")
		settings[i] = setting{field: field, name: name, preset: preset}
	}
	return settings
}

// read sets the field to from what env says about the setting. go-envconfig
// stops at the first fault, so that it is given one field at a time.
func (s setting) read(env map[string]string, to reflect.Value) error {
	value := env[s.name]
	if value == "" {
		value = s.preset
	}
	alone := reflect.New(reflect.StructOf([]reflect.StructField{s.field}))
	err := envconfig.ProcessWith(context.Background(), &envconfig.Config{
		Target:   alone.Interface(),
		Lookuper: envconfig.MapLookuper(map[string]string{s.name: value}),
	})
	if err != nil || !s.allows(value, alone.Elem().Field(0)) {
		return s.fault(value)
	}
	to.Set(alone.Elem().Field(0))
	return nil
}

// allows reports whether a value of the right type is one of those wanted.
func (s setting) allows(text string, value reflect.Value) bool {
	tag := s.field.Tag
	switch {
	case tag.Get("oneof") != "":
		return slices.Contains(strings.Fields(tag.Get("oneof")), text)
	case tag.Get("min") != "":
		return s.bound("min") <= value.Int() && value.Int() <= s.bound("max")
	case tag.Get("want") == "address":
		return isAddress(text)
	}
	return text == "" || strings.TrimSpace(text) != ""
}

// bound reads the tag min or max in the unit of the field.
func (s setting) bound(tag string) int64 {
	text := s.field.Tag.Get(tag)
	if s.isDuration() {
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(fmt.Sprintf("tag %s of %s: %v", tag, s.name, err))
		}
		return int64(d)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("tag %s of %s: %v", tag, s.name, err))
	}
	return n
}

func (s setting) isDuration() bool { return s.field.Type == reflect.TypeFor[time.Duration]() }

// isAddress reports whether a listener can be asked for at the address. Names
// are not looked up.
func isAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.ContainsAny(host, " /@") {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func (s setting) fault(value string) error {
	shown := strconv.Quote(value)
	if s.field.Tag.Get("secret") != "" {
		shown = "(not shown: it may hold a password)"
	}
	return fmt.Errorf("%s=%s: want %s", s.name, shown, s.wanted())
}

// wanted says which values the setting allows.
func (s setting) wanted() string {
	tag := s.field.Tag
	switch {
	case tag.Get("oneof") != "":
		return "one of " + strings.Join(strings.Fields(tag.Get("oneof")), ", ")
	case tag.Get("min") != "" && s.isDuration():
		return fmt.Sprintf("a duration from %s to %s, such as %s", tag.Get("min"), tag.Get("max"), s.preset)
	case tag.Get("min") != "":
		return fmt.Sprintf("a whole number from %s to %s", tag.Get("min"), tag.Get("max"))
	case tag.Get("want") == "address":
		return "host:port or :port, such as " + s.preset
	case tag.Get("want") != "":
		return fmt.Sprintf("a %s, such as %s", tag.Get("want"), s.preset)
	}
	return "a value that is not blank"
}

// unknownVariables gives an error for each variable in env that none of the
// settings reads, most likely a typing error.
func unknownVariables(env map[string]string, known []setting) []error {
	var names []string
	for name := range env {
		isName := func(s setting) bool { return s.name == name }
		if !slices.ContainsFunc(known, isName) && !isKubernetes(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	faults := make([]error, len(names))
	for i, name := range names {
		nearest := slices.MinFunc(known, func(a, b setting) int {
			return cmp.Compare(unlikeness(name, a.name), unlikeness(name, b.name))
		})
		faults[i] = fmt.Errorf("%s: no such variable; did you mean %s?", name, nearest.name)
	}
	return faults
}

// isKubernetes reports whether Kubernetes sets such a variable in every pod
// beside a Service named chronos.
func isKubernetes(name string) bool {
	return name == "CHRONOS_PORT" || strings.HasPrefix(name, "CHRONOS_PORT_") || strings.HasPrefix(name, "CHRONOS_SERVICE_")
}

// unlikeness is how unlikely it is that who wrote name meant known. A missing
// last word is a slip like a wrong letter.
func unlikeness(name, known string) int {
	if strings.HasPrefix(known, name+"_") {
		return 1
	}
	return editDistance(name, known)
}

// editDistance is the least number of bytes to insert, remove or replace that
// makes a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// configTable is the Markdown table of all variables.
func configTable() string {
	rows := [][3]string{{"variable", "default", "meaning"}}
	for _, s := range settingsOf(reflect.TypeFor[config]()) {
		preset, meaning := "unset", s.field.Tag.Get("about")
		if s.preset != "" {
			preset = "`" + s.preset + "`"
		}
		if s.field.Tag.Get("min")+s.field.Tag.Get("oneof") != "" {
			meaning += "; " + s.wanted()
		}
		rows = append(rows, [3]string{"`" + s.name + "`", preset, meaning})
	}
	var widths [2]int
	for _, row := range rows {
		widths[0], widths[1] = max(widths[0], len(row[0])), max(widths[1], len(row[1]))
	}
	var table strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&table, "| %-*s | %-*s | %s |\n", widths[0], row[0], widths[1], row[1], row[2])
		if i == 0 {
			fmt.Fprintf(&table, "|%s|%s|---|\n", strings.Repeat("-", widths[0]+2), strings.Repeat("-", widths[1]+2))
		}
	}
	return table.String()
}
