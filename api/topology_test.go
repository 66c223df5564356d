package api

import (
	"net/http"
	"testing"

	"chronos/api/wire"
)

func TestRefusedChangesOfTheTopologyHaveACode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{"": "topology-refused", "same-redis": "same-redis"} {
		p := wire.TopologyProblem(&RefusedError{Reason: "give another Redis", Code: code})
		if p.Status != http.StatusConflict || p.Code != want || p.Detail != "give another Redis" {
			t.Errorf("a refusal with code %q is %+v", code, p)
		}
	}
}
