package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"chronos/api/tokens"
	"chronos/cmd/internal/environment"
	"chronos/cmd/internal/process"
)

const usage = `chronos runs a node of the timer service.

  chronos           run a node until SIGTERM or Ctrl-C
  chronos token     make a token for CHRONOS_TOKENS_FILE: chronos token NAME ROLES [prefix=PREFIX],
                    where ROLES are some of read,write,list,admin; with a prefix for the timers alone whose ids begin with PREFIX
  chronos topology  show or change which Redis instances there are:
                    chronos topology show [--watch] | add NAME URL | drain NAME | remove NAME [--force]
  chronos dead      show the dead letters, fire them again, delete them:
                    chronos dead [list] | show ID | fire ID | delete ID; chronos dead -h tells of filters
                    both by the admin listener at CHRONOS_ADMIN_URL (http://127.0.0.1:7254), with the token in CHRONOS_TOKEN, or
                    with the token that a node or bridge of this user on this machine made
  chronos help      this text, and the environment variables
  chronos version   the version that was built

`

// command carries out every command but the running of a node, and returns the exit status.
func command(args []string, out, errs io.Writer) int {
	switch args[0] {
	case "help", "-h", "--help", "-help":
		_, _ = fmt.Fprint(out, usage, environment.TableOf[environment.Node]())
		return 0
	case "token":
		return makeToken(args[1:], out, errs)
	case "topology":
		return withRemote(topologyCommand, args[1:], out, errs)
	case "dead":
		return withRemote(deadCommand, args[1:], out, errs)
	case "version", "--version":
		_, _ = fmt.Fprintln(out, "chronos", process.Version())
		return 0
	}
	_, _ = fmt.Fprintf(errs, "chronos: unknown command %q\n\n%s", args[0], usage)
	return 2
}

// makeToken makes a token. The token goes to errs. Only the token's line for the tokens
// file goes to out, so that a user can append out to the file.
func makeToken(args []string, out, errs io.Writer) int {
	prefix, given := "", false
	if len(args) == 3 {
		prefix, given = strings.CutPrefix(args[2], "prefix=")
	}
	if given && prefix == "" || len(args) != 2 && !given {
		_, _ = fmt.Fprint(errs, "chronos: chronos token NAME ROLES [prefix=PREFIX] makes a token; ROLES are some of read,write,list,admin\n")
		return 2
	}
	role, err := tokens.ParseRoles(args[1])
	if err != nil {
		_, _ = fmt.Fprintln(errs, "chronos:", err)
		return 2
	}
	token, line, err := tokens.Generate(args[0], role, prefix, rand.Reader)
	if err != nil {
		_, _ = fmt.Fprintln(errs, "chronos:", err)
		return 2
	}
	_, _ = fmt.Fprintf(errs, "The token, which is shown only now; clients send it as `Authorization: Bearer <token>`:\n\n  %s\n\nIts line of CHRONOS_TOKENS_FILE, on standard output:\n\n", token.Reveal())
	_, _ = fmt.Fprintln(out, line)
	return 0
}
