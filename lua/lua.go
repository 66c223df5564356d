// Package lua holds the scripts that run inside Redis, one file each, embedded.
// Every script is common.lua followed by its own file, in which record.lua
// stands at the line of recordMark. README.md tells of the keys and the record;
// the header of each file of its arguments and answers.
package lua

import (
	_ "embed"
	"strings"
)

//go:embed common.lua
var common string

//go:embed record.lua
var record string

//go:embed partitions.lua
var partitions string

const (
	recordMark = "-- <record>\n" // here a script takes what reads and writes records
	eachMark   = "-- <each>\n"   // above are functions, which all partitions of a call share
	sharedMark = "-- <shared>\n" // their place in partitions.lua
)

var (
	//go:embed merge.lua
	merge string
	//go:embed claim.lua
	claim string
	//go:embed fire.lua
	fire string
	//go:embed settle.lua
	settle string
	//go:embed ask.lua
	ask string
	//go:embed read.lua
	read string
	//go:embed list.lua
	list string
	//go:embed histogram.lua
	histogram string
	//go:embed sample.lua
	sample string
	//go:embed beat.lua
	beat string
	//go:embed tally.lua
	tally string
	//go:embed recount.lua
	recount string
	//go:embed topology.lua
	topology string
	//go:embed sweep.lua
	sweep string
	//go:embed letters.lua
	letters string
	//go:embed prune.lua
	prune string
	//go:embed pause.lua
	pause string
	//go:embed deliveries.lua
	deliveries string
	//go:embed mark.lua
	mark string
	//go:embed unmark.lua
	unmark string
	//go:embed forget.lua
	forget string
	//go:embed fill.lua
	fill string
)

// Scripts maps the name of each script to its whole source. The caller owns the
// map.
func Scripts() map[string]string {
	all := map[string]string{
		"merge": merge, "claim": claim, "fire": fire, "settle": settle, "ask": ask, "read": read, "list": list,
		"beat": beat, "topology": topology, "sweep": sweep, "letters": letters, "prune": prune, "tally": tally, "recount": recount,
		"pause": pause, "deliveries": deliveries, "histogram": histogram, "sample": sample,
		"mark": mark, "unmark": unmark, "forget": forget, "fill": fill,
	}
	for name, own := range all {
		all[name] = common + strings.NewReplacer(recordMark, record, eachMark, "").Replace(own)
	}
	return all
}

// ForPartitions maps the name of each script that nodes call for many timers to
// the source that takes several partitions in one call (partitions.lua). The
// caller owns the map.
func ForPartitions() map[string]string {
	all := map[string]string{"merge": merge, "claim": claim, "fire": fire, "settle": settle, "ask": ask, "read": read}
	for name, own := range all {
		shared, each, split := strings.Cut(own, eachMark)
		if !split {
			shared, each = "", own
		}
		if strings.Contains(own, recordMark) {
			shared = record + strings.Replace(shared, recordMark, "", 1)
			each = strings.Replace(each, recordMark, "", 1)
		}
		all[name] = common + strings.NewReplacer(sharedMark, shared, eachMark, each).Replace(partitions)
	}
	return all
}
