package environment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// unknownVariables gives an error for every variable in env that no setting reads: most
// likely a typing error.
func unknownVariables(env map[string]string, known []setting) []error {
	var names []string
	for name := range env {
		isName := func(s setting) bool { return s.name == name }
		if !slices.ContainsFunc(known, isName) && !isKubernetes(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	faults := make([]error, len(names))
	for i, name := range names {
		nearest := slices.MinFunc(known, func(a, b setting) int {
			return cmp.Compare(unlikeness(name, a.name), unlikeness(name, b.name))
		})
		faults[i] = fmt.Errorf("%s: no such variable; did you mean %s?", name, nearest.name)
	}
	return faults
}

// isKubernetes reports whether Kubernetes sets the variable in every pod beside a Service
// named chronos or chronos-bridge.
func isKubernetes(name string) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(name, "CHRONOS_"), "BRIDGE_")
	return rest == "PORT" || strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "SERVICE_")
}

// unlikeness tells how much name differs from known. A missing last word counts like a
// wrong letter.
func unlikeness(name, known string) int {
	if strings.HasPrefix(known, name+"_") {
		return 1
	}
	return editDistance(name, known)
}

// editDistance is the least number of bytes to insert, remove or replace in order to make
// a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
