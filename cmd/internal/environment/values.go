package environment

import (
	"reflect"
)

// Value is the value of a variable.
type Value struct {
	Name  string `json:"name"`
	Value string `json:"value"` // *** for a secret that is set
	From  string `json:"from"`  // environment, default, or unset
	About string `json:"about"`
}

// ValuesOf are the values of all variables of a configuration, right or wrong.
func ValuesOf[T Node | Bridge](environ []string) []Value {
	env := chronosVariables(environ)
	var values []Value
	for _, s := range settingsOf(reflect.TypeFor[T]()) {
		v := Value{Name: s.name, Value: env[s.name], From: "environment", About: s.field.Tag.Get("about")}
		switch {
		case v.Value != "" && s.field.Tag.Get("secret") != "":
			v.Value = "***"
		case v.Value != "":
		case s.preset != "":
			v.Value, v.From = s.preset, "default"
		default:
			v.From = "unset"
		}
		values = append(values, v)
	}
	return values
}
