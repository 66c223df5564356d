package lua

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

func TestScriptsAreTheFiles(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	parts := []string{"common.lua", "record.lua", "partitions.lua"}
	for _, file := range files {
		if !slices.Contains(parts, file) {
			want[strings.TrimSuffix(file, ".lua")] = readFile(t, "common.lua") + whole(readFile(t, file))
		}
	}
	if diff := cmp.Diff(want, Scripts()); diff != "" {
		t.Errorf("Scripts differ from the files (-want +got):\n%s", diff)
	}
	if len(want) != 22 {
		t.Errorf("%d scripts, want merge, claim, fire, settle, ask, read, list, beat, topology, sweep, letters, prune, tally, recount, pause, deliveries, histogram, sample, mark, unmark, forget and fill", len(want))
	}
}

func TestHeadersAndBodiesAgree(t *testing.T) {
	for _, name := range scriptNames() {
		t.Run(name, func(t *testing.T) {
			if err := checkScript(name, common, readFile(t, name+".lua")); err != nil {
				t.Error(err)
			}
		})
	}
}

// whole is a script's own file as the script has it.
func whole(own string) string {
	return strings.NewReplacer("-- <record>\n", record, "-- <each>\n", "").Replace(own)
}

// A script that takes several partitions has every line of the script for one partition, once.
func TestScriptsForPartitionsAreTheSameScripts(t *testing.T) {
	for name, source := range ForPartitions() {
		t.Run(name, func(t *testing.T) {
			c := &checker{}
			c.checkGlobals(name, source, "pcall")
			if err := errors.Join(c.faults...); err != nil {
				t.Error(err)
			}
			own := readFile(t, name+".lua")
			for line := range strings.Lines(common + whole(own)) {
				if n := strings.Count(source, line); n < 1 {
					t.Errorf("a line is missing: %s", line)
				}
			}
			if n := strings.Count(source, own[strings.LastIndex(own, "local reply"):]); n != 1 {
				t.Errorf("the end of the script is there %d times", n)
			}
			if strings.Contains(source, "-- <") {
				t.Error("a mark is left")
			}
		})
	}
}

func TestCommonTouchesNoKey(t *testing.T) {
	if err := errors.Join(checkCommon(common), checkCommon(common+record)); err != nil {
		t.Error(err)
	}
	for name, broken := range map[string]string{
		"a key":           "local timers = KEYS[1]\n",
		"an argument":     "local node = ARGV[1]\n",
		"another command": "redis.call('FLUSHALL')\n",
		"a global":        "leaked = 1\n",
	} {
		if checkCommon(common+broken) == nil {
			t.Errorf("common with %s passes", name)
		}
	}
}

// TestChangedHeadersFail: every real script fails as soon as its header changes.
func TestChangedHeadersFail(t *testing.T) {
	for _, name := range scriptNames() {
		source := readFile(t, name+".lua")
		for what, broken := range map[string]string{
			"one more key":         replaceLine(source, "-- KEYS:", func(line string) string { return line + " extra" }),
			"first key renamed":    replaceLine(source, "-- KEYS:", func(line string) string { return strings.Replace(line, "KEYS:    ", "KEYS:    x", 1) }),
			"one more argument":    replaceLine(source, "-- ARGV:", func(line string) string { return strings.TrimRight(line, " ") + " extra_ms" }),
			"one more item field":  replaceLine(source, "-- ITEM:", func(line string) string { return line + " extra" }),
			"another kind":         replaceLine(source, "-- Kind:", swapKind),
			"no kind":              replaceLine(source, "-- Kind:", func(string) string { return "-- Sort:    merge" }),
			"an answer without it": strings.Replace(source, "-- Returns: now_us", "-- Returns: seconds", 1),
		} {
			if broken == source {
				continue // the script has no such line
			}
			if checkScript(name, common, broken) == nil {
				t.Errorf("%s with %s passes", name, what)
			}
		}
	}
}

