// Package environment is what the binaries of chronos read from their
// environment: Node, Bridge and Command, whose tags are the only list of variables
// there is. Loading goes by them, its errors and the Markdown tables quote them. A
// variable that is unset or empty has its default.
//
//	env     name and default or required, as go-envconfig reads them
//	about   its meaning in one line
//	min max bounds of a number or duration, both allowed
//	oneof   the values that are allowed
//	want    what is allowed, where the type does not say it
//	secret  the value may hold a password and is never shown
//
// One environment may serve all binaries, so that each knows the variables of
// the others; any other CHRONOS_ variable is an error.
package environment

import (
	"errors"
	"reflect"
	"slices"
	"strings"
)

// settingsOfAll are the settings of every program of chronos. A new one adds
// its own here.
func settingsOfAll() []setting {
	return slices.Concat(settingsOf(reflect.TypeFor[Node]()), settingsOf(reflect.TypeFor[Bridge]()), settingsOf(reflect.TypeFor[Command]()))
}

// configuration is a struct of settings.
type configuration interface {
	// contradictions are what is wrong with values that are fine by themselves, or
	// that have a syntax of their own. The names in wrong have a fault already, and
	// their fields are empty.
	contradictions(wrong map[string]bool) []error
}

// load reads a configuration from environ, which looks like os.Environ, into a
// pointer to an empty one. Its error lists everything that is wrong, a line each.
func load(environ []string, into configuration) error {
	env := chronosVariables(environ)
	var faults []error
	wrong := map[string]bool{}
	fields := reflect.ValueOf(into).Elem()
	for _, s := range settingsOf(fields.Type()) {
		if err := s.read(env, fields.FieldByIndex(s.field.Index)); err != nil {
			faults = append(faults, err)
			wrong[s.name] = true
		}
	}
	faults = append(faults, into.contradictions(wrong)...)
	faults = append(faults, unknownVariables(env, settingsOfAll())...)
	return errors.Join(faults...)
}

// chronosVariables picks from environ what begins with CHRONOS_.
func chronosVariables(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "CHRONOS_") {
			env[name] = value
		}
	}
	return env
}
