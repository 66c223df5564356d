package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// AdminTimeout bounds each try of an Admin unless WithTimeout does: a change to many timers takes
// seconds.
const AdminTimeout = 30 * time.Second

// Admin speaks to the admin listener of a node or a bridge, as operators do. NewAdmin makes an Admin.
// An Admin is safe for concurrent use.
//
// The types of answers have the members of the JSON of the admin listener, whose description is at
// /openapi.yaml there. Reads are repeated as a Client's reads are, and changes only if the node can't
// have done anything. Errors of the node wrap a *Problem.
type Admin struct{ c *Client }

// NewAdmin makes a client for the admin listener at baseURL, such as http://localhost:7254. NewAdmin
// connects to nothing yet.
func NewAdmin(baseURL string, options ...Option) (*Admin, error) {
	c, err := New(baseURL, append([]Option{WithTimeout(AdminTimeout)}, options...)...)
	if err != nil {
		return nil, err
	}
	return &Admin{c}, nil
}

// Close closes connections that wait for the next request, as Client.Close does.
func (a *Admin) Close() { a.c.Close() }

// read is a GET. The query may be nil.
func read(name, path string, query url.Values) operation {
	return operation{name: name, method: http.MethodGet, path: withQuery(path, query), repeatable: true}
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// ask sends an operation whose answer is JSON.
func ask[T any](ctx context.Context, a *Admin, op operation) (T, error) {
	var into T
	answer, err := a.c.do(ctx, &op, http.StatusOK)
	if err != nil {
		return into, err
	}
	if err := json.Unmarshal(answer.body, &into); err != nil {
		return into, fmt.Errorf("%s: the answer is not one of chronos; is the URL that of an admin listener?", op.name)
	}
	return into, nil
}

// Ready asks whether the process serves requests (GET /readyz). A process that does not is a *Problem
// with the status 503.
func (a *Admin) Ready(ctx context.Context) error { return a.probe(ctx, "/readyz") }

// Live asks whether the process runs (GET /livez).
func (a *Admin) Live(ctx context.Context) error { return a.probe(ctx, "/livez") }

func (a *Admin) probe(ctx context.Context, path string) error {
	_, err := a.c.do(ctx, &operation{name: "ask " + path, method: http.MethodGet, path: path}, http.StatusOK)
	return err
}

// Topology is which Redis instances there are.
type Topology struct {
	Epoch  int64           `json:"epoch"`
	View   string          `json:"cluster-view-id"`
	Moving bool            `json:"moving"` // timers still move to their owners
	Shards []TopologyShard `json:"shards"`
	Site   string          `json:"site,omitempty"`  // of the shards; "" without sites
	Sites  []TopologySite  `json:"sites,omitempty"` // the own site first; nil without sites, and from a bridge
	Note   string          `json:"note,omitempty"`  // what a change has given up; "" for nothing
}

// TopologySite is a site of the cluster, as the asked node knows the site.
type TopologySite struct {
	Name    string   `json:"name"`
	Shards  []string `json:"shards"`         // by name
	Reached bool     `json:"reached"`        // by the asked node
	Filled  bool     `json:"filled"`         // all shards that answer have the timers of all other sites
	Behind  *float64 `json:"behind_seconds"` // since when changes of timers at the asked node's site wait for the site; nil if unknown
}

// TopologyShard is a Redis instance. Copies and Swept are nil if the instance could not be asked.
type TopologyShard struct {
	Name    string   `json:"name"`
	URL     string   `json:"url"`
	State   string   `json:"state"`
	Copies  *int64   `json:"copies"`            // timers and tombstones
	Swept   *float64 `json:"swept"`             // the share, from 0 to 1, that conforms to the last change
	Problem string   `json:"problem,omitempty"` // "" if nothing is wrong
}

// Topology reads the topology.
func (a *Admin) Topology(ctx context.Context) (Topology, error) {
	return ask[Topology](ctx, a, read("show topology", "/topology", nil))
}

// AddShard has a Redis instance take timers. An empty URL takes back an instance that is being drained.
// Force adds a second database of one Redis.
func (a *Admin) AddShard(ctx context.Context, name, redisURL string, force bool) (Topology, error) {
	return a.addShard(ctx, "/topology/shards", name, redisURL, force)
}

// AddShardTo is AddShard for a site. A site that is not known yet begins with the Redis instance.
func (a *Admin) AddShardTo(ctx context.Context, site, name, redisURL string, force bool) (Topology, error) {
	path, err := named("add shard", "/topology/sites/", site)
	if err != nil {
		return Topology{}, err
	}
	return a.addShard(ctx, path+"/shards", name, redisURL, force)
}

func (a *Admin) addShard(ctx context.Context, path, name, redisURL string, force bool) (Topology, error) {
	asked := map[string]string{"name": name}
	if redisURL != "" {
		asked["url"] = redisURL
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return Topology{}, fmt.Errorf("add shard: %w", err)
	}
	return ask[Topology](ctx, a, operation{name: "add shard", method: http.MethodPost, path: forced(path, force), body: body})
}

// DrainShard moves the timers of a Redis instance to the other instances. Force drains an instance that
// can't be reached.
func (a *Admin) DrainShard(ctx context.Context, name string, force bool) (Topology, error) {
	path, err := named("drain shard", "/topology/shards/", name)
	if err != nil {
		return Topology{}, err
	}
	path += "/drain"
	return ask[Topology](ctx, a, operation{name: "drain shard", method: http.MethodPost, path: forced(path, force)})
}

// RemoveShard removes a Redis instance that is drained and empty, and with force any instance.
func (a *Admin) RemoveShard(ctx context.Context, name string, force bool) (Topology, error) {
	path, err := named("remove shard", "/topology/shards/", name)
	if err != nil {
		return Topology{}, err
	}
	return ask[Topology](ctx, a, operation{name: "remove shard", method: http.MethodDelete, path: forced(path, force)})
}

// NameSite names the site of a cluster without sites.
func (a *Admin) NameSite(ctx context.Context, name string) (Topology, error) {
	body, err := json.Marshal(map[string]string{"name": name})
	if err != nil {
		return Topology{}, fmt.Errorf("name site: %w", err)
	}
	return ask[Topology](ctx, a, operation{name: "name site", method: http.MethodPost, path: "/topology/site", body: body})
}

// RemoveSite forgets another site that is out of use, and with force any other site.
func (a *Admin) RemoveSite(ctx context.Context, name string, force bool) (Topology, error) {
	path, err := named("remove site", "/topology/sites/", name)
	if err != nil {
		return Topology{}, err
	}
	return ask[Topology](ctx, a, operation{name: "remove site", method: http.MethodDelete, path: forced(path, force)})
}

// BeginSite has the asked node's site, which lost all timers, begin without timers. Force gives up what another site that
// can be reached still knows.
func (a *Admin) BeginSite(ctx context.Context, force bool) (Topology, error) {
	return ask[Topology](ctx, a, operation{name: "begin site", method: http.MethodPost, path: forced("/topology/site/init", force)})
}

// named is the path of something with a name. Dots alone would lead elsewhere.
func named(what, path, name string) (string, error) {
	if name == "" || name == "." || name == ".." {
		return "", argumentError(what + ": the name is empty or made of dots alone")
	}
	return path + url.PathEscape(name), nil
}

func forced(path string, force bool) string {
	if !force {
		return path
	}
	return path + "?force=true"
}

// Fire has the next pop of a timer be due now; the pops behind keep their due times. Without an ETag the
// present version is meant.
func (a *Admin) Fire(ctx context.Context, id, etag string) (Receipt, error) {
	return a.intervene(ctx, "fire timer", id, "/fire", etag)
}

// Delay moves the next pop of a timer, and the pops behind. Delay makes a new version of the timer, which
// the Receipt names.
func (a *Admin) Delay(ctx context.Context, id string, by time.Duration, etag string) (Receipt, error) {
	return a.intervene(ctx, "delay timer", id, "/delay?by="+by.String(), etag)
}

func (a *Admin) intervene(ctx context.Context, name, id, what, etag string) (Receipt, error) {
	op, err := itemOperation(name, http.MethodPost, id)
	if err != nil {
		return Receipt{}, err
	}
	op.path, op.match, op.repeatable = op.path+what, etag, false
	return a.c.store(ctx, &op)
}

// Copy is the copy of a timer on a shard, or the place where a copy belongs. Members are nil where the
// shard has no copy.
type Copy struct {
	Shard    string     `json:"shard"`
	Rank     int        `json:"rank"`
	Owner    bool       `json:"owner"`
	State    string     `json:"state"`
	Version  *string    `json:"version"`
	Revision *string    `json:"revision"` // nil without a PATCH, too
	Sequence *int       `json:"sequence"`
	Attempt  *int       `json:"attempt"`
	Due      *time.Time `json:"due"`
	Look     *time.Time `json:"look"`  // when a node looks at the copy next
	Lease    *string    `json:"lease"` // the node that has the copy leased
}

// Copies reads the copies of a timer, in rank order. The error is ErrNotFound if no shard has a copy.
func (a *Admin) Copies(ctx context.Context, id string) ([]Copy, error) {
	op, err := itemOperation("show copies", http.MethodGet, id)
	if err != nil {
		return nil, err
	}
	op.path += "/copies"
	view, err := ask[struct {
		Copies []Copy `json:"copies"`
	}](ctx, a, op)
	return view.Copies, err
}

// Exported is what is left of a timer: a Timer that begins with the next pop, for Replace on another cluster.
type Exported struct {
	Key    string
	Timer  Timer
	Hidden bool // values are replaced by ***, and chronos refuses the Timer
}

// Export reads what is left of a timer. With secrets the values of headers that are secrets, and the user in the
// URI, are there; the token needs the role admin, and the node logs the request. The error is ErrNotFound for a
// timer that has ended.
func (a *Admin) Export(ctx context.Context, id string, secrets bool) (Exported, error) {
	op, err := itemOperation("export timer", http.MethodGet, id)
	if err != nil {
		return Exported{}, err
	}
	op.path += "/export"
	if secrets {
		op.path = withQuery(op.path, url.Values{"secrets": {"true"}})
	}
	view, err := ask[exportedBody](ctx, a, op)
	if err != nil {
		return Exported{}, err
	}
	left, err := view.timer()
	if err != nil {
		return Exported{}, fmt.Errorf("export timer: the answer has %w", err)
	}
	return Exported{Key: view.Key, Timer: left, Hidden: view.Hidden}, nil
}

// errNoFilter keeps a program from changing all timers, or all dead letters, by an empty filter.
var errNoFilter = argumentError("the filter is empty, and All is not set: nothing was done")
