package api

import (
	"maps"
	"slices"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"chronos/scheduler/statistics"
)

const statisticsPath = "/statistics"

func (s *Server) statistics(c *fiber.Ctx) error {
	ctx, cancel := operation()
	defer cancel()
	found, err := s.timers.Statistics(ctx)
	if err != nil {
		return err
	}
	// As long as it may become: a byte of a type may need six.
	const others, perByte = 64, 6
	size := others
	for typ := range found.Tags {
		size += others + perByte*len(typ)
	}
	if err := s.reserveAnswer(c, size); err != nil {
		return err
	}
	c.Response().Header.SetContentType(fiber.MIMEApplicationJSON)
	c.Response().SetBodyRaw(appendStatistics(nil, &found))
	return nil
}

// appendStatistics writes the answer, types in order.
func appendStatistics(dst []byte, found *statistics.Sums) []byte {
	dst = append(dst, `{"tags":{`...)
	for i, typ := range slices.Sorted(maps.Keys(found.Tags)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, typ), ':')
		dst = strconv.AppendInt(dst, found.Tags[typ], 10)
	}
	dst = append(dst, '}')
	if found.Truncated {
		dst = append(dst, `,"truncated":true`...)
	}
	if len(found.Incomplete) > 0 {
		dst = append(dst, `,"incomplete":`...)
		delim := byte('[')
		for _, shard := range found.Incomplete {
			dst = appendString(append(dst, delim), shard)
			delim = ','
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}
