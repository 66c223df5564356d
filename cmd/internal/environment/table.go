package environment

import (
	"fmt"
	"reflect"
	"strings"
)

// TableOf is the Markdown table of all variables of a configuration.
func TableOf[T Node | Bridge]() string {
	rows := [][3]string{{"variable", "default", "meaning"}}
	for _, s := range settingsOf(reflect.TypeFor[T]()) {
		preset, meaning := "unset", s.field.Tag.Get("about")
		switch {
		case s.preset != "":
			preset = "`" + s.preset + "`"
		case s.required:
			preset = "required"
		}
		if s.field.Tag.Get("min")+s.field.Tag.Get("oneof") != "" {
			meaning += "; " + s.wanted()
		}
		rows = append(rows, [3]string{"`" + s.name + "`", preset, meaning})
	}
	var widths [2]int
	for _, row := range rows {
		widths[0], widths[1] = max(widths[0], len(row[0])), max(widths[1], len(row[1]))
	}
	var table strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&table, "| %-*s | %-*s | %s |\n", widths[0], row[0], widths[1], row[1], row[2])
		if i == 0 {
			fmt.Fprintf(&table, "|%s|%s|---|\n", strings.Repeat("-", widths[0]+2), strings.Repeat("-", widths[1]+2))
		}
	}
	return table.String()
}
