package gpu

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// TestNamesAreSpelledAsTheirPatternsSay compares with regular expressions, on names that differ from good ones in a character, and on
// the shortest and longest.
func TestNamesAreSpelledAsTheirPatternsSay(t *testing.T) {
	tests := map[string]struct {
		spelled *nameSpelling
		pattern string
		good    string
	}{
		"uuid":    {&uuidSpelling, `^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`, "GPU-5f1e4a3c-0.z:9/_"},
		"switch":  {&switchSpelling, `^[A-Za-z0-9._:/-]{0,64}$`, "0000:0e:00.0"},
		"health":  {&healthSpelling, `^[A-Z][A-Za-z0-9]{0,31}$`, "Xid79"},
		"profile": {&profileSpelling, `^[0-9a-z][0-9a-z.+-]{0,62}$`, "1g.10gb+me-x"},
		"pod UID": {&podUIDSpelling, `^[0-9A-Za-z-]{0,64}$`, "f81d4fae-7dec-11d0-A765-00a0c91e6bf6"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pattern := regexp.MustCompile(tc.pattern)
			fits := 0
			for _, candidate := range candidates(tc.good) {
				want := pattern.MatchString(candidate)
				if got := tc.spelled.allowsName(candidate); got != want {
					t.Errorf("%q fits: %v, want %v", candidate, got, want)
				}
				if want {
					fits++
				}
			}
			if fits < 50 {
				t.Errorf("only %d names fit, so the test shows little", fits)
			}
		})
	}
}

// candidates are a good name, others with one byte of it changed, and names of every length around the bounds.
func candidates(good string) []string {
	r := rand.New(rand.NewPCG(1, 2))
	all := []string{"", good, good + "\n", "\n" + good, "é" + good, good + "é"}
	for c := range 256 {
		for _, at := range []int{0, 1, r.IntN(len(good)), len(good) - 1} {
			changed := []byte(good)
			changed[at] = byte(c)
			all = append(all, string(changed))
		}
	}
	for length := 1; length <= 130; length++ {
		for _, letter := range []string{"A", "a", "0", "-", "."} {
			all = append(all, strings.Repeat(letter, length), "A"+strings.Repeat(letter, length-1), "a"+strings.Repeat(letter, length-1))
		}
	}
	return all
}
