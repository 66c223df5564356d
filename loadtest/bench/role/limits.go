package role

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// runFiber answers an empty 200 to POST, and does nothing else.
func runFiber(ctx context.Context, o options) (any, error) {
	app := fiber.New(fiber.Config{DisableStartupMessage: true, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute})
	app.Get("/", func(*fiber.Ctx) error { return nil })
	app.Post("/timers", func(*fiber.Ctx) error { return nil })
	served := make(chan error, 1)
	go func() { served <- app.Listen(o.listen) }()
	select {
	case err := <-served:
		return nil, fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	// The end of the process cuts the remaining connections.
	_ = app.ShutdownWithTimeout(time.Second)
	return nil, nil //nolint:nilnil // it has nothing to say
}

// runBare makes callbacks in a loop, and does nothing else.
func runBare(ctx context.Context, o options) (any, error) {
	body := []byte(strings.Repeat("x", Opaque))
	post := barePost(o.goroutines, body)
	if o.client == "nethttp" {
		post = netPost(ctx, o.goroutines, body)
	}
	took := parallel(ctx, o.n, o.goroutines, 0, func(i int) error { return post(o.url + "/" + strconv.Itoa(i)) })
	return &took, ctx.Err()
}

// Opaque is the size of the data in a callback, in bytes.
const Opaque = 100

const callLimit = 10 * time.Second

func barePost(connections int, body []byte) func(url string) error {
	client := &fasthttp.Client{MaxConnsPerHost: connections, NoDefaultUserAgentHeader: true}
	return func(url string) error { return fastPost(client, url, "", body) }
}

func fastPost(client *fasthttp.Client, url, due string, body []byte) error {
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.SetRequestURI(url)
	req.Header.SetMethod(http.MethodPost)
	if due != "" {
		req.Header.Set(dueHeader, due)
	}
	req.SetBodyRaw(body)
	if err := client.DoTimeout(req, res, callLimit); err != nil {
		return fmt.Errorf("post: %w", err)
	}
	if res.StatusCode() != http.StatusOK {
		return fmt.Errorf("post: answered %d", res.StatusCode())
	}
	return nil
}

func netPost(ctx context.Context, connections int, body []byte) func(url string) error {
	client := &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections},
		Timeout:   callLimit,
	}
	return func(url string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return fmt.Errorf("post: %w", err)
		}
		res, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("post: %w", err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		if bad := res.Body.Close(); err == nil {
			err = bad
		}
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("answered %d", res.StatusCode)
		}
		if err != nil {
			return fmt.Errorf("post: %w", err)
		}
		return nil
	}
}