const example = `-- Kind:    leased
-- Does:    leases what it is told to,
--          and says so
-- KEYS:    due timers
-- ARGV:    limit_ms node flag
-- ITEM:    key token delay_ms
--          (delay_ms: from now)
-- Returns: now_us, then for each item: "ok"; after limit_ms: now_us, "late"
-- Cost:    O(items)
-- Twice:   safe
local due, timers = KEYS[1], KEYS[2]
local limit, node, flag = tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1'
if now_ms > limit then return { now_us, 'late' } end

local function put(key, score) redis.call('ZADD', due, int(score), key) end

local reply = { now_us }
for i = 4, #ARGV, 3 do
  local key, token, delay_ms = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  if flag then put(key, now_ms + delay_ms) end
  reply[#reply + 1] = node .. token .. 'ok'
end
reply[#reply + 1] = redis.call('HGET', timers, node)
return reply
`

func TestCheckerBites(t *testing.T) {
	if err := checkScript("example", common, example); err != nil {
		t.Fatalf("the unbroken example fails: %v", err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"kind unknown", "Kind:    leased", "Kind:    quick", "kind is"},
		{"topology of timers", "Kind:    leased", "Kind:    topology", "kind is topology"},
		{"letters of timers", "Kind:    leased", "Kind:    letters", "kind is letters"},
		{"kind missing", "-- Kind:    leased\n", "", "header has no Kind"},
		{"does missing", "-- Does:    leases what it is told to,\n--          and says so\n", "", "header has no Does"},
		{"cost empty", "Cost:    O(items)", "Cost:", "Cost says nothing"},
		{"twice empty", "Twice:   safe", "Twice:", "Twice says nothing"},
		{"unknown part", "-- Cost: ", "-- Coast:", "unknown part Coast"},
		{"part twice", "-- Twice:   safe", "-- Twice:   safe\n-- Twice:   safe", "Twice stands twice"},
		{"not a name", "ARGV:    limit_ms", "ARGV:    limit,", "is not a name"},
		{"note on no field", "(delay_ms:", "(away_ms:", "away_ms"},
		{"key too many", "KEYS:    due timers", "KEYS:    due timers leases", "KEYS[3]"},
		{"key too few", "KEYS:    due timers", "KEYS:    due", "KEYS[2]"},
		{"keys in another order", "KEYS:    due timers", "KEYS:    timers due", "KEYS[1]"},
		{"key by number later", "'ZADD', due,", "'ZADD', KEYS[1],", "first argument"},
		{"key made up", "'ZADD', due,", "'ZADD', 'chronos:' .. node,", "first argument"},
		{"key reassigned", "local reply", "due = timers\nlocal reply", "due"},
		{"key shadowed", "put(key, score)", "put(key, score, due)", "due"},
		{"keys passed on", "local reply", "local all = KEYS\nlocal reply", "KEYS"},
		{"argument too many", "ARGV:    limit_ms node flag", "ARGV:    limit_ms node flag more", "ARGV[4]"},
		{"argument too few", "ARGV:    limit_ms node flag", "ARGV:    limit_ms node", "ARGV[3]"},
		{"argument too many in another line", "ARGV:    limit_ms node flag", "ARGV:    limit_ms node flag\n--          more", "ARGV[4]"},
		{"note without brackets", "ARGV:    limit_ms node flag", "ARGV:    limit_ms node flag\n--          flag: if set", "is not a name"},
		{"arguments in another order", "ARGV:    limit_ms node", "ARGV:    node limit_ms", "ARGV[1]"},
		{"argument unused", ", ARGV[3] == '1'", ", true", "ARGV[3]"},
		{"argument used without its name", "if flag then", "if ARGV[3] then", "is used 4 times"},
		{"arguments passed on", "local reply", "local all = ARGV\nlocal reply", "ARGV"},
		{"items from another place", "for i = 4,", "for i = 3,", "items begin"},
		{"another stride", "#ARGV, 3 do", "#ARGV, 4 do", "stride"},
		{"item field too many", "ITEM:    key token delay_ms", "ITEM:    key token delay_ms label", "stride"},
		{"item field too few", "ITEM:    key token delay_ms", "ITEM:    key token", "ARGV[i + 2]"},
		{"item fields in another order", "ITEM:    key token", "ITEM:    token key", "ARGV[i + 0]"},
		{"item field unused", "ARGV[i + 1]", "node", "ARGV[i + 1]"},
		{"item without header", "-- ITEM:    key token delay_ms\n--          (delay_ms: from now)\n", "", "ITEM"},
		{"item without loop", "for i = 4, #ARGV, 3 do", "local i = 4\ndo", "loop"},
		{"read that writes", "Kind:    leased", "Kind:    read", "read"},
		{"leased that writes nothing", "redis.call('ZADD', due, int(score), key)", "return redis.call('ZSCORE', due, key)", "writes nothing"},
		{"counted elsewhere", "redis.call('HGET', timers, node)", "redis.call('HINCRBY', timers, node, 1)", "HINCRBY"},
		{"a sum of tags without their key", "redis.call('HGET', timers, node)", "redis.call('HINCRBY', tags, node, 1)", "first argument"},
		{"command not allowed", "'ZADD'", "'PEXPIRE'", "PEXPIRE"},
		{"command in lower case", "'ZADD'", "'zadd'", "zadd"},
		{"command computed", "'ZADD'", "'Z' .. 'ADD'", "computed"},
		{"pcall", "redis.call('ZADD'", "redis.pcall('ZADD'", "ZADD"},
		{"a log that may fail the script", "redis.call('HGET', timers, node)", "redis.call('XADD', timers, '*', node, 1)", "XADD"},
		{"a log elsewhere", "redis.call('HGET', timers, node)", "redis.pcall('XADD', timers, '*', node, 1)", "XADD"},
		{"alias of redis", "local reply", "local r = redis\nlocal reply", "redis"},
		{"global assigned", "local reply", "reply", "global reply"},
		{"global function", "local function put", "function put", "global put"},
		{"global in a function", "int(score), key)", "int(score), key) last = key", "global last"},
		{"missing library", "now_ms + delay_ms)", "cjson.decode(delay_ms))", "global cjson"},
		{"clock of its own", "now_ms + delay_ms)", "redis.call('TIME')[1])", "TIME"},
		{"late not in the header", `; after limit_ms: now_us, "late"`, "", "late"},
		{"late not in the body", "'late'", "'slow'", "late"},
		{"answer without the clock", "Returns: now_us, then", "Returns:", "now_us"},
		{"does not parse", "for i = 4", "for i == 4", "parse"},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken := strings.Replace(example, c.old, c.new, 1)
			if broken == example {
				t.Fatalf("the example has no %q", c.old)
			}
			err := checkScript("example", common, broken)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}

func scriptNames() []string {
	var names []string
	for name := range Scripts() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func replaceLine(source, prefix string, change func(string) string) string {
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, prefix) {
			lines[i] = change(line)
		}
	}
	return strings.Join(lines, "\n")
}

