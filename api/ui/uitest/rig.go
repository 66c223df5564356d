package uitest

import (
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"

	"chronos/api/tokens"
	"chronos/api/ui"
)

// Rig is a dashboard on a backend, with a token for each role.
type Rig struct {
	UI      *ui.UI
	Backend *Backend
	// Tokens are the texts of the tokens by name: admin, write, list, read, both (write and list), and
	// prefixed.
	Tokens map[string]string
	Set    *tokens.Set
}

// NewRig makes a dashboard on the backend. The log takes the changes; nil for none.
func NewRig(t testing.TB, b *Backend, log *slog.Logger) *Rig {
	t.Helper()
	r := &Rig{Backend: b, Tokens: make(map[string]string)}
	var file strings.Builder
	for _, one := range []struct {
		name   string
		role   tokens.Role
		prefix string
	}{
		{"admin", tokens.Admin, ""}, {"write", tokens.Write, ""}, {"list", tokens.List, ""}, {"read", tokens.Read, ""}, {"both", tokens.Write | tokens.List, ""}, {"prefixed", tokens.Write, "team."},
	} {
		token, line, err := tokens.Generate(one.name, one.role, one.prefix, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		r.Tokens[one.name] = token.Reveal()
		file.WriteString(line + "\n")
	}
	set, err := tokens.Parse([]byte(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	r.Set = set
	r.UI = ui.New(ui.Config{Cluster: b, History: b, Lister: b, Timers: b, Letters: b.Dead, Destinations: b, Topology: b, Authorizer: set, Log: log})
	return r
}
