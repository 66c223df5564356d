package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"chronos/cmd/internal/environment"
	"chronos/cmd/internal/localtoken"
)

// remote is a node's admin listener, for commands.
type remote struct {
	url, token string
	client     *http.Client
	// advice tells the user how to go on when the listener refuses the token.
	advice string
}

// withRemote runs a command with the admin listener that the environment names, and
// returns the command's exit status.
func withRemote(run func(args []string, node remote, out, errs io.Writer) int, args []string, out, errs io.Writer) int {
	c, err := environment.LoadCommand(os.Environ())
	if err != nil {
		_, _ = fmt.Fprintln(errs, "chronos:", err)
		return 2
	}
	node := remote{url: c.AdminURL, token: c.Token, client: &http.Client{Timeout: 15 * time.Second}}
	node.advice = "set CHRONOS_TOKEN to a token of this listener, or unset it to use the token that its process made"
	if c.Token == "" {
		found, advice := localToken(c.AdminURL)
		node.token, node.advice = found.Token, advice
		if found.Token != "" {
			node.client.Transport = only(found.Address)
		}
	}
	return run(args, node, out, errs)
}

// only connects to the address without a proxy, whatever host a URL names.
func only(address string) http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// localToken finds the token that a process of this user made for its admin listener, if
// any. The advice tells the user how to go on when the listener refuses the token.
func localToken(adminURL string) (found localtoken.Found, advice string) {
	found, err := localtoken.Find(os.Environ(), adminURL)
	const elsewhere = "give the command on the machine of the node or bridge, as its user, with the same XDG_RUNTIME_DIR and TMPDIR; or set CHRONOS_TOKEN"
	switch {
	case found.Token != "":
		advice = "the token in " + found.File + " is none of this listener; set CHRONOS_TOKEN to a token that is"
	case err != nil:
		advice = "no token was found (" + err.Error() + "); " + elsewhere
	default:
		advice = "no token was found for " + adminURL + "; " + elsewhere
	}
	return found, advice
}

// longestAnswer has room for a dead letter with the longest message that a bridge takes,
// 16 MiB: JSON may write every byte as six bytes.
const longestAnswer = 128 << 20

// ask sends a request and reads the JSON of the response into answer. The error has the
// node's own words where the node refuses.
func (r remote) ask(ctx context.Context, method, path, body string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("CHRONOS_ADMIN_URL: %w", err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("reach the node's admin listener; set CHRONOS_ADMIN_URL if it is elsewhere: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, longestAnswer+1))
	if err != nil {
		return fmt.Errorf("read the node's answer: %w", err)
	}
	if len(b) > longestAnswer {
		return fmt.Errorf("the node's answer is longer than %d MiB", longestAnswer>>20)
	}
	if resp.StatusCode != http.StatusOK {
		var problem struct{ Detail string }
		if json.Unmarshal(b, &problem) != nil || problem.Detail == "" {
			return fmt.Errorf("the node answers %s", resp.Status)
		}
		if resp.StatusCode == http.StatusUnauthorized && r.advice != "" {
			return fmt.Errorf("the listener wants a token of its own: %s", r.advice)
		}
		return fmt.Errorf("%s", problem.Detail)
	}
	if err := json.Unmarshal(b, answer); err != nil {
		return fmt.Errorf("read the node's answer: %w", err)
	}
	return nil
}
