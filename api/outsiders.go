package api

import "net/http"

// withoutOutsiders refuses requests that no operator sent on purpose, before next sees
// them: those of callbacks.
func withoutOutsiders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isFromCallback(r) {
			errFromCallback.problem.writeTo(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isFromCallback(r *http.Request) bool {
	for _, name := range []string{callbackTimerHeader, callbackIDHeader} {
		if _, has := r.Header[name]; has {
			return true
		}
	}
	return false
}
