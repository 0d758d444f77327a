package console

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestSignIn: the token opens the page, scripts cannot read the session, and signing out ends it.
func TestSignIn(t *testing.T) {
	b := openTab(t)
	b.open("jobs?q=sft")
	b.see("Sign in")
	b.run(chromedp.SetValue(`input[name=token]`, "wrong"), chromedp.Click(`form button[type=submit]`))
	b.see("no valid token")
	b.signIn(admin, "jobs?q=sft")
	b.see("sft-qwen2-7b-01")
	if got := eval[string](b, "document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + location.href"); strings.Contains(got, "gpuctl") || strings.Contains(got, tokens[admin][:20]) {
		t.Errorf("a script finds the session: %s", got)
	}
	b.run(chromedp.Click(`.account summary`))
	b.click("Sign out")
	b.see("Paste a token")
	b.open("jobs")
	b.see("Paste a token")
	b.checkNoProblems()
}

// TestWhoLacksARightReadsWhich on every page, and the rest of the page goes on.
func TestWhoLacksARightReadsWhich(t *testing.T) {
	b := openTab(t)
	b.signIn(nobody, "nodes")
	for path, right := range map[string]string{"nodes": "may not list nodes", "map": "may not list nodes", "jobs": "may not list", "queue": "may not list"} {
		b.open(path)
		b.see("You lack a right")
		b.see(right)
	}
	b.checkNoProblems()
}

// TestHostileTexts: what users write into descriptions, events, output and addresses is text on every page.
func TestHostileTexts(t *testing.T) {
	b := openTab(t)
	b.signIn(admin, "")
	paths := []string{
		"jobs", "jobs/" + team + "/chat-70b?tab=events", "jobs/" + team + "/chat-70b?tab=logs", "jobs/" + team + "/chat-70b?tab=yaml", "queue", "map", "nodes", "pools", "submit",
	}
	for i, text := range hostile {
		paths = append(paths, fmt.Sprintf("jobs/%s/hostile-%02d", team, i), "jobs?q="+escapeQuery(text), "jobs/"+escapeQuery(text)+"/"+escapeQuery(text),
			"submit?name="+escapeQuery(text)+"&image="+escapeQuery(text), "nodes/"+escapeQuery(text), "map?pool="+escapeQuery(text)+"&color="+escapeQuery(text))
	}
	for _, path := range paths {
		b.open(path)
		b.run(chromedp.WaitVisible(`main h1`))
		if strings.HasSuffix(path, "tab=logs") {
			b.see("<script>window.pwned=1</script>")
		}
		if strings.HasSuffix(path, "tab=events") {
			b.see(`<img src=x onerror="window.pwned=2">`)
		}
		if got := eval[string](b, "String(window.pwned) + document.querySelectorAll('main script, main iframe, main [onerror], main [onload], a[href^=\"javascript:\"]').length"); got != "undefined0" {
			t.Errorf("%s: a text has become part of the page: %s", path, got)
		}
	}
	b.checkNoProblems()
}

// escapeQuery escapes all that means something in an address.
func escapeQuery(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

// TestOtherPagesGetNothing has a page of another site, and one of the same site at another port, try what pages can try with the session of a reader.
func TestOtherPagesGetNothing(t *testing.T) {
	b := openTab(t)
	b.signIn(admin, "")
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><title>other</title><iframe id=f src="`+server.URL+`/console/"></iframe>`) // the browser is gone
	})
	other := httptest.NewTLSServer(mux)
	t.Cleanup(other.Close)
	for name, address := range map[string]string{"the same site": other.URL, "another site": strings.Replace(other.URL, "127.0.0.1", "localhost", 1)} {
		t.Run(name, func(t *testing.T) {
			b := &tab{T: t, ctx: b.ctx}
			b.run(chromedp.Navigate(address))
			for what, attempt := range map[string]string{
				"read":      `fetch(URL + "/api/v1/nodes", {credentials: "include"}).then(r => "read " + r.status, e => "refused")`,
				"write":     `fetch(URL + "/api/v1/jobs/chat-70b?namespace=team-a", {method: "DELETE", credentials: "include"}).then(r => "read " + r.status, e => "refused")`,
				"sign out":  `fetch(URL + "/console/session", {method: "DELETE", credentials: "include"}).then(r => "read " + r.status, e => "refused")`,
				"a socket":  `new Promise(done => { const s = new WebSocket(URL.replace("https", "wss") + "/api/v1/jobs/chat-70b/logs/ws?namespace=team-a"); s.onopen = () => done("read"); s.onerror = () => done("refused"); })`,
				"a frame":   `new Promise(done => setTimeout(() => { try { done(document.getElementById("f").contentDocument ? "read" : "refused"); } catch { done("refused"); } }, 500))`,
				"a stream":  `new Promise(done => { const s = new EventSource(URL + "/api/v1/jobs?watch=true", {withCredentials: true}); s.onopen = () => done("read"); s.onerror = () => done("refused"); })`,
				"an opener": `new Promise(done => { const w = open(URL + "/console/"); setTimeout(() => { try { done(w && w.document && w.document.title ? "read" : "refused"); } catch { done("refused"); } }, 500); })`,
			} {
				expression := strings.ReplaceAll(attempt, "URL", `"`+server.URL+`"`)
				if got := eval[string](b, expression); got != "refused" {
					t.Errorf("%s: %s", what, got)
				}
			}
		})
	}
	b.open("jobs/" + team + "/chat-70b")
	b.see("chat-70b")
	b.see("Running")
}

// TestEveryPageFits in both languages, light and dark, on three widths: it says what it is, is no wider than the screen, and everything on it has a name. A
// short run looks at the narrowest alone, where least fits.
func TestEveryPageFits(t *testing.T) {
	b := openTab(t)
	b.signIn(admin, "")
	pages := map[string]string{
		"overview": "", "jobs": "jobs", "job": "jobs/" + team + "/too-big", "map": "map", "queue": "queue", "nodes": "nodes", "node": "nodes/train-01", "pools": "pools", "submit": "submit",
	}
	languages, themes, widths := []string{"en", "zh"}, []string{"light", "dark"}, []int64{320, 768, 1440}
	if testing.Short() {
		languages, themes, widths = languages[:1], themes[:1], widths[:1]
	}
	for _, language := range languages {
		for _, theme := range themes {
			for _, width := range widths {
				for name, path := range pages {
					t.Run(fmt.Sprintf("%s %s %s %d", name, language, theme, width), func(t *testing.T) {
						b := &tab{T: t, ctx: b.ctx}
						call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
						features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}
						call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
						b.open(path + "?lang=" + language)
						b.settle()
						b.checkPage(width, language)
						b.checkAccess()
						b.takePicture(name, language, theme, width)
					})
				}
			}
		}
	}
	b.checkNoProblems()
}
