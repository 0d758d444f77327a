package phrase

import (
	"fmt"
)

// Sayer is an error that says in every language what it is. Its Error is that in English.
type Sayer interface {
	error
	Says() Text
}

// OfError is what an error says; one that others have made is quoted.
func OfError(err error) Text {
	if says, ok := err.(Sayer); ok { //nolint:errorlint // what wraps another error says more than that
		return says.Says()
	}
	return Quote(err.Error())
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
