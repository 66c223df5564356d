package ui

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
)

// loginPage is the form for logging in.
type loginPage struct {
	Next    string // the page to go to afterwards
	Problem string // with the try before
	Out     bool   // the operator has just logged out
}

// showLogin shows the form for logging in, or logs in by a link.
func (u *UI) showLogin(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if code := query.Get("once"); code != "" && r.Method == http.MethodGet {
		u.loginOnce(w, r, code)
		return
	}
	u.askForToken(w, r, http.StatusOK, loginPage{Next: localPath(query.Get("next")), Out: query.Get("out") != ""})
}

func (u *UI) askForToken(w http.ResponseWriter, r *http.Request, status int, page loginPage) {
	u.show(w, &visit{r: r, ctx: r.Context(), now: time.Now()}, status, answer{page: "login", title: "Log in", data: page})
}

// loginOnce logs in by a link. The answer is a page that leads on, since a browser that comes from
// another site sends the new cookie only with requests that begin at a page of the dashboard.
func (u *UI) loginOnce(w http.ResponseWriter, r *http.Request, code string) {
	if !u.tries.Allow() {
		u.refuseTry(w, r, "")
		return
	}
	token, valid := u.sessions.redeem(code, time.Now())
	if !valid {
		u.askForToken(w, r, http.StatusForbidden, loginPage{Problem: "This link was used before, or is over 15 minutes old. Log in with the token, or restart the node for a new link."})
		return
	}
	if problem := u.enter(w, r, token); problem != nil {
		u.askForToken(w, r, problem.Status, loginPage{Problem: sentence(problem.Detail)})
		return
	}
	u.show(w, &visit{r: r, ctx: r.Context(), now: time.Now()}, http.StatusOK, answer{page: "welcome", title: "Logged in"})
}

// login takes a token.
func (u *UI) login(w http.ResponseWriter, r *http.Request) {
	if err := readForm(w, r); err != nil {
		u.refuse(w, &visit{r: r, ctx: r.Context(), now: time.Now()}, err)
		return
	}
	next := localPath(r.PostForm.Get("next"))
	if !u.tries.Allow() {
		u.refuseTry(w, r, next)
		return
	}
	token := secret{strings.TrimSpace(r.PostForm.Get("token"))}
	if problem := u.enter(w, r, token); problem != nil {
		u.askForToken(w, r, problem.Status, loginPage{Next: next, Problem: sentence(problem.Detail)})
		return
	}
	http.Redirect(w, r, cmp.Or(next, "/ui/"), http.StatusSeeOther)
}

func (u *UI) refuseTry(w http.ResponseWriter, r *http.Request, next string) {
	w.Header().Set("Retry-After", "1")
	u.askForToken(w, r, http.StatusTooManyRequests, loginPage{Next: next, Problem: "Too many logins are tried at this node. Wait a second, and try again."})
}

// enter begins a session with the token, in place of the browser's present session. A problem says why
// the token does not let in.
func (u *UI) enter(w http.ResponseWriter, r *http.Request, token secret) *wire.Problem {
	now := time.Now()
	_, decision := rights(u.Authorizer, token, now)
	var p wire.Problem
	switch {
	case decision.Outcome == tokens.Limited:
		p = wire.NewProblem(http.StatusTooManyRequests, "rate-limited", "requests with this token come faster than the token's rate; wait a moment, and try again")
	case decision.Outcome != tokens.OK:
		p = wire.NewProblem(http.StatusUnauthorized, "token-unknown", "this token is not known; check that the whole token was copied, or ask the operator for a valid one")
	case decision.Prefix != "":
		p = confined()
	default:
		u.sessions.end(cookieOf(r))
		setCookie(w, r, u.sessions.begin(token, now))
		u.Log.Info("dashboard login", "by", decision.Name, "address", r.RemoteAddr)
		return nil
	}
	u.Log.Warn("dashboard login refused", "by", cmp.Or(decision.Name, "-"), "code", p.Code, "address", r.RemoteAddr)
	return &p
}

// logout ends the session.
func (u *UI) logout(w http.ResponseWriter, r *http.Request) {
	u.sessions.end(cookieOf(r))
	setCookie(w, r, "")
	http.Redirect(w, r, "/ui/login?out=1", http.StatusSeeOther)
}
