// Package openapitest is for tests: the package checks requests, answers and callbacks against the
// OpenAPI description.
//
//	client.Transport = openapitest.Transport(t, api.OpenAPI(), client.Transport)
//	receiver := httptest.NewServer(openapitest.Callbacks(t, api.OpenAPI(), handler))
//
// A test with many clients or receivers, or a test that records exchanges itself, loads the
// description once and uses the description's methods.
//
// The package checks:
//
//   - A request that got a 2xx is valid. A refused request may be invalid.
//   - An answer has a status that is described for the operation, all mandatory headers, no
//     undescribed header, and the right body and content type.
//   - An answer without a described operation is a 404 or a 405, as the components PathUnknown and
//     MethodNotAllowed say. An answer may also be a refusal that the server gives before the server
//     knows the path.
//   - A callback conforms to the only operation under webhooks. A description without webhooks
//     describes no callbacks.
//
// The work is done by github.com/getkin/kin-openapi, which validates OpenAPI 3.1 schemas as JSON
// Schema 2020-12. Package openapitest adds checks that kin-openapi leaves out: answers to HEAD,
// undescribed status codes, 304, undescribed headers, and bodies where none belongs.
package openapitest
