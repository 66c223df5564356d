package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"chronos/api/transport"
	"chronos/api/wire"
	"chronos/scheduler/resync"
	"chronos/scheduler/statistics"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Timers does the work of the API; *scheduler.Scheduler implements Timers. The methods are safe for
// concurrent use and return soon after ctx has ended. An error is shown to the client if the error
// wraps a *timer.InvalidError, timer.ErrNotFound, ErrKeyReused, ErrOvertaken, ErrUnavailable or
// ErrOverloaded. Any further error is logged and answered as an internal error.
type Timers interface {
	// Create stores a new timer.
	Create(ctx context.Context, t timer.Timer) (timer.Receipt, error)
	// CreateOnce is Create for a request that may come again. If key and body are the same, the
	// receipt is for the timer of the first request. If only the body differs, the error is
	// timer.ErrKeyReused.
	CreateOnce(ctx context.Context, idempotencyKey string, body []byte, t timer.Timer) (timer.Receipt, error)
	// CreateAll is Create, or CreateOnce, for many timers at once. The timers fail independently. A
	// Creation with an Err is left unchanged.
	CreateAll(ctx context.Context, all []timer.Creation)
	Items
	Resyncer
	// Statistics returns what the live timers represent.
	Statistics(ctx context.Context) (statistics.Sums, error)
}

// Items is the part of Timers for a timer of a known id.
type Items interface {
	// ReplaceIf stores t under id, whether or not the timer exists. If t has a ReplicationFactor of
	// 0, the factor comes from id or from the stored timer, else the default applies. A factor that
	// differs from the factor of id or of the stored timer is refused. Additional errors: with a
	// condition a *timer.ConditionError and timer.ErrUndecided.
	ReplaceIf(ctx context.Context, id timer.ID, t timer.Timer, cond timer.Condition) (timer.Receipt, error)
	// Patch changes the stored timer as change says. change reports whether the timer begins anew. change may
	// be called more than once, and not after Patch has returned; the error of change is returned. Additional errors as for ReplaceIf, and
	// timer.ErrNotFound.
	Patch(ctx context.Context, id timer.ID, cond timer.Condition, change func(t *timer.Timer) (begins bool, err error)) (timer.Receipt, error)
	// DeleteIf ends the timer, if there is a timer. Additional errors as for ReplaceIf.
	DeleteIf(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error)
	// Lookup returns the timer and the timer's state.
	Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error)
}

// Resyncer is the part of Timers for resynchronisation.
type Resyncer interface {
	// Resync lists the timers that belong on a shard. Additional errors: timer.ErrShardUnknown,
	// resync.ErrShardsAway and a *resync.ViewError.
	Resync(ctx context.Context, q resync.Query) (resync.Page, error)
	// DropReferences removes a shard's copies of the timers if the shard is no owner and the owners
	// have the timer. Additional error: timer.ErrShardUnknown.
	DropReferences(ctx context.Context, shard string, keys []string) error
}

// answerWithin is how long Timers may take. A client gets an answer within a second, even if a
// shard doesn't answer.
const answerWithin = 900 * time.Millisecond

// operation bounds a call of Timers. The context is not one of Fiber's contexts, since Fiber uses
// contexts again for later requests.
func operation() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), answerWithin)
}

func (s *Server) create(c *fiber.Ctx) error {
	key, err := readIdempotencyKey(c)
	if err != nil {
		return err
	}
	asked, ignored, err := s.readTimer(c)
	if err != nil {
		return err
	}
	if asked.ReplicationFactor == 0 {
		asked.ReplicationFactor = timer.DefaultReplicationFactor
	}
	receipt, err := s.createOne(c, key, asked)
	if err != nil {
		return err
	}
	if receipt.Replayed {
		c.Set(replayedHeader, "true")
	}
	markSites(c, &receipt)
	return answerReceipt(c, &receipt, ignored)
}

// createOne creates the timer of a request, under the prefix of the request's token. key is the
// idempotency key, "" for none.
func (s *Server) createOne(c *fiber.Ctx, key string, asked timer.Timer) (timer.Receipt, error) {
	ctx, cancel := operation()
	defer cancel()
	prefix := prefixOf(c.Context())
	switch {
	case prefix != "":
		one := []timer.Creation{{Timer: asked, IdempotencyKey: key, Body: c.Request().Body(), Prefix: prefix}}
		s.timers.CreateAll(ctx, one)
		return one[0].Receipt, one[0].Err
	case key != "":
		return s.timers.CreateOnce(ctx, key, c.Request().Body(), asked)
	}
	return s.timers.Create(ctx, asked)
}

