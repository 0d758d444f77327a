package cli

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// What gpuctl prints is mostly the text of others: names, descriptions, events, messages of programs. A terminal obeys
// what it finds in it: it changes its title, wipes what is shown, types for the user, or turns the order of letters. So
// all that commands write goes through a guard, which [NewFactory] puts before both streams and no command can forget.

// isObeyed tells whether a terminal may obey a rune: C0 but line breaks and tabs, DEL, C1, and those that set the
// direction of text.
func isObeyed(r rune) bool {
	return r != '\n' && r != '\t' && workload.IsControl(r)
}

// escaped returns a text in which every control, and every byte that is no text, is written out. The form is that of
// JSON, so that JSON stays what it was.
func escaped(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, isObeyed) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\r' && strings.HasPrefix(text[i:], "\r\n"):
			out.WriteByte('\r')
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case isObeyed(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteString(text[i : i+size])
		}
		i += size
	}
	return out.String()
}

// keeping escapes a text but for what a pattern finds in it.
func keeping(pattern *regexp.Regexp, text string) string {
	var out strings.Builder
	rest := 0
	for _, at := range pattern.FindAllStringIndex(text, -1) {
		out.WriteString(escaped(text[rest:at[0]]) + text[at[0]:at[1]])
		rest = at[1]
	}
	return out.String() + escaped(text[rest:])
}

// Colours: all that programs print, and our own, of which a stream that takes colours lets no others pass.
var (
	anyColor = regexp.MustCompile("\x1b\\[[0-9;:]*m")
	ownColor = regexp.MustCompile("\x1b\\[(?:0|3[1-6]|9[2-6])m")
)

// guard is a stream through which no control of others gets.
type guard struct {
	out io.Writer
	// color lets our own colours pass.
	color bool
	// rename, if not nil, is what becomes of a text of ours.
	rename func(string) string

	mu sync.Mutex // several goroutines of a command may write, as to a file
	// part is what a write left of a character, or of a line break, that the next one completes.
	part string
}

// guarded puts a guard before a stream, unless one is there.
func guarded(out io.Writer, color bool) io.Writer {
	if _, ok := out.(*guard); ok || out == nil {
		return out
	}
	return &guard{out: out, color: color}
}

// Write implements io.Writer.
func (g *guard) Write(data []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text := g.part + string(data)
	whole := len(text)
	if strings.HasSuffix(text, "\r") {
		whole--
	}
	for i := max(0, len(text)-utf8.UTFMax+1); i < len(text); i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRuneInString(text[i:]) {
			whole = i
			break
		}
	}
	text, g.part = text[:whole], text[whole:]
	if g.rename != nil {
		text = g.rename(text)
	}
	if g.color {
		text = keeping(ownColor, text)
	} else {
		text = escaped(text)
	}
	if _, err := io.WriteString(g.out, text); err != nil {
		return 0, err
	}
	return len(data), nil
}

// behind returns the stream behind a guard: for what a program in a container says to its user, for data that
// nobody looks at, and for our own ways to draw.
func behind(out io.Writer) io.Writer {
	if g, ok := out.(*guard); ok {
		return g.out
	}
	return out
}

// forTerminal makes a line of a program's output fit to be looked at: its colours stay, and of a line that was drawn
// over itself, as progress bars are, what is seen in the end.
func forTerminal(line string) string {
	line = strings.TrimRight(line, "\r")
	if at := strings.LastIndexByte(line, '\r'); at >= 0 {
		line = line[at+1:]
	}
	return keeping(anyColor, line)
}

// confirm asks a person whether to do what cannot be undone. Where nobody can answer, yes must have been given.
func confirm(streams IOStreams, what phrase.Text, yes bool) error {
	if yes {
		return nil
	}
	if !streams.InIsTerminal {
		return usagef("%s: nothing was done, because nobody can confirm it here. -y confirms it", what)
	}
	fmt.Fprint(streams.ErrOut, phrase.Of("%s. Go on? [y/N] ", what).In(streams.language()))
	answer, err := bufio.NewReader(streams.In).ReadString('\n')
	if err != nil && answer == "" {
		return usagef("nothing was done: there was no answer")
	}
	if word := strings.ToLower(strings.TrimSpace(answer)); word == "y" || word == "yes" {
		return nil
	}
	return usagef("nothing was done")
}
