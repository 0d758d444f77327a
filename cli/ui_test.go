package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/creack/pty"
	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/term"

	"g8s.host/gpu-scheduler/cli/screen"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

func TestUINeedsATerminal(t *testing.T) {
	code, stdout, stderr := gpuctl(t, "", "ui")
	if code != exitUsage || stdout != "" || !strings.Contains(stderr, "get jobs -w") {
		t.Errorf("exit code %d, %q and %q, want a usage error that names get jobs -w", code, stdout, stderr)
	}
}

// uiTerminal is ui on a real terminal, in front of a cluster that does not answer.
type uiTerminal struct {
	*testing.T
	options *uiOptions
	keys    *os.File
	tty     *os.File

	mu   sync.Mutex
	text string
}

func newUITerminal(t *testing.T) *uiTerminal {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], " +
		"contexts: [{name: c, context: {cluster: c, namespace: lab, user: u}}], users: [{name: u, user: {token: t}}]}"
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return newUITerminalOf(t, file)
}

// newUITerminalOf is ui in front of the cluster of a kubeconfig.
func newUITerminalOf(t *testing.T, kubeconfig string) *uiTerminal {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("KUBECONFIG", kubeconfig)
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(keys, &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	streams, _, _ := TestIOStreams("")
	streams.InIsTerminal, streams.OutIsTerminal = true, true
	u := &uiTerminal{T: t, keys: keys, tty: tty}
	u.options = &uiOptions{factory: NewFactory(streams), open: func() (tcell.Screen, error) {
		device, err := tcell.NewDevTtyFromDev(tty.Name())
		if err != nil {
			return nil, err
		}
		return tcell.NewTerminfoScreenFromTty(device)
	}}
	go func() { _, _ = io.Copy(u, keys) }() // it ends with the terminal
	t.Cleanup(func() {
		_ = tty.Close()
		_ = keys.Close()
	})
	return u
}

// Write implements io.Writer for what comes from the terminal.
func (u *uiTerminal) Write(data []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.text += string(data)
	return len(data), nil
}

func (u *uiTerminal) sees(text string) {
	u.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		u.mu.Lock()
		found, all := strings.Contains(u.text, text), u.text
		u.mu.Unlock()
		if found {
			return
		}
		if time.Now().After(deadline) {
			u.Fatalf("%q was not drawn:\n%q", text, all)
		}
	}
}

// ends waits for the end of what draws on the terminal, which has to be a good one.
func (u *uiTerminal) ends(ended <-chan error) {
	u.Helper()
	select {
	case err := <-ended:
		if err != nil {
			u.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		u.mu.Lock()
		defer u.mu.Unlock()
		u.Fatalf("it does not end, and has drawn\n%q", u.text)
	}
}

func (u *uiTerminal) modes() *term.State {
	u.Helper()
	state, err := term.GetState(int(u.tty.Fd()))
	if err != nil {
		u.Fatal(err)
	}
	return state
}

// leavesMainScreen is what a terminal is told at the end: to show what was there before.
const leavesMainScreen = "\x1b[?1049l"

// TestUIGivesTheTerminalBack ends ui in every way that it can end.
func TestUIGivesTheTerminalBack(t *testing.T) {
	tests := map[string]func(u *uiTerminal, interrupt context.CancelFunc){
		"a key":          func(u *uiTerminal, _ context.CancelFunc) { _, _ = u.keys.WriteString("q") },
		"Ctrl-C":         func(u *uiTerminal, _ context.CancelFunc) { _, _ = u.keys.WriteString("\x03") },
		"the prompt":     func(u *uiTerminal, _ context.CancelFunc) { _, _ = u.keys.WriteString(":q\r") },
		"a signal":       func(_ *uiTerminal, interrupt context.CancelFunc) { interrupt() },
		"a page is open": func(u *uiTerminal, _ context.CancelFunc) { _, _ = u.keys.WriteString("?q") },
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			u := newUITerminal(t)
			before := u.modes()
			ctx, interrupt := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- runUI(ctx, u.options) }()
			u.sees("refused") // the cluster's error, and the screen is still there
			u.sees("Context:")
			end(u, interrupt)
			u.ends(ended)
			interrupt()
			u.sees(leavesMainScreen)
			if *before != *u.modes() {
				t.Error("the terminal is not as it was")
			}
		})
	}
}

func TestUIGivesTheTerminalBackWhenItPanics(t *testing.T) {
	u := newUITerminal(t)
	before := u.modes()
	u.options.factory.Now = func() time.Time { panic("boom") }
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	func() {
		var err error
		defer func() { // the loop panics, or a reader does before it
			if cause := recover(); cause == nil && (err == nil || !strings.Contains(err.Error(), "boom")) {
				u.mu.Lock()
				defer u.mu.Unlock()
				t.Errorf("it did not panic, says %v, and has drawn\n%q", err, u.text)
			}
		}()
		err = runUI(ctx, u.options)
	}()
	u.sees(leavesMainScreen)
	if *before != *u.modes() {
		t.Error("the terminal is not as it was")
	}
}

