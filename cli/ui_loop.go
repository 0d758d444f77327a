package cli

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/gdamore/tcell/v2"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/cli/screen"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// ui connects the screen, which is a value, with the terminal and the cluster. Readers are goroutines that write into feeds; a single loop owns the
// state and the terminal, and reads the feeds.
type ui struct {
	factory            *Factory
	client             kubernetes.Interface
	reader             *inventory.Reader
	context, namespace string
	all                bool
	language           phrase.Language

	state    screen.State
	terminal tcell.Screen
	ctx      context.Context //nolint:containedctx // readers started by a key end with the loop
	// resized is a new size of the terminal that is not drawn yet.
	resized *tcell.EventResize
	// changes counts the writes of all readers.
	changes atomic.Int64
	// readerPanic is why a reader panicked. The loop ends with it, after restoring the terminal.
	readerPanic chan string

	jobs  *feed[[]inventory.Job]
	queue *feed[waitingLine]
	fleet *feed[inventory.Cluster]
	// endView stops the reader of the view, and endPage that of the page.
	endView, endPage context.CancelFunc
	page             *openPage
}

// uiTick is the interval at which the loop checks for changes.
const uiTick = 100 * time.Millisecond

// runLoop shows the screen until the user or ctx ends it, both of which are success, as for a watch.
func (u *ui) runLoop(ctx context.Context, terminal tcell.Screen) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	u.ctx, u.terminal, u.state = ctx, terminal, screen.New(u.all).WithLanguage(u.language).WithSize(terminal.Size())
	u.endView, u.endPage = func() {}, func() {}
	u.fleet = newFeed[inventory.Cluster](&u.changes)
	u.startReader(func() { u.readContinuously(ctx, u.fleet, u.watchFleet) })
	u.startView()
	events := make(chan tcell.Event)
	go terminal.ChannelEvents(events, ctx.Done())
	ticker := time.NewTicker(uiTick)
	defer ticker.Stop()
	drawn, second := int64(-1), int64(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case cause := <-u.readerPanic:
			return phrase.Errorf("reading the cluster has panicked: %s", cause)
		case event, open := <-events:
			if !open || !u.handleEvent(event) {
				return nil
			}
			if u.resized != nil {
				continue // wait for the tick, or every intermediate size would be drawn
			}
		case <-ticker.C:
			if resized := u.applyResize(); !resized && drawn == u.changes.Load() && second == time.Now().Unix() {
				continue
			}
		}
		drawn, second = u.changes.Load(), time.Now().Unix()
		u.redrawScreen()
	}
}

// startReader runs a reader beside the loop.
func (u *ui) startReader(read func()) {
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				select {
				case u.readerPanic <- fmt.Sprintf("%v\n%s", cause, debug.Stack()):
				default: // another panic was already reported
				}
			}
		}()
		read()
	}()
}

// handleEvent handles an event; false ends the loop.
func (u *ui) handleEvent(event tcell.Event) bool {
	switch event := event.(type) {
	case *tcell.EventError:
		return false // the terminal is gone
	case *tcell.EventResize:
		u.resized = event // dragging a window produces hundreds of sizes; only the last one counts
	case *tcell.EventKey:
		if event.Key() == tcell.KeyCtrlL {
			u.terminal.Sync()
			return true
		}
		state, action := u.state.HandleKey(keyOf(event))
		u.state = state
		return u.performAction(action)
	}
	return true
}

// applyResize applies the latest size of the terminal, if it has changed.
func (u *ui) applyResize() bool {
	if u.resized == nil {
		return false
	}
	width, height := u.resized.Size()
	u.resized = nil
	u.terminal.Sync()
	wide := u.state.Width()
	u.state = u.state.WithSize(width, height)
	if u.page != nil && !u.page.isLive() && wide != width {
		u.openPage(u.page.action) // its lines were wrapped for the other width
	}
	return true
}

// performAction performs the action of a key; false ends the loop.
func (u *ui) performAction(action screen.Action) bool {
	switch action.Do {
	case screen.Nothing:
	case screen.Quit:
		return false
	case screen.Show:
		u.closePage()
		u.queue = nil
		u.startView()
	case screen.Close:
		u.closePage()
		if u.state.View() == screen.Queue {
			u.startView() // it was not read while the page was open
		}
	case screen.Again:
		if u.page != nil {
			u.openPage(u.page.action)
		}
	default:
		u.openPage(action)
	}
	return true
}

// redrawScreen redraws the screen with the current data.
func (u *ui) redrawScreen() {
	table, head := u.currentTable()
	u.state = u.state.WithHead(head)
	if u.page != nil {
		if lines, others := u.page.text.changedLines(); others {
			u.state = u.state.WithLines(lines)
		}
	} else {
		u.state = u.state.WithTable(table())
	}
	u.drawScreen()
}

// keyNames are the screen's names of keys that are not characters.
var keyNames = map[tcell.Key]string{
	tcell.KeyUp: screen.KeyUp, tcell.KeyDown: screen.KeyDown, tcell.KeyPgUp: screen.KeyPageUp, tcell.KeyPgDn: screen.KeyPageDown,
	tcell.KeyCtrlB: screen.KeyPageUp, tcell.KeyCtrlF: screen.KeyPageDown, tcell.KeyHome: screen.KeyHome, tcell.KeyEnd: screen.KeyEnd,
	tcell.KeyEnter: screen.KeyEnter, tcell.KeyEscape: screen.KeyEscape, tcell.KeyTab: screen.KeyTab, tcell.KeyCtrlU: screen.KeyErase,
	tcell.KeyBackspace: screen.KeyBackspace, tcell.KeyBackspace2: screen.KeyBackspace, tcell.KeyCtrlC: screen.KeyInterrupt,
}

func keyOf(event *tcell.EventKey) string {
	if event.Key() == tcell.KeyRune {
		return string(event.Rune())
	}
	return keyNames[event.Key()]
}

// drawScreen writes the screen to the terminal, which transmits only the differences.
func (u *ui) drawScreen() {
	u.terminal.Clear()
	for y, line := range u.state.Lines() {
		x := 0
		for _, span := range line {
			style := u.terminalStyle(span.Style)
			for _, r := range span.Text {
				if wide := monospace.ColumnsOf(r); wide > 0 { // a combining character has no cell
					u.terminal.SetContent(x, y, r, nil, style)
					x += wide
				}
			}
		}
	}
	u.terminal.Show()
}

func (u *ui) terminalStyle(style screen.Style) tcell.Style {
	out := tcell.StyleDefault.Bold(style.Bold).Reverse(style.Reverse)
	switch color := style.Color; {
	case !u.factory.IO.Color || color == 0:
	case color >= 90:
		out = out.Foreground(tcell.PaletteColor(color - 90 + 8))
	default:
		out = out.Foreground(tcell.PaletteColor(color - 30))
	}
	return out
}
