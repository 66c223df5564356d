package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const header = `{"header":{"mode":"load","seed":7,"shards":["a"],"rf":1,"skew_min_ms":250,"skew_max_ms":2000,"hold_ms":3500,"limit_ms":2000,"poll_ms":100,"attempts":5}}
`

func TestStatus(t *testing.T) {
	early := header + `{"operation":{"kind":"create","invoke_ns":0,"return_ns":1000000,"outcome":"ok","status":200,"answer":{"id":"k-1-0","key":"k"},"timer":{"interval_ms":1000,"pops":1,"url":"/x","body_hash":"h"}}}
{"callback":{"arrive_ns":5000000,"url":"/x","body_hash":"h","id":"k-1-0","key":"k","version":"01a1fb85e06c712a","seq":1,"attempt":1,"webhook_id":"k.01a1fb85e06c712a.1","status":200,"answered_ns":6000000}}
{"end":{"at_ns":9000000000,"dump_ns":-1,"drained":false}}
`
	for name, c := range map[string]struct {
		text   string
		status int
		says   string
	}{
		"violated":   {early, 1, "2 never early"},
		"too little": {header + `{"end":{"at_ns":9000000000,"dump_ns":-1,"drained":false}}` + "\n", 3, "unknown"},
		"malformed":  {header + "{]\n", 2, "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history.jsonl")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if status := run([]string{path}, &out, &out); status != c.status || !strings.Contains(out.String(), c.says) {
				t.Errorf("status %d, want %d:\n%s", status, c.status, out.String())
			}
		})
	}
	var out bytes.Buffer
	if status := run(nil, &out, &out); status != 2 || !strings.Contains(out.String(), "usage") {
		t.Errorf("without a file: status %d: %s", status, out.String())
	}
	if status := run([]string{filepath.Join(t.TempDir(), "none")}, &out, &out); status != 2 {
		t.Errorf("of no file: status %d", status)
	}
}
