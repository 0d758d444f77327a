package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

func TestTheGuardWritesControlsOut(t *testing.T) {
	tests := map[string]struct {
		writes []string
		color  bool
		want   string
	}{
		"text":                                 {[]string{"a\tb\n", "ä 中\n"}, false, "a\tb\nä 中\n"},
		"a title, and a wipe":                  {[]string{"\x1b]0;x\a\x1b[2J"}, true, `\u001b]0;x\u0007\u001b[2J`},
		"C1, as a rune":                        {[]string{"\u009b2J"}, true, `\u009b2J`},
		"C1, as a byte":                        {[]string{"\x9b2J"}, true, `\x9b2J`},
		"DEL, NUL and backspace":               {[]string{"\x7f\x00\b"}, false, `\u007f\u0000\u0008`},
		"text in another direction":            {[]string{"\u202egnp.exe\u2066"}, false, `\u202egnp.exe\u2066`},
		"our colours, where there are colours": {[]string{colorRed + "x" + colorReset}, true, colorRed + "x" + colorReset},
		"our colours, in a pipe":               {[]string{colorRed}, false, `\u001b[31m`},
		"a colour that hides text":             {[]string{"\x1b[8mx"}, true, `\u001b[8mx`},
		"a return, which writes over a line":   {[]string{"good\rbad\n"}, true, `good\u000dbad` + "\n"},
		"line breaks of another system":        {[]string{"a\r\nb\r\n"}, false, "a\r\nb\r\n"},
		"a line break in two writes":           {[]string{"a\r", "\nb\n"}, false, "a\r\nb\n"},
		"a return at the end of a write":       {[]string{"a\r", "b\n"}, false, `a\u000db` + "\n"},
		"a character in two writes":            {[]string{"\xe4\xb8", "\xad\n"}, false, "中\n"},
		"a control in two writes":              {[]string{"\xc2", "\x9b2J\n"}, false, `\u009b2J` + "\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			out := escapeOutput(&got, test.color)
			for _, text := range test.writes {
				if n, err := out.Write([]byte(text)); n != len(text) || err != nil {
					t.Errorf("writing %q returns %d, %v", text, n, err)
				}
			}
			if got.String() != test.want {
				t.Errorf("got %q, want %q", got.String(), test.want)
			}
		})
	}
}

// TestTheGuardTakesWritesAtOnce is for the race detector: warnings come while a command prints.
func TestTheGuardTakesWritesAtOnce(t *testing.T) {
	var got bytes.Buffer
	out := escapeOutput(&got, false)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				_, _ = io.WriteString(out, "a\x1b\n")
			}
		})
	}
	all.Wait()
	if want := strings.Repeat(`a\u001b`+"\n", 800); got.String() != want {
		t.Errorf("got %d bytes, want %d", got.Len(), len(want))
	}
}

func TestOutputOfProgramsOnATerminal(t *testing.T) {
	tests := map[string]struct{ line, want string }{
		"colours":                       {"\x1b[1;31mERROR\x1b[0m", "\x1b[1;31mERROR\x1b[0m"},
		"a colour of 24 bits":           {"\x1b[38:2::255:0:0mx", "\x1b[38:2::255:0:0mx"},
		"a title":                       {"\x1b]0;x\a", `\u001b]0;x\u0007`},
		"a wipe among colours":          {"\x1b[32mok\x1b[2J\x1b[0m", "\x1b[32mok" + `\u001b[2J` + "\x1b[0m"},
		"a bar that is drawn over":      {"10%\r50%\r100%", "100%"},
		"a line break of other systems": {"text\r", "text"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := finalLine(test.line); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestDataStaysWhatItWas: what programs read has no control in it either, and means the same.
func TestDataStaysWhatItWas(t *testing.T) {
	type value struct {
		Text string `json:"text"`
	}
	want := value{"\x1b[2J\u009b2J\x7f\u202egnp.exe\u2066 中\r\n"}
	for _, format := range []string{outputJSON, outputYAML} {
		var out bytes.Buffer
		if err := writeEncoded(escapeOutput(&out, true), format, want); err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsFunc(out.Bytes(), isTerminalControl) || !utf8.Valid(out.Bytes()) {
			t.Errorf("%s has controls: %q", format, out.String())
		}
		var got value
		unmarshal := func(data []byte, into any) error { return yaml.Unmarshal(data, into) }
		if format == outputJSON {
			unmarshal = json.Unmarshal
		}
		if err := unmarshal(out.Bytes(), &got); err != nil || got != want {
			t.Errorf("%s: got %q (%v), want %q", format, got, err, want)
		}
	}
	var plain bytes.Buffer
	if err := writeEncoded(escapeOutput(&plain, false), outputYAML, value{"ä"}); err != nil || plain.String() != "text: ä\n" {
		t.Errorf("YAML of plain text is %q (%v)", plain.String(), err)
	}
}
