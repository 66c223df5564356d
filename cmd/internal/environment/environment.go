// Package environment reads the configuration of the binaries of chronos from environment
// variables: Node, Bridge and Command. The tags of these structs are the only list of
// variables. Loading follows the tags; errors and the Markdown tables quote the tags. A
// variable that is unset or empty has its default.
//
//   - env: name, and default or required, as in go-envconfig.
//   - about: meaning in a single line.
//   - min and max: bounds of a number or duration, both allowed.
//   - oneof: all allowed values.
//   - want: description of the allowed values, where the type says too little.
//   - secret: the value may hold a password, and is never shown.
//
// A single environment may serve all binaries, so every binary knows the variables of all
// binaries; any other CHRONOS_ variable is an error.
package environment

import (
	"errors"
	"reflect"
	"slices"
	"strings"
)

// settingsOfAll are the settings of every program of chronos. A new program must be added here.
func settingsOfAll() []setting {
	return slices.Concat(settingsOf(reflect.TypeFor[Node]()), settingsOf(reflect.TypeFor[Bridge]()), settingsOf(reflect.TypeFor[Command]()))
}

// configuration is a struct of settings.
type configuration interface {
	// contradictions are the faults of values that are fine alone but not together, or have
	// a syntax that the tags can't express. The names in wrong have a fault already, and
	// their fields are empty.
	contradictions(wrong map[string]bool) []error
}

// load reads a configuration from environ, in the form of os.Environ, into a pointer to an
// empty configuration. The error lists all faults, one a line.
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

// chronosVariables picks the variables from environ that begin with CHRONOS_.
func chronosVariables(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "CHRONOS_") {
			env[name] = value
		}
	}
	return env
}
