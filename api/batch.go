package api

import (
	"net/http"

	"github.com/gofiber/fiber/v2"

	"chronos/api/transport"
	"chronos/api/wire"
)

const (
	batchPath = itemPrefix + batchID
	batchID   = "batch" // no timer's
)

func (s *Server) createBatch(c *fiber.Ctx) error {
	key, err := readIdempotencyKey(c)
	if err != nil {
		return err
	}
	body, err := plainBody(c)
	if err != nil {
		return err
	}
	b, err := wire.DecodeBatch(body, key)
	if err != nil {
		return err
	}
	if err := transport.ReserveAnswer(c.Context().Conn(), b.Room()); err != nil {
		return err
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
	c.Response().Header.SetContentType(fiber.MIMEApplicationJSON)
	c.Response().SetBodyRaw(b.Render(outcome.Failed))
	return nil
}