func swapKind(line string) string {
	if strings.HasSuffix(line, "read") {
		return "-- Kind:    merge"
	}
	return "-- Kind:    read"
}

// header is the promise in a script's first lines.
type header struct {
	kind, returns    string
	keys, argv, item []string
}

var (
	headerPart = regexp.MustCompile(`^-- (\w+):\s*(.*)$`)
	headerNote = regexp.MustCompile(`^--\s{9,}(.*)$`)
	fieldName  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	noteOn     = regexp.MustCompile(`(\w+): `)
	lateWord   = regexp.MustCompile(`"late"`)
)

// parseHeader reads the comment lines at the beginning.
func parseHeader(source string) (header, []error) {
	parts, faults := map[string]string{}, []error(nil)
	last := ""
	for line := range strings.Lines(source) {
		line = strings.TrimRight(line, "\n")
		if note := headerNote.FindStringSubmatch(line); note != nil && last != "" {
			parts[last] += "\n" + note[1]
		} else if part := headerPart.FindStringSubmatch(line); part != nil {
			last = part[1]
			if _, ok := parts[last]; ok {
				faults = append(faults, fmt.Errorf("%s stands twice", last))
			}
			parts[last] = part[2]
		} else {
			break
		}
	}
	known := []string{"Kind", "Does", "KEYS", "ARGV", "ITEM", "Returns", "Cost", "Twice"}
	for name := range parts {
		if !slices.Contains(known, name) {
			faults = append(faults, fmt.Errorf("header has an unknown part %s", name))
		}
	}
	for _, name := range known {
		said, ok := parts[name]
		if !ok && name != "ITEM" {
			faults = append(faults, fmt.Errorf("header has no %s", name))
		} else if ok && said == "" && name != "ARGV" {
			faults = append(faults, fmt.Errorf("%s says nothing", name))
		}
	}
	h := header{kind: parts["Kind"], returns: parts["Returns"]}
	for name, fields := range map[string]*[]string{"KEYS": &h.keys, "ARGV": &h.argv, "ITEM": &h.item} {
		list, note := parts[name], "" // a list goes on in the lines before its note
		if at := strings.Index(list, "\n("); at >= 0 {
			list, note = list[:at], list[at:]
		}
		*fields = strings.Fields(list)
		for _, field := range *fields {
			if !fieldName.MatchString(field) {
				faults = append(faults, fmt.Errorf("%s: %q is not a name", name, field))
			}
		}
		for _, about := range noteOn.FindAllStringSubmatch(note, -1) {
			if !slices.Contains(*fields, about[1]) {
				faults = append(faults, fmt.Errorf("%s: the note tells of %s, which isn't in the list", name, about[1]))
			}
		}
	}
	return h, faults
}

