package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	commands, fields := []string{"get", "delete", "describe", "queue"}, []string{"gpu", "gpu-type", "memory", "image"}
	tests := map[string]struct {
		word  string
		known []string
		want  string
	}{
		"a letter too few":                    {"queu", commands, "queue"},
		"two letters that changed places":     {"gte", commands, "get"},
		"another spelling":                    {"gpuType", fields, "gpu-type"},
		"upper case":                          {"Image", fields, "image"},
		"an abbreviation":                     {"mem", fields, "memory"},
		"a short word with one letter wrong":  {"gpi", fields, "gpu"},
		"a short word with two letters wrong": {"gxi", fields, ""},
		"names that people count with":        {"a1", []string{"b1"}, ""},
		"a long name with three wrong":        {"train-pool", []string{"infer-pool", "training-pool"}, "training-pool"},
		"nothing near":                        {"frobnicate", commands, ""},
		"nothing known":                       {"get", nil, ""},
		"one letter":                          {"g", commands, ""},
		"a word that is longer than any":      {strings.Repeat("g", 10_000), commands, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Nearest(tc.word, tc.known); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
