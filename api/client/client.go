package client

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Defaults of a Client; an Option can change each default.
const (
	// DefaultTries is how often a request is sent at most.
	DefaultTries = 3
	// DefaultTimeout bounds each try, from connecting to the answer's last byte.
	DefaultTimeout = 5 * time.Second
	// DefaultMaxAnswer is the longest body of an answer, in bytes.
	DefaultMaxAnswer = 8 << 20
)

// Client speaks to a node of chronos, or to a load balancer before several nodes; any node serves
// any timer. New makes a Client. A Client is safe for concurrent use. A Client keeps connections
// for the next request; Close closes the connections.
type Client struct {
	base      string // without a slash at its end
	token     string
	http      *http.Client
	tls       *tls.Config
	own       bool // http was made here
	tries     int
	timeout   time.Duration
	maxAnswer int64
}

// Option changes what New makes.
type Option func(*Client) error

// New makes a client for the node at baseURL, such as http://localhost:7253. A path in baseURL is
// put before the paths of chronos. New connects to nothing yet.
func New(baseURL string, options ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return nil, errors.New("make client: the base URL is not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("make client: the base URL must begin with http:// or https:// and a host")
	case u.User != nil:
		return nil, errors.New("make client: the base URL has a user name; chronos knows tokens only, see WithToken")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("make client: the base URL must have no query and no fragment")
	}
	c := &Client{
		base:      strings.TrimRight(u.String(), "/?#"),
		tries:     DefaultTries,
		timeout:   DefaultTimeout,
		maxAnswer: DefaultMaxAnswer,
	}
	for _, option := range options {
		if err := option(c); err != nil {
			return nil, err
		}
	}
	if c.http == nil {
		c.http, c.own = newHTTPClient(c.tls), true
	}
	return c, nil
}

func newHTTPClient(secured *tls.Config) *http.Client {
	const perHost = 64 // idle connections; net/http keeps 2
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConns:        perHost,
		MaxIdleConnsPerHost: perHost,
		IdleConnTimeout:     30 * time.Second, // a node closes idle connections after 60 s
		ForceAttemptHTTP2:   true,
		TLSClientConfig:     secured,
	}
	return &http.Client{
		Transport: transport,
		// chronos redirects nowhere, and the token is for chronos alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes connections that wait for the next request, unless WithHTTPClient set the HTTP
// client. Requests under way go on, and the Client may still be used.
func (c *Client) Close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}

// WithToken sends a bearer token with every request. A token with a prefix needs no other calls: the
// ids of Create then begin with the prefix, and a Problem with the code id-prefix refuses other ids.
func WithToken(token string) Option {
	return func(c *Client) error {
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return errors.New("make client: the token is empty or holds a space or something that is not printable ASCII")
		}
		c.token = token
		return nil
	}
}

// WithTLS connects to https URLs with a configuration, for example to trust an authority of your own or to show a
// certificate; nil is Go's default. WithTLS has no effect beside WithHTTPClient.
func WithTLS(config *tls.Config) Option {
	return func(c *Client) error {
		c.tls = config
		return nil
	}
}

// WithHTTPClient sends requests through client, for example with a proxy. The client
// should follow no redirects. The caller remains responsible for closing the client.
func WithHTTPClient(client *http.Client) Option {
	return func(c *Client) error {
		if client == nil {
			return errors.New("make client: the HTTP client is nil")
		}
		c.http = client
		return nil
	}
}

// WithTries lets each request be sent n times at most; 1 sends nothing again.
func WithTries(n int) Option {
	return func(c *Client) error {
		if n < 1 {
			return errors.New("make client: the number of tries is less than 1")
		}
		c.tries = n
		return nil
	}
}

// WithTimeout bounds each try. A node answers within about a second.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) error {
		if d <= 0 {
			return errors.New("make client: the timeout is not positive")
		}
		c.timeout = d
		return nil
	}
}

// WithMaxAnswer bounds the body of an answer, in bytes. The answer to Lookup contains the timer's
// opaque data.
func WithMaxAnswer(bytes int64) Option {
	return func(c *Client) error {
		if bytes < 1 {
			return errors.New("make client: the longest answer is less than a byte")
		}
		c.maxAnswer = bytes
		return nil
	}
}