// checker gathers the contradictions between a script's body and its header.
type checker struct {
	header
	faults []error
}

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

// checkScript reports all contradictions between the script's body and header, and all rules that the
// body breaks.
func checkScript(name, common, source string) error {
	c := &checker{}
	c.header, c.faults = parseHeader(source)
	body, err := parse.Parse(strings.NewReader(source), name)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	c.checkGlobals(name, common+whole(source))
	c.checkKeys(body)
	c.checkArguments(body)
	c.checkItems(body)
	c.checkCommands(body)
	c.checkAnswers(body)
	return errors.Join(c.faults...)
}

// checkCommon: the common beginning of all scripts only asks for the time.
func checkCommon(source string) error {
	c := &checker{}
	body, err := parse.Parse(strings.NewReader(source), "common")
	if err != nil {
		return err
	}
	c.checkGlobals("common", source)
	walk(body, func(n any) {
		if id, ok := n.(*ast.IdentExpr); ok && (id.Value == "KEYS" || id.Value == "ARGV") {
			c.fault("common uses %s", id.Value)
		}
		if command, _, ok := redisCall(n); ok && command != "TIME" {
			c.fault("common calls %s", command)
		}
	})
	return errors.Join(c.faults...)
}

// checkGlobals compiles the script and looks at the used globals. No global may be assigned, and the
// script may only read globals of Lua and Redis in every flavor.
func (c *checker) checkGlobals(name, source string, more ...string) {
	chunk, err := parse.Parse(strings.NewReader(source), name)
	if err != nil {
		c.fault("parse %s: %w", name, err)
		return
	}
	proto, err := glua.Compile(chunk, name)
	if err != nil {
		c.fault("compile %s: %w", name, err)
		return
	}
	known := append(strings.Fields("ARGV KEYS ipairs math pairs redis string table tonumber tostring type unpack"), more...)
	for protos := []*glua.FunctionProto{proto}; len(protos) > 0; protos = protos[1:] {
		for _, instruction := range protos[0].Code {
			operation, constant := int(instruction>>26), instruction&0x3ffff
			switch operation {
			case glua.OP_SETGLOBAL:
				c.fault("global %s is assigned", protos[0].Constants[constant])
			case glua.OP_GETGLOBAL:
				if global := protos[0].Constants[constant].String(); !slices.Contains(known, global) {
					c.fault("global %s is read", global)
				}
			}
		}
		protos = append(protos, protos[0].FunctionPrototypes...)
	}
}

