package openapitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Description is a loaded OpenAPI description. A Description is safe for concurrent use.
type Description struct{ doc *openapi3.T }

// Load reads a description, in YAML or JSON. Load checks that the description is valid OpenAPI 3.1,
// examples and patterns included.
func Load(description []byte) (*Description, error) {
	doc, err := openapi3.NewLoader().LoadFromData(description)
	if err != nil {
		return nil, fmt.Errorf("load description: %w", err)
	}
	if !doc.IsOpenAPI31OrLater() {
		return nil, fmt.Errorf("load description: it is OpenAPI %s, not 3.1", doc.OpenAPI)
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("validate description: %w", err)
	}
	if len(doc.Webhooks) > 1 {
		return nil, fmt.Errorf("load description: it has %d webhooks, not one or none", len(doc.Webhooks))
	}
	return &Description{doc}, nil
}

// Exchange is a request and its answer, with their bodies read. The bodies in Request and Response
// are not looked at.
type Exchange struct {
	Request      *http.Request
	RequestBody  []byte
	Response     *http.Response
	ResponseBody []byte
}

// Check says how an exchange deviates from the description; nil if the exchange conforms.
func (d *Description) Check(e Exchange) error {
	input, known, err := d.find(e.Request)
	if err != nil {
		return err
	}
	if !known {
		return d.checkElsewhere(input, &e)
	}
	if status := e.Response.StatusCode; status/100 == 2 && status != http.StatusMultiStatus {
		// The server skips a byte order mark.
		body := bytes.TrimPrefix(e.RequestBody, []byte("\uFEFF"))
		if err := checkRequest(input, body, assumedType(input.Route.Operation)); err != nil {
			return fmt.Errorf("the request was accepted, but is not as described: %w", err)
		}
	}
	response := input.Route.Operation.Responses.Status(e.Response.StatusCode)
	if response == nil {
		return fmt.Errorf("%s %s does not answer %d, says the description", input.Route.Method, input.Route.Path, e.Response.StatusCode)
	}
	return checkResponse(input, response.Value, &e)
}

// assumedType is the content type of a request's body: the server reads a body as JSON, whatever the
// content type. assumedType is empty where the content type counts.
func assumedType(o *openapi3.Operation) string {
	const plain = "application/json"
	if o.RequestBody != nil && o.RequestBody.Value.Content[plain] == nil {
		return ""
	}
	return plain
}

// CheckCallback says how a callback deviates from the description; nil if the callback conforms.
// The request's body is not looked at.
func (d *Description) CheckCallback(request *http.Request, body []byte) error {
	if len(d.doc.Webhooks) == 0 {
		return errors.New("the description has no callback")
	}
	for name, item := range d.doc.Webhooks {
		operation := item.GetOperation(request.Method)
		if operation == nil {
			return fmt.Errorf("a callback is no %s", request.Method)
		}
		input := d.input(request, nil)
		input.Route = &routers.Route{Spec: d.doc, Path: name, PathItem: item, Method: request.Method, Operation: operation}
		if err := checkRequest(input, body, ""); err != nil {
			return fmt.Errorf("the callback is not as described: %w", err)
		}
		for header := range request.Header {
			own := strings.HasPrefix(header, "X-") || strings.HasPrefix(header, "Webhook-")
			if own && !hasParameter(operation, header) {
				return fmt.Errorf("the callback's header %s is not described", header)
			}
		}
	}
	return nil
}

func hasParameter(operation *openapi3.Operation, header string) bool {
	for _, p := range operation.Parameters {
		if p.Value.In == openapi3.ParameterInHeader && strings.EqualFold(p.Value.Name, header) {
			return true
		}
	}
	return false
}

// Codes are the values that the member code of a problem may have, in any order.
func (d *Description) Codes() []string {
	found := map[string]bool{}
	for _, schema := range d.doc.Components.Schemas {
		collectCodes(schema, found)
	}
	add := func(responses map[string]*openapi3.ResponseRef) {
		for _, response := range responses {
			for _, media := range response.Value.Content {
				collectCodes(media.Schema, found)
			}
		}
	}
	add(d.doc.Components.Responses)
	for _, item := range d.doc.Paths.Map() {
		for _, operation := range item.Operations() {
			add(operation.Responses.Map())
		}
	}
	codes := make([]string, 0, len(found))
	for code := range found {
		codes = append(codes, code)
	}
	return codes
}

