package workload

import (
	"fmt"
	"testing"
)

func TestPlaceOf(t *testing.T) {
	const text = "# first\n\nkind: training\njob: {name: a}\nenvironment: {image: b}\nresources:\n  gpu: 1\n  gpuShare: 2Gi\n"
	tests := map[string]struct{ text, path, want string }{
		"a field, in another spelling":   {text, "resources.gpu-share", "5:3 true"},
		"a field in braces":              {text, "job.name", "1:7 true"},
		"a field that it has not":        {text, "resources.cpu", "0:0 false"},
		"a field beside one that is not": {"kind: training\nresources: {gpus: 1, cpu: 1}\n", "resources.cpu", "1:22 true"},
		"text that is no YAML":           {"kind: [", "kind", "0:0 false"},
		"text that is no document":       {"- a\n", "kind", "0:0 false"},
		"nothing":                        {"", "kind", "0:0 false"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			line, column, ok := FieldPosition(tc.text, tc.path)
			if got := fmt.Sprintf("%d:%d %t", line, column, ok); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
