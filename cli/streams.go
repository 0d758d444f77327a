package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// IOStreams are the streams of a command, and properties of the terminals behind them.
type IOStreams struct {
	In io.Reader
	// InIsTerminal says whether a person can answer a question.
	InIsTerminal bool
	Out, ErrOut  io.Writer
	// OutIsTerminal and ErrIsTerminal say whether a person looks at the stream.
	OutIsTerminal, ErrIsTerminal bool
	// Width is the number of columns of the terminal behind Out, 0 if there is none; ErrWidth is that of ErrOut.
	Width, ErrWidth int
	// Color says whether Out takes colours.
	Color bool
	// Language is the user's language according to the environment.
	Language phrase.Language
	// languageSource returns the language of messages, which is known after flags are parsed; nil for Language.
	languageSource func() phrase.Language
	// hintRenamer returns the function that renames hints; it returns nil if gpuctl was called by its own name.
	hintRenamer func() func(string) string
}

// textOut is stdout for text that only people read.
func (s IOStreams) textOut() io.Writer {
	if s.hintRenamer == nil || s.hintRenamer() == nil {
		return s.Out
	}
	return renamingWriter{out: s.Out, rename: s.hintRenamer()}
}

// outputLanguage is the language of messages.
func (s IOStreams) outputLanguage() phrase.Language {
	if s.languageSource == nil {
		return s.Language
	}
	return s.languageSource()
}

// printOut prints a result to stdout, in the user's language.
func (s IOStreams) printOut(format string, args ...any) {
	fmt.Fprintln(s.textOut(), phrase.Textf(format, args...).Localize(s.outputLanguage()))
}

// printErr prints a message to stderr, in the user's language.
func (s IOStreams) printErr(format string, args ...any) {
	fmt.Fprintln(s.ErrOut, phrase.Textf(format, args...).Localize(s.outputLanguage()))
}

// SystemStreams returns the streams of the process. Colours require a terminal, and NO_COLOR unset.
func SystemStreams() IOStreams {
	streams := IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr, Language: phrase.FromEnvironment(os.Getenv)}
	streams.InIsTerminal = term.IsTerminal(int(os.Stdin.Fd()))
	streams.OutIsTerminal = term.IsTerminal(int(os.Stdout.Fd()))
	streams.ErrIsTerminal = term.IsTerminal(int(os.Stderr.Fd()))
	if streams.OutIsTerminal {
		streams.Width, _, _ = term.GetSize(int(os.Stdout.Fd())) // 0 is unlimited
	}
	if streams.ErrIsTerminal {
		streams.ErrWidth, _, _ = term.GetSize(int(os.Stderr.Fd()))
	}
	streams.Color = streams.OutIsTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return streams
}

// TestIOStreams returns streams into buffers, as in a pipe, in English regardless of the environment.
func TestIOStreams(stdin string) (streams IOStreams, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return IOStreams{In: bytes.NewBufferString(stdin), Out: stdout, ErrOut: stderr}, stdout, stderr
}