func (s *Server) createBatch(c *fiber.Ctx) error {
	key, err := readIdempotencyKey(c)
	if err != nil {
		return err
	}
	body, err := plainBody(c)
	if err != nil {
		return err
	}
	b, err := wire.DecodeBatch(body, key, s.handling(c))
	if err != nil {
		return err
	}
	if err := transport.ReserveAnswer(c.Context().Conn(), b.Room()); err != nil {
		return err
	}
	if prefix := prefixOf(c.Context()); prefix != "" {
		for i := range b.Entries {
			b.Entries[i].Prefix = prefix
		}
	}
	ctx, cancel := operation()
	defer cancel()
	s.timers.CreateAll(ctx, b.Entries)
	outcome := b.Judge()
	if outcome.Unavailable != nil {
		return outcome.Unavailable
	}
	if outcome.Unknown != nil {
		s.log.Error("request failed", "method", c.Method(), "route", batchPath, "timers", outcome.Unknowns, "error", outcome.Unknown)
	}
	if outcome.Failed > 0 {
		c.Status(http.StatusMultiStatus)
	}
	if outcome.Replayed == len(b.Entries) {
		c.Set(replayedHeader, "true")
	}
	return answerJSON(c, b.Render(outcome.Failed))
}

func (s *Server) replace(c *fiber.Ctx) error {
	id, cond, err := readTarget(c)
	if err != nil {
		return err
	}
	asked, ignored, err := s.readTimer(c)
	if err != nil {
		return err
	}
	ctx, cancel := operation()
	defer cancel()
	receipt, err := s.timers.ReplaceIf(ctx, id, asked, cond)
	if err != nil {
		return err
	}
	markUntold(c, &receipt)
	return answerReceipt(c, &receipt, ignored)
}

// mergePatch is the type of the body of a PATCH (RFC 7396).
const mergePatch = "application/merge-patch+json"

func (s *Server) patch(c *fiber.Ctx) error {
	id, cond, err := readTarget(c)
	if err != nil {
		return err
	}
	declared, _, _ := bytes.Cut(c.Request().Header.ContentType(), []byte{';'})
	if !bytes.EqualFold(bytes.TrimSpace(declared), []byte(mergePatch)) {
		p := wire.NewProblem(http.StatusUnsupportedMediaType, "content-type",
			"the body of a PATCH is a JSON merge patch (RFC 7396): the members to change, with null for a member to remove; send the header Content-Type: "+mergePatch)
		return p.With("Accept-Patch", mergePatch)
	}
	body, err := plainBody(c)
	if err != nil {
		return err
	}
	merge, err := wire.ReadPatch(body)
	if err != nil {
		return err
	}
	var ignored []string
	unknown := s.handling(c)
	ctx, cancel := operation()
	defer cancel()
	receipt, err := s.timers.Patch(ctx, id, cond, func(t *timer.Timer) (begins bool, err error) {
		// A small patch may be of a large timer.
		if err := transport.ReserveAnswer(c.Context().Conn(), len(t.Callback.Opaque)); err != nil {
			return false, err
		}
		*t, begins, ignored, err = merge.Apply(t, unknown)
		return begins, err
	})
	if err != nil {
		return err
	}
	markUntold(c, &receipt)
	return answerReceipt(c, &receipt, ignored)
}

func (s *Server) remove(c *fiber.Ctx) error {
	id, cond, err := readTarget(c)
	if err != nil {
		return err
	}
	ctx, cancel := operation()
	defer cancel()
	receipt, err := s.timers.DeleteIf(ctx, id, cond)
	if err != nil {
		return err
	}
	markUntold(c, &receipt)
	c.Status(http.StatusCreated)
	return nil
}

func (s *Server) lookup(c *fiber.Ctx) error {
	id, err := readID(c)
	if err != nil {
		return err
	}
	ctx, cancel := operation()
	defer cancel()
	found, err := s.timers.Lookup(ctx, id)
	if err != nil {
		return s.withLast(ctx, c, id, err)
	}
	if err := transport.ReserveAnswer(c.Context().Conn(), len(found.Record.Timer.Callback.Opaque)); err != nil {
		return err
	}
	setETag(c, found.Record.State.Written())
	body, err := wire.RenderTimer(&found)
	if err != nil {
		return err
	}
	if err := transport.ReserveAnswer(c.Context().Conn(), len(body)); err != nil {
		return err
	}
	return answerJSON(c, body)
}

// readTarget reads which timer a write is for, and the condition of the write.
func readTarget(c *fiber.Ctx) (id timer.ID, cond timer.Condition, err error) {
	if cond, err = readCondition(c); err == nil {
		id, err = readID(c)
	}
	return id, cond, err
}

