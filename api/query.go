package api

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"chronos/api/wire"
)

// readQuery reads a query with the known parameters. Unknown names are refused: a misspelt filter
// would mean everything. A semicolon separates parameters, too.
func readQuery(raw string, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(strings.ReplaceAll(raw, ";", "&"))
	if err != nil {
		return nil, malformedQuery()
	}
	list := "there is no parameter"
	if len(known) > 0 {
		list = "known are " + strings.Join(known, ", ")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) { // so that the same query gets the same answer
		given := values[name]
		switch {
		case !slices.Contains(known, name):
			return nil, refuseQuery("parameter-unknown", "the query has the unknown parameter "+shownName(name)+"; "+list)
		case len(given) > 1:
			return nil, refuseQuery("parameter-duplicate", "the query has the parameter "+name+" more than once; give it once")
		case given[0] == "":
			return nil, refuseQuery("parameter-empty", "the query has the parameter "+name+" without a value; give one, or leave the parameter out")
		case !utf8.ValidString(given[0]):
			return nil, malformedQuery()
		}
	}
	return values, nil
}

func malformedQuery() error {
	return refuseQuery("query-malformed", "the query is malformed; percent-encode its values, in UTF-8")
}

// shownName is the name of an unknown parameter as an answer may show the name. A name of a strange
// form is not shown, since a secret may stand there by mistake.
func shownName(name string) string {
	const longest = 32
	strange := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	}
	if name == "" || len(name) > longest || strings.ContainsFunc(name, strange) {
		return "(of " + strconv.Itoa(len(name)) + " bytes)"
	}
	return name
}

// readInstant reads a parameter that is an instant; zero if the parameter is absent. An instant before
// 1970 counts as 1970.
func readInstant(values url.Values, name, code string) (time.Time, error) {
	text := values.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, ok := wire.ParseInstant(text)
	if !ok || at.Year() > 9999 {
		return time.Time{}, refuseQuery(code, name+" is not an RFC 3339 instant with its offset, such as 2030-01-31T12:00:00Z; in a query write %2B for + in the offset")
	}
	if epoch := time.UnixMilli(0).UTC(); at.Before(epoch) {
		return epoch, nil
	}
	return at, nil
}

// readWhole reads a parameter that is a whole number from 1 to most; otherwise if the parameter is absent.
func readWhole(values url.Values, name, code string, otherwise, most int) (int, error) {
	text := values.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, refuseQuery(code, name+" is no whole number from 1 to "+strconv.Itoa(most)+"; correct it, or leave it out for "+strconv.Itoa(otherwise))
	}
	return n, nil
}
