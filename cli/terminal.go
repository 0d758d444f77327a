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

// gpuctl mostly prints text written by others: names, descriptions, events, program output. A terminal obeys control sequences in it: they can change
// its title, wipe the screen, type for the user, or reverse the order of letters. So all output of commands goes through an escapingWriter, which
// [NewFactory] installs on both streams so that no command can bypass it by mistake.

// isTerminalControl reports whether a terminal may obey a rune: C0 except line breaks and tabs, DEL, C1, and characters that set the text direction.
func isTerminalControl(r rune) bool {
	return r != '\n' && r != '\t' && workload.IsControl(r)
}

// escapeControls escapes every control character, and every byte that is not valid text. The format is that of JSON, so that JSON output remains
// valid.
func escapeControls(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, isTerminalControl) {
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
		case isTerminalControl(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteString(text[i : i+size])
		}
		i += size
	}
	return out.String()
}

// escapeExcept escapes a text except for the matches of a pattern.
func escapeExcept(pattern *regexp.Regexp, text string) string {
	var out strings.Builder
	rest := 0
	for _, at := range pattern.FindAllStringIndex(text, -1) {
		out.WriteString(escapeControls(text[rest:at[0]]) + text[at[0]:at[1]])
		rest = at[1]
	}
	return out.String() + escapeControls(text[rest:])
}

// Colours: anyColor matches all that programs print, ownColor only gpuctl's own, which pass through streams with colours.
var (
	anyColor = regexp.MustCompile("\x1b\\[[0-9;:]*m")
	ownColor = regexp.MustCompile("\x1b\\[(?:0|3[1-6]|9[2-6])m")
)

// escapingWriter is a stream that escapes control characters written by others.
type escapingWriter struct {
	out io.Writer
	// color lets gpuctl's own colours pass.
	color bool
	// rename, if not nil, rewrites text of gpuctl.
	rename func(string) string

	mu sync.Mutex // several goroutines of a command may write, as to a file
	// part is an incomplete character or line break of the last write, which the next one completes.
	part string
}

// escapeOutput puts an escapingWriter in front of a stream, unless it already has one.
func escapeOutput(out io.Writer, color bool) io.Writer {
	if _, ok := out.(*escapingWriter); ok || out == nil {
		return out
	}
	return &escapingWriter{out: out, color: color}
}

// Write implements io.Writer.
func (g *escapingWriter) Write(data []byte) (int, error) {
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
		text = escapeExcept(ownColor, text)
	} else {
		text = escapeControls(text)
	}
	if _, err := io.WriteString(g.out, text); err != nil {
		return 0, err
	}
	return len(data), nil
}

// rawOutput returns the stream behind an escapingWriter: for output of a container's program to its user, for data that people do not look at, and
// for gpuctl's own drawing.
func rawOutput(out io.Writer) io.Writer {
	if g, ok := out.(*escapingWriter); ok {
		return g.out
	}
	return out
}

// finalLine prepares a line of a program's output for display: it keeps colours, and of a line that was redrawn, as progress bars are, only the
// final text.
func finalLine(line string) string {
	line = strings.TrimRight(line, "\r")
	if at := strings.LastIndexByte(line, '\r'); at >= 0 {
		line = line[at+1:]
	}
	return escapeExcept(anyColor, line)
}

// askConfirmation asks a person whether to do something irreversible. If no person can answer, yes must be set.
func askConfirmation(streams IOStreams, what phrase.Text, yes bool) error {
	if yes {
		return nil
	}
	if !streams.InIsTerminal {
		return usageErrorf("%s: nothing was done, because nobody can confirm it here. -y confirms it", what)
	}
	fmt.Fprint(streams.ErrOut, phrase.Textf("%s. Go on? [y/N] ", what).Localize(streams.outputLanguage()))
	answer, err := bufio.NewReader(streams.In).ReadString('\n')
	if err != nil && answer == "" {
		return usageErrorf("nothing was done: there was no answer")
	}
	if word := strings.ToLower(strings.TrimSpace(answer)); word == "y" || word == "yes" {
		return nil
	}
	return usageErrorf("nothing was done")
}
