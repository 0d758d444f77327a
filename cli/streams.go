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
	// spoken returns the language of messages, which is known after flags are parsed; nil for Language.
	spoken func() phrase.Language
	// renamed returns the function that renames hints; it returns nil if gpuctl was called by its own name.
	renamed func() func(string) string
}

// people is stdout for text that only people read.
func (s IOStreams) people() io.Writer {
	if s.renamed == nil || s.renamed() == nil {
		return s.Out
	}
	return renaming{out: s.Out, rename: s.renamed()}
}

// language is the language of messages.
func (s IOStreams) language() phrase.Language {
	if s.spoken == nil {
		return s.Language
	}
	return s.spoken()
}

// say prints a result to stdout, in the user's language.
func (s IOStreams) say(format string, args ...any) {
	fmt.Fprintln(s.people(), phrase.Of(format, args...).In(s.language()))
}

// tell prints a message to stderr, in the user's language.
func (s IOStreams) tell(format string, args ...any) {
	fmt.Fprintln(s.ErrOut, phrase.Of(format, args...).In(s.language()))
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
