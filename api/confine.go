package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"

	"chronos/api/transport"
	"chronos/api/wire"
	"chronos/scheduler/listing"
	"chronos/scheduler/store"
)

// prefixKey has the prefix of a request's token, in a request's user values or context.
type prefixKey struct{}

// prefixOf is the prefix of the token of a request to the public listener, "" for none.
func prefixOf(rc *fasthttp.RequestCtx) string {
	prefix, _ := rc.UserValue(prefixKey{}).(string)
	return prefix
}

// prefixIn is the prefix of the token of a request to the admin listener, "" for none.
func prefixIn(ctx context.Context) string {
	prefix, _ := ctx.Value(prefixKey{}).(string)
	return prefix
}

// confine holds a request to the prefix of the request's token, and reports whether the request was
// refused. A route that is not listed is refused: its answer may be about all timers.
func confine(rc *fasthttp.RequestCtx, prefix string) (refused bool) {
	if prefix == "" {
		return false
	}
	switch routeAt(rc.URI()) {
	case routeCollection, routeBatch, routeItem, routeDeliveries: // whose handlers ask for the prefix
		rc.SetUserValue(prefixKey{}, prefix)
		return false
	case routeDescription, routePing, routeOther: // with nothing of timers
		return false
	default:
		transport.Refuse(&rc.Response, aboutAll())
		return true
	}
}

// confineLetters limits a filter to the letters of a prefix.
func confineLetters(f *store.LetterFilter, prefix string) error {
	switch {
	case f.Key != "" && !strings.HasPrefix(f.Key, prefix):
		return otherID()
	case strings.HasPrefix(f.KeyPrefix, prefix):
		return nil
	case !strings.HasPrefix(prefix, f.KeyPrefix):
		return otherID()
	}
	f.KeyPrefix = prefix
	return nil
}

// confineListing limits a listing to the timers of a prefix.
func confineListing(f *listing.Filter, prefix string) error {
	keys := store.LetterFilter{Key: f.Key, KeyPrefix: f.KeyPrefix}
	err := confineLetters(&keys, prefix)
	f.KeyPrefix = keys.KeyPrefix
	return err
}

// otherID answers a request for an id that does not begin with the token's prefix, whether or not the
// timer exists.
func otherID() wire.Problem {
	return wire.NewProblem(http.StatusForbidden, "id-prefix", "this token is for the ids that begin with its prefix, and this id does not; use another id, or a token for this id")
}

// aboutAll answers a request with an answer about the timers of all.
func aboutAll() wire.Problem {
	return wire.NewProblem(http.StatusForbidden, "id-prefix", "this token is for the ids that begin with its prefix, and the answer would be about the timers of all; use a token without a prefix")
}
