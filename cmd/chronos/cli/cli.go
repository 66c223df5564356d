package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"chronos/cmd/internal/process"
)

// CLI is a command line. All members must be set.
type CLI struct {
	In       io.Reader
	Out, Err io.Writer
	Environ  []string         // in the form of os.Environ
	Now      func() time.Time // for instants such as "2h ago"
	// Node runs a node until the node ends, and returns the exit status.
	Node func() int
}

// Run carries out a command, whose arguments are those of os.Args without the first, and returns the exit
// status: see the constants. The end of ctx ends commands that wait.
func (c *CLI) Run(ctx context.Context, args []string) int {
	root := c.root()
	root.SetArgs(args)
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	ran, err := root.ExecuteContextC(ctx)
	return c.end(ran, err)
}

// root is the tree of commands.
func (c *CLI) root() *cobra.Command {
	node := 0
	root := &cobra.Command{
		Use:   "chronos",
		Short: "A timer service: call me back at time T",
		Long: `chronos runs a node of the timer service, and asks nodes.

Without a command chronos runs a node until SIGTERM or Ctrl-C, as "chronos run" does. Environment
variables alone configure a node: "chronos config variables" lists them.`,
		Args:          noArguments,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(*cobra.Command, []string) error { return c.runNode(&node) },
		// A shell has emptied a variable that is unset. What selects timers must not select all then.
		PersistentPreRunE: refuseEmpty,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.SetHelpCommandGroupID(groupHere)
	root.SetCompletionCommandGroupID(groupHere)
	root.AddGroup(&cobra.Group{ID: groupAsk, Title: "Commands that ask a node:"}, &cobra.Group{ID: groupHere, Title: "Commands that ask no node:"})
	run := &cobra.Command{
		Use: "run", Short: "Run a node until SIGTERM or Ctrl-C", GroupID: groupHere, Args: noArguments,
		Long: "Run a node until SIGTERM or Ctrl-C. A second signal ends the node at once.\nEnvironment variables alone configure a node: \"chronos config variables\" lists them.",
		RunE: func(*cobra.Command, []string) error { return c.runNode(&node) },
	}
	version := &cobra.Command{
		Use: "version", Short: "Show the version that was built", GroupID: groupHere, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.version(cmd) },
	}
	addOutput(version, version.Flags())
	root.SetHelpCommand(help())
	root.AddCommand(run, c.timer(), c.status(), c.topology(), c.dead(), c.healthcheck(), c.config(), c.token(), version)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			only(cmd)
		}
	}
	return root
}

// help shows the help text of a command.
func help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show the help text of a command", GroupID: groupHere, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q of chronos", strings.Join(args, " "))
			}
			of.InitDefaultHelpFlag()
			return lost(of.Help())
		},
	}
}

// refuseEmpty refuses empty arguments and values.
func refuseEmpty(cmd *cobra.Command, args []string) (err error) {
	if slices.Contains(args, "") {
		return usagef("an argument is empty")
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && f.Name != "body" {
			err = usagef("--%s is empty", f.Name)
		}
	})
	return err
}

const (
	groupAsk  = "ask"
	groupHere = "here"
)

func (c *CLI) runNode(status *int) error {
	if *status = c.Node(); *status != 0 {
		return &failure{status: *status} // the node has told of the error
	}
	return nil
}

func (c *CLI) version(cmd *cobra.Command) error {
	version, built := process.Version()
	return show(cmd, map[string]string{"version": version, "go": built}, func(out io.Writer) {
		_, _ = fmt.Fprintln(out, "chronos", version, built)
	})
}
