package environment

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"
)

// setting is a variable, as the tags of its field describe the variable.
type setting struct {
	field    reflect.StructField
	name     string
	preset   string // the default, "" for none
	required bool   // the variable must be set
}

// settingsOf are the settings of a struct and of its embedded structs, in the order of the
// source text.
func settingsOf(t reflect.Type) []setting {
	var settings []setting
	for _, field := range reflect.VisibleFields(t) {
		if field.Anonymous {
			continue
		}
		name, option, _ := strings.Cut(field.Tag.Get("env"), ",")
		s := setting{field: field, name: name, required: option == "required"}
		if preset, is := strings.CutPrefix(option, "default="); is {
			s.preset = preset
		}
		settings = append(settings, s)
	}
	return settings
}

// read sets the field to from the setting's value in env. go-envconfig stops at the first
// fault, so read gives go-envconfig a single field at a time.
func (s setting) read(env map[string]string, to reflect.Value) error {
	value := env[s.name]
	if value == "" {
		value = s.preset
	}
	if value == "" && s.required {
		return fmt.Errorf("%s is not set: want %s", s.name, s.wanted())
	}
	alone := reflect.New(reflect.StructOf([]reflect.StructField{s.field}))
	err := envconfig.ProcessWith(context.Background(), &envconfig.Config{
		Target:   alone.Interface(),
		Lookuper: envconfig.MapLookuper(map[string]string{s.name: value}),
	})
	if err != nil || !s.allows(value, alone.Elem().Field(0)) {
		return s.fault(value)
	}
	to.Set(alone.Elem().Field(0))
	return nil
}

// allows reports whether the tags allow a value of the right type.
func (s setting) allows(text string, value reflect.Value) bool {
	tag := s.field.Tag
	switch {
	case text == "":
		return true
	case tag.Get("oneof") != "":
		return slices.Contains(strings.Fields(tag.Get("oneof")), text)
	case tag.Get("min") != "":
		return s.bound("min") <= value.Int() && value.Int() <= s.bound("max")
	case tag.Get("want") == "address":
		return isAddress(text)
	case tag.Get("want") == "topic":
		return isTopic(text)
	}
	return strings.TrimSpace(text) != ""
}

// bound reads the tag min or max in the unit of the field.
func (s setting) bound(tag string) int64 {
	text := s.field.Tag.Get(tag)
	if s.isDuration() {
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(fmt.Sprintf("tag %s of %s: %v", tag, s.name, err))
		}
		return int64(d)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("tag %s of %s: %v", tag, s.name, err))
	}
	return n
}

func (s setting) isDuration() bool { return s.field.Type == reflect.TypeFor[time.Duration]() }

// isAddress reports whether the address has the form of a listener's address. Names are not
// looked up.
func isAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.ContainsAny(host, " /@") {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// isTopic reports whether Kafka allows a topic with the name.
func isTopic(name string) bool { return topicName.MatchString(name) && name != "." && name != ".." }

func (s setting) fault(value string) error {
	shown := strconv.Quote(value)
	if s.field.Tag.Get("secret") != "" {
		shown = "(not shown: it may hold a password)"
	}
	return fmt.Errorf("%s=%s: want %s", s.name, shown, s.wanted())
}

// wanted describes the values that the setting allows.
func (s setting) wanted() string {
	tag := s.field.Tag
	switch {
	case tag.Get("oneof") != "":
		return "one of " + strings.Join(strings.Fields(tag.Get("oneof")), ", ")
	case tag.Get("min") != "" && s.isDuration():
		return fmt.Sprintf("a duration from %s to %s, such as %s", tag.Get("min"), tag.Get("max"), s.preset)
	case tag.Get("min") != "":
		return fmt.Sprintf("a whole number from %s to %s", tag.Get("min"), tag.Get("max"))
	case tag.Get("want") == "address":
		return "host:port or :port, such as " + s.preset
	case tag.Get("want") == "path":
		return "a path, such as " + s.preset
	case tag.Get("want") == "topic":
		return "a topic: 1 to 249 of A-Z a-z 0-9 . _ -, but not . or .."
	case tag.Get("want") != "":
		return tag.Get("want")
	}
	return "a value that is not blank"
}
