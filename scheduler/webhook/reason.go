package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"chronos/scheduler/dispatch"
)

// stage is how far an attempt came.
type stage int

const (
	stageConnect stage = iota
	stageSend          // connected, but nothing sent so far
	stageWrite         // some of the request may have been sent
	stageRead          // the whole request was sent
)

// failure is why an attempt got no answer.
type failure struct {
	stage stage
	err   error
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// reason says why an attempt that took so long got no answer. The package chooses all words: texts of
// the receiver, the resolver or TLS may hold anything.
func (f *failure) reason(took time.Duration) string {
	switch {
	case errors.Is(f.err, context.Canceled):
		return "canceled before " + [...]string{"connecting", "sending", "all was sent", "an answer"}[f.stage]
	case late(f.err) && f.stage == stageSend:
		return "too late to send after " + seconds(took)
	case late(f.err):
		return "no " + [...]string{"connection", "", "end of sending", "answer"}[f.stage] + " within " + seconds(took)
	case f.stage == stageConnect:
		return connectReason(f.err)
	case errors.Is(f.err, errNotHTTP), errors.Is(f.err, errHeadSize):
		return f.err.Error()
	case errors.Is(f.err, io.ErrUnexpectedEOF):
		return "connection closed in mid-answer"
	}
	return "connection closed before an answer"
}

// class is the reason's class for the metrics.
func (f *failure) class() dispatch.Class {
	var dns *net.DNSError
	var refused *refusedError
	switch {
	case errors.As(f.err, &refused):
		return dispatch.ClassDenied
	case errors.As(f.err, &dns) && dns.IsNotFound:
		return dispatch.ClassDNS
	case late(f.err):
		return dispatch.ClassTimeout
	case errors.As(f.err, &dns):
		return dispatch.ClassDNS
	}
	for _, known := range []syscall.Errno{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		if f.stage == stageConnect && errors.Is(f.err, known) {
			return dispatch.ClassRefused
		}
	}
	return dispatch.ClassOther
}

// classOf is the class of an answer's status.
func classOf(status int) dispatch.Class {
	switch status / 100 {
	case 0, 1:
		return dispatch.ClassOther
	case 2:
		return dispatch.Class2xx
	case 3:
		return dispatch.Class3xx
	case 4:
		return dispatch.Class4xx
	}
	return dispatch.Class5xx
}

func connectReason(err error) string {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return refused.reason
	case errors.Is(err, errURI), errors.Is(err, errHost):
		return err.Error()
	case errors.As(err, &dns) && dns.IsNotFound:
		return "host not found"
	case errors.As(err, &dns):
		return "host lookup failed"
	case errors.As(err, &certificate):
		return "certificate not accepted"
	case errors.As(err, &record):
		return "receiver speaks no TLS"
	}
	for _, known := range []syscall.Errno{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
		syscall.EADDRNOTAVAIL, syscall.EMFILE, syscall.ENFILE,
	} {
		if errors.Is(err, known) {
			return known.Error() // the system's own words
		}
	}
	if errors.Is(err, errHandshake) {
		return errHandshake.Error()
	}
	return "no connection"
}

// statusReason makes no new text for the usual statuses of a success.
func statusReason(status int) string {
	switch status {
	case http.StatusOK:
		return "status 200"
	case http.StatusAccepted:
		return "status 202"
	case http.StatusNoContent:
		return "status 204"
	}
	return "status " + strconv.Itoa(status)
}

func late(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// seconds is d as people say it: "2 s", "350 ms".
func seconds(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + " ms"
	}
	return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
}
