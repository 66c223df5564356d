package api

import (
	"bytes"
	"net/url"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// Clients and monitoring of Metaswitch's Chronos rely on this.

const pingPath = "/ping"

// ping says that the process answers.
func ping(c *fiber.Ctx) error { return c.SendString("OK") }

// reference is the URI of a request to the admin listener, as normalize rewrites others.
func reference(u *url.URL) string {
	var uri fasthttp.URI
	uri.Update(u.RequestURI())
	normalize(&uri)
	return string(uri.RequestURI())
}

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
