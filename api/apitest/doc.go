// Package apitest is for tests: bodies of requests, requests as bytes on a bare
// connection, and looks at the answers.
package apitest
