package server

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func cutText(t *testing.T, p Paging, list ...string) (Page[string], error) {
	t.Helper()
	same := func(s string) string { return s }
	return cutPage(p, list, same, same)
}

func TestPagesOfANumber(t *testing.T) {
	tests := map[string]struct {
		paging Paging
		want   string
		more   bool
	}{
		"the first says that more follow":      {paging: Paging{Page: 1, PageSize: 2}, want: "a b", more: true},
		"the last says that none do":           {paging: Paging{Page: 2, PageSize: 2}, want: "c"},
		"one behind the last is empty":         {paging: Paging{Page: 3, PageSize: 2}},
		"a page whose number overflows, too":   {paging: Paging{Page: 1 << 62, PageSize: 100}},
		"a limit wins over pages":              {paging: Paging{Page: 2, PageSize: 2, Limit: 1}, want: "a", more: true},
		"a limit that all fit needs no second": {paging: Paging{Limit: 3}, want: "a b c"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cutText(t, tc.paging, "a", "b", "c")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got.Items, " ")); diff != "" || (got.Continue != "") != tc.more || got.Total != 3 {
				t.Errorf("%+v, want %q, more %t", got, tc.want, tc.more)
			}
		})
	}
}

func TestGoingOnMissesNothingWhenItemsComeAndGo(t *testing.T) {
	first, err := cutText(t, Paging{Limit: 2}, "b", "d", "f")
	if err != nil {
		t.Fatal(err)
	}
	// d is gone, a and e have come.
	second, err := cutText(t, Paging{Limit: 2, Continue: first.Continue}, "a", "b", "e", "f")
	if err != nil || strings.Join(second.Items, "") != "ef" || second.Continue != "" {
		t.Errorf("%+v, error %v", second, err)
	}
	if _, err := cutText(t, Paging{Limit: 2, Continue: "%"}, "a"); err == nil {
		t.Error("a continue that is none was accepted")
	}
}
