package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"chronos/api/tokens"
	"chronos/cmd/internal/environment"
	"chronos/redisstore"
	"chronos/redisstore/endpoint"
	"chronos/scheduler/cluster"
	"chronos/scheduler/destinations"
	"chronos/scheduler/webhook"
)

// config is the tree of chronos config.
func (c *CLI) config() *cobra.Command {
	config := &cobra.Command{
		Use: "config", Short: "Show or check the configuration of a node", GroupID: groupHere, Args: noArguments,
		Long: "Show the values of the environment variables of a node, and where each comes from. Values that may hold a\npassword are ***.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			values := environment.ValuesOf[environment.Node](c.Environ)
			return show(cmd, values, func(out io.Writer) {
				t := newTable(out, "VARIABLE", "VALUE", "FROM")
				for _, v := range values {
					t.row(v.Name, v.Value, v.From)
				}
				t.flush()
			})
		},
	}
	addOutput(config, config.Flags())
	check := c.checkConfig()
	addOutput(check, check.Flags())
	config.AddCommand(check, &cobra.Command{
		Use: "variables", Short: "Show all variables with their defaults and meanings", Args: noArguments,
		Long: "Show all environment variables of a node with their defaults and meanings, as a table in Markdown.",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(c.Out, environment.TableOf[environment.Node]())
			return lost(err)
		},
	})
	return config
}

// finding is what the check of a configuration has found.
type finding struct {
	Faults    []string  `json:"faults"`
	Instances []checked `json:"instances"`
}

// checked is a Redis instance.
type checked struct {
	Name     string  `json:"name"`
	URL      string  `json:"url"`
	Version  string  `json:"version,omitempty"`
	Persists string  `json:"persists,omitempty"`
	ClockMS  float64 `json:"clock_ahead_ms"`
}

func (c *CLI) checkConfig() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Tell all that is wrong with the configuration, without starting a node", Args: noArguments,
		Long: "Tell all that is wrong with the configuration, without starting a node: the variables, the files that they\nname, and the Redis instances, each of which is asked. The exit status is 1 if something is wrong.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := c.check(cmd)
			if err := show(cmd, &found, func(out io.Writer) { found.show(out) }); err != nil {
				return err
			}
			if len(found.Faults) > 0 {
				return &failure{status: Refused} // the faults are shown
			}
			return nil
		},
	}
}

func (c *CLI) check(cmd *cobra.Command) (found finding) {
	found.Faults, found.Instances = []string{}, []checked{}
	fault := func(what string, err error) {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			found.Faults = append(found.Faults, plain(what+line))
		}
	}
	config, err := environment.CheckNode(c.Environ)
	if err != nil {
		fault("", err)
	}
	if config.TokensFile != "" {
		if _, err := tokens.Load(config.TokensFile); err != nil {
			fault("CHRONOS_TOKENS_FILE: ", err)
		}
	}
	if config.DestinationsFile != "" {
		if _, err := destinations.Open(config.DestinationsFile, destinations.NewBook(webhook.ParseDestination), slog.New(slog.DiscardHandler)); err != nil {
			fault("CHRONOS_DESTINATIONS_FILE: ", err)
		}
	}
	if config.Redis == "" || config.Redis == "memory" {
		return found
	}
	shards, err := endpoint.Parse(config.Redis)
	if err != nil {
		return found // the fault is told above
	}
	for _, one := range redisstore.Check(cmd.Context(), shards) {
		what := "Redis instance " + one.Name + ": "
		if one.Err != nil {
			fault(what, one.Err)
			continue
		}
		if one.Facts.Evicts {
			fault(what, errors.New("evicts timers when memory is full; run CONFIG SET maxmemory-policy noeviction, and put that line into its configuration"))
		}
		if one.Facts.Persists == "none" {
			fault(what, errors.New("persists nothing: timers are lost when the instance restarts; set appendonly yes"))
		}
		if off := one.Facts.ClockAhead; off.Abs() >= cluster.ClockAlarm {
			fault(what, fmt.Errorf("its clock differs by %v from this machine's clock; set both by NTP", off.Round(10*time.Millisecond)))
		}
		found.Instances = append(found.Instances, checked{one.Name, one.URL, one.Facts.Version, one.Facts.Persists, float64(one.Facts.ClockAhead.Microseconds()) / 1000})
	}
	return found
}

func (f *finding) show(out io.Writer) {
	if len(f.Instances) > 0 {
		t := newTable(out, "REDIS", "VERSION", "PERSISTS", "CLOCK", "URL")
		for _, one := range f.Instances {
			t.row(one.Name, one.Version, one.Persists, fmt.Sprintf("%+.1f ms", one.ClockMS), one.URL)
		}
		t.flush()
		_, _ = fmt.Fprintln(out)
	}
	for _, fault := range f.Faults {
		_, _ = fmt.Fprintln(out, "WRONG:", fault)
	}
	if len(f.Faults) == 0 {
		_, _ = fmt.Fprintln(out, "nothing is wrong")
	}
}
