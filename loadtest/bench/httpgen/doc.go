// Package httpgen makes HTTP load at little cost: a single thread, non-blocking sockets, epoll, and
// requests that are bytes already. httpgen reads the status and the length of an answer, and the
// first bytes of the body. httpgen runs on Linux only.
//
// In a closed load, each connection sends the next request when the answer has come. In an open
// load, each request has an instant, and the time of the answer counts from the instant. The time
// then includes the wait for a connection.
package httpgen
