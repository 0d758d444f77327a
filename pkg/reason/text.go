package reason

import (
	"fmt"
	"strconv"
	"strings"
)

// Text is the scheduler's text, as a format: %d stands for a number, %q for a quoted word, and %s for any text up to what follows it, or to the end.
type Text string

// FormatText formats the text with its values.
func (t Text) FormatText(values ...any) string { return fmt.Sprintf(string(t), values...) }

// ParseValues returns the values of the text's verbs in a message. It returns false if the message does not contain the text.
func (t Text) ParseValues(message string) (values []string, ok bool) {
	values, _, ok = t.findValues(TrimVerdict(message))
	return values, ok
}

// findValues returns the values, and where the text begins.
func (t Text) findValues(message string) (values []string, at int, ok bool) {
	first, _, _ := strings.Cut(string(t), "%")
	for offset := 0; ; {
		i := strings.Index(message[offset:], first)
		if i < 0 {
			return nil, 0, false
		}
		at = offset + i
		if values, ok := matchFormat(string(t), message[at:]); ok {
			return values, at, true
		}
		offset = at + 1
	}
}

// matchFormat compares a format with the beginning of a message.
func matchFormat(format, message string) (values []string, ok bool) {
	for {
		literal, rest, verb := strings.Cut(format, "%")
		message, ok = strings.CutPrefix(message, literal)
		if !ok || !verb {
			return values, ok
		}
		value, length := parseValue(rest[0], rest[1:], message)
		if length == 0 {
			return nil, false
		}
		values, message, format = append(values, value), message[length:], rest[1:]
	}
}

// parseValue reads the value of a verb at the beginning of a message, and how long it is there; after is the format after
// the verb.
func parseValue(verb byte, after, message string) (value string, length int) {
	switch verb {
	case 'd':
		length = len(message) - len(strings.TrimLeft(message, "0123456789"))
		return message[:length], length
	case 'q':
		quoted, err := strconv.QuotedPrefix(message)
		if err != nil {
			return "", 0
		}
		value, err = strconv.Unquote(quoted)
		if err != nil {
			return "", 0
		}
		return value, len(quoted)
	}
	literal, _, _ := strings.Cut(after, "%")
	length = len(message)
	if literal != "" {
		length = strings.Index(message, literal)
	}
	if length <= 0 {
		return "", 0
	}
	return message[:length], length
}
