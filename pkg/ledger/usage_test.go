package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheRestOfManySumsIsOne(t *testing.T) {
	sums := NewUsageSummer([]Key{ByUser}, at(0), at(3600))
	for i, user := range []string{"c", "a", "b"} {
		sums.Add(&Row{From: at(0).Unix(), To: at(3600).Unix(), Milli: int64(i+1) * 1000, User: []byte(user)})
	}
	items, rest := sums.Sums(1)
	if len(items) != 1 || items[0].Keys[ByUser] != "b" || items[0].GPUHours != 3 {
		t.Errorf("the first is %v, want b with 3 hours", items)
	}
	if diff := cmp.Diff(&Sum{Keys: map[Key]string{}, GPUHours: 3, Pods: 2}, rest); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
	if items, rest := sums.Sums(3); len(items) != 3 || rest != nil {
		t.Errorf("all of three: %v, rest %v", items, rest)
	}
}

func TestWhatHasJustBegunIsThere(t *testing.T) {
	tests := map[string]struct {
		row  Row
		want []Sum
	}{
		"it began in the second of the question": {row: Row{From: at(3600).Unix(), Milli: 1000}, want: []Sum{{Keys: map[Key]string{}, Pods: 1, Running: 1}}},
		"it began and ended in that second":      {row: Row{From: at(3600).Unix(), To: at(3600).Unix(), Milli: 1000}, want: []Sum{}},
		"it began after the time that is asked":  {row: Row{From: at(3601).Unix(), Milli: 1000}, want: []Sum{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			sums := NewUsageSummer(nil, at(0), at(3600))
			sums.Add(&tc.row)
			got, _ := sums.Sums(1)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseKeys(t *testing.T) {
	tests := map[string]struct {
		text string
		want []Key
		bad  bool
	}{
		"one":                           {text: "user", want: []Key{ByUser}},
		"two":                           {text: "pool, gpu-type", want: []Key{ByPool, ByGPUType}},
		"a job is one of its namespace": {text: "user,job", want: []Key{ByUser, ByNamespace, ByJob}},
		"none":                          {text: "", bad: true},
		"unknown":                       {text: "team", bad: true},
		"twice":                         {text: "user,user", bad: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseKeys(tc.text)
			if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.bad {
				t.Errorf("error %v; keys (-want +got):\n%s", err, diff)
			}
		})
	}
}
