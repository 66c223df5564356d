package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

//go:embed openapi.yaml
var openAPI []byte

//go:embed admin.openapi.yaml
var adminOpenAPI []byte

// OpenAPI returns the description of the public listener, OpenAPI 3.1 in YAML. The server serves the
// same bytes. The caller owns the bytes.
func OpenAPI() []byte { return slices.Clone(openAPI) }

// AdminOpenAPI returns the description of the admin listener, as OpenAPI returns the description of the
// public listener.
func AdminOpenAPI() []byte { return slices.Clone(adminOpenAPI) }

const (
	descriptionType  = "application/yaml"
	descriptionCache = "public, max-age=3600"
)

// descriptionTag is the entity tag of a description.
func descriptionTag(description []byte) string {
	sum := sha256.Sum256(description)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// serveDescription serves the description of the admin listener there.
func serveDescription(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(fasthttp.HeaderETag, descriptionTag(adminOpenAPI))
	w.Header().Set(fasthttp.HeaderCacheControl, descriptionCache)
	w.Header().Set(fasthttp.HeaderContentType, descriptionType)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(adminOpenAPI))
}

// describe makes the handler that serves the description of the public listener.
func describe() fiber.Handler {
	tag := descriptionTag(openAPI)
	return func(c *fiber.Ctx) error {
		header := &c.Response().Header
		header.Set(fasthttp.HeaderETag, tag)
		header.Set(fasthttp.HeaderCacheControl, descriptionCache)
		if hasTag(c.Get(fasthttp.HeaderIfNoneMatch), tag) {
			c.Status(http.StatusNotModified)
			return nil
		}
		header.SetContentType(descriptionType)
		c.Response().SetBodyRaw(openAPI)
		return nil
	}
}

// hasTag reports whether a list of entity tags, as in If-None-Match, holds the tag, weak or strong.
func hasTag(list, tag string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "*" || strings.TrimPrefix(entry, "W/") == tag {
			return true
		}
	}
	return false
}