// checkKeys: every key of the header is the local of its name, and KEYS has no further use.
func (c *checker) checkKeys(body []ast.Stmt) {
	named := map[int]string{}
	forNames(body, func(name string, value ast.Expr) {
		if i, ok := index(value, "KEYS"); ok {
			named[i] = name
		}
	})
	for i := range max(len(c.keys), len(named)) {
		switch name, ok := named[i+1]; {
		case i >= len(c.keys):
			c.fault("KEYS[%d] is used and not in the header", i+1)
		case !ok:
			c.fault("KEYS[%d], %s, is not used", i+1, c.keys[i])
		case name != c.keys[i]:
			c.fault("KEYS[%d] is %s in the header and %s in the body", i+1, c.keys[i], name)
		}
	}
	if uses := countIdent(body, "KEYS"); uses != len(named) {
		c.fault("KEYS is used %d times, for %d locals", uses, len(named))
	}
	for _, key := range c.keys {
		if n := definitions(body, key); n > 1 {
			c.fault("%s, a key, is defined %d times", key, n)
		}
	}
}

// checkArguments: every argument of the header is the local of its name, with or without its unit.
func (c *checker) checkArguments(body []ast.Stmt) {
	named, uses := map[int]string{}, 0
	forNames(body, func(name string, value ast.Expr) {
		walk(value, func(n any) {
			if i, ok := index(n, "ARGV"); ok {
				named[i] = name
			}
		})
	})
	walk(body, func(n any) {
		if i, ok := index(n, "ARGV"); ok {
			uses++
			if named[i] == "" {
				c.fault("ARGV[%d] is used without a name", i)
			}
		}
	})
	for i := range max(len(c.argv), len(named)) {
		switch name, ok := named[i+1]; {
		case i >= len(c.argv):
			c.fault("ARGV[%d] is used and not in the header", i+1)
		case !ok:
			c.fault("ARGV[%d], %s, is not used", i+1, c.argv[i])
		case !sameField(name, c.argv[i]):
			c.fault("ARGV[%d] is %s in the header and %s in the body", i+1, c.argv[i], name)
		}
	}
	if uses != len(named) {
		c.fault("ARGV[…] is used %d times, for %d locals", uses, len(named))
	}
}

// checkItems: every loop over ARGV starts after the arguments, and steps by the number of an item's
// fields. Every field has its name.
func (c *checker) checkItems(body []ast.Stmt) {
	var loops []*ast.NumberForStmt
	named, uses := map[int]string{}, 0
	walk(body, func(n any) {
		if loop, ok := n.(*ast.NumberForStmt); ok && isLength(loop.Limit, "ARGV") {
			loops = append(loops, loop)
		}
	})
	variable := "i"
	if len(loops) > 0 {
		variable = loops[0].Name
	}
	forNames(body, func(name string, value ast.Expr) {
		walk(value, func(n any) {
			if i, ok := offset(n, "ARGV", variable); ok {
				uses++
				if named[i] != "" && named[i] != name {
					c.fault("ARGV[%s + %d] is both %s and %s", variable, i, named[i], name)
				}
				named[i] = name
			}
		})
	})
	all := countIdent(body, "ARGV") - len(c.argv)
	if all != uses+len(loops) {
		c.fault("ARGV is used otherwise than for the locals of arguments, of item fields, and loops")
	}
	if len(c.item) == 0 {
		if all > 0 {
			c.fault("the body reads items, and the header has no ITEM")
		}
		return
	}
	if len(loops) == 0 {
		c.fault("no loop over #ARGV")
	}
	for _, loop := range loops {
		c.checkLoop(loop, variable)
	}
	for i := range max(len(c.item), len(named)) {
		switch name, ok := named[i]; {
		case i >= len(c.item):
			c.fault("ARGV[%s + %d] is used and not in the header", variable, i)
		case !ok:
			c.fault("ARGV[%s + %d], %s, is not used", variable, i, c.item[i])
		case !sameField(name, c.item[i]):
			c.fault("ARGV[%s + %d] is %s in the header and %s in the body", variable, i, c.item[i], name)
		}
	}
}

