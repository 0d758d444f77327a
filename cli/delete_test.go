package cli

import (
	"strings"
	"testing"
)

func TestWordsThatAreNoClass(t *testing.T) {
	tests := map[string]struct{ word, want string }{
		"kubectl deletes pods":       {"pods", "did you mean gpuctl delete job etl?"},
		"nodes have another command": {"node", "gpuctl remove node etl"},
		"job misspelt":               {"jbo", "did you mean gpuctl delete job etl?"},
		"pools misspelt":             {"pols", "did you mean gpuctl delete pools etl?"},
		"a name like any other":      {"qwen2-sft", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := explainUnknownClass(tc.word, []string{"etl"})
			switch {
			case tc.want == "":
				if err != nil {
					t.Errorf("got %v, want nothing", err)
				}
			case err == nil || !strings.Contains(err.Error(), tc.want) || exitCode(err) != exitUsage:
				t.Errorf("got %v, want a usage error with %q", err, tc.want)
			}
		})
	}
}
