package api

import (
	"bytes"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// Clients and monitoring of Metaswitch's Chronos rely on this.

const pingPath = "/ping"

// ping says that the process answers.
func ping(c *fiber.Ctx) error { return c.SendString("OK") }

// normalize rewrites a URI as Metaswitch's Chronos reads it: /timers/ becomes
// /timers, and a semicolon between parameters becomes an ampersand. Routing and
// authorization see the result.
func normalize(uri *fasthttp.URI) {
	if string(uri.PathOriginal()) == itemPrefix {
		uri.SetPath(collectionPath)
	}
	if query := uri.QueryString(); bytes.IndexByte(query, ';') >= 0 {
		uri.SetQueryStringBytes(bytes.ReplaceAll(query, []byte{';'}, []byte{'&'}))
	}
}
