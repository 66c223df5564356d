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
	c := history.Copy{Key: key}
	head, specification, live := strings.Cut(record, " {")
	fields := strings.Fields(head)
	if len(fields) < 8 || fields[0] != "1L" && fields[0] != "2L" && fields[0] != "1T" || live != (fields[0][1] == 'L') {
		return c, fmt.Errorf("record of %s: %q", key, record)
	}
	c.Version, c.Ended = fields[1], !live
	for i, to := range []*int{&c.Seq, &c.Attempt, &c.Rank, &c.RF} {
		n, err := strconv.Atoi(fields[2+i])
		if err != nil {
			return c, fmt.Errorf("record of %s: field %d is %q", key, 2+i, fields[2+i])
		}
		*to = n
	}
	if c.Ended {
		return c, nil
	}
	var spec struct {
		URI    string `json:"uri"`
		Opaque string `json:"opaque"`
	}
	if err := json.Unmarshal([]byte("{"+specification), &spec); err != nil {
		return c, fmt.Errorf("record of %s: %w", key, err)
	}
	c.URL, c.BodyHash = spec.URI, history.HashOf(spec.Opaque)
	return c, nil
}

// Word is the value under a name in a record, behind the head; "" without a value.
func Word(record, name string) string {
	head, _, _ := strings.Cut(record, " {")
	for field := range strings.FieldsSeq(head) {
		if value, found := strings.CutPrefix(field, name+"="); found {
			return value
		}
	}
	return ""
}