// Operations are the described methods and paths, such as "GET /timers/{id}", in any order.
func (d *Description) Operations() []string {
	var operations []string
	for path, item := range d.doc.Paths.Map() {
		for method := range item.Operations() {
			operations = append(operations, method+" "+path)
		}
	}
	return operations
}

func collectCodes(ref *openapi3.SchemaRef, found map[string]bool) {
	if ref == nil || ref.Value == nil {
		return
	}
	if code := ref.Value.Properties["code"]; code != nil && code.Value != nil {
		for _, value := range append(code.Value.Enum, code.Value.Const) {
			if text, ok := value.(string); ok {
				found[text] = true
			}
		}
	}
	for _, list := range [][]*openapi3.SchemaRef{ref.Value.AllOf, ref.Value.OneOf, ref.Value.AnyOf} {
		for _, part := range list {
			collectCodes(part, found)
		}
	}
}

func (d *Description) input(request *http.Request, params map[string]string) *openapi3filter.RequestValidationInput {
	return &openapi3filter.RequestValidationInput{
		Request:     request,
		PathParams:  params,
		QueryParams: query(request.URL),
		Options: &openapi3filter.Options{
			MultiError:              true,
			SkipSettingDefaults:     true,
			AuthenticationFunc:      openapi3filter.NoopAuthenticationFunc,
			SchemaValidationOptions: formats(),
		},
	}
}

// query are the parameters of a URL; a semicolon separates parameters, too.
func query(u *url.URL) url.Values {
	values, _ := url.ParseQuery(strings.ReplaceAll(u.RawQuery, ";", "&")) // malformed parameters are left out
	return values
}

// find is the operation for a request. If known is false there is no operation, and the input's
// Route has at most the path.
func (d *Description) find(request *http.Request) (input *openapi3filter.RequestValidationInput, known bool, err error) {
	if request.URL == nil {
		return nil, false, errors.New("the request has no URL")
	}
	if template, params, ok := d.template(request.URL); ok {
		item := d.doc.Paths.Value(template)
		input = d.input(request, params)
		operation := item.GetOperation(request.Method)
		if operation == nil && request.Method == http.MethodHead {
			operation = item.GetOperation(http.MethodGet)
		}
		input.Route = &routers.Route{Spec: d.doc, Path: template, PathItem: item, Method: request.Method, Operation: operation}
		return input, operation != nil, nil
	}
	input = d.input(request, nil)
	input.Route = &routers.Route{Spec: d.doc, Method: request.Method}
	return input, false, nil
}

// template is the described path that a URL matches; a path without a parameter comes first.
func (d *Description) template(u *url.URL) (template string, params map[string]string, ok bool) {
	path := u.Path
	if path == "/timers/" { // the server treats the path like /timers
		path = "/timers"
	}
	for candidate := range d.doc.Paths.Map() {
		found, matches := match(candidate, u.EscapedPath(), path)
		if matches && (!ok || found == nil) {
			template, params, ok = candidate, found, true
		}
	}
	return template, params, ok
}

// match compares a path with a template of which a segment may be a parameter.
func match(template, escaped, path string) (params map[string]string, ok bool) {
	prefix, name, templated := strings.Cut(template, "{")
	if !templated {
		return nil, template == path
	}
	name, suffix, _ := strings.Cut(name, "}")
	value, begins := strings.CutPrefix(path, prefix)
	value, ends := strings.CutSuffix(value, suffix)
	escaped = strings.TrimSuffix(strings.TrimPrefix(escaped, prefix), suffix)
	// An escaped slash belongs to the value, but no described value has a slash.
	if !begins || !ends || value == "" || strings.Contains(escaped, "/") || strings.Contains(value, "/") {
		return nil, false
	}
	return map[string]string{name: value}, true
}
