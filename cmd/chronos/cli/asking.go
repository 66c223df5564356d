package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"chronos/api/client"
	"chronos/cmd/internal/certificate"
	"chronos/cmd/internal/environment"
	"chronos/cmd/internal/localtoken"
)

// longestAnswer has room for a dead letter with the longest message that a bridge takes, 16 MiB: JSON may
// write every byte as six bytes.
const longestAnswer = 128 << 20

// listener are the flags that name a node.
type listener struct {
	url, adminURL string
	timeout       time.Duration
	given         func() bool // reports whether the user has given the timeout
	ofNode        bool        // the environment may be that of a node
	many          bool        // the command changes many timers or dead letters
}

// askPublic adds the flags of commands that ask the public listener.
func askPublic(flags *pflag.FlagSet, at *listener) {
	flags.StringVar(&at.url, "url", "", "public `URL` of a node (default CHRONOS_URL, or "+environment.DefaultURL+")")
}

// askAdmin adds the flags of commands that ask the admin listener.
func askAdmin(flags *pflag.FlagSet, at *listener) {
	flags.StringVar(&at.adminURL, "admin-url", "", "admin `URL` of a node or bridge (default CHRONOS_ADMIN_URL, or "+environment.DefaultAdminURL+")")
}

// askInTime adds the flag for how long a command waits.
func askInTime(flags *pflag.FlagSet, at *listener) {
	flags.DurationVar(&at.timeout, "timeout", 0, "how long to wait for an answer; a request is sent three times at most (default 15s, and 30s for changes to many timers)")
	at.given = func() bool { return flags.Changed("timeout") }
}

// patience is how long to wait for an answer.
func (at *listener) patience() time.Duration {
	switch {
	case at.given():
		return at.timeout
	case at.many:
		return client.AdminTimeout
	}
	return 15 * time.Second
}

// settings are the environment's, with the flags in place of what the flags name.
func (at *listener) settings(environ []string) (settings, error) {
	if at.given() && at.timeout <= 0 {
		return settings{}, usagef("--timeout is not positive")
	}
	for name, value := range map[string]string{"CHRONOS_URL": at.url, "CHRONOS_ADMIN_URL": at.adminURL} {
		if value != "" {
			environ = append(slices.Clip(environ), name+"="+value)
		}
	}
	config, err := environment.LoadCommand(environ)
	ownCert := ""
	if at.ofNode {
		config.AdminURL, ownCert = environment.OwnListener(environ, config)
	}
	if err != nil {
		return settings{}, &failure{Misused, err}
	}
	secured, err := certificate.Client(config.CertFile, config.KeyFile, ownCert)
	if err != nil {
		return settings{}, &failure{Misused, err}
	}
	return settings{config, secured}, nil
}

// settings are what a command needs to ask.
type settings struct {
	environment.Command

	tls *tls.Config
}

// public makes a client for the public listener.
func (c *CLI) public(at *listener) (*client.Client, error) {
	config, err := at.settings(c.Environ)
	if err != nil {
		return nil, err
	}
	options := []client.Option{client.WithTimeout(at.patience()), client.WithMaxAnswer(longestAnswer), client.WithTLS(config.tls)}
	if config.Token != "" {
		options = append(options, client.WithToken(config.Token))
	}
	made, err := client.New(config.URL, options...)
	if err != nil {
		return nil, usage(err)
	}
	return made, nil
}

// admin is an admin listener, with advice for a user whose token the listener refuses.
type admin struct {
	*client.Admin
	advice string
}

// admin makes a client for the admin listener. Without CHRONOS_TOKEN the client has the token that a
// process of this user made.
func (c *CLI) admin(at *listener) (*admin, error) {
	config, err := at.settings(c.Environ)
	if err != nil {
		return nil, err
	}
	options := []client.Option{client.WithTimeout(at.patience()), client.WithMaxAnswer(longestAnswer), client.WithTLS(config.tls)}
	advice := "set CHRONOS_TOKEN to a token of this listener, or unset CHRONOS_TOKEN to use the token that the process made"
	switch {
	case config.Token != "":
		options = append(options, client.WithToken(config.Token))
	default:
		var found localtoken.Found
		if found, advice = localToken(c.Environ, config.AdminURL); found.Token != "" {
			options = append(options, client.WithToken(found.Token), client.WithHTTPClient(onlyTo(found.Address, config.tls)))
		}
	}
	made, err := client.NewAdmin(config.AdminURL, options...)
	if err != nil {
		return nil, usage(err)
	}
	return &admin{made, advice}, nil
}

// onlyTo connects to the address without a proxy, whatever host a URL names, and follows no redirect: the
// token is for the process at the address alone.
func onlyTo(address string, secured *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: secured, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// localToken finds the token that a process of this user made for its admin listener, if any.
func localToken(environ []string, adminURL string) (found localtoken.Found, advice string) {
	found, err := localtoken.Find(environ, adminURL)
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

// outcome is as the function, with advice where the listener refuses the token.
func (a *admin) outcome(err error) error {
	if refusedToken(err) {
		return &failure{Refused, fmt.Errorf("the listener wants a token of its own: %s", a.advice)}
	}
	return outcome(err)
}