func (c *checker) checkLoop(loop *ast.NumberForStmt, variable string) {
	if loop.Name != variable {
		c.fault("the loops over #ARGV count by %s and by %s", variable, loop.Name)
	}
	if first, _ := number(loop.Init); first != len(c.argv)+1 {
		c.fault("the items begin at ARGV[%d], behind %d arguments", first, len(c.argv))
	}
	stride, ok := number(loop.Step)
	if !ok {
		stride = 1
	}
	if stride != len(c.item) {
		c.fault("the stride is %d, and an item has %d fields", stride, len(c.item))
	}
}

// checkCommands: scripts make plain calls of a few commands, only on keys of the header. Every flavor
// has these commands, and their behavior at maxmemory is known.
func (c *checker) checkCommands(body []ast.Stmt) {
	reads := []string{"HGET", "HMGET", "HSCAN", "ZSCORE", "ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZRANGE", "ZCOUNT", "HKEYS", "HLEN", "HRANDFIELD", "HGETALL"}
	writes := []string{"ZREM", "ZADD", "HSET", "HDEL", "ZREMRANGEBYSCORE", "ZREMRANGEBYRANK"}
	calls, written := 0, 0
	walk(body, func(n any) {
		command, args, ok := redisCall(n)
		protected, _, _ := protectedCall(n)
		if !ok && protected == "" {
			return
		}
		calls++
		switch {
		case protected != "":
			command, args = c.checkProtected(n)
			if command == "XADD" {
				written++
			}
		case command == "":
			c.fault("a command is computed")
		case slices.Contains(writes, command):
			written++
		case command == "HINCRBY" && len(args) == 3 && (isIdent(args[0], "tags") || c.kind == "marks" && isIdent(args[0], "marked")):
			written++ // a sum of tags, or the number of marks
		case command == "HINCRBY":
			c.fault("HINCRBY is for sums of tags and numbers of marks")
		case !slices.Contains(reads, command):
			c.fault("command %s is not one of the allowed ones", command)
		}
		if !slices.ContainsFunc(c.keys, func(key string) bool { return len(args) > 0 && isIdent(args[0], key) }) {
			c.fault("%s: the first argument is not one of the header's keys", command)
		}
	})
	if uses := countIdent(body, "redis"); uses != calls {
		c.fault("redis is used %d times, %d of them redis.call", uses, calls)
	}
	switch c.kind {
	case "read":
		if written > 0 {
			c.fault("kind is read, and %d commands write", written)
		}
	case "merge", "leased":
		if written == 0 {
			c.fault("kind is %s, and the script writes nothing", c.kind)
		}
	case "node": // touches no timer
		if !slices.Equal(c.keys, []string{"nodes", "clocks", "pauses", "status"}) {
			c.fault("kind is node: its keys are nodes, clocks, pauses and status")
		}
	case "topology", "sweep", "pauses", "fill":
		key := map[string]string{"topology": "topology", "sweep": "swept", "pauses": "pauses", "fill": "filled"}[c.kind]
		if !slices.Equal(c.keys, []string{key}) {
			c.fault("kind is %s: its only key is %s", c.kind, key)
		}
	case "marks": // which stand beside timers
		if !slices.Contains(c.keys, "untold") || !slices.Contains(c.keys, "marked") {
			c.fault("kind is marks: its keys are untold and marked, and maybe timers and leases to read")
		}
	case "letters": // whose timers are over
		if !slices.Equal(c.keys, []string{"dead"}) {
			c.fault("kind is letters: its only key is dead")
		}
	default:
		c.fault("kind is %q, want merge, leased, read, node, topology, sweep, pauses, marks, fill or letters", c.kind)
	}
}

