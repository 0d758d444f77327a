package phrase

import (
	"fmt"
	"strings"
)

// LocalizedError is an error with a message in every language. Its Error method returns the message in English.
type LocalizedError interface {
	error
	Message() Text
}

// FromError returns the message of an error. If it is a foreign error that wraps translatable ones, their messages remain translatable; everything
// else is quoted.
func FromError(err error) Text {
	text, _ := chainText(err)
	return text
}

// chainText returns the message of an error, and whether any error in its chain is translatable.
func chainText(err error) (Text, bool) {
	if sayer, ok := err.(LocalizedError); ok { //nolint:errorlint // a wrapper says more than the error in it
		return sayer.Message(), true
	}
	var out Text
	says, rest := false, err.Error()
	for _, cause := range wrappedErrors(err) {
		text, itself := chainText(cause)
		before, after, found := strings.Cut(rest, cause.Error())
		if !itself || !found {
			continue
		}
		says = true
		out = out.Add(Quote(before)).Add(text)
		rest = after
	}
	return out.Add(Quote(rest)), says
}

// wrappedErrors returns the errors that an error wraps.
func wrappedErrors(err error) []error {
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
	return &localizedError{says: Textf(format, args...), cause: fmt.Errorf(format, args...)}
}

type localizedError struct {
	says  Text
	cause error
}

func (e *localizedError) Error() string { return e.says.String() }
func (e *localizedError) Message() Text { return e.says }
func (e *localizedError) Unwrap() error { return e.cause }
