package phrase

import (
	"errors"
	"fmt"
	"testing"
)

// TestOfError: whatever of an error has words in a language is in that language, however deep it is.
func TestOfError(t *testing.T) {
	inner := Errorf("is negative")
	plain := errors.New("connection refused")
	tests := map[string]struct {
		err              error
		english, chinese string
		parts            int
	}{
		"one of others":                  {plain, "connection refused", "connection refused", 1},
		"our own":                        {inner, "is negative", "是负数", 1},
		"ours around another of ours":    {Errorf("--by: %w", inner), "--by: is negative", "--by：是负数", 1},
		"ours around one of others":      {Errorf("--by: %w", plain), "--by: connection refused", "--by：connection refused", 1},
		"ours around others around ours": {Errorf("--by: %w", fmt.Errorf("resources: %w", inner)), "--by: resources: is negative", "--by：resources: 是负数", 1},
		"others around ours":             {fmt.Errorf("resources: %w here", inner), "resources: is negative here", "resources: 是负数 here", 3},
		"others around others":           {fmt.Errorf("resources: %w", fmt.Errorf("gpu: %w", plain)), "resources: gpu: connection refused", "resources: gpu: connection refused", 1},
		"several":                        {errors.Join(plain, inner, inner), "connection refused\nis negative\nis negative", "connection refused\n是负数\n是负数", 4},
		"several of others":              {errors.Join(plain, plain), "connection refused\nconnection refused", "connection refused\nconnection refused", 1},
		"one that hides what it wraps":   {&hiding{inner}, "something is wrong", "something is wrong", 1},
		"one that wraps nothing":         {&hiding{}, "something is wrong", "something is wrong", 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := FromError(tc.err)
			if got := text.String(); got != tc.english || got != tc.err.Error() {
				t.Errorf("in English it is %q, want %q", got, tc.english)
			}
			if got := text.Localize(Chinese); got != tc.chinese {
				t.Errorf("in Chinese it is %q, want %q", got, tc.chinese)
			}
			if len(text) != tc.parts {
				t.Errorf("it has %d parts, want %d", len(text), tc.parts)
			}
		})
	}
}

// hiding is an error that does not tell what it wraps.
type hiding struct{ cause error }

func (*hiding) Error() string   { return "something is wrong" }
func (e *hiding) Unwrap() error { return e.cause }
