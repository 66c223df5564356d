package client

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// Status is a cluster as one of its nodes knows the cluster.
type Status struct {
	View       string        `json:"view"`
	Epoch      int64         `json:"epoch"`
	Nodes      []NodeStatus  `json:"nodes"`
	Shards     []ShardStatus `json:"shards"`
	Timers     TimersStatus  `json:"timers"`
	FiredPerS  float64       `json:"fired_per_s"`
	FailedPerS float64       `json:"failed_per_s"`
	InFlight   int           `json:"in_flight"`
	LateMS     LatenessMS    `json:"late_ms"`
	Dead       struct {
		Total int64 `json:"total"`
	} `json:"dead"`
	Alarms    []Alarm  `json:"alarms"`
	Unreached []string `json:"unreached"` // shards that could not be asked
}

// NodeStatus is a node. Figures are of the last seconds.
type NodeStatus struct {
	ID         string     `json:"id"`
	Self       bool       `json:"self"` // the node that answers
	Host       string     `json:"host"`
	Version    string     `json:"version"`
	Format     int        `json:"format"`
	Public     string     `json:"public"` // the address of the public listener
	Admin      string     `json:"admin"`
	Started    *time.Time `json:"started"`
	SeenMS     float64    `json:"seen_ms"` // since the node last told of itself
	FiredPerS  float64    `json:"fired_per_s"`
	FailedPerS float64    `json:"failed_per_s"`
	InFlight   int        `json:"in_flight"`
	LateMS     LatenessMS `json:"late_ms"`
}

// ShardStatus is a Redis instance. Unknown figures are nil.
type ShardStatus struct {
	Name             string   `json:"name"`
	URL              string   `json:"url"`
	State            string   `json:"state"`
	Up               bool     `json:"up"`
	Copies           *int64   `json:"copies"`
	Swept            *float64 `json:"swept"`
	SweepLeftSeconds float64  `json:"sweep_left_seconds"`
	OldestDueSeconds float64  `json:"oldest_due_seconds"` // how overdue the oldest timer is
	ClockOffsetMS    float64  `json:"clock_offset_ms"`
	Persists         string   `json:"persists"`
	Evicts           bool     `json:"evicts"`
	RedisVersion     *string  `json:"redis_version"`
	UsedMemory       *int64   `json:"used_memory"` // bytes
	MaxMemory        int64    `json:"max_memory"`  // bytes; 0 for no limit
	Dead             int64    `json:"dead"`        // dead letters
	Problem          *string  `json:"problem"`
}

// TimersStatus is how many timers there are.
type TimersStatus struct {
	About   int64 `json:"about"` // estimated from Sampled records
	Copies  int64 `json:"copies"`
	Sampled int   `json:"sampled"`
}

// LatenessMS is how late callbacks began, in milliseconds.
type LatenessMS struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Alarm is something that an operator should mend. Codes are stable.
type Alarm struct {
	Code  string  `json:"code"`
	Text  string  `json:"text"`
	Shard *string `json:"shard"` // nil for an alarm of no shard
}

// Status reads the state of the cluster.
func (a *Admin) Status(ctx context.Context) (Status, error) {
	return ask[Status](ctx, a, read("show status", "/status", nil))
}

// Load is how many timers come due when.
type Load struct {
	From   time.Time `json:"from"`
	StepMS int64     `json:"step_ms"`
	Copies []int64   `json:"copies"`       // of each bucket
	Timers []int64   `json:"timers_about"` // of each bucket
	// Unreached are the shards whose copies are missing.
	Unreached []string `json:"unreached"`
}

// Load reads the load of the next buckets. Step is 1 s, 10 s, a minute or an hour, and buckets 1 to 168.
func (a *Admin) Load(ctx context.Context, step time.Duration, buckets int) (Load, error) {
	query := url.Values{"step": {strconv.Itoa(int(step.Seconds())) + "s"}, "buckets": {strconv.Itoa(buckets)}}
	if step == time.Hour {
		query.Set("step", "1h")
	}
	return ask[Load](ctx, a, read("show load", "/load", query))
}