func TestUITellsThatAReaderPanicked(t *testing.T) {
	u := &ui{readerPanic: make(chan string, 1)}
	u.startReader(func() { panic("boom") })
	select {
	case cause := <-u.readerPanic:
		if !strings.Contains(cause, "boom") || !strings.Contains(cause, "ui_test.go") {
			t.Errorf("it says %q, want the cause and where it was", cause)
		}
	case <-time.After(time.Minute):
		t.Error("it says nothing")
	}
}

// TestNoControlReachesTheScreen shows jobs whose every text would be obeyed by a terminal.
func TestNoControlReachesTheScreen(t *testing.T) {
	const hostile = "evil\x1b]0;owned\x07\x1b[2J\u009b2J\x7f\rgood\u202egnp.exe"
	streams, _, _ := TestIOStreams("")
	streams.Color = true
	u := &ui{
		factory: NewFactory(streams), context: hostile, namespace: hostile,
		state: screen.New(true).WithSize(100, 30), jobs: newFeed[[]inventory.Job](new(atomic.Int64)), fleet: newFeed[inventory.Cluster](new(atomic.Int64)),
	}
	u.fleet.reportValue(inventory.Cluster{Pools: []inventory.Pool{{Name: hostile}}}, time.Now(), true)
	u.jobs.reportValue([]inventory.Job{{Name: hostile, Namespace: hostile, Trouble: inventory.Trouble{Reason: hostile, Message: hostile}}}, time.Now(), true)
	table, head := u.currentTable()
	head.Trouble = hostile
	state := u.state.WithHead(head).WithTable(table())
	page := state.WithPage(screen.Page{Title: hostile, Lines: []string{hostile}})
	for _, line := range append(state.Lines(), page.Lines()...) {
		if strings.ContainsFunc(line.String(), func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("a line has a control: %q", line)
		}
	}
	if text := state.Lines()[5].String(); !strings.Contains(text, "evil") {
		t.Errorf("the job is not shown: %q", text)
	}
}

// TestPageTextIsOfLines in whatever pieces it comes.
func TestPageTextIsOfLines(t *testing.T) {
	long := strings.Repeat("x", pageLine)
	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing":                            {"", nil},
		"a line":                             {"a\n", []string{"a"}},
		"a line that has not ended":          {"a\nb", []string{"a", "b"}},
		"empty lines":                        {"\n\na", []string{"", "", "a"}},
		"the longest line":                   {long + "\na", []string{long, "a"}},
		"a line that is longer":              {long + "yz\na", []string{long, "yz", "a"}},
		"one that is much longer":            {long + long + "\n", []string{long, long}},
		"the longest one that has not ended": {long, []string{long}},
	}
	for name, tc := range tests {
		for _, size := range []int{1, 7, len(tc.text)} {
			t.Run(fmt.Sprint(name, " by ", size), func(t *testing.T) {
				text := pageText{changes: new(atomic.Int64)}
				for piece := range slices.Chunk([]byte(tc.text), max(1, size)) {
					_, _ = text.Write(piece)
				}
				lines, others := text.changedLines()
				if diff := cmp.Diff(tc.want, lines); diff != "" || others != (tc.want != nil) {
					t.Errorf("the lines differ (-want +got):\n%s", diff)
				}
				if _, others := text.changedLines(); others {
					t.Error("they are told to be others than they were, and nothing came")
				}
			})
		}
	}
}

// sizes counts how often a screen is drawn, and drawn anew.
type sizes struct {
	tcell.SimulationScreen
	shown, synced int
}

func (s *sizes) Show() { s.shown++ }
func (s *sizes) Sync() { s.synced++ }

// TestManySizesAreDrawnOnce: who drags the corner of a window sends hundreds.
func TestManySizesAreDrawnOnce(t *testing.T) {
	terminal := &sizes{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
	u := &ui{terminal: terminal, state: screen.New(false).WithSize(80, 24)}
	for i := range 300 {
		if !u.handleEvent(tcell.NewEventResize(80+i, 24)) {
			t.Fatal("it ends")
		}
	}
	if terminal.synced != 0 || u.state.Width() != 80 {
		t.Errorf("drawn %d times before the last size", terminal.synced)
	}
	if !u.applyResize() || terminal.synced != 1 || u.state.Width() != 379 {
		t.Errorf("drawn %d times at last, the width is %d, want once and 379", terminal.synced, u.state.Width())
	}
	if u.applyResize() {
		t.Error("a size is taken twice")
	}
}

func TestPageTextIsBounded(t *testing.T) {
	var text pageText
	text.changes = new(atomic.Int64)
	for i := range 3 * pageLines {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	_, _ = text.Write([]byte(strings.Repeat("x", 3*pageLine) + "\nend"))
	lines, _ := text.changedLines()
	if len(lines) > pageLines+1 || lines[len(lines)-1] != "end" {
		t.Errorf("%d lines are kept, the last is %q", len(lines), lines[len(lines)-1])
	}
	for _, line := range lines {
		if len(line) > pageLine {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
}