// checkProtected: the script goes on after an error of a command about the log of deliveries, and of no other.
func (c *checker) checkProtected(n any) (command string, args []ast.Expr) {
	command, args, _ = protectedCall(n)
	if !slices.Contains([]string{"XADD", "XREVRANGE"}, command) || len(args) == 0 || !isIdent(args[0], "deliveries") {
		c.fault("command %s is not one of the allowed ones of pcall on the log", command)
	}
	return command, args
}

// checkAnswers: every answer begins with the shard's clock, and the header promises "late" if and only
// if the script answers "late".
func (c *checker) checkAnswers(body []ast.Stmt) {
	if !strings.HasPrefix(c.returns, "now_us") {
		c.fault("Returns doesn't begin with now_us")
	}
	late := false
	walk(body, func(n any) {
		if s, ok := n.(*ast.StringExpr); ok && s.Value == "late" {
			late = true
		}
	})
	if promised := lateWord.MatchString(c.returns) || strings.Contains(c.returns, "late ("); promised != late {
		c.fault("late: promised in the header %t, given in the body %t", promised, late)
	}
	tables := map[string]bool{}
	forNames(body, func(name string, value ast.Expr) {
		if isAnswer(value) {
			tables[name] = true
		}
	})
	for _, returned := range topReturns(body) {
		id, ok := returned.(*ast.IdentExpr)
		if !isAnswer(returned) && (!ok || !tables[id.Value]) {
			c.fault("an answer doesn't begin with now_us")
		}
	}
}

// topReturns are the values that the script itself returns, not its functions.
func topReturns(stmts []ast.Stmt) []ast.Expr {
	var all []ast.Expr
	for _, stmt := range stmts {
		switch s := stmt.(type) {
		case *ast.ReturnStmt:
			all = append(all, s.Exprs...)
		case *ast.IfStmt:
			all = append(append(all, topReturns(s.Then)...), topReturns(s.Else)...)
		case *ast.NumberForStmt:
			all = append(all, topReturns(s.Stmts)...)
		case *ast.GenericForStmt:
			all = append(all, topReturns(s.Stmts)...)
		case *ast.WhileStmt:
			all = append(all, topReturns(s.Stmts)...)
		}
	}
	return all
}

// walk visits every node of a syntax tree, of a list of nodes or of a part of a node.
func walk(tree any, visit func(node any)) {
	walkValue(reflect.ValueOf(tree), visit)
}

func walkValue(v reflect.Value, visit func(any)) {
	switch v.Kind() {
	case reflect.Interface:
		walkValue(v.Elem(), visit)
	case reflect.Slice:
		for i := range v.Len() {
			walkValue(v.Index(i), visit)
		}
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			visit(v.Interface())
			for i := range v.Elem().NumField() {
				if field := v.Elem().Field(i); v.Elem().Type().Field(i).IsExported() {
					walkValue(field, visit)
				}
			}
		}
	}
}

// forNames calls do for every local, assigned variable and table field with a value.
func forNames(body []ast.Stmt, do func(name string, value ast.Expr)) {
	walk(body, func(n any) {
		switch n := n.(type) {
		case *ast.LocalAssignStmt:
			for i, value := range n.Exprs {
				if _, ok := value.(*ast.FunctionExpr); !ok && i < len(n.Names) {
					do(n.Names[i], value)
				}
			}
		case *ast.AssignStmt:
			for i, target := range n.Lhs {
				if id, ok := target.(*ast.IdentExpr); ok && i < len(n.Rhs) {
					do(id.Value, n.Rhs[i])
				}
			}
		case *ast.Field:
			if key, ok := n.Key.(*ast.StringExpr); ok {
				do(key.Value, n.Value)
			}
		}
	})
}

