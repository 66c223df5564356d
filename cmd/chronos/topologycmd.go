package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"chronos/api"
	"chronos/redisstore/topology"
)

const topologyUsage = `chronos: chronos topology show [--watch]        the Redis instances, and how far the sweep is
         chronos topology add NAME URL [--force]  another one; NAME alone takes one back that is being drained;
                                              a second database of one Redis needs --force
         chronos topology drain NAME [--force]    moves its timers to the others; one that can't be reached needs --force
         chronos topology remove NAME [--force]   once it is empty; with --force whatever it has
`

// topologyCommand carries out `chronos topology`, and returns the exit status.
func topologyCommand(args []string, node remote, out, errs io.Writer) int {
	method, path, body, ok := topologyRequest(args)
	if !ok {
		_, _ = fmt.Fprint(errs, topologyUsage)
		return 2
	}
	watch := len(args) == 2 && args[1] == "--watch"
	for {
		var view api.TopologyView
		if err := node.ask(context.Background(), method, path, body, &view); err != nil {
			_, _ = fmt.Fprintln(errs, "chronos:", err)
			return 1
		}
		if watch && isTerminal(out) {
			_, _ = fmt.Fprint(out, "\x1b[H\x1b[J") // from the top of an empty screen
		}
		showTopology(out, view)
		if !watch || !view.Moving {
			return 0
		}
		<-time.After(time.Second) // a person watches, until Ctrl-C
	}
}

func topologyRequest(args []string) (method, path, body string, ok bool) {
	if len(args) == 0 {
		return "GET", "/topology", "", true
	}
	rest := args[1:]
	switch {
	case args[0] == "show" && (len(rest) == 0 || len(rest) == 1 && rest[0] == "--watch"):
		return "GET", "/topology", "", true
	case args[0] == "add":
		path, rest = forced("/topology/shards", rest)
		if len(rest) == 0 || len(rest) > 2 {
			return "", "", "", false
		}
		asked := map[string]string{"name": rest[0]}
		if len(rest) == 2 {
			asked["url"] = rest[1]
		}
		b, err := json.Marshal(asked)
		return "POST", path, string(b), err == nil
	case (args[0] == "drain" || args[0] == "remove") && (len(rest) == 1 || len(rest) == 2 && rest[1] == "--force"):
		method, path = "DELETE", "/topology/shards/"+url.PathEscape(rest[0])
		if args[0] == "drain" {
			method, path = "POST", path+"/drain"
		}
		path, _ = forced(path, rest)
		return method, path, "", true
	}
	return "", "", "", false
}

// forced adds force to the path if the last argument is --force, and returns the rest of
// the arguments.
func forced(path string, args []string) (withForce string, others []string) {
	if n := len(args); n > 0 && args[n-1] == "--force" {
		return path + "?force=true", args[:n-1]
	}
	return path, args
}

func showTopology(out io.Writer, view api.TopologyView) {
	state := "at rest"
	switch {
	case slices.ContainsFunc(view.Shards, announced):
		state = "a change is being announced to all nodes"
	case view.Moving:
		state = "timers are being moved"
	}
	_, _ = fmt.Fprintf(out, "epoch %d, cluster-view-id %s, %s\n\n", view.Epoch, view.View, state)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tSTATE\tCOPIES\tSWEPT\tURL\tPROBLEM")
	for _, s := range view.Shards {
		copies, swept := "?", "?"
		if s.Copies != nil && s.Swept != nil {
			copies, swept = strconv.FormatInt(*s.Copies, 10), progress(*s.Swept)
		}
		if !view.Moving {
			swept = "-"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.State, copies, swept, s.URL, s.Problem)
	}
	_ = w.Flush() // fails only if the reader of the output has gone
}

func announced(s api.ShardView) bool {
	return s.State == string(topology.Joining) || s.State == string(topology.Leaving)
}

// progress is a bar of ten characters, and the share in percent.
func progress(share float64) string {
	full := int(share*10 + .5)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", 10-full) + fmt.Sprintf("] %3.0f %%", share*100)
}

func isTerminal(out io.Writer) bool {
	file, is := out.(*os.File)
	if !is {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
