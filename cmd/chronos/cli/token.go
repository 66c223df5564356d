package cli

import (
	"crypto/rand"
	"fmt"

	"github.com/spf13/cobra"

	"chronos/api/tokens"
)

func (c *CLI) token() *cobra.Command {
	prefix := ""
	cmd := &cobra.Command{
		Use: "token NAME ROLES", Short: "Make a token for CHRONOS_TOKENS_FILE", GroupID: groupHere, Args: arguments("NAME", "ROLES"),
		Long: `Make a token for CHRONOS_TOKENS_FILE. ROLES are some of read,write,list,admin, with commas between.
The token goes to standard error, and the line for the file to standard output.`,
		Example: "  chronos token orders read,write --prefix orders. >> tokens",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("prefix") && prefix == "" {
				return usagef("--prefix is empty")
			}
			role, err := tokens.ParseRoles(args[1])
			if err != nil {
				return usage(err)
			}
			token, line, err := tokens.Generate(args[0], role, prefix, rand.Reader)
			if err != nil {
				return usage(err)
			}
			_, _ = fmt.Fprintf(c.Err, "The token, which is shown only now; clients send it as `Authorization: Bearer <token>`:\n\n  %s\n\nIts line of CHRONOS_TOKENS_FILE, on standard output:\n\n", token.Reveal())
			_, err = fmt.Fprintln(c.Out, line)
			return lost(err)
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "for the timers alone whose ids begin with this `text`")
	return cmd
}
