package console

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"
)

// settle waits until a page has loaded what it shows.
func (b *tab) settle() {
	b.Helper()
	b.run(chromedp.WaitVisible(`main h1`))
	for deadline := time.Now().Add(patience); eval[int](b, "document.querySelectorAll('.skeleton, [data-busy]').length") > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("the page still loads:\n%s", eval[string](b, "document.body.innerText"))
		}
	}
	b.run(chromedp.Sleep(300 * time.Millisecond)) // what is drawn follows in the next frames
}

// nameless finds what a screen reader would call nothing.
const nameless = `[...document.querySelectorAll('a, button, input, select, textarea, summary, canvas, table, img')].filter(e => {
	if (e.tagName === 'IMG') return !e.hasAttribute('alt');
	return !(e.innerText?.trim() || e.getAttribute('aria-label') || e.title || e.labels?.length || e.closest('label') || e.textContent.trim());
}).map(e => e.outerHTML.slice(0, 120))`

// checkPage checks what holds for every page.
func (b *tab) checkPage(width int64, language string) {
	b.Helper()
	if got := eval[int64](b, "document.documentElement.scrollWidth"); got > width {
		b.Errorf("the page is %d wide, by: %v", got, eval[[]string](b, `[...document.querySelectorAll('main *, nav *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.table-frame, .map-frame, .code, nav ul')).slice(0, 5).map(e => e.outerHTML.slice(0, 120))`))
	}
	for _, one := range eval[[]string](b, nameless) {
		b.Errorf("without a name: %s", one)
	}
	if got := eval[string](b, "document.documentElement.lang.slice(0, 2) + document.querySelectorAll('h1').length + document.querySelectorAll('main').length + document.querySelectorAll('nav').length"); got != language+"111" {
		b.Errorf("language, headings and landmarks are %s", got)
	}
}

// judge has axe-core look for what keeps people from using a page.
const judge = `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))
	.flatMap(v => v.nodes.slice(0, 3).map(n => v.id + ': ' + n.html.slice(0, 140) + ' ' + (n.any[0]?.message ?? ''))))`

// checkAccess judges the page by axe-core if it is given.
func (b *tab) checkAccess() {
	b.Helper()
	if *axe == "" {
		return
	}
	rules, err := os.ReadFile(*axe)
	if err != nil {
		b.Fatal(err)
	}
	b.run(chromedp.Evaluate[chromedp.Void](string(rules)))
	for _, one := range eval[[]string](b, judge) {
		b.Errorf("axe: %s", one)
	}
}

// takePicture writes a picture of the page if pictures are asked for.
func (b *tab) takePicture(name, language, theme string, width int64) {
	b.Helper()
	if *pictures == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(*pictures, fmt.Sprintf("%s-%s-%s-%d.png", name, language, theme, width))
	if err := os.WriteFile(file, picture, 0o600); err != nil {
		b.Fatal(err)
	}
}