// readID reads the id in the path and copies the id. The key of the id must begin with the prefix of the
// request's token.
func readID(c *fiber.Ctx) (timer.ID, error) {
	given := c.Params("id")
	if given == batchID || given == referencesID {
		return timer.ID{}, fiber.ErrMethodNotAllowed
	}
	id, err := parseID(given)
	if err != nil {
		return timer.ID{}, err
	}
	if !strings.HasPrefix(id.Key, prefixOf(c.Context())) {
		return timer.ID{}, otherID()
	}
	id.Key = strings.Clone(id.Key)
	return id, nil
}

// parseID reads an id that does not stand in a body.
func parseID(text string) (timer.ID, error) {
	id, err := timer.ParseID(text)
	return id, withoutPointer(err)
}

// withoutPointer is the error for a request in whose body the refused value does not stand.
func withoutPointer(err error) error {
	if refused, is := errors.AsType[*timer.InvalidError](err); is {
		return wire.NewProblem(http.StatusBadRequest, refused.Code, refused.Detail)
	}
	return err
}

const (
	idempotencyHeader = "Idempotency-Key"
	replayedHeader    = "Idempotent-Replayed"
	maxIdempotencyKey = 255
)

// readIdempotencyKey copies the key of a request that may come again; "" if the request has no key.
func readIdempotencyKey(c *fiber.Ctx) (string, error) {
	given := c.Request().Header.PeekAll(idempotencyHeader)
	if len(given) == 0 {
		return "", nil
	}
	key := string(given[0])
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	if len(given) > 1 || key == "" || len(key) > maxIdempotencyKey || strings.ContainsFunc(key, unprintable) {
		return "", wire.NewProblem(http.StatusBadRequest, "idempotency-key",
			"Idempotency-Key is one header of 1 to 255 printable ASCII characters; send a fresh UUID for each timer, and the same one when you repeat a request")
	}
	return key, nil
}

func (s *Server) readTimer(c *fiber.Ctx) (timer.Timer, []string, error) {
	body, err := plainBody(c)
	if err != nil {
		return timer.Timer{}, nil, err
	}
	d, ok := s.decoders.Get().(*wire.Decoder)
	if !ok {
		d = new(wire.Decoder)
	}
	defer s.decoders.Put(d)
	return d.Decode(body, s.handling(c))
}

// plainBody is the request's body without a byte order mark at the beginning. The body must not be
// encoded.
func plainBody(c *fiber.Ctx) ([]byte, error) {
	const byteOrderMark = "\uFEFF"
	request := c.Request()
	for _, given := range request.Header.PeekAll(fasthttp.HeaderContentEncoding) {
		for coding := range bytes.SplitSeq(given, []byte{','}) {
			if coding = bytes.TrimSpace(coding); len(coding) > 0 && !strings.EqualFold(string(coding), identity) {
				p := wire.NewProblem(http.StatusUnsupportedMediaType, "content-encoding",
					"the body is compressed or otherwise encoded; send plain JSON without Content-Encoding")
				return nil, p.With(fasthttp.HeaderAcceptEncoding, identity)
			}
		}
	}
	return bytes.TrimPrefix(request.Body(), []byte(byteOrderMark)), nil
}

// identity is the only coding of bodies that the server reads.
const identity = "identity"

func answerReceipt(c *fiber.Ctx, receipt *timer.Receipt, ignored []string) error {
	setETag(c, receipt.Version)
	c.Response().Header.Set(fasthttp.HeaderLocation, itemPrefix+receipt.ID.String())
	return answerJSON(c, wire.RenderReceipt(receipt, ignored))
}

func answerJSON(c *fiber.Ctx, body []byte) error {
	c.Response().Header.SetContentType(fiber.MIMEApplicationJSON)
	c.Response().SetBodyRaw(body)
	return nil
}

const (
	inFlightHeader  = "X-Chronos-In-Flight"
	unreachedHeader = "X-Chronos-Unreached"
	sitesHeader     = "X-Chronos-Sites"
)

// markUntold adds headers about the former version: may a callback still start, and how many copies
// could not be reached?
func markUntold(c *fiber.Ctx, receipt *timer.Receipt) {
	if receipt.InFlight {
		c.Set(inFlightHeader, "true")
	}
	if receipt.Unreached > 0 {
		c.Set(unreachedHeader, strconv.Itoa(receipt.Unreached))
	}
	markSites(c, receipt)
}

// markSites says how many sites have all copies of a write.
func markSites(c *fiber.Ctx, receipt *timer.Receipt) {
	if receipt.AllSites > 0 {
		c.Set(sitesHeader, sitesOf(receipt))
	}
}

func sitesOf(receipt *timer.Receipt) string {
	return strconv.Itoa(receipt.Sites) + "/" + strconv.Itoa(receipt.AllSites)
}
