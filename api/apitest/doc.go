// Package apitest is for tests: bodies of requests, requests as bytes on a bare connection, and
// checks of the answers.
package apitest
