package ui

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/timer"
)

// visit is a request of an operator with a valid session.
type visit struct {
	r       *http.Request
	ctx     context.Context //nolint:containedctx // the request's context, with the page's deadline
	session *session
	token   string // the name of the session's token
	role    tokens.Role
	now     time.Time
	noted   []any // about a change, for the log: keys and values in turn
}

// note adds to the log line of a change.
func (v *visit) note(key, value string) {
	if value != "" {
		v.noted = append(v.noted, key, wire.Printable(value))
	}
}

// may reports whether the operator may do what needs the role.
func (v *visit) may(need tokens.Role) bool { return v.role.Allows(need) }

// part is the part of the page that the request asks for; "" for the page.
func (v *visit) part() string { return partOf(v.r) }

func partOf(r *http.Request) string { return r.URL.Query().Get("part") }

// answer is a page, or a redirection to a page.
type answer struct {
	page  string // the name of the template
	title string
	tab   string // of the navigation that is marked
	data  any
	to    string // the path of a page to go to instead
}

// handle makes a handler for operators with the role need.
func (u *UI) handle(l *lane, need tokens.Role, patience time.Duration, do func(*visit) (answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, refused := u.admit(w, r, need)
		if refused {
			return
		}
		if !l.enter(r.Context()) {
			p := wire.NewProblem(http.StatusServiceUnavailable, "overloaded", "this node makes as many pages as it may at once; wait a second, and load the page again")
			p.RetryAfter = time.Second
			u.refuse(w, v, p)
			return
		}
		defer l.leave()
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		v.r, v.ctx = r.WithContext(ctx), ctx
		if err := readForm(w, v.r); err != nil {
			u.refuse(w, v, err)
			return
		}
		a, err := do(v)
		switch {
		case err != nil:
			u.refuse(w, v, err)
		case a.to != "":
			http.Redirect(w, r, a.to, http.StatusSeeOther)
		default:
			u.show(w, v, http.StatusOK, a)
		}
	}
}

// admit finds the session of a request, and checks the session's token. If the request gets no further,
// admit has answered the request, and refused is true.
func (u *UI) admit(w http.ResponseWriter, r *http.Request, need tokens.Role) (v *visit, refused bool) {
	now := time.Now()
	s := u.sessions.find(cookieOf(r), now)
	if s == nil {
		askToLogIn(w, r)
		return nil, true
	}
	v = &visit{r: r, ctx: r.Context(), session: s, now: now}
	role, decision := rights(u.Authorizer, s.token, now)
	v.token, v.role = decision.Name, role
	switch {
	case decision.Outcome == tokens.Limited:
		p := wire.NewProblem(http.StatusTooManyRequests, "rate-limited", "requests with this token come faster than the token's rate; wait a moment, and close other windows with the dashboard")
		p.RetryAfter = decision.RetryAfter
		u.refuse(w, v, p)
	case decision.Outcome != tokens.OK:
		u.sessions.end(cookieOf(r))
		askToLogIn(w, r)
	case decision.Prefix != "":
		u.refuse(w, v, confined())
	case !role.Allows(need):
		u.refuse(w, v, wire.NewProblem(http.StatusForbidden, "token-scope", "the token "+decision.Name+" has the role "+role.String()+", and this takes the role "+need.String()+"; log in with a token that has the role"))
	default:
		return v, false
	}
	return v, true
}

func confined() wire.Problem {
	return wire.NewProblem(http.StatusForbidden, "token-prefix", "this token is for timers whose keys begin with a prefix, and the dashboard shows the timers of all; log in with a token that has no prefix")
}

// rights is the role of a token, and the decision about a request with the token. The search costs one
// request of the token's rate, since a refusal costs nothing.
func rights(by Authorizer, token secret, now time.Time) (tokens.Role, tokens.Decision) {
	decision := tokens.Decision{}
	if by == nil {
		return 0, decision
	}
	for _, role := range []tokens.Role{tokens.Admin, tokens.Write | tokens.List, tokens.Write, tokens.List, tokens.Read} {
		decision = by.Check(token.header(), role, now)
		if decision.Outcome != tokens.Scope {
			return role, decision
		}
	}
	return 0, decision
}

