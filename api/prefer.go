package api

import (
	"bytes"

	"github.com/gofiber/fiber/v2"

	"chronos/api/wire"
)

const (
	preferHeader  = "Prefer"
	appliedHeader = "Preference-Applied"
)

// handling is what becomes of unknown members: as the request prefers (RFC 7240, 4.4), or as the
// server is configured. The answer names a preference that was followed. Other preferences have no
// effect.
func (s *Server) handling(c *fiber.Ctx) wire.Handling {
	for _, line := range c.Request().Header.PeekAll(preferHeader) {
		for _, preference := range split(line) {
			preference, _, _ = bytes.Cut(preference, []byte{';'}) // parameters have no effect
			name, value, _ := bytes.Cut(bytes.TrimSpace(preference), []byte{'='})
			if !bytes.EqualFold(bytes.TrimSpace(name), []byte("handling")) {
				continue
			}
			// The first preference of a name counts.
			switch string(bytes.Trim(bytes.TrimSpace(value), `"`)) {
			case "strict":
				c.Set(appliedHeader, "handling=strict")
				return wire.Strict
			case "lenient":
				c.Set(appliedHeader, "handling=lenient")
				return wire.Lenient
			}
			return s.unknown
		}
	}
	return s.unknown
}

// split splits a header at commas outside of quoted strings.
func split(line []byte) (parts [][]byte) {
	quoted, from := false, 0
	for i, c := range line {
		switch {
		case c == '"' && (i == 0 || line[i-1] != '\\'):
			quoted = !quoted
		case c == ',' && !quoted:
			parts, from = append(parts, line[from:i]), i+1
		}
	}
	return append(parts, line[from:])
}
