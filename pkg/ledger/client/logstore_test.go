package client

import (
	"strings"
	"testing"
)

func TestLogStoreURL(t *testing.T) {
	tests := map[string]struct{ template, job, want, fails string }{
		"both":                         {"https://logs.test/x?ns={namespace}&q={job}-.*", "sft", "https://logs.test/x?ns=team&q=sft-.*", ""},
		"neither":                      {"https://logs.test/", "sft", "https://logs.test/", ""},
		"a name that says more":        {"https://logs.test/?q={job}", "a&ns=other#", "https://logs.test/?q=a%26ns%3Dother%23", ""},
		"a name that moves the cursor": {"https://logs.test/?q={job}", "\x1b[2J", "https://logs.test/?q=%1B%5B2J", ""},
		"an address that does":         {"https://logs.test/\x1b[2J", "sft", "", "characters"},
		"another that does":            {"https://logs.test/?q=\u009b2J\u202e", "sft", "", "characters"},
		"JSON":                         {`https://logs.test/?left={"expr":"{job}"}`, "sft", `https://logs.test/?left={"expr":"sft"}`, ""},
		"a password":                   {"https://u:secret@logs.test/", "sft", "", "everybody would see"},
		"something else":               {"https://logs.test/?q={pod}", "sft", "", `"{pod}"`},
		"no address":                   {"logs.test", "sft", "", "no http or https URL"},
		"a program":                    {"javascript:alert(1)", "sft", "", "no http or https URL"},
		"no host":                      {"https:///x", "sft", "", "no http or https URL"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := LogStoreURL(tc.template, "team", tc.job)
			if got != tc.want || (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