// askToLogIn leads to the form for logging in, and from there back to the page.
func askToLogIn(w http.ResponseWriter, r *http.Request) {
	if partOf(r) != "" {
		w.Header().Set("HX-Refresh", "true") // htmx loads the page, which leads to the form
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	to := "/ui/login"
	if next := localPath(r.URL.RequestURI()); r.Method == http.MethodGet && next != "" && next != "/ui/" {
		to += "?next=" + url.QueryEscape(next)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// readForm reads the form of a change.
func readForm(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return wire.NewProblem(http.StatusUnsupportedMediaType, "content-type", "changes in the dashboard come from its own forms; send programs' requests as JSON to the paths outside of /ui/")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return wire.NewProblem(http.StatusRequestEntityTooLarge, "body-too-large", "the form is over 64 KiB; select fewer rows")
		}
		return wire.NewProblem(http.StatusBadRequest, "body-malformed", "the form can't be read; go back, and send it again")
	}
	return nil
}

// refuse answers with a page about an error, or with a line about the error for a part of a page.
func (u *UI) refuse(w http.ResponseWriter, v *visit, err error) {
	p := problemOf(err)
	if p.Code == "internal" {
		u.Log.Error("page failed", "path", v.r.URL.Path, "error", err)
	}
	u.refuseWith(w, v, p)
}

func (u *UI) refuseWith(w http.ResponseWriter, v *visit, p wire.Problem) {
	if p.RetryAfter > 0 {
		p.EachHeader(func(name, value string) {
			if name == "Retry-After" {
				w.Header().Set(name, value)
			}
		})
	}
	u.show(w, v, p.Status, answer{page: "problem", title: http.StatusText(p.Status), data: problemPage{p.Status, http.StatusText(p.Status), sentence(p.Detail), p.Code}})
}

type problemPage struct {
	Status      int
	Title       string
	Detail      string
	ProblemCode string
}

// refuseUnknown answers a path or a method that the dashboard does not have.
func (u *UI) refuseUnknown(w http.ResponseWriter, r *http.Request) {
	v, refused := u.admit(w, r, tokens.Read)
	if refused {
		return
	}
	u.refuseWith(w, v, wire.NewProblem(http.StatusNotFound, "path-unknown", "the dashboard has no such page, or the page takes no form; choose a page above"))
}

// explained is an error with the explanation for an operator.
type explained struct {
	cause   error
	problem wire.Problem
}

func (e *explained) Error() string { return e.cause.Error() }

func (e *explained) Unwrap() error { return e.cause }

// explain has a page explain err as the function does.
func explain(err error, by func(error) wire.Problem) error {
	if err == nil {
		return nil
	}
	return &explained{err, by(err)}
}

// problemOf is the explanation of an error.
func problemOf(err error) wire.Problem {
	if e, is := errors.AsType[*explained](err); is {
		return e.problem
	}
	if _, unmet := errors.AsType[*timer.ConditionError](err); unmet {
		return wire.NewProblem(http.StatusConflict, "overtaken", "the timer has changed since the page was made, or is over, and nothing was done; look at the timer again, and repeat the change if you still want it")
	}
	if errors.Is(err, timer.ErrFiring) {
		return wire.NewProblem(http.StatusConflict, "firing", "a callback of the timer is under way, and nothing was done; look at the timer when the callback is over")
	}
	p, _ := wire.ProblemOf(err)
	return p
}

// sentence is a detail of a problem as a sentence of its own.
func sentence(detail string) string {
	if detail == "" {
		return ""
	}
	return strings.ToUpper(detail[:1]) + strings.TrimSuffix(detail[1:], ".") + "."
}
