package api

import (
	"github.com/gofiber/fiber/v2"

	"chronos/api/transport"
	"chronos/api/wire"
)

func (s *Server) statistics(c *fiber.Ctx) error {
	ctx, cancel := operation()
	defer cancel()
	found, err := s.timers.Statistics(ctx)
	if err != nil {
		return err
	}
	// The size is the longest possible: a byte of a type may need six bytes.
	const others, perByte = 64, 6
	size := others
	for typ := range found.Tags {
		size += others + perByte*len(typ)
	}
	if err := transport.ReserveAnswer(c.Context().Conn(), size); err != nil {
		return err
	}
	return answerJSON(c, wire.RenderStatistics(&found))
}
