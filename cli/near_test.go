package cli

import (
	"fmt"
	"testing"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

func TestNamesThatWereMeant(t *testing.T) {
	known := []string{"chat", "qwen2-sft", "train-01"}
	tests := map[string]struct{ name, want string }{
		"the beginning of a name": {"qwen2", "\nDid you mean qwen2-sft?"},
		"a letter is missing":     {"train-1", "\nDid you mean train-01?"},
		"nothing is near":         {"lab", ""},
		"the name itself":         {"chat", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := suggestSimilar(tc.name, known).String(); got != tc.want {
				t.Errorf("meant is %q, want %q", got, tc.want)
			}
		})
	}
	err := fmt.Errorf("doing it: %w", &inventory.NotFoundError{Namespace: "n", Name: "j"})
	if namespace, name := missingJob(err); namespace != "n" || name != "j" {
		t.Errorf("the missing job of %v is %s/%s", err, namespace, name)
	}
}

func TestGetNamesTheNearestRow(t *testing.T) {
	streams, _, _ := TestIOStreams("")
	l := &listing[string]{
		io: streams, noun: "node", names: []string{"train-1"}, output: newOutput(outputName),
		name: func(s string) string { return s }, print: func(s string) string { return s },
	}
	const want = "node \"train-1\" not found\nDid you mean train-01?"
	if err := l.printNamed([]string{"train-01", "infer-07"}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
