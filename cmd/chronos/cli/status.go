package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"chronos/api/client"
)

// The exit statuses.
const (
	Done        = 0
	Refused     = 1 // or failed, or there is an alarm
	Misused     = 2 // the command line or the environment is wrong, and nothing was done
	Unreachable = 3 // no answer, or the outcome is unknown
	Missing     = 4 // there is no such timer or dead letter
)

// failure is an error with an exit status. A failure without err was told before.
type failure struct {
	status int
	err    error
}

func (f *failure) Error() string {
	if f.err == nil {
		return "failed"
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// usage is a mistake in the command line. The user is told where to read on.
func usage(err error) error { return &failure{Misused, err} }

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

// lost says that the output could not be written.
func lost(err error) error {
	if err == nil {
		return nil
	}
	return &failure{Refused, fmt.Errorf("write the output: %w", err)}
}

// outcome gives the error of a request its exit status.
func outcome(err error) error {
	if err == nil {
		return nil
	}
	problem, answered := errors.AsType[*client.Problem](err)
	switch {
	case errors.Is(err, client.ErrArgument):
		return &failure{Misused, err}
	case answered && (problem.Code == "timer-not-found" || problem.Code == "letter-not-found"):
		return &failure{Missing, err}
	case answered && problem.Status < http.StatusInternalServerError:
		return &failure{Refused, err}
	default:
		return &failure{Unreachable, err}
	}
}

// end tells the user of an error, and returns the exit status.
func (c *CLI) end(ran *cobra.Command, err error) int {
	failed, known := errors.AsType[*failure](err)
	switch {
	case err == nil:
		return Done
	case !known: // cobra found a mistake in the command line
		failed = &failure{Misused, err}
	case failed.err == nil:
		return failed.status
	}
	text := wordsOf(err)
	if failed.status == Misused {
		text += "; see " + ran.CommandPath() + " --help"
	}
	if _, answered := errors.AsType[*client.Problem](err); failed.status == Unreachable && !answered && ran.Context().Err() == nil {
		text += "; --url and --admin-url name another node"
	}
	_, _ = fmt.Fprintln(c.Err, "chronos:", text)
	return failed.status
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.HasSubCommands() {
		advice := ""
		cmd.SuggestionsMinimumDistance = 2 // letters
		if likely := cmd.SuggestionsFor(args[0]); len(likely) > 0 {
			advice = "; did you mean " + likely[0] + "?"
		}
		return usagef("there is no command %q of %s%s", args[0], cmd.CommandPath(), advice)
	}
	if len(args) > 0 {
		return usagef("%s takes no arguments", cmd.CommandPath())
	}
	return nil
}

// arguments asks for exactly the named arguments.
func arguments(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s is missing", names[len(args)])
		case len(args) > len(names):
			return usagef("%q is one argument too many", args[len(names)])
		}
		return nil
	}
}

// only is a command that has commands and does nothing itself.
func only(cmd *cobra.Command) *cobra.Command {
	cmd.Args = noArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usagef("a command of %s is missing", cmd.CommandPath())
	}
	return cmd
}

// each carries out something for each argument, also after an error, until ctx ends. The error is the worst
// of all errors: an unknown outcome before a refusal, and both before something that does not exist.
func each(ctx context.Context, c *CLI, args []string, do func(ctx context.Context, arg string) error) error {
	worst := Done
	rank := []int{Done, Missing, Refused, Misused, Unreachable}
	for _, arg := range args {
		err := do(ctx, arg)
		if err == nil {
			continue
		}
		failed, known := errors.AsType[*failure](err)
		if !known {
			return err
		}
		if slices.Index(rank, failed.status) > slices.Index(rank, worst) {
			worst = failed.status
		}
		_, _ = fmt.Fprintln(c.Err, "chronos:", plain(arg)+":", wordsOf(err))
		if ctx.Err() != nil {
			break
		}
	}
	if worst == Done {
		return nil
	}
	return &failure{status: worst} // the errors are shown
}

// wordsOf are the words of an error on one line: the node's own words if a node has refused.
func wordsOf(err error) string {
	if problem, answered := errors.AsType[*client.Problem](err); answered && problem.Code != "" {
		return plain(problem.Detail)
	}
	return plain(strings.ReplaceAll(err.Error(), "\n", "; "))
}
