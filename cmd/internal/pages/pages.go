// Package pages reads the shell blocks of the documents, and compares their outputs with the outputs on the page.
// Tests run the blocks.
//
// A block says by comments right before the block how the block is run. A reader of the page does not see comments:
//
//	<!-- not run: REASON -->      no test runs the block
//	<!-- run by: PACKAGE -->      a test of another package runs the block
//	<!-- runs on: TEXT -->        the block does not end by itself; once it has printed TEXT, the next block follows
//	<!-- first: COMMANDS -->      what the test does before the block, such as making timers that the block finds
//	<!-- new cluster -->          the block and all that follow are run on another cluster than the blocks before
//
// A block without language right behind a shell block is the output. <!-- printed meanwhile --> before a block without
// language says that programs print the lines that earlier blocks have started.
package pages

import (
	"fmt"
	"regexp"
	"strings"
)

// How a block is run.
type How string

// The ways to run a block.
const (
	Ends      How = ""          // the block ends by itself, with status 0
	RunsOn    How = "runs on"   // Note is the text that shows that the programs of the block are ready
	NotRun    How = "not run"   // Note is the reason
	RunBy     How = "run by"    // Note is the package
	Meanwhile How = "meanwhile" // the block has only an output, of programs that run on
)

// Block is a shell block of a page, with the output that the page shows.
type Block struct {
	Line   int // of the fence, from 1
	How    How
	Note   string
	Fresh  bool   // a new cluster begins
	First  string // commands before the block
	Script string
	Output string // "" if the page shows none
}

const (
	meanwhile = "<!-- printed meanwhile -->"
	fresh     = "<!-- new cluster -->"
)

var (
	comment  = regexp.MustCompile(`(?s)^<!-- (not run|run by|runs on|first): (.*?) -->$`)
	commands = regexp.MustCompile(`(?m)^(\$ |(curl|chronos|redis-cli|redis-server|make|go|for|kcat|docker|helm|kubectl|systemctl) )`)
)

// Read returns the shell blocks of a page. It is an error if commands stand outside of shell blocks, or if a comment
// about a block stands before no block.
func Read(text string) (blocks []Block, err error) {
	r := reader{lines: strings.Split(text, "\n")}
	for r.at < len(r.lines) {
		if err := r.step(); err != nil {
			return nil, fmt.Errorf("line %d: %w", r.at+1, err)
		}
	}
	return r.blocks, r.left()
}

type reader struct {
	lines    []string
	at       int
	blocks   []Block
	next     Block // what comments have said of the next block
	said     bool  // whether a comment has said so
	outputOf *Block
}

func (r *reader) step() error {
	line := r.lines[r.at]
	switch {
	case strings.HasPrefix(strings.TrimSpace(line), "```"):
		return r.fence()
	case strings.HasPrefix(strings.TrimSpace(line), "<!-- "):
		return r.comment()
	case strings.HasPrefix(line, "    ") && commands.MatchString(line[4:]):
		return fmt.Errorf("%q is no shell block: begin the block with ```sh", line)
	case line != "":
		r.outputOf = nil
		if err := r.left(); err != nil {
			return err
		}
	}
	r.at++
	return nil
}

// left is an error if comments stand before no block.
func (r *reader) left() error {
	if r.said {
		return fmt.Errorf("no shell block follows the comment %q", r.next.How+" "+How(r.next.Note+r.next.First))
	}
	return nil
}

func (r *reader) comment() error {
	text := strings.TrimSpace(r.lines[r.at])
	for !strings.HasSuffix(text, "-->") && r.at+1 < len(r.lines) {
		r.at++
		text += "\n" + r.lines[r.at]
	}
	r.at++
	switch text {
	case meanwhile:
		r.next, r.said = Block{How: Meanwhile}, true
		return nil
	case fresh:
		r.next.Fresh, r.said = true, true
		return nil
	}
	found := comment.FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	if r.said = true; found[1] == "first" {
		r.next.First = found[2]
		return nil
	}
	r.next.How, r.next.Note = How(found[1]), found[2]
	return nil
}

func (r *reader) fence() error {
	begin := r.at
	indent, language, _ := strings.Cut(r.lines[r.at], "```")
	var body []string
	for r.at++; r.at < len(r.lines) && !strings.HasPrefix(strings.TrimSpace(r.lines[r.at]), "```"); r.at++ {
		body = append(body, strings.TrimPrefix(r.lines[r.at], indent))
	}
	r.at++
	text := strings.Join(body, "\n")
	b := r.next
	switch language {
	case "sh", "bash", "console":
		b.Line, b.Script = begin+1, text
	case "":
		if commands.MatchString(text) {
			return fmt.Errorf("the block is no shell block, and has commands: begin the block with ```sh")
		}
		if r.outputOf != nil {
			r.outputOf.Output, r.outputOf = text, nil
			return nil
		}
		if b.How != Meanwhile {
			return r.left()
		}
		b.Line, b.Output = begin+1, text
	default:
		r.outputOf = nil
		return r.left()
	}
	r.blocks, r.next, r.said = append(r.blocks, b), Block{}, false
	if b.How != Meanwhile {
		r.outputOf = &r.blocks[len(r.blocks)-1]
	}
	return nil
}
