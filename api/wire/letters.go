package wire

import (
	"regexp"
	"strconv"
	"strings"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// LettersView is a page of dead letters, the newest first.
type LettersView struct {
	Letters []LetterView `json:"letters"`
	// Next is the cursor of the next page, "" at the end. A page may be short, or empty, though
	// more letters follow.
	Next string `json:"next,omitempty"`
	// Total counts all letters, not only the letters that match the query. A reader of some letters alone
	// gets no Total.
	Total     *int64   `json:"total,omitempty"`
	Unreached []string `json:"unreached,omitempty"` // shards whose letters are missing in the page and in Total
}

// LetterView is one dead letter.
type LetterView struct {
	ID        string `json:"id"`
	Key       string `json:"key,omitempty"` // of the timer
	At        string `json:"at"`            // when chronos gave up the pop
	Reason    string `json:"reason,omitempty"`
	Shard     string `json:"shard"`
	Sequence  int    `json:"sequence,omitempty"` // of the pop
	Attempts  int    `json:"attempts,omitempty"`
	WebhookID string `json:"webhook-id,omitempty"` // of the callbacks that failed
	Callback  string `json:"callback,omitempty"`   // user and password are ***
	// Problem says why the letter can't be read, and so not be fired again; "" if the letter is
	// readable.
	Problem string `json:"problem,omitempty"`
	// Timer is the timer as the client asked for it, and Text the stored text of an unreadable
	// letter. A list has neither.
	Timer *TimerView `json:"timer,omitempty"`
	Text  string     `json:"text,omitempty"`
}

// LettersDone is the result for several dead letters.
type LettersDone struct {
	Fired   int             `json:"fired,omitempty"`
	Deleted int             `json:"deleted,omitempty"`
	Refused []RefusedLetter `json:"refused,omitempty"`
	// Left is the number of all letters that remain, not only of the letters that match the query.
	Left int64 `json:"left"`
	// Next is the cursor for the same request about the letters that follow; "" if all letters have
	// had their turn.
	Next      string   `json:"next,omitempty"`
	Unreached []string `json:"unreached,omitempty"`
}

// RefusedLetter is a letter that could not be fired, or not be removed.
type RefusedLetter struct {
	ID     string `json:"id"`
	Key    string `json:"key,omitempty"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// ViewLetters is a page as the list shows the page.
func ViewLetters(page *store.LetterPage) LettersView {
	view := LettersView{Letters: make([]LetterView, len(page.Letters)), Next: page.Next, Total: &page.Total, Unreached: page.Unreached}
	for i := range page.Letters {
		view.Letters[i] = viewLetter(&page.Letters[i])
	}
	return view
}

func viewLetter(l *store.Letter) LetterView {
	view := LetterView{ID: l.ID, Key: l.Key, At: formatInstant(l.At), Reason: l.Reason, Shard: l.Shard}
	if l.Err != nil {
		view.Problem = l.Err.Error()
		return view
	}
	state := l.Record.State
	view.Sequence, view.Attempts, view.Callback = state.Seq, state.Attempt, l.Record.Timer.Callback.Redacted()
	view.WebhookID = l.Key + "." + state.Version.String() + "." + strconv.Itoa(state.Seq)
	return view
}

// userOf finds user and password of URLs in a text.
var userOf = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*:\\?/\\?/)[^/?#"\s]*@`)

// ReplaceUsers replaces user, password and @ in all URLs of a text.
func ReplaceUsers(text, by string) string { return userOf.ReplaceAllString(text, "${1}"+by) }

// valueOf finds the values of a JSON object that are strings.
var valueOf = regexp.MustCompile(`(:\s*")(?:[^"\\]|\\.)*`)

// hideSecrets replaces all secrets in the text of a record that can't be read: users and passwords, and
// every string from the headers on, since the names may be damaged.
func hideSecrets(text string) string {
	text = ReplaceUsers(text, timer.RedactedUser+"@")
	at := strings.Index(text, `"headers"`)
	if at < 0 {
		return text
	}
	return text[:at] + valueOf.ReplaceAllString(text[at:], "${1}"+timer.RedactedValue)
}

// ViewWholeLetter is a letter as the listener shows a single letter.
func ViewWholeLetter(l *store.Letter) LetterView {
	view := viewLetter(l)
	if l.Err != nil {
		view.Text = hideSecrets(l.Text)
		return view
	}
	asked := viewTimer(&l.Record.Timer)
	view.Timer = &asked
	return view
}
