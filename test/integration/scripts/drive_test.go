package scripts

import (
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/term"
)

// drive runs a command that draws on the whole terminal as a person does, and fails unless the terminal is afterwards as
// it was before.
func drive(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: drive N FILE COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	command := commandOf(ts, args[2:])
	terminal, tty, err := pty.Open()
	ts.Check(err)
	defer terminal.Close() //nolint:errcheck // it was only looked at
	ts.Check(pty.Setsize(terminal, &pty.Winsize{Rows: rows, Cols: columns}))
	before, err := term.GetState(int(tty.Fd()))
	ts.Check(err)
	command.Stdin, command.Stdout, command.Stderr = tty, tty, tty
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ts.Check(command.Start())
	defer command.Process.Kill() //nolint:errcheck // it has ended, unless the script failed
	seen := &screen{}
	go func() { _, _ = io.Copy(seen, terminal) }()
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		switch word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "see":
			seen.wait(ts, rest, true)
		case "miss":
			seen.wait(ts, rest, false)
		case "type":
			keys, err := strconv.Unquote(`"` + rest + `"`)
			ts.Check(err)
			_, err = terminal.WriteString(keys)
			ts.Check(err)
		case "terminate":
			ts.Check(command.Process.Signal(syscall.SIGTERM))
		default:
			ts.Fatalf("%s: want see, miss, type or terminate", line)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err = <-ended:
	case <-time.After(patience):
		ts.Fatalf("it has not ended within %s\n%s", patience, seen.text())
	}
	if got := exitCode(ts, err); got != want {
		ts.Fatalf("exit code %d, want %d\n%s", got, want, seen.text())
	}
	after, err := term.GetState(int(tty.Fd()))
	ts.Check(err)
	ts.Check(tty.Close())
	if *before != *after {
		ts.Fatalf("the terminal is left as the command had it")
	}
}

// The size of the screen.
const (
	rows    = 30
	columns = 100
)

// screen is what a terminal shows, as far as gpuctl ui draws on one: cells, places and erasing.
type screen struct {
	mu    sync.Mutex
	cells [rows][columns]rune
	x, y  int
	// rest is what may be the beginning of a sequence.
	rest string
}

// obeyed matches a sequence that a terminal obeys, and captures the parameters and the end of those with a name.
var obeyed = regexp.MustCompile("^\x1b(?:\\[([0-9;?<=>:]*)([ $]?[@-~])|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[()][A-Z0-9]|[=>78cM])")

// Write implements io.Writer.
func (s *screen) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.rest + string(data)
	s.rest = ""
	for text != "" {
		if text[0] == '\x1b' {
			match := obeyed.FindStringSubmatch(text)
			if match == nil {
				s.rest = text
				break
			}
			s.obey(match[1], match[2])
			text = text[len(match[0]):]
			continue
		}
		if !utf8.FullRuneInString(text) {
			s.rest = text
			break
		}
		r, size := utf8.DecodeRuneInString(text)
		s.put(r)
		text = text[size:]
	}
	return len(data), nil
}

func (s *screen) put(r rune) {
	switch {
	case r == '\r':
		s.x = 0
	case r == '\n':
		s.y++
	case r >= ' ' && s.y < rows && s.x < columns:
		s.cells[s.y][s.x] = r
		s.x++
	}
}

// obey does what moves the cursor or erases; how text looks is left out.
func (s *screen) obey(parameters, end string) {
	numbers := []int{1, 1}
	for i, text := range strings.SplitN(parameters, ";", 2) {
		if n, err := strconv.Atoi(text); err == nil {
			numbers[i] = n
		}
	}
	switch end {
	case "H":
		s.y, s.x = numbers[0]-1, numbers[1]-1
	case "C":
		s.x += numbers[0]
	case "J":
		s.cells = [rows][columns]rune{}
	case "K":
		for x := s.x; s.y < rows && x < columns; x++ {
			s.cells[s.y][x] = 0
		}
	}
}

// text is what the screen shows, in lines.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for _, line := range s.cells {
		out.WriteString(strings.TrimRight(strings.ReplaceAll(string(line[:]), "\x00", " "), " ") + "\n")
	}
	return out.String()
}

// wait waits until the screen shows a text, or does not.
func (s *screen) wait(ts *testscript.TestScript, text string, shown bool) {
	for deadline := time.Now().Add(patience); strings.Contains(s.text(), text) != shown; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Check(os.WriteFile(ts.MkAbs("screen"), []byte(s.text()), 0o644))
			ts.Fatalf("%q: want it shown: %v, within %s\n%s", text, shown, patience, s.text())
		}
	}
}
