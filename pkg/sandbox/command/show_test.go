package command

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// TestUpSaysWhereTheConsoleIs and how to sign in, and no token itself.
func TestUpSaysWhereTheConsoleIs(t *testing.T) {
	tests := map[string]struct {
		components []component
		want       string
	}{
		"without the API":    {components: []component{{Name: "etcd", Port: 1}}},
		"where it listens":   {components: []component{{Name: sandbox.ServerName, Port: 4711}}, want: "https://127.0.0.1:4711/console/"},
		"how to get a token": {components: []component{{Name: sandbox.ServerName, Port: 4711}}, want: "kubectl create token console --duration 8h"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			writeConsole(&out, state{Components: tc.components})
			if got := out.String(); !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
				t.Errorf("it says %q, want %q in it", got, tc.want)
			}
		})
	}
}
