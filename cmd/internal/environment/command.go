package environment

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// The listeners that a command asks unless the user says otherwise.
const (
	DefaultURL      = "http://127.0.0.1:7253"
	DefaultAdminURL = "http://127.0.0.1:7254"
)

// Command is the configuration of commands that ask a node or a bridge.
type Command struct {
	URL      string `env:"CHRONOS_URL,default=http://127.0.0.1:7253" want:"http://host:port of a public listener" about:"public listener of the node that is asked"`
	AdminURL string `env:"CHRONOS_ADMIN_URL,default=http://127.0.0.1:7254" want:"http://host:port of an admin listener" about:"admin listener of the node or bridge that is asked"`
	Token    string `env:"CHRONOS_TOKEN" secret:"true" about:"token that the listener wants; unset takes the token that a node or bridge of this user made"`
	CertFile string `env:"CHRONOS_CLIENT_CERT_FILE" about:"PEM file of the certificate that the command shows, for listeners with CHRONOS_TLS_CLIENT_CA_FILE"`
	KeyFile  string `env:"CHRONOS_CLIENT_KEY_FILE" about:"PEM file of the key to CHRONOS_CLIENT_CERT_FILE"`
}

// LoadCommand reads a command's configuration from environ, in the form of os.Environ. The
// error lists all faults, one a line.
func LoadCommand(environ []string) (Command, error) {
	var c Command
	if err := load(environ, &c); err != nil {
		return Command{}, err
	}
	c.URL, c.AdminURL = strings.TrimSuffix(c.URL, "/"), strings.TrimSuffix(c.AdminURL, "/")
	return c, nil
}

func (c *Command) contradictions(wrong map[string]bool) (faults []error) {
	if (c.CertFile == "") != (c.KeyFile == "") {
		faults = append(faults, errors.New("CHRONOS_CLIENT_CERT_FILE and CHRONOS_CLIENT_KEY_FILE go together; set both, or none for a command without a certificate"))
	}
	for _, l := range []struct{ variable, value, kind, example string }{
		{"CHRONOS_URL", c.URL, "a public", DefaultURL}, {"CHRONOS_ADMIN_URL", c.AdminURL, "an admin", DefaultAdminURL},
	} {
		if wrong[l.variable] {
			continue
		}
		u, err := url.Parse(l.value)
		switch {
		case err == nil && u.User != nil: // not shown: the URL may hold a password
			faults = append(faults, fmt.Errorf("%s names a user: leave it out, and set CHRONOS_TOKEN to what the listener wants", l.variable))
		case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
			faults = append(faults, fmt.Errorf("%s: want the URL of %s listener, such as %s", l.variable, l.kind, l.example))
		}
	}
	return faults
}

// OwnListener is the admin listener that a command asks. If the environment is that of a node, and names no URL, the
// listener is the node's own. With TLS the listener then has the certificate in certFile.
func OwnListener(environ []string, c Command) (adminURL, certFile string) {
	env := chronosVariables(environ)
	host, port, err := net.SplitHostPort(cmp.Or(env["CHRONOS_ADMIN_LISTEN"], strings.TrimPrefix(DefaultAdminURL, "http://")))
	if env["CHRONOS_ADMIN_URL"] != "" || err != nil {
		return c.AdminURL, ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if certFile = env["CHRONOS_TLS_CERT_FILE"]; certFile != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port), certFile
}
