package timer_test

import (
	"net/url"
	"testing"

	"chronos/scheduler/timer"
)

func TestRedactedURIs(t *testing.T) {
	for uri, want := range map[string]string{
		"http://h/x":                        "http://h/x",
		"http://h/x@y?to=a@b#c@d":           "http://h/x@y?to=a@b#c@d",
		"http://u:p@h/x":                    "http://***@h/x",
		"http://u@h/x":                      "http://***@h/x",
		"http://:p@h":                       "http://***@h",
		"http://@h/x":                       "http://***@h/x",
		"HTTPS://u:p%40q@H:8080?to=a@b":     "HTTPS://***@H:8080?to=a@b",
		"http://u:p@[fe80::1%25eth0]:9/%7e": "http://***@[fe80::1%25eth0]:9/%7e",
		"http://u:p@h#x":                    "http://***@h#x",
		"http://u:p@h\x00/":                 "",
		"":                                  "",
	} {
		if have := (&timer.Callback{URI: uri}).Redacted(); have != want {
			t.Errorf("%q: have %q, want %q", uri, have, want)
		}
	}
}

// Output of Redacted is refused in a request, and not taken for a user and a password.
func TestRedactedURIsAreRefused(t *testing.T) {
	for _, uri := range []string{
		"http://***@h/", "http://***:***@h/", "http://u:***@h/", "http://***:p@h/", "http://%2A%2A%2A@h/", "https://***:@h:1/x",
	} {
		err := fine(func(x *timer.Timer) { x.Callback.URI = uri }).Validate()
		checkRefusal(t, err, "uri-redacted", "/callback/http/uri")
	}
	for _, uri := range []string{"http://**@h/", "http://****:p@h/", "http://h/***@x", "http://u:p@h/***"} {
		checkRefusal(t, fine(func(x *timer.Timer) { x.Callback.URI = uri }).Validate(), "", "")
	}
}

// FuzzRedacted: no user and no password is left in the output, and the rest is unchanged.
func FuzzRedacted(f *testing.F) {
	for _, uri := range []string{"http://u:p@h/x@y", "https://h", "http://a@b@c/", "http://u:p@[::1]/", "http:///u:p@h", "//u:p@h", "http://h?u:p@x"} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		asked := fine(func(x *timer.Timer) { x.Callback.URI = uri })
		if asked.Validate() != nil {
			return
		}
		shown, err := url.Parse(asked.Callback.Redacted())
		if err != nil {
			t.Fatal(err)
		}
		whole, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		if (whole.User == nil) != (shown.User == nil) || shown.User != nil && shown.User.String() != url.User("***").String() {
			t.Errorf("%q is shown as %q", uri, asked.Callback.Redacted())
		}
		whole.User, shown.User = nil, nil
		if whole.String() != shown.String() {
			t.Errorf("%q is shown as %q", uri, asked.Callback.Redacted())
		}
	})
}
