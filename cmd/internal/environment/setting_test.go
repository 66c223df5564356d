package environment

import (
	"reflect"
	"strings"
	"testing"
)

// allBinaries are the settings of all binaries.
func allBinaries() map[string][]setting {
	return map[string][]setting{
		"node":    settingsOf(reflect.TypeFor[Node]()),
		"bridge":  settingsOf(reflect.TypeFor[Bridge]()),
		"command": settingsOf(reflect.TypeFor[Command]()),
	}
}

// TestTags: read, allows and TableOf can use all tags.
func TestTags(t *testing.T) {
	t.Parallel()
	for binary, settings := range allBinaries() {
		seen := map[string]bool{}
		for _, s := range settings {
			if !strings.HasPrefix(s.name, "CHRONOS_") || seen[s.name] || s.field.Tag.Get("about") == "" {
				t.Errorf("%s, %s: the name must begin with CHRONOS_, be its own, and have a meaning", binary, s.name)
			}
			seen[s.name] = true
			if (s.field.Tag.Get("min") == "") != (s.field.Tag.Get("max") == "") {
				t.Errorf("%s, %s: min and max go together", binary, s.name)
			}
			if s.field.Tag.Get("min") != "" && s.bound("min") >= s.bound("max") {
				t.Errorf("%s, %s: min is not below max", binary, s.name)
			}
			if s.required && s.field.Tag.Get("want") == "" {
				t.Errorf("%s, %s: who must set it needs to know what is wanted", binary, s.name)
			}
		}
	}
}

// TestSharedSettingsAreAlike: nodes and bridges allow the same values of a shared variable.
func TestSharedSettingsAreAlike(t *testing.T) {
	t.Parallel()
	ofBinary := allBinaries()
	shared := 0
	for _, a := range ofBinary["node"] {
		for _, b := range ofBinary["bridge"] {
			if a.name != b.name {
				continue
			}
			shared++
			if a.field.Type != b.field.Type || a.preset != b.preset {
				t.Errorf("%s: a %s with default %q and a %s with default %q", a.name, a.field.Type, a.preset, b.field.Type, b.preset)
			}
			for _, tag := range []string{"min", "max", "oneof", "secret"} {
				if a.field.Tag.Get(tag) != b.field.Tag.Get(tag) {
					t.Errorf("%s: %s is %q and %q", a.name, tag, a.field.Tag.Get(tag), b.field.Tag.Get(tag))
				}
			}
		}
	}
	if shared != 16 {
		t.Errorf("%d variables are shared, want 16", shared)
	}
}

func TestIsTopic(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"": false, ".": false, "..": false, "...": true, "timers": true, "Timers_v1.in-0": true,
		strings.Repeat("x", 249): true, strings.Repeat("x", 250): false, "a b": false, "a/b": false, "ä": false, "a\n": false,
	} {
		if got := isTopic(name); got != want {
			t.Errorf("isTopic(%q) = %v", name, got)
		}
	}
}
