// Package httpgen makes HTTP load at little cost: one thread, non-blocking
// sockets and epoll, requests that are bytes already, and of an answer no more
// is read than its status, its length and how its body begins. It runs on Linux
// only. Closed, each connection sends its next request when the answer has come;
// open, requests have their instants, and a request that had to wait for a
// connection is counted from its instant.
package httpgen
