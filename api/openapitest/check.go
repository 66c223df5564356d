package openapitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// checkRequest checks a request as if the body had contentType. If contentType is empty, the
// request's own content type counts.
func checkRequest(input *openapi3filter.RequestValidationInput, body []byte, contentType string) error {
	request := input.Request.Clone(context.Background())
	request.Body = io.NopCloser(bytes.NewReader(body))
	request.ContentLength = int64(len(body))
	request.GetBody = nil
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	copied := *input
	copied.Request = request
	return openapi3filter.ValidateRequest(context.Background(), &copied)
}

// checkElsewhere checks an answer to a request for which the description has no operation.
func (d *Description) checkElsewhere(input *openapi3filter.RequestValidationInput, e *Exchange) error {
	name := "PathUnknown"
	if input.Route.Path != "" {
		name = "MethodNotAllowed"
	}
	early := map[int]string{ // before the server knows the path
		http.StatusBadRequest:                  "RequestMalformed",
		http.StatusUnauthorized:                "TokenRefused",
		http.StatusForbidden:                   "Forbidden",
		http.StatusTooManyRequests:             "RateLimited",
		http.StatusRequestTimeout:              "RequestTimeout",
		http.StatusRequestEntityTooLarge:       "BodyTooLarge",
		http.StatusUnsupportedMediaType:        "BodyNotJSON",
		http.StatusMisdirectedRequest:          "HostUnknown",
		http.StatusRequestHeaderFieldsTooLarge: "HeaderTooLarge",
		http.StatusServiceUnavailable:          "Unavailable",
	}
	want := map[string]int{"PathUnknown": http.StatusNotFound, "MethodNotAllowed": http.StatusMethodNotAllowed}[name]
	if other, ok := early[e.Response.StatusCode]; ok {
		name, want = other, e.Response.StatusCode
	}
	if e.Response.StatusCode != want {
		return fmt.Errorf("%s %s is not described and was answered with %d, not %d", e.Request.Method, e.Request.URL.Path, e.Response.StatusCode, want)
	}
	response := d.doc.Components.Responses[name]
	if response == nil {
		return fmt.Errorf("the description has no response %s among its components", name)
	}
	return checkResponse(input, response.Value, e)
}

func checkResponse(input *openapi3filter.RequestValidationInput, response *openapi3.Response, e *Exchange) error {
	status := e.Response.StatusCode
	if err := checkHeaders(response, e.Response); err != nil {
		return fmt.Errorf("answer %d: %w", status, err)
	}
	bodiless := e.Request.Method == http.MethodHead || status == http.StatusNotModified
	if len(e.ResponseBody) > 0 && (bodiless || len(response.Content) == 0) {
		return fmt.Errorf("answer %d: it has a body, which is not described", status)
	}
	if kind := e.Response.Header.Get("Content-Type"); kind != "" && len(response.Content) > 0 && response.Content.Get(kind) == nil {
		return fmt.Errorf("answer %d: Content-Type %q is not described", status, kind)
	}
	// kin-openapi checks nothing in answers to HEAD, and only the status of some codes. An
	// operation with the single answer, checked as an answer to GET, avoids both gaps.
	request := e.Request.Clone(context.Background())
	request.Method = http.MethodGet
	route := routers.Route{
		Spec: input.Route.Spec, Path: input.Route.Path, Method: http.MethodGet,
		Operation: &openapi3.Operation{Responses: openapi3.NewResponses(openapi3.WithStatus(http.StatusOK, &openapi3.ResponseRef{Value: response}))},
	}
	err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, Route: &route},
		Status:                 http.StatusOK,
		Header:                 e.Response.Header,
		Body:                   io.NopCloser(bytes.NewReader(e.ResponseBody)),
		Options: &openapi3filter.Options{
			IncludeResponseStatus:   true,
			MultiError:              true,
			ExcludeResponseBody:     bodiless,
			SchemaValidationOptions: formats(),
		},
	})
	if err != nil {
		return fmt.Errorf("answer %d: %w", status, err)
	}
	return nil
}

// formats are stricter formats than kin-openapi's formats: kin-openapi accepts days that are in no
// calendar.
func formats() []openapi3.SchemaValidationOption {
	instant := openapi3.NewCallbackValidator(func(text string) error {
		_, err := time.Parse(time.RFC3339, strings.ToUpper(text)) // t and z are valid, too
		return err
	})
	return []openapi3.SchemaValidationOption{openapi3.WithStringFormatValidator("date-time", instant)}
}

// checkHeaders finds headers that are sent twice or not described. Headers of HTTP itself need no
// description. Vary is a list, and may be sent twice.
func checkHeaders(response *openapi3.Response, have *http.Response) error {
	var errs []error
	http11 := []string{"Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding", "Vary"}
	for name, values := range have.Header {
		if len(values) != 1 && name != "Vary" {
			errs = append(errs, fmt.Errorf("header %s is there %d times", name, len(values)))
		}
		described := slices.ContainsFunc(http11, func(h string) bool { return h == name })
		for known := range response.Headers {
			described = described || http.CanonicalHeaderKey(known) == name
		}
		if !described {
			errs = append(errs, fmt.Errorf("header %s is not described", name))
		}
	}
	return errors.Join(errs...)
}
