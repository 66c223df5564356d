// Package record reads the records of timers in Redis, past the store, as lua/README.md
// describes them.
package record

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"chronos/scheduler/verify/history"
)

// Parse reads the record of a key.
func Parse(key, record string) (history.Copy, error) {
	const header = 13 // fields before the specification, which a tombstone lacks
	c := history.Copy{Key: key}
	fields := strings.SplitN(record, " ", header+1)
	if len(fields) < header {
		return c, fmt.Errorf("record of %s has %d fields: %q", key, len(fields), record)
	}
	c.Version = fields[0]
	for i, to := range []*int{&c.Seq, &c.Attempt, &c.Rank, &c.RF} {
		n, err := strconv.Atoi(fields[1+i])
		if err != nil {
			return c, fmt.Errorf("record of %s: field %d is %q", key, 1+i, fields[1+i])
		}
		*to = n
	}
	if c.Ended = len(fields) == header || fields[header] == ""; c.Ended {
		return c, nil
	}
	var spec struct {
		URI    string `json:"uri"`
		Opaque string `json:"opaque"`
	}
	if err := json.Unmarshal([]byte(fields[header]), &spec); err != nil {
		return c, fmt.Errorf("record of %s: %w", key, err)
	}
	c.URL, c.BodyHash = spec.URI, history.HashOf(spec.Opaque)
	return c, nil
}
