package cli

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write docs/cli.md")

const documentPath = "../../../docs/cli.md"

// documentHead is what docs/cli.md says before the commands.
const documentHead = `# Command line

` + "`chronos`" + ` is a node, and the commands that ask nodes. The commands use the [Go client](api.md), so a command can do what a client can do. This document is made of the help texts:
` + "`go test ./cmd/chronos/cli -update`" + ` writes the document.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | refused or failed, or there is an alarm |
| 2 | the command line or the environment is wrong, and nothing was done |
| 3 | no answer, or the outcome is unknown |
| 4 | there is no such timer or dead letter |

| variable | meaning |
|---|---|
| ` + "`CHRONOS_URL`" + ` | public listener of a node; ` + "`--url`" + ` names another |
| ` + "`CHRONOS_ADMIN_URL`" + ` | admin listener of a node or bridge; ` + "`--admin-url`" + ` names another |
| ` + "`CHRONOS_TOKEN`" + ` | token for both listeners; unset, the admin listener gets the token that a node or bridge of the same user made |
| ` + "`CHRONOS_CLIENT_CERT_FILE`, `CHRONOS_CLIENT_KEY_FILE`" + ` | PEM files of the certificate that a command shows to [listeners that ask for one](security.md#tls) |
| ` + "`NO_COLOR`" + ` | set to anything, alarms are not red |

With ` + "`--json`" + ` a command prints JSON with the members of the [admin listener](admin-api.md), on one line; a list of timers has one timer a line. Tables show ` + "`?`" + ` for
characters that control a terminal. A timer that "chronos timer get --json" shows can be created again by "chronos timer create -f -".
`

// TestDocument: docs/cli.md has the help text of every command.
func TestDocument(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(documentHead)
	r := nowhere(t)
	line := CLI{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		help, errs := r.run(Done, strings.TrimPrefix(cmd.CommandPath(), "chronos")+" --help")
		if errs != "" || cmd.Short == "" {
			t.Errorf("%s: %q", cmd.CommandPath(), errs)
		}
		text.WriteString("\n## " + cmd.CommandPath() + "\n\n```text\n" + strings.TrimSpace(help) + "\n```\n")
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(line.root())
	if *update {
		if err := os.WriteFile(documentPath, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	document, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(document) != text.String() {
		t.Error("docs/cli.md is not what the help texts say: run go test ./cmd/chronos/cli -update, and look at the difference")
	}
}

func TestMistakesAreOneLine(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"tokens":        `chronos: there is no command "tokens" of chronos; did you mean token?; see chronos --help` + "\n",
		"help bury":     `chronos: there is no command "bury" of chronos; see chronos help --help` + "\n",
		"completion":    "chronos: a command of chronos completion is missing; see chronos completion --help\n",
		"completion x":  `chronos: there is no command "x" of chronos completion; see chronos completion --help` + "\n",
		"timer bury":    `chronos: there is no command "bury" of chronos timer; see chronos timer --help` + "\n",
		"dead --lmit 5": "chronos: unknown flag: --lmit; see chronos dead --help\n",
		"run now":       "chronos: chronos run takes no arguments; see chronos run --help\n",
	} {
		if _, errs := nowhere(t).run(Misused, args); errs != want {
			t.Errorf("%s: %q, want %q", args, errs, want)
		}
	}
}
