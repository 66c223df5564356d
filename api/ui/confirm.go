package ui

import (
	"html/template"
	"net/http"

	"chronos/api/wire"
)

// confirmPage asks whether to carry out a change.
type confirmPage struct {
	Title  string
	Lines  []string // what will happen
	Facts  []fact   // to what
	Post   string   // the path that takes the form
	Hidden []field
	Inputs []input
	Checks []input // boxes to tick
	Button string
	Danger bool   // what the change takes away does not come back
	Back   string // the path to go to without a change
}

// fact is a name with a value.
type fact struct {
	Name  string
	Value template.HTML
}

// field is a hidden field of a form.
type field struct{ Name, Value string }

// input is a field of a form that the operator fills in.
type input struct {
	Name, Label, Value, Hint string
	Required                 bool
	Numeric                  bool
}

func (p confirmPage) answer(tab string) (answer, error) {
	return answer{page: "confirm", title: p.Title, tab: tab, data: p}, nil
}

func unknownAction() error {
	return wire.NewProblem(http.StatusNotFound, "path-unknown", "the dashboard knows no such action; go back, and choose one of the buttons")
}

// badField refuses a value of a form or of an address.
func badField(detail string) error {
	return wire.NewProblem(http.StatusBadRequest, "query-malformed", detail)
}
