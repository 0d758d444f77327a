package doctor

import (
	"slices"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

func TestTheLedger(t *testing.T) {
	tests := map[string]struct {
		found  *Ledger
		status Status
		says   string
	}{
		"nobody looked for it":       {found: nil},
		"there is none":              {&Ledger{}, OK, "none is known"},
		"it answers":                 {&Ledger{Address: "https://me:secret@ledger.example.com/x"}, OK, "it answers at ledger.example.com"},
		"it does not answer":         {&Ledger{Address: "https://l", Problem: phrase.Quote("connection refused")}, Warning, "connection refused"},
		"what says where it is lies": {&Ledger{Problem: phrase.Quote("the ledger's address is \"x\"")}, Warning, "the ledger's address"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			f.Ledger = tc.found
			checks := Examine(f)
			i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == "ledger" })
			if i < 0 {
				if tc.found != nil {
					t.Error("there is no line of it")
				}
				return
			}
			if got := checks[i]; got.Status != tc.status || !strings.Contains(got.Text.String(), tc.says) || (len(got.Advice) > 0) != (tc.status == Warning) {
				t.Errorf("it says %+v", got)
			}
		})
	}
}
