package wire

// TopologyView is the topology as the admin listener shows the topology.
type TopologyView struct {
	Epoch int64 `json:"epoch"`
	// View is the cluster view that resynchronisation asks for. View changes when timers belong on
	// different shards.
	View string `json:"cluster-view-id"`
	// Moving says that timers still move to their owners after the last change.
	Moving bool        `json:"moving"`
	Shards []ShardView `json:"shards"`
	// Site is the site of the shards; empty without sites. Sites are all sites, the own site first; nil if the process
	// knows one site alone.
	Site  string     `json:"site,omitempty"`
	Sites []SiteView `json:"sites,omitempty"`
	// Note says what a change has given up; empty for nothing.
	Note string `json:"note,omitempty"`
}

// SiteView is a site of the cluster, as the answering node knows the site.
type SiteView struct {
	Name    string   `json:"name"`
	Shards  []string `json:"shards"` // by name
	Reached bool     `json:"reached"`
	// Filled says that all shards that answer have the timers of all other sites.
	Filled bool `json:"filled"`
	// Behind is since when, in seconds, changes of timers at the node's site wait for the site; 0 if the site has been
	// told of all changes, nil if a shard can't be asked.
	Behind *float64 `json:"behind_seconds"`
}

// ShardView is a shard of the topology.
type ShardView struct {
	Name  string `json:"name"`
	URL   string `json:"url"` // without secrets
	State string `json:"state"`
	// Copies is how many timers and tombstones the shard has; nil if the shard can't be asked.
	Copies *int64 `json:"copies"`
	// Swept is the share of the shard, from 0 to 1, that already conforms to the last change; nil
	// if the shard can't be asked.
	Swept *float64 `json:"swept"`
	// Problem says what is wrong with the shard; empty if nothing is wrong.
	Problem string `json:"problem,omitempty"`
}

// RefusedError says why a change can't be made, and what to do.
type RefusedError struct {
	Reason string
	Code   string // "" for topology-refused
}

func (e *RefusedError) Error() string { return e.Reason }
