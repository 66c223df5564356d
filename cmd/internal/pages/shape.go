package pages

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// kinds are what differs from run to run, with the words that stand for it. A kind of ids is learnt: a later block may
// name the id of an earlier output.
var kinds = regexp.MustCompile(`(?P<instant>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))` +
	`|(?P<time>\b\d\d:\d\d:\d\d(?:\.\d+)?)` +
	`|(?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-z]{13}-[0-9a-f]{2}-[0-9a-f]{16}\b|\b[0-9a-f]{16,}\b)` +
	`|(?P<bar>\[[#.]+\])` +
	`|(?P<version>(?:\(devel\)|v\d\S*) go[\d.]+)` +
	`|(?P<duration>(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ms|s|m|h)\b)` +
	`|(?P<number>-?\d+(?:\.\d+)?)`)

// Compare compares what a block has printed with the output on the page: lines, words, and the names and kinds of the
// members of JSON. Instants, numbers, ids and the like may differ, and "…" on the page stands for anything. The ids of
// the page are learnt, with the ids that have been printed in their place.
func Compare(page, printed string) (ids map[string]string, err error) {
	c := comparison{ids: map[string]string{}}
	c.printed = strings.Split(strings.TrimSpace(strings.ReplaceAll(printed, "\r", "")), "\n")
	head := false
	for line := range strings.SplitSeq(strings.TrimSpace(page), "\n") {
		switch {
		case strings.HasPrefix(line, "HTTP/"):
			head = true
			err = c.next(line)
		case head && line != "":
			err = c.header(line)
		case head:
			head = false
			c.skip(func(printed string) bool { return printed == "" })
		case strings.TrimSpace(line) == "…":
			c.open = true
		default:
			err = c.next(line)
		}
		if err != nil {
			return nil, err
		}
	}
	if rest := strings.TrimSpace(strings.Join(c.printed, "\n")); rest != "" && !head && !c.open {
		return nil, fmt.Errorf("the page does not show %q", rest)
	}
	return c.ids, nil
}

type comparison struct {
	printed []string // lines that are not compared yet
	open    bool     // further lines may come before the next line of the page
	ids     map[string]string
}

// skip drops printed lines up to the first for which end holds.
func (c *comparison) skip(end func(string) bool) {
	at := slices.IndexFunc(c.printed, end)
	if at < 0 {
		at = len(c.printed)
	}
	c.printed = c.printed[at:]
}

// next compares a line of the page with the next printed line.
func (c *comparison) next(line string) error {
	if c.open {
		c.open = false
		c.skip(func(printed string) bool { return c.line(line, printed) == nil })
	}
	if line != "" {
		c.skip(func(printed string) bool { return printed != "" })
	}
	if len(c.printed) == 0 {
		return fmt.Errorf("the page shows %q, and nothing was printed", line)
	}
	printed := c.printed[0]
	c.printed = c.printed[1:]
	return c.line(line, printed)
}

// header looks for a line of an HTTP head anywhere in the rest of the head that was printed.
func (c *comparison) header(line string) error {
	for _, printed := range c.printed {
		if printed == "" {
			break
		}
		if c.line(line, printed) == nil {
			return nil
		}
	}
	return fmt.Errorf("no header is like %q: %q", line, c.printed)
}

func (c *comparison) line(page, printed string) error {
	if strings.HasPrefix(page, "HTTP/") && page != strings.TrimSpace(printed) {
		return fmt.Errorf("the page shows %q, printed was %q", page, printed)
	}
	if strings.HasPrefix(page, "{") && strings.HasPrefix(printed, "{") {
		return c.json(page, printed)
	}
	return c.text(page, printed)
}

func (c *comparison) json(page, printed string) error {
	// "…" as a member or an element stands for further ones.
	page = strings.NewReplacer(`,…`, `,"…":0`, `{…`, `{"…":0`).Replace(page)
	page = regexp.MustCompile(`\},"…":0\]`).ReplaceAllString(page, "}]")
	var shown, got any
	if err := json.Unmarshal([]byte(page), &shown); err != nil {
		return fmt.Errorf("the page shows no JSON: %q: %w", page, err)
	}
	if err := json.Unmarshal([]byte(printed), &got); err != nil {
		return fmt.Errorf("printed was no JSON: %q: %w", printed, err)
	}
	if err := c.value("", shown, got); err != nil {
		return fmt.Errorf("%w\nprinted was %s", err, printed)
	}
	return nil
}

func (c *comparison) value(path string, page, printed any) error {
	if page == nil || printed == nil {
		return nil // a value that is unknown, on the page or now
	}
	switch page := page.(type) {
	case map[string]any:
		if printed, is := printed.(map[string]any); is {
			return c.object(path, page, printed)
		}
	case []any:
		if printed, is := printed.([]any); is {
			return c.array(path, page, printed)
		}
	case string:
		if printed, is := printed.(string); is {
			return c.text(page, printed)
		}
	default:
		if fmt.Sprintf("%T", page) == fmt.Sprintf("%T", printed) && (page == printed || !strings.HasSuffix(path, ".status")) {
			return nil
		}
	}
	return fmt.Errorf("%s is %v on the page, %v in fact", path, page, printed)
}

func (c *comparison) object(path string, page, printed map[string]any) error {
	_, open := page["…"]
	for name, value := range page {
		got, is := printed[name]
		if name == "…" {
			continue
		}
		if !is {
			return fmt.Errorf("%s has no member %q in fact", path, name)
		}
		if err := c.value(path+"."+name, value, got); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(printed)) {
		if _, is := page[name]; !is && !open {
			return fmt.Errorf("%s has the member %q, which the page does not show", path, name)
		}
	}
	return nil
}

func (c *comparison) array(path string, page, printed []any) error {
	if (len(page) == 0) != (len(printed) == 0) {
		return fmt.Errorf("%s has %d elements on the page, %d in fact", path, len(page), len(printed))
	}
	for i := range page {
		if err := c.value(fmt.Sprint(path, "[", i, "]"), page[i], printed[min(i, len(printed)-1)]); err != nil {
			return err
		}
	}
	return nil
}

// text compares two texts without regard to what differs from run to run, and to the number of spaces.
func (c *comparison) text(page, printed string) error {
	pattern := regexp.QuoteMeta(shape(page))
	if !regexp.MustCompile("^" + strings.ReplaceAll(pattern, "…", ".*") + "$").MatchString(shape(printed)) {
		return fmt.Errorf("the page shows %q, printed was %q", page, printed)
	}
	shown, got := idsOf(page), idsOf(printed)
	for i := range shown {
		if len(shown) == len(got) && shown[i] != got[i] {
			c.ids[shown[i]] = got[i]
		}
	}
	return nil
}

func shape(text string) string {
	text = kinds.ReplaceAllStringFunc(text, func(found string) string {
		match := kinds.FindStringSubmatch(found)
		for i, name := range kinds.SubexpNames() {
			if name != "" && match[i] != "" {
				return "<" + name + ">"
			}
		}
		return found
	})
	return strings.Join(strings.Fields(text), " ")
}

func idsOf(text string) (all []string) {
	at := kinds.SubexpIndex("id")
	for _, match := range kinds.FindAllStringSubmatch(text, -1) {
		if match[at] != "" {
			all = append(all, match[at])
		}
	}
	return all
}
