package phrase

import (
	"fmt"
	"strings"
)

// Sayer is an error that says in every language what it is. Its Error is that in English.
type Sayer interface {
	error
	Says() Text
}

// OfError is what an error says. Of one that others have made, what it wraps may say itself in every language; all else of it
// is quoted.
func OfError(err error) Text {
	text, _ := ofChain(err)
	return text
}

// ofChain is what an error says, and whether anything in its chain says so itself.
func ofChain(err error) (Text, bool) {
	if sayer, ok := err.(Sayer); ok { //nolint:errorlint // what wraps another error says more than that
		return sayer.Says(), true
	}
	var out Text
	says, rest := false, err.Error()
	for _, cause := range causesOf(err) {
		text, itself := ofChain(cause)
		before, after, found := strings.Cut(rest, cause.Error())
		if !itself || !found {
			continue
		}
		says = true
		out = out.With(Quote(before)).With(text)
		rest = after
	}
	return out.With(Quote(rest)), says
}

// causesOf are the errors that an error wraps.
func causesOf(err error) []error {
	switch wraps := err.(type) { //nolint:errorlint // it is taken apart
	case interface{ Unwrap() error }:
		if cause := wraps.Unwrap(); cause != nil {
			return []error{cause}
		}
	case interface{ Unwrap() []error }:
		return wraps.Unwrap()
	}
	return nil
}

// Errorf is fmt.Errorf for an error that says in every language what it is.
func Errorf(format string, args ...any) error {
	return &saying{says: Of(format, args...), cause: fmt.Errorf(format, args...)}
}

type saying struct {
	says  Text
	cause error
}

func (e *saying) Error() string { return e.says.String() }
func (e *saying) Says() Text    { return e.says }
func (e *saying) Unwrap() error { return e.cause }
