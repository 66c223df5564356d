package api

import (
	"bytes"
	"net/http"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"chronos/api/wire"
	"chronos/scheduler/timer"
)

// readCondition reads If-Match and, of a PUT, If-None-Match (RFC 9110, 13.1). Without the headers the
// condition is zero.
func readCondition(c *fiber.Ctx) (timer.Condition, error) {
	header := &c.Request().Header
	match, none := header.PeekAll(fasthttp.HeaderIfMatch), header.PeekAll(fasthttp.HeaderIfNoneMatch)
	switch {
	case len(match)+len(none) == 0:
		return timer.Condition{}, nil
	case len(none) == 0:
		return readMatch(match)
	case c.Method() == http.MethodPut && len(match) == 0 && len(none) == 1 && string(bytes.TrimSpace(none[0])) == "*":
		return timer.Condition{Absent: true}, nil
	}
	return timer.Condition{}, wire.NewProblem(http.StatusBadRequest, "precondition-unsupported",
		"If-None-Match is for PUT alone, with the value * and without If-Match, and nothing was done; "+
			"If-Match takes * or the ETags of earlier answers")
}

// readMatch reads the lines of If-Match: *, or a list of ETags. A weak ETag, and an ETag that no timer
// can have, match nothing.
func readMatch(lines [][]byte) (timer.Condition, error) {
	if len(lines) == 1 && string(bytes.TrimSpace(lines[0])) == "*" {
		return timer.Condition{Exists: true}, nil
	}
	cond := timer.Condition{OneOf: []timer.Version{}}
	listed := false
	for _, line := range lines {
		for _, tag := range split(line) {
			tag = bytes.TrimSpace(tag)
			if len(tag) == 0 { // an empty element of a list has no meaning (RFC 9110, 5.6.1)
				continue
			}
			listed = true
			strong, weak := tag, bytes.HasPrefix(tag, []byte("W/"))
			if weak {
				strong = tag[len("W/"):]
			}
			if len(strong) < 2 || strong[0] != '"' || bytes.IndexByte(strong[1:], '"') != len(strong)-2 {
				return timer.Condition{}, malformedMatch()
			}
			if v, err := timer.ParseVersion(string(strong[1 : len(strong)-1])); err == nil && !weak && v != 0 {
				cond.OneOf = append(cond.OneOf, v)
			}
		}
	}
	if !listed {
		return timer.Condition{}, malformedMatch()
	}
	return cond, nil
}

// conditionIn reads If-Match of a request to the admin listener. Without the header the condition is
// zero.
func conditionIn(header http.Header) (timer.Condition, error) {
	if len(header.Values(fasthttp.HeaderIfNoneMatch)) > 0 {
		return timer.Condition{}, wire.NewProblem(http.StatusBadRequest, "precondition-unsupported",
			"If-None-Match is not supported here, and nothing was done; If-Match takes * or the ETags of earlier answers")
	}
	var lines [][]byte
	for _, line := range header.Values(fasthttp.HeaderIfMatch) {
		lines = append(lines, []byte(line))
	}
	if len(lines) == 0 {
		return timer.Condition{}, nil
	}
	return readMatch(lines)
}

func malformedMatch() error {
	return wire.NewProblem(http.StatusBadRequest, "precondition-malformed",
		"If-Match is * or ETags of earlier answers, with their quotes and with commas between them; nothing was done")
}

// refuseConditions refuses a request that should take effect only under a condition, since nobody
// here checks the condition.
func refuseConditions(c *fiber.Ctx) error {
	header := &c.Request().Header
	for _, name := range []string{fasthttp.HeaderIfMatch, fasthttp.HeaderIfNoneMatch} {
		if len(header.PeekAll(name)) > 0 {
			return unsupportedCondition()
		}
	}
	return nil
}

func unsupportedCondition() error {
	return wire.NewProblem(http.StatusBadRequest, "precondition-unsupported",
		"If-Match and If-None-Match are not supported here, and nothing was done; send the request without them")
}

// setETag names the version of a timer in the answer.
func setETag(c *fiber.Ctx, v timer.Version) {
	var etag [32]byte
	c.Response().Header.SetBytesV(fasthttp.HeaderETag, wire.AppendETag(etag[:0], v))
}
