package environment

import (
	"fmt"
	"net/url"
	"strings"
)

// Command is the configuration of commands that ask a node or a bridge.
type Command struct {
	AdminURL string `env:"CHRONOS_ADMIN_URL,default=http://127.0.0.1:7254" want:"http://host:port of an admin listener" about:"admin listener of the node or bridge that is asked"`
	Token    string `env:"CHRONOS_TOKEN" secret:"true" about:"token that the listener wants; unset takes the token that a node or bridge of this user made"`
}

// LoadCommand reads a command's configuration from environ, in the form of os.Environ. The
// error lists all faults, one a line.
func LoadCommand(environ []string) (Command, error) {
	var c Command
	if err := load(environ, &c); err != nil {
		return Command{}, err
	}
	c.AdminURL = strings.TrimSuffix(c.AdminURL, "/")
	return c, nil
}

func (c *Command) contradictions(map[string]bool) []error {
	u, err := url.Parse(c.AdminURL)
	switch {
	case err == nil && u.User != nil: // not shown: the URL may hold a password
		return []error{fmt.Errorf("CHRONOS_ADMIN_URL names a user: leave it out, and set CHRONOS_TOKEN to what the listener wants")}
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return []error{fmt.Errorf("CHRONOS_ADMIN_URL: want the URL of an admin listener, such as http://127.0.0.1:7254")}
	}
	return nil
}