// definitions counts the locals, parameters, loop variables and assignments of
// a name.
func definitions(body []ast.Stmt, name string) int {
	n := 0
	count := func(names ...string) {
		for _, defined := range names {
			if defined == name {
				n++
			}
		}
	}
	walk(body, func(node any) {
		switch node := node.(type) {
		case *ast.LocalAssignStmt:
			if len(node.Exprs) > 0 { // otherwise it is declared
				count(node.Names...)
			}
		case *ast.ParList:
			count(node.Names...)
		case *ast.NumberForStmt:
			count(node.Name)
		case *ast.GenericForStmt:
			count(node.Names...)
		case *ast.AssignStmt:
			for _, target := range node.Lhs {
				if isIdent(target, name) {
					n++
				}
			}
		}
	})
	return n
}

func countIdent(body []ast.Stmt, name string) int {
	n := 0
	walk(body, func(node any) {
		if id, ok := node.(*ast.IdentExpr); ok && id.Value == name {
			n++
		}
	})
	return n
}

// redisCall takes redis.call('COMMAND', …) apart; command is "" if computed.
func redisCall(n any) (command string, args []ast.Expr, ok bool) { return callOf(n, "call") }

// protectedCall takes redis.pcall('COMMAND', …) apart.
func protectedCall(n any) (command string, args []ast.Expr, ok bool) { return callOf(n, "pcall") }

func callOf(n any, function string) (command string, args []ast.Expr, ok bool) {
	call, isCall := n.(*ast.FuncCallExpr)
	if !isCall {
		return "", nil, false
	}
	attr, isAttr := call.Func.(*ast.AttrGetExpr)
	if !isAttr || !isIdent(attr.Object, "redis") || !isString(attr.Key, function) {
		return "", nil, false
	}
	if len(call.Args) > 0 {
		args = call.Args[1:]
		if name, isName := call.Args[0].(*ast.StringExpr); isName {
			command = name.Value
		}
	}
	return command, args, true
}

// index is n of array[n].
func index(n any, array string) (int, bool) {
	attr, ok := n.(*ast.AttrGetExpr)
	if !ok || !isIdent(attr.Object, array) {
		return 0, false
	}
	return number(attr.Key)
}

// offset is n of array[variable + n].
func offset(n any, array, variable string) (int, bool) {
	attr, ok := n.(*ast.AttrGetExpr)
	if !ok || !isIdent(attr.Object, array) {
		return 0, false
	}
	if isIdent(attr.Key, variable) {
		return 0, true
	}
	sum, ok := attr.Key.(*ast.ArithmeticOpExpr)
	if !ok || sum.Operator != "+" || !isIdent(sum.Lhs, variable) {
		return 0, false
	}
	return number(sum.Rhs)
}

func number(e ast.Expr) (int, bool) {
	literal, ok := e.(*ast.NumberExpr)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(literal.Value)
	return n, err == nil
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.IdentExpr)
	return ok && id.Value == name
}

func isString(e ast.Expr, value string) bool {
	s, ok := e.(*ast.StringExpr)
	return ok && s.Value == value
}

func isLength(e ast.Expr, array string) bool {
	length, ok := e.(*ast.UnaryLenOpExpr)
	return ok && isIdent(length.Expr, array)
}

// isAnswer: { now_us, … }.
func isAnswer(e ast.Expr) bool {
	table, ok := e.(*ast.TableExpr)
	return ok && len(table.Fields) > 0 && table.Fields[0].Key == nil && isIdent(table.Fields[0].Value, "now_us")
}

func sameField(local, field string) bool {
	return local == field || local == strings.TrimSuffix(field, "_ms")
}
