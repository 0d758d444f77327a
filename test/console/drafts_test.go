package console

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestAFieldIsEmptiedAndWrittenAnew, as people do: key by key.
func TestAFieldIsEmptiedAndWrittenAnew(t *testing.T) {
	b := openTab(t)
	b.signIn(admin, "submit?gpu=12")
	const field = `.form input[type=number]`
	b.run(chromedp.WaitVisible(field), chromedp.Focus(field))
	eval[bool](b, "document.querySelector('"+field+"').select() ?? true")
	b.run(chromedp.KeyEvent("\b"))
	if got := eval[string](b, "document.querySelector('"+field+"').value + location.search"); got != "?gpu=" {
		t.Errorf("an emptied field and its address are %q", got)
	}
	b.run(chromedp.KeyEvent("2"))
	if got := eval[string](b, "document.querySelector('textarea').value"); !strings.Contains(got, "gpu: 2\n") {
		t.Errorf("the YAML is\n%s", got)
	}
	b.checkNoProblems()
}

// TestADraftOutlivesTheSession, which may end while one writes, and is gone for the next reader.
func TestADraftOutlivesTheSession(t *testing.T) {
	b := openTab(t)
	b.signIn(admin, "submit")
	b.run(chromedp.WaitVisible(`textarea`), chromedp.SendKeys(`textarea`, "# written by hand\n"))
	for _, reader := range []string{admin, member} {
		eval[bool](b, `fetch("/console/session", {method: "DELETE"}).then(answer => answer.ok)`)
		// In one step of the page: the field goes with the answer to what is typed.
		eval[bool](b, `(field => { field.value += "#"; return field.dispatchEvent(new Event("input", {bubbles: true})) })(document.querySelector("textarea"))`)
		b.see("Paste a token")
		b.run(chromedp.SetValue(`input[name=token]`, tokens[reader]), chromedp.Click(`form button[type=submit]`), chromedp.WaitVisible(`textarea`))
		if got := eval[string](b, "document.querySelector('textarea').value"); strings.Contains(got, "written by hand") != (reader == admin) {
			t.Errorf("%s, who comes back to what admin wrote, finds\n%s", reader, got)
		}
	}
}

// TestOddAddresses blank no page.
func TestOddAddresses(t *testing.T) {
	b := openTab(t)
	b.signIn(admin, "")
	for _, path := range []string{"jobs/%ff", "pools?days=x&by=y", "map?fit=3&color=z", "jobs/" + team + "/chat-70b?tab=none"} {
		b.open(path)
		b.run(chromedp.WaitVisible(`main h1`))
		if broken := eval[bool](b, "document.body.innerText.includes('This page broke')"); broken {
			t.Errorf("%s breaks its page", path)
		}
	}
	b.checkNoProblems()
}
