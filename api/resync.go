package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/valyala/fasthttp"

	"chronos/api/transport"
	"chronos/api/wire"
	"chronos/scheduler/resync"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Resynchronisation as in the Timer Service API, with shards in the place of nodes.

const (
	// resyncWithin is how long a request may take: a request asks all shards, several times.
	resyncWithin = 5 * time.Second
	// maxResync is how many timers an answer has at most, and without a Range.
	maxResync = 1000
	// resyncBytes is about how many bytes the timers of an answer take. resyncRoom is about how
	// many bytes the timers take as JSON.
	resyncBytes = 8 << 20
	resyncRoom  = 2 * resyncBytes
)

// Parameters of the query.
const (
	nodeParameter  = "node-for-replicas"
	viewParameter  = "cluster-view-id"
	fromParameter  = "time-from"
	afterParameter = "after"
)

// ofTokens guards a handler of the public listener that needs a token of the role list or admin. Without
// a tokens file nobody may use the handler: the handler would show everybody timers whose ids are
// secret.
func (s *Server) ofTokens(next fiber.Handler) fiber.Handler {
	if s.authorizer != nil {
		return next
	}
	return func(*fiber.Ctx) error {
		return wire.NewProblem(http.StatusForbidden, "admin-listener",
			"without CHRONOS_TOKENS_FILE this is answered on the admin listener alone (CHRONOS_ADMIN_LISTEN, 127.0.0.1:7254 by default); ask there, with a token")
	}
}

// Resynchronisation answers the requests for resynchronisation on the admin listener. The listener
// must have checked that a request is allowed.
func (s *Server) Resynchronisation() http.Handler {
	app := fiber.New(s.fiberConfig())
	app.Get(collectionPath, s.resync)
	app.Delete(referencesPath, s.dropReferences)
	answer := adaptor.FiberApp(app)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.limits.MaxBody)))
		if err != nil {
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				err = fasthttp.ErrBodyTooLarge
			}
			answerProblem(w, s.limits.ProblemOf(err))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.RequestURI = reference(r.URL)
		answer(w, r)
	})
}

func (s *Server) resync(c *fiber.Ctx) error {
	if err := refuseMixture(c.Context().QueryArgs()); err != nil {
		return err
	}
	q, err := readResync(c)
	if err != nil {
		return err
	}
	if err := transport.ReserveAnswer(c.Context().Conn(), resyncRoom); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), resyncWithin)
	defer cancel()
	page, err := s.timers.Resync(ctx, q)
	if err != nil {
		return resyncProblem(err)
	}
	body, err := wire.RenderResync(&page)
	if err != nil {
		return err
	}
	if err := transport.ReserveAnswer(c.Context().Conn(), len(body)); err != nil {
		return err
	}
	header := &c.Response().Header
	if page.Unreached > 0 {
		header.Set(unreachedHeader, strconv.Itoa(page.Unreached))
	}
	if page.Next != nil {
		c.Status(http.StatusPartialContent)
		header.Set(fasthttp.HeaderContentRange, strconv.Itoa(len(page.Timers)))
		header.Set(fasthttp.HeaderLink, "<"+nextPage(&q, page.Next)+`>; rel="next"`)
	}
	return answerJSON(c, body)
}

// dropReferences has copies removed that don't belong on a shard any more.
func (s *Server) dropReferences(c *fiber.Ctx) error {
	if err := refuseConditions(c); err != nil {
		return err
	}
	shard, err := readShard(c)
	if err != nil {
		return err
	}
	body, err := plainBody(c)
	if err != nil {
		return err
	}
	keys, err := wire.DecodeReferences(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), resyncWithin)
	defer cancel()
	if err := s.timers.DropReferences(ctx, shard, keys); err != nil {
		return resyncProblem(err)
	}
	c.Status(http.StatusAccepted)
	return nil
}

