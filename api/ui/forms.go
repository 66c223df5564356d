package ui

import (
	"net/url"

	"chronos/api/wire"
)

// formFields are the fields of a filter by the names in the address.
type formFields []struct {
	name string
	at   *string
}

// hidden are the fields that the operator has filled in.
func (f formFields) hidden() (fields []field) {
	for _, one := range f {
		if *one.at != "" {
			fields = append(fields, field{one.name, *one.at})
		}
	}
	return fields
}

// query is the filter for the address of a list.
func (f formFields) query() url.Values {
	values := url.Values{}
	for _, one := range f.hidden() {
		values.Set(one.Name, one.Value)
	}
	return values
}

// about says which things a job is about; none stands for a filter without fields.
func (w *jobWords) about(filter formFields, none string) {
	var pairs []string
	for _, one := range filter.hidden() {
		w.which = append(w.which, fact{one.Name, shown(one.Value)})
		pairs = append(pairs, one.Name+"="+wire.ReplaceUsers(one.Value, ""))
	}
	w.filter = joined(pairs)
	if w.which == nil {
		w.which, w.filter = []fact{{"filter", shown(none)}}, "all"
	}
}
