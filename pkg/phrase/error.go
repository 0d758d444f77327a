package phrase

import (
	"fmt"
	"strings"
)

// Sayer is an error with a message in every language. Its Error method returns the message in English.
type Sayer interface {
	error
	Says() Text
}

// OfError returns the message of an error. If it is a foreign error that wraps translatable ones, their messages remain translatable; everything
// else is quoted.
func OfError(err error) Text {
	text, _ := ofChain(err)
	return text
}

// ofChain returns the message of an error, and whether any error in its chain is translatable.
func ofChain(err error) (Text, bool) {
	if sayer, ok := err.(Sayer); ok { //nolint:errorlint // a wrapper says more than the error in it
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

// causesOf returns the errors that an error wraps.
func causesOf(err error) []error {
	switch wraps := err.(type) { //nolint:errorlint // unwraps one level
	case interface{ Unwrap() error }:
		if cause := wraps.Unwrap(); cause != nil {
			return []error{cause}
		}
	case interface{ Unwrap() []error }:
		return wraps.Unwrap()
	}
	return nil
}

// Errorf is fmt.Errorf for an error with a message in every language.
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