// nextPage is the path and query of the next page. Names and keys need no escapes.
func nextPage(q *resync.Query, next *store.Place) string {
	path := collectionPath + "?" + nodeParameter + "=" + q.Shard + "&" + viewParameter + "=" + q.View +
		"&" + fromParameter + "=" + strconv.FormatInt(max(next.At.UnixMicro(), 0), 10)
	if next.Key != "" {
		path += "&" + afterParameter + "=" + next.Key
	}
	return path
}

// resyncProblem explains the errors that a client can't know.
func resyncProblem(err error) error {
	if view, is := errors.AsType[*resync.ViewError](err); is {
		return wire.NewProblem(http.StatusBadRequest, "cluster-view-mismatch",
			"timers are placed otherwise than cluster-view-id says; begin anew with "+viewParameter+"="+view.Present)
	}
	switch {
	case errors.Is(err, timer.ErrShardUnknown):
		return wire.NewProblem(http.StatusNotFound, "shard-unknown",
			"no shard has the name that node-for-replicas gives; `chronos topology show` lists them")
	case errors.Is(err, resync.ErrShardsAway):
		p := wire.NewProblem(http.StatusServiceUnavailable, "shards-away",
			"so many shards can't be reached that timers would be left out; nothing is sent; ask again when they are back")
		p.RetryAfter = timer.RetryAfter
		return p
	}
	return err
}

func readResync(c *fiber.Ctx) (q resync.Query, err error) {
	q.Bytes = resyncBytes
	if q.Shard, err = readShard(c); err != nil {
		return q, err
	}
	view, given := parameter(c, viewParameter)
	if !given || view == "" {
		return q, refuseQuery(viewParameter, "cluster-view-id is missing, empty or there twice; give the one that `chronos topology show` shows")
	}
	q.View = view
	from, given := parameter(c, fromParameter)
	us, err := strconv.ParseUint(cmp.Or(from, "0"), 10, 63)
	if given && (err != nil || from == "") {
		return q, refuseQuery(fromParameter, "time-from is not an instant in microseconds since 1970; give a whole number from 0 to 9223372036854775807, once, or leave it out")
	}
	if given {
		q.After.At = time.UnixMilli(int64((us + 999) / 1000)).UTC()
	}
	key, given := parameter(c, afterParameter)
	if id, err := timer.ParseID(key); given && (from == "" || err != nil || id.Key != key) {
		return q, refuseQuery(afterParameter, "after is not a timer's key, or there without time-from; take both from the Link of the answer before, or leave it out")
	}
	q.After.Key = key
	q.Limit, err = readRange(c)
	return q, err
}

func readShard(c *fiber.Ctx) (string, error) {
	name, given := parameter(c, nodeParameter)
	if !given || name == "" {
		return "", refuseQuery(nodeParameter, "node-for-replicas is missing, empty or there twice; give the name of a shard")
	}
	return name, nil
}

// parameter copies the value of a parameter of the query. A parameter that stands twice counts as
// given, and empty.
func parameter(c *fiber.Ctx, name string) (value string, given bool) {
	all := c.Context().QueryArgs().PeekMulti(name)
	if len(all) != 1 {
		return "", len(all) > 0
	}
	return string(all[0]), true
}

func refuseQuery(code, detail string) error {
	return wire.NewProblem(http.StatusBadRequest, code, detail)
}

// readRange reads how many timers are asked for.
func readRange(c *fiber.Ctx) (int, error) {
	given := c.Request().Header.PeekAll(fasthttp.HeaderRange)
	if len(given) == 0 {
		return maxResync, nil
	}
	text := string(given[0])
	n := strings.TrimLeft(text, "0")
	if len(given) > 1 || n == "" || strings.Trim(n, "0123456789") != "" {
		return 0, refuseQuery("range", "Range is not a number of timers; send one such header, with a whole number from 1 up, or none")
	}
	if len(n) > len(strconv.Itoa(maxResync)) {
		return maxResync, nil
	}
	limit, err := strconv.Atoi(n)
	return min(limit, maxResync), err
}
