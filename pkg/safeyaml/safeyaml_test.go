package safeyaml

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bomb is a list of aliases of one long text.
func bomb(bytes, aliases int) string {
	return "a: &a " + strings.Repeat("x", bytes) + "\nb: [" + strings.Repeat("*a, ", aliases) + "]\n"
}

// powers is ten to the power of n copies of one letter.
func powers(n int) string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < n; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10))
	}
	return text
}

func TestUnmarshal(t *testing.T) {
	limits := Limits{Bytes: 1 << 20, Values: 10_000, Depth: 10}
	none := limits
	none.NoAliases = true
	tests := map[string]struct {
		text   string
		limits Limits
		// want is the beginning of the error, "" for none.
		want string
	}{
		"plain text":                           {text: "a: 1\nb: [2, 3]\n", limits: none},
		"no text":                              {text: "", limits: limits},
		"JSON":                                 {text: `{"a": [1, 2]}`, limits: none},
		"an alias":                             {text: "a: &a 1\nb: *a\n", limits: limits},
		"an alias where none may be":           {text: "a: &a 1\nb: *a\n", limits: none, want: "line 2, column 4: the alias *a is not accepted here: write out what it stands for"},
		"an anchor without an alias":           {text: "a: &a 1\n", limits: none},
		"a long text and many aliases of it":   {text: bomb(100_000, 3000), limits: limits, want: "line 1, column 4: the document has more than 1048576 bytes, with its aliases unfolded"},
		"aliases of aliases":                   {text: powers(9), limits: limits, want: "line 1, column 22: the document has more than 10000 values, with its aliases unfolded"},
		"a key that is an alias":               {text: "a: &a " + strings.Repeat("x", 600_000) + "\n*a : 1\n", limits: limits, want: "line 1, column 4: the document has more than 1048576 bytes"},
		"a merge of an alias":                  {text: "a: &a {b: 1}\nc: {<<: *a}\n", limits: none, want: "line 2, column 9: the alias *a is not accepted"},
		"an alias of what is around it":        {text: "a: &a [*a]\n", limits: limits, want: "line 1, column 4: the document is nested deeper than 10 levels"},
		"brackets in brackets":                 {text: strings.Repeat("[", 100) + strings.Repeat("]", 100), limits: limits, want: "line 1, column 11: the document is nested deeper"},
		"brackets in brackets that do not end": {text: strings.Repeat("[", 100_000), limits: limits, want: "yaml: "},
		"an anchor with a long name":           {text: "a: &" + strings.Repeat("n", 500) + " 1\nb: *" + strings.Repeat("n", 500) + "\n", limits: none, want: "line 2, column 4: the alias *" + strings.Repeat("n", 40) + "… is not"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var got any
			err := Unmarshal([]byte(tc.text), &got, tc.limits)
			runtime.ReadMemStats(&after)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("it took %d MiB", used>>20)
			}
		})
	}
}

func TestStrictReadingWithinLimits(t *testing.T) {
	var got struct {
		A int `json:"a"`
	}
	if err := UnmarshalStrict([]byte("a: 1\n"), &got, Configuration); err != nil || got.A != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := UnmarshalStrict([]byte("a: 1\nb: 2\n"), &got, Configuration); err == nil {
		t.Error("an unknown key is accepted")
	}
	var problem *Problem
	if err := UnmarshalStrict([]byte(bomb(100_000, 3000)), &got, Configuration); !errors.As(err, &problem) {
		t.Errorf("error %v, want a problem", err)
	}
	if diff := cmp.Diff(1, problem.Line); diff != "" {
		t.Error(diff)
	}
}

func TestCheckAliases(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"no alias":                    {text: "a: 1\n---\nb: 2 * 3\n"},
		"more text than the limit":    {text: strings.Repeat("a", 3000)},
		"an alias":                    {text: "a: &a 1\nb: *a\n"},
		"a bomb in a later document":  {text: "a: 1\n---\n" + bomb(600, 2), want: "line 3, column 4: the document has more than 1000 bytes"},
		"no YAML":                     {text: "a: [*", want: "yaml: "},
		"an alias of what nobody has": {text: "a: *b", want: "yaml: unknown anchor"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := CheckAliases([]byte(tc.text), Limits{Bytes: 1000})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
