// Package lua holds the scripts that run inside Redis, one file each, embedded.
// Every script is common.lua followed by its own file. README.md tells of the
// keys and the record; the header of each file of its arguments and answers.
package lua

import _ "embed"

//go:embed common.lua
var common string

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
)

// Scripts maps the name of each script to its whole source. The caller owns the
// map.
func Scripts() map[string]string {
	return map[string]string{
		"merge": common + merge, "claim": common + claim, "fire": common + fire,
		"settle": common + settle, "ask": common + ask, "read": common + read, "list": common + list,
		"beat": common + beat, "topology": common + topology, "sweep": common + sweep, "letters": common + letters, "prune": common + prune,
		"tally": common + tally, "recount": common + recount,
	}
}
