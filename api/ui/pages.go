package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"chronos/api/tokens"
)

//go:embed templates static
var files embed.FS

// pages has the templates and the static files. Nobody changes pages.
type pages struct {
	templates map[string]*template.Template // by the name of the page
	assets    map[string][]byte             // by the name with the hash of the content
	names     map[string]string             // of the assets with hashes, by the names without
}

// newPages reads the embedded files. The tests read the same files, so that none fails here.
func newPages() *pages {
	p := &pages{make(map[string]*template.Template), make(map[string][]byte), make(map[string]string)}
	for _, name := range entries("static") {
		if path.Ext(name) == ".LICENSE" {
			continue
		}
		content := read("static/" + name)
		sum := sha256.Sum256(content)
		ext := path.Ext(name)
		hashed := strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:8]) + ext
		p.assets[hashed], p.names[name] = content, hashed
	}
	funcs := template.FuncMap{
		"asset": p.path, "shown": shown, "plain": plain, "sentence": sentence, "whole": whole, "tagged": tagged, "number": number, "brief": brief, "about": about,
		"perSecond": perSecond, "size": size, "percent": percent, "plural": plural, "join": strings.Join,
	}
	shared := template.Must(template.New("").Funcs(funcs).ParseFS(files, "templates/shared/*.html"))
	for _, name := range entries("templates") {
		if page, is := strings.CutSuffix(name, ".html"); is {
			p.templates[page] = template.Must(template.Must(shared.Clone()).ParseFS(files, "templates/"+name))
		}
	}
	return p
}

func entries(folder string) (names []string) {
	all, err := fs.ReadDir(files, folder)
	if err != nil {
		panic(fmt.Errorf("read embedded %s: %w", folder, err))
	}
	for _, one := range all {
		names = append(names, one.Name())
	}
	return names
}

func read(name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Errorf("read embedded %s: %w", name, err))
	}
	return content
}

// path is where a static file is. A file with another content has another path.
func (p *pages) path(name string) (string, error) {
	hashed, known := p.names[name]
	if !known {
		return "", fmt.Errorf("no static file %s", name)
	}
	return "/ui/static/" + hashed, nil
}

// serveAsset answers with a static file, which browsers may keep.
func (p *pages) serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, known := p.assets[name]
	if !known {
		http.NotFound(w, r)
		return
	}
	kinds := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	w.Header().Set("Content-Type", kinds[path.Ext(name)])
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// frame is what a page has around the data.
type frame struct {
	Title string
	Tabs  []tab  // of the navigation; none before the login
	Token string // the name of the operator's token
	Role  string
	Now   *instant
	Here  string // the path of the page, with the query, for the parts of the page
	Data  any
}

// Part is the address of a part of the page.
func (f frame) Part(name string) string {
	mark := "?"
	if strings.Contains(f.Here, "?") {
		mark = "&"
	}
	return f.Here + mark + "part=" + name
}

type tab struct {
	Name, Path string
	Here       bool
}

func (v *visit) tabs(here string) (tabs []tab) {
	for _, one := range []struct {
		name, path string
		need       tokens.Role
	}{
		{"Overview", "/ui/", tokens.Read},
		{"Timers", "/ui/timers", tokens.List},
		{"Dead letters", "/ui/dead", tokens.List},
		{"Destinations", "/ui/destinations", tokens.Read},
		{"Cluster", "/ui/cluster", tokens.Read},
	} {
		if v.may(one.need) {
			tabs = append(tabs, tab{one.name, one.path, one.name == here})
		}
	}
	return tabs
}

// show answers with a page, or with the part of the page that the request asks for.
func (u *UI) show(w http.ResponseWriter, v *visit, status int, a answer) {
	body := frame{Title: a.title, Tabs: v.tabs(a.tab), Token: v.token, Role: v.role.String(), Now: at(v.now.Truncate(time.Second), v.now), Here: hereOf(v.r), Data: a.data}
	name := "frame"
	page := u.pages.templates[a.page]
	if part := v.part(); part != "" && v.session != nil {
		if name = "part-" + part; page.Lookup(name) == nil {
			name = "part"
		}
	}
	var out bytes.Buffer
	if err := page.ExecuteTemplate(&out, name, body); err != nil || out.Len() > maxPage {
		u.Log.Error("page can't be made", "page", a.page, "bytes", out.Len(), "error", err)
		status = http.StatusInternalServerError
		out.Reset()
		out.WriteString("<!doctype html><title>chronos</title><p>This page can't be shown; the log of the node says why. <a href=\"/ui/\">Overview</a>")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // an error means that the browser has disconnected
}

// hereOf is the path of a request, with the query but without the part.
func hereOf(r *http.Request) string {
	query := r.URL.Query()
	query.Del("part")
	if len(query) == 0 {
		return r.URL.EscapedPath()
	}
	return r.URL.EscapedPath() + "?" + query.Encode()
}

// unique sorts names and leaves out repetitions.
func unique(names ...[]string) []string {
	all := slices.Concat(names...)
	slices.Sort(all)
	return slices.Compact(all)
}
