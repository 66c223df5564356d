// Package role holds the programs that the bench starts beside the node: the receiver of callbacks,
// the peers, and the limits of the machine. Each role is the bench's own binary with different
// arguments, so the bench needs no further binary.
package role

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// options are the arguments of all roles. A role reads the arguments that the role needs.
type options struct {
	listen, slow, redis, url, client string
	n, goroutines                    int
	rate                             float64
	check                            time.Duration
	delayMs, at                      int64
}

// Run plays the role that args[0] names, until the role is through or ctx ends. The result goes to
// out, as JSON.
func Run(ctx context.Context, args []string, out io.Writer) error {
	roles := map[string]func(context.Context, options) (any, error){
		"fiber": runFiber, "sink": runSink, "bare": runBare,
		"asynq-enqueue": runEnqueue, "asynq-work": runWork,
	}
	if len(args) == 0 || roles[args[0]] == nil {
		return fmt.Errorf("play role: it must be one of %q", slices.Sorted(maps.Keys(roles)))
	}
	var o options
	flags := flag.NewFlagSet("role", flag.ContinueOnError)
	flags.StringVar(&o.listen, "listen", "", "`address` to listen on")
	flags.StringVar(&o.slow, "slow", "", "`address` where answers take long")
	flags.StringVar(&o.redis, "redis", "", "`address` of Redis")
	flags.StringVar(&o.url, "url", "", "to call")
	flags.StringVar(&o.client, "client", "", "fasthttp or nethttp")
	flags.IntVar(&o.n, "n", 0, "how many")
	flags.IntVar(&o.goroutines, "goroutines", 1, "how many at once")
	flags.Float64Var(&o.rate, "rate", 0, "a second, 0 for all that goes")
	flags.Int64Var(&o.delayMs, "delay-ms", 0, "from creation to due")
	flags.DurationVar(&o.check, "check", 0, "how often scheduled tasks are looked at, 0 for the default")
	flags.Int64Var(&o.at, "at", 0, "due, in ms since 1970, instead of a delay")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("play role: %w", err)
	}
	said, err := roles[args[0]](ctx, o)
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("play %s: %w", args[0], err)
	}
	if said == nil {
		return nil
	}
	if err := json.NewEncoder(out).Encode(said); err != nil {
		return fmt.Errorf("play %s: %w", args[0], err)
	}
	return nil
}

// Took is the result of a role that ends by itself.
type Took struct {
	Done    int     `json:"done"`
	Seconds float64 `json:"seconds"`
	Failed  int     `json:"failed"`
	Why     string  `json:"why,omitempty"`

	CPU time.Duration `json:"-"` // of the whole program, as its starter saw
}

// Rate is the number of things done a second.
func (t *Took) Rate() float64 {
	if t.Seconds <= 0 {
		return 0
	}
	return float64(t.Done) / t.Seconds
}
