package console

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestTasks are what a newcomer comes for, each in three clicks from the first page at most.
func TestTasks(t *testing.T) {
	b := openTab(t)
	b.signIn(admin, "")
	tasks := map[string]func(b *tab){
		"why does it wait": func(b *tab) {
			b.click("Jobs")
			b.click("too-big")
			b.see("What to do")
		},
		"who holds the H100s": func(b *tab) {
			b.click("GPU map")
			b.click("Namespace")
			b.see("team-a")
		},
		"which node is sick": func(b *tab) {
			b.click("h100-12")
			b.see("Cordoned")
		},
		"when does it start": func(b *tab) {
			b.click("Queue")
			b.see("When it starts")
		},
		"what did my namespace use": func(b *tab) {
			b.click("Pools and quotas")
			b.see("GPU-hours")
		},
		"follow the output": func(b *tab) {
			b.click("Jobs")
			b.click("chat-70b")
			b.click("Logs")
			b.see("checkpoint saved")
		},
		"what fits": func(b *tab) {
			b.see("What fits now")
		},
		"submit with 2 GPUs": func(b *tab) {
			b.click("Submit")
			b.run(chromedp.WaitVisible(`.form`))
			eval[bool](b, "document.querySelector('.form input[type=number]').select() ?? true")
			b.run(chromedp.KeyEvent("2"))
			b.see("It would")
			if got := eval[string](b, "document.querySelector('textarea').value"); !strings.Contains(got, "gpu: 2") {
				b.Errorf("the YAML is\n%s", got)
			}
			b.click("Submit the job")
			b.see("my-job")
			b.see("Pause")
		},
	}
	for name, do := range tasks {
		t.Run(name, func(t *testing.T) {
			b := &tab{T: t, ctx: b.ctx}
			b.open("")
			b.settle()
			do(b)
		})
	}
	t.Run("stop it", func(t *testing.T) {
		b := &tab{T: t, ctx: b.ctx}
		b.open("jobs/default/my-job")
		b.click("Stop")
		b.see("Its pods end")
		b.run(chromedp.Click(`dialog button.danger`))
		b.see("Cancelled")
	})
	b.checkNoProblems()
}

// TestKeys: the pages open without a mouse.
func TestKeys(t *testing.T) {
	b := openTab(t)
	b.signIn(admin, "")
	b.settle()
	b.run(chromedp.KeyEvent("g"), chromedp.KeyEvent("j"))
	b.see("sft-qwen2-7b-01")
	b.run(chromedp.KeyEvent("/"))
	if !eval[bool](b, "document.activeElement.matches('[data-search]')") {
		t.Error("/ does not lead to the search")
	}
	// The protocol sends the character apart from the key, which the page has taken for itself: begin anew.
	b.open("jobs")
	b.run(chromedp.WaitVisible(`[data-search]`), chromedp.SendKeys(`[data-search]`, "dpo-llama3-01"))
	b.see("1 of")
	if got := eval[string](b, "location.search"); got != "?q=dpo-llama3-01" {
		t.Errorf("the search is %q", got)
	}
	b.run(chromedp.Blur(`[data-search]`), chromedp.KeyEvent("j"), chromedp.KeyEvent("\r"))
	b.see("Each pod asks")
	b.run(chromedp.KeyEvent("?"))
	b.see("moves in a list")
	b.checkNoProblems()
}
