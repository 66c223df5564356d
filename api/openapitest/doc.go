// Package openapitest is for tests: it checks that what goes over the wire is
// what the OpenAPI description says, in both directions, and the callbacks too.
//
//	client.Transport = openapitest.Transport(t, api.OpenAPI(), client.Transport)
//	receiver := httptest.NewServer(openapitest.Callbacks(t, api.OpenAPI(), handler))
//
// A test with many of them, or one that records its exchanges by itself, loads
// the description once and uses its methods.
//
// What is checked:
//
//   - a request that got a 2xx is valid; one that was refused need not be;
//   - an answer has a status that is described for its operation, the headers
//     that must be there, none that is not described, and the body and content
//     type that belong to it;
//   - an answer where the description has no operation is a 404 or a 405 as its
//     components PathUnknown and MethodNotAllowed say, or one of those that come
//     before it is known what is asked for;
//   - a callback is as the only operation under webhooks says.
//
// The work is done by github.com/getkin/kin-openapi, which validates OpenAPI 3.1
// schemas as JSON Schema 2020-12. What it leaves out is done here: answers to
// HEAD, status codes that are not described, 304, headers that are not
// described, and bodies where none belongs.
package openapitest
