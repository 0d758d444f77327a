package console

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is one page of a browser of its own, with what went wrong in it.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// openTab starts a browser, which ends with the test. The certificate of the server is made for the sandbox, and unknown to it.
func openTab(t *testing.T, options ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	needBrowser(t)
	options = append(append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browserPath), chromedp.NoSandbox,
		chromedp.Flag("ignore-certificate-errors", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("lang", "en-US")), options...)
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, leave := chromedp.NewContext(allocator)
	t.Cleanup(leave)
	opened := &tab{T: t, ctx: ctx}
	if err := chromedp.Listen(ctx, opened.record); err != nil { // it starts the browser
		t.Fatalf("starting the browser: %v", err)
	}
	call(opened, cdplog.Enable, cdp.Empty{})
	return opened
}

// record keeps what a page must never do: break its policy, throw, or open a dialog.
func (b *tab) record(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *cdplog.EventEntryAdded:
		if event.Entry.Source == cdplog.EntrySourceSecurity || strings.Contains(event.Entry.Text, "Content Security Policy") || strings.Contains(event.Entry.Text, "TrustedHTML") {
			b.problems = append(b.problems, event.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, event.ExceptionDetails.Text)
	case *page.EventJavascriptDialogOpening:
		b.problems = append(b.problems, "a dialog: "+event.Message)
	}
}

// checkNoProblems fails the test for what was recorded.
func (b *tab) checkNoProblems() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		b.Errorf("the page: %s", problem)
	}
	b.problems = nil
}

func (b *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatalf("the browser: %v", err)
	}
}

// call sends a command of the browser's protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		b.Fatalf("the browser: %v", err)
	}
}

// eval returns the value of a JavaScript expression, after a promise of it.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("the browser: %s: %v", expression, err)
	}
	return out
}

// see waits until the page shows a text, and fails with what it shows instead.
func (b *tab) see(text string) {
	b.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		b.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if eval[bool](b, fmt.Sprintf("document.body.innerText.includes(%s)", quoted)) {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("the page does not show %q, but:\n%s", text, eval[string](b, "location.href + '\\n' + document.body.innerText"))
		}
	}
}

// click clicks the first thing that can be clicked with a text.
func (b *tab) click(text string) {
	b.Helper()
	xpath := fmt.Sprintf(`//*[self::a or self::button or self::summary][contains(normalize-space(.), %q)]`, text)
	b.run(chromedp.Click(xpath, chromedp.NodeVisible))
}

// open opens a page of the console.
func (b *tab) open(path string) {
	b.Helper()
	b.run(chromedp.Navigate(server.URL + "/console/" + path))
}

// signIn signs in as people do: the token is pasted.
func (b *tab) signIn(account, path string) {
	b.Helper()
	b.open(path)
	b.run(chromedp.WaitVisible(`input[name=token]`), chromedp.SetValue(`input[name=token]`, tokens[account]), chromedp.Click(`form button[type=submit]`),
		chromedp.WaitVisible(`nav`))
}
